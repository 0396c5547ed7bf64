"""The rules below the handlers: leader epochs, producers, placement, timers, addresses, settings."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.broker.clock import BrokerClock, LoopTimers
from seamark.broker.cluster.leadership import spread
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.config.topic_configs import TOPIC_KEYS, effective
from seamark.broker.log.history import LeaderEpochs, ProducerStates
from seamark.broker.net.listener import Listener
from seamark.broker.net.release_versions import RELEASES, newest_versions
from seamark.broker.refusals import RequestRefused
from seamark.wire.protocol.apis import all_apis

INT32_MAX = 2**31 - 1


# -- leader epochs


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12))
def test_epochs_say_who_wrote_an_offset_as_a_plain_list_would(steps):
    epochs, written, epoch, end = LeaderEpochs(), [], 0, 0
    for bump, records in steps:
        epoch += bump
        epochs.begin(epoch, end)
        written += [epoch] * records
        end += records
    assert [epochs.epoch_of(offset) for offset in range(end)] == written
    for asked in range(epoch + 1):
        found, last = epochs.end_of(asked, end)
        if found in written:
            assert last == len(written) - written[::-1].index(found)
            assert not [each for each in written if found < each <= asked]


def test_epochs_below_the_start_of_the_log_are_forgotten():
    epochs = LeaderEpochs()
    for epoch, start in ((0, 0), (1, 10), (2, 20)):
        epochs.begin(epoch, start)
    epochs.forget_before(15)
    assert epochs.entries == [(1, 15), (2, 20)]
    assert epochs.end_of(0, 30) == (0, 15)


# -- producers


def test_sequences_wrap_behind_the_largest_number():
    states = ProducerStates()
    states.note(1, 0, INT32_MAX - 1, 2, 0, 1, 5)
    assert states.check(1, 0, 0, 3) is None
    states.note(1, 0, INT32_MAX, 2, 2, 3, 5)
    assert states.check(1, 0, INT32_MAX, 2).first_offset == 2
    with pytest.raises(RequestRefused):
        states.check(1, 0, 0, 1)
    assert states.check(1, 0, 1, 1) is None


def test_a_producer_nobody_remembers_may_go_on_anywhere():
    assert ProducerStates().check(8, 3, 55, 1) is None


# -- placement


@settings(max_examples=100, deadline=None)
@given(st.text("abc", min_size=1), st.integers(1, 30), st.integers(1, 6), st.data())
def test_replicas_are_distinct_and_leaders_evenly_spread(name, count, nodes, data):
    factor = data.draw(st.integers(1, nodes))
    replicas = spread(name, 0, count, range(nodes), factor)
    assert all(len(set(each)) == factor for each in replicas)
    led = [sum(each[0] == node for each in replicas) for node in range(nodes)]
    assert max(led) - min(led) <= 1
    assert spread(name, 0, count + 3, range(nodes), factor) == replicas + spread(name, count, 3, range(nodes), factor)


# -- timers


def test_timers_fire_in_order_and_follow_the_moved_clock():
    async def story():
        clock = BrokerClock()
        timers = LoopTimers(asyncio.get_running_loop(), clock)
        fired = []
        timers.call_after(50, lambda: fired.append("later"))
        timers.call_after(20, lambda: fired.append("sooner"))
        timers.call_after(30, lambda: fired.append("never")).cancel()
        real = timers.call_after(0.01, lambda: fired.append("now"))
        await asyncio.sleep(0.05)
        assert fired == ["now"]
        real.cancel()
        clock.advance(60)
        timers.wake()
        assert fired == ["now", "sooner", "later"]
        timers.close()

    asyncio.run(story())


def test_a_timer_that_fails_or_arms_itself_again_stops_nobody(caplog):
    async def story():
        clock = BrokerClock()
        timers = LoopTimers(asyncio.get_running_loop(), clock)
        fired = []

        def again():
            fired.append("again")
            timers.call_after(0, again)

        timers.call_after(1, lambda: 1 / 0)
        timers.call_after(2, again)
        timers.call_after(3, lambda: fired.append("last"))
        clock.advance(5)
        timers.wake()
        assert fired == ["again", "last"]
        timers.close()

    asyncio.run(story())
    assert "ZeroDivisionError" in caplog.text


def test_cancelled_timers_do_not_pile_up():
    async def story():
        timers = LoopTimers(asyncio.get_running_loop(), BrokerClock())
        for _ in range(10_000):
            timers.call_after(600, lambda: None).cancel()
        assert len(timers._heap) < 3000
        timers.close()

    asyncio.run(story())


# -- addresses


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False)],
)
def test_loopback_is_what_other_machines_do_not_reach(host, expected):
    assert Listener("PLAINTEXT", host, 0).is_loopback is expected


# -- settings


def test_retention_comes_from_the_most_precise_key():
    key = TOPIC_KEYS["retention.ms"]
    hours = BrokerSettings({"log.retention.hours": 2})
    assert effective(key, {}, hours).value == 7_200_000
    minutes = BrokerSettings({"log.retention.hours": 2, "log.retention.minutes": 3})
    assert effective(key, {}, minutes).value == 180_000
    assert effective(key, {}, BrokerSettings({"log.retention.minutes": -1})).value == -1
    assert effective(key, {"retention.ms": 9}, minutes).value == 9


def test_every_release_offers_no_more_than_this_build_speaks():
    for release in RELEASES:
        for key, version in newest_versions(release).items():
            assert version <= all_apis()[key].versions.last
    assert 18 in newest_versions("0.11")
