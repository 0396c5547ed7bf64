"""Samples of stretches in which nothing moved are left out, and no rule can tell."""

from collections import deque
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.monitor.watching import Watching, _keep
from seamark.rules.status import Patience, Status, partition_status
from seamark.rules.time_lag import Sample, seconds_to_catch_up
from seamark.topic_partition import TopicPartition

STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, -1]), st.sampled_from([0, 0, 0, 1, 3])), max_size=60)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(2, 12), st.booleans())
def test_states_are_the_same_as_with_every_look(steps, looks, is_active):
    whole = deque(maxlen=looks)
    times = deque(maxlen=looks)
    kept = deque(maxlen=looks)
    committed, end = 5, 10
    for number, (read, written) in enumerate(steps):
        committed, end = max(0, committed + read), end + written
        at_ms = number * 10_000
        times.append(at_ms)
        whole.append(Sample(at_ms, committed, end))
        _keep(kept, Sample(at_ms, committed, end), times[0])
        patience = Patience(seconds=30)
        assert partition_status(list(kept), is_active=is_active, patience=patience) == partition_status(
            list(whole), is_active=is_active, patience=patience
        )
        assert seconds_to_catch_up(list(kept)) == seconds_to_catch_up(list(whole))
        assert {each[1:] for each in kept} == {each[1:] for each in whole}


def test_a_partition_at_rest_costs_two_samples():
    kept = deque(maxlen=100)
    for at in range(500):
        _keep(kept, Sample(at, 7, 9), max(0, at - 99))
    assert list(kept) == [Sample(400, 7, 9), Sample(499, 7, 9)]


WHERE = TopicPartition("t", 0)


def look(committed, *, is_active, log_end=1000):
    partition = SimpleNamespace(
        partition=WHERE,
        committed=SimpleNamespace(offset=committed),
        bounds=SimpleNamespace(log_start=0, log_end=log_end),
        lag=SimpleNamespace(lost=0),
    )
    description = SimpleNamespace(is_active=is_active)
    view = SimpleNamespace(group_id="g", description=description, partitions=[partition])
    return SimpleNamespace(groups=[view], unreadable=())


def outlooks(*looks):
    """The outlook after each of the looks, ten seconds apart."""
    watching = Watching()
    found = []
    for number, (committed, is_active) in enumerate(looks):
        watching.add(look(committed, is_active=is_active), number * 10_000)
        found.append(watching.outlook("g", "t", 0))
    return found


def test_a_group_without_members_has_no_estimate_after_a_reset_and_is_stopped_after_a_minute():
    # With members, without, and set forward.
    found = outlooks((100, True), (200, True), (200, False), *[(900, False)] * 8)
    assert found[1][0] == 80.0
    assert found[2:8] == [(None, "no members")] * 6
    assert found[-1] == (None, "stopped")


def test_a_group_without_members_that_has_read_all_is_ok():
    assert outlooks((1000, True), (1000, False), (1000, False))[-1] == (0.0, "ok")


def test_members_that_come_back_leave_no_trace():
    found = outlooks((100, True), (200, True), (200, False), *[(200 + 100 * each, True) for each in range(6)])
    assert [word for _, word in found] == [None, None, "no members", None, None, None, "ok", "ok", "ok"]


def test_a_group_that_is_committed_to_without_members_is_read():
    # As Spark does. One move may be a reset; two are a reader.
    found = outlooks((100, False), (200, False), *[(200 + 100 * each, False) for each in range(1, 7)])
    assert found[1] == (None, Status.NO_MEMBERS.value)
    assert found[2] == (70.0, None)
    assert found[-1] == (20.0, "ok")
