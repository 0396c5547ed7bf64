"""What members and those who might become one hold in memory: bounded in bytes, at the cost of whoever holds most."""

from __future__ import annotations

import pytest

from seamark.coordinator import Coordinator, JoinGroup, Settings
from seamark.coordinator.membership import member_bytes, pending_members
from seamark.coordinator.states import State
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, subscription


def joined(driver, **fields):
    """Join a group that does not wait for others."""
    token = driver.send_join(**fields)
    driver.advance(0)
    return driver.reply(token)


def is_pending(driver, member_id, group_id="g"):
    return driver.has_group(group_id) and member_id in driver.group(group_id).pending


# covers: D12
def test_too_many_ids_that_nobody_joins_with_push_out_the_oldest(monkeypatch):
    driver = Driver()
    ids = [driver.join(require_known_member_id=True, client_id="x" * 1000).member_id for _ in range(5)]
    pending = driver.shard._state.pending_members
    monkeypatch.setattr(pending_members, "MAX_BYTES", pending.byte_count)
    newest = driver.join(require_known_member_id=True).member_id
    assert [is_pending(driver, each) for each in ids] == [False, True, True, True, True]
    assert is_pending(driver, newest)
    assert pending.byte_count <= pending_members.MAX_BYTES
    assert driver.join(ids[0]).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not driver.is_waiting(driver.send_join(ids[0]))
    assert driver.is_waiting(driver.send_join(newest))


def test_ids_of_all_groups_and_shards_count_together(monkeypatch):
    coordinator = Coordinator(50, Settings(), partition_count=lambda _: 1, make_id=iter(map(str, range(1000))).__next__)
    for partition in range(50):
        coordinator.begin_load(partition)
        coordinator.finish_load(partition, 0)

    def ask(group_id):
        command = JoinGroup(
            group_id, "", 10_000, 30_000, "consumer", [("range", b"")], None, require_known_member_id=True
        )
        [(_, reply)] = coordinator.handle(command, group_id, 1).replies
        return reply.member_id

    monkeypatch.setattr(pending_members, "MAX_BYTES", 50_000)
    for number in range(200):
        ask(f"{number:04}-{'x' * 1000}")
    groups = [group for shard in coordinator.shards.values() for group in shard.groups.values()]
    # A group that was made for an id goes with it.
    assert 10 < len(groups) < 25
    assert sum(len(group.pending) for group in groups) == len(groups)


def test_an_id_that_joins_leaves_or_expires_is_no_longer_counted():
    driver = Driver()
    pending = driver.shard._state.pending_members
    joins, leaves, _expires = (driver.join(require_known_member_id=True).member_id for _ in range(3))
    assert pending.byte_count > 0
    driver.send_join(joins)
    driver.leave(leaves)
    driver.advance(60_000)
    assert (pending.byte_count, pending.sizes) == (0, {})
    driver.join(require_known_member_id=True)
    driver.reload()
    assert (pending.byte_count, pending.sizes) == (0, {})


def test_a_group_that_nobody_joined_is_forgotten_with_its_last_id():
    driver = Driver()
    driver.join(require_known_member_id=True)
    assert driver.has_group()
    driver.advance(60_000)
    assert not driver.has_group()


def test_the_largest_members_leave_when_all_hold_too_much(monkeypatch):
    driver = Driver()
    small = [driver.send_join(protocols=[("range", subscription("t"))]) for _ in range(3)]
    monkeypatch.setattr(member_bytes, "MAX_BYTES", 100_000)
    large = [driver.send_join(group_id=f"h{n}", protocols=[("range", bytes(20_000))]) for n in range(10)]
    refused = [token for token in large if not driver.is_waiting(token)]
    assert refused
    assert {driver.reply(token).error for token in refused} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert all(driver.is_waiting(token) for token in small)
    assert driver.shard._state.member_bytes.at_most <= 100_000
    assert any(line.event == "members_too_large" and "had to leave" in line.text for line in driver.lines)


def test_members_of_the_principal_that_holds_most_leave_first(monkeypatch):
    driver = Driver()
    honest = driver.send_join(protocols=[("range", bytes(20_000))], principal="User:honest")
    monkeypatch.setattr(member_bytes, "MAX_BYTES", 100_000)
    hostile = [driver.send_join(group_id=f"h{number}", principal="User:mallory") for number in range(200)]
    assert not all(driver.is_waiting(token) for token in hostile)
    assert driver.is_waiting(honest), "one large member against many small ones that hold more"


def test_members_leave_a_few_at_a_time(monkeypatch):
    driver = Driver()
    for number in range(300):
        driver.send_join(group_id=f"h{number}")
    held = driver.shard._state.member_bytes
    monkeypatch.setattr(member_bytes, "MAX_BYTES", held.at_most)

    def count() -> int:
        return sum(len(group.members) for group in driver.shard.groups.values())

    before = count()
    driver.send_join(group_id="one more")
    assert before - 60 < count() < before - 40
    driver.leave(next(iter(driver.group("h240").members)), group_id="h240")
    for number in range(3):
        driver.send_join(group_id=f"more {number}")
    assert count() < before * 0.8
    assert held.at_most <= member_bytes.MAX_BYTES * 0.8


def test_of_members_alike_those_that_are_silent_leave(monkeypatch):
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    silent = [driver.send_join(group_id="silent") for _ in range(20)]
    driver.now_ms += 1000
    alive = [joined(driver, group_id=f"alive{number}") for number in range(3)]
    driver.now_ms += 4000
    for number, each in enumerate(alive):
        assert driver.heartbeat(each.member_id, each.generation, group_id=f"alive{number}") is ErrorCode.NONE
    monkeypatch.setattr(member_bytes, "MAX_BYTES", driver.shard._state.member_bytes.at_most)
    assert joined(driver, group_id="new").error is ErrorCode.NONE
    assert len(driver.group("silent").members) < len(silent)
    assert [len(driver.group(f"alive{number}").members) for number in range(3)] == [1, 1, 1]


def test_members_that_were_loaded_count_too():
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    member = joined(driver, protocols=[("range", bytes(10_000))])
    driver.sync(member.member_id, member.generation, {member.member_id: b""})
    before = driver.shard._state.member_bytes.at_most
    driver.reload()
    assert driver.shard._state.member_bytes.at_most - before > 10_000


def test_what_was_given_back_is_found_before_anybody_has_to_leave(monkeypatch):
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    monkeypatch.setattr(member_bytes, "MAX_BYTES", 100_000)
    for number in range(50):
        member = joined(driver, group_id=f"g{number}", protocols=[("range", bytes(10_000))])
        assert member.error is ErrorCode.NONE
        driver.leave(member.member_id, group_id=f"g{number}")
    assert not any(line.event == "members_too_large" for line in driver.lines)


def test_looking_at_all_members_is_spread_over_many_joins(monkeypatch):
    def looks(count):
        driver = Driver()
        monkeypatch.setattr(member_bytes, "MAX_BYTES", 200_000)
        looked = []
        size_of = member_bytes.size_of
        with monkeypatch.context() as counting:
            counting.setattr(member_bytes, "size_of", lambda member: looked.append(member) or size_of(member))
            for number in range(count):
                driver.send_join(group_id=f"h{number}", protocols=[("range", bytes(1000))])
        return len(looked)

    assert looks(800) < 8 * looks(200)


@pytest.mark.parametrize("count", [100, 101])
def test_a_member_offers_a_hundred_protocols_at_most(count):
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    reply = joined(driver, protocols=[(f"p{number}", b"") for number in range(count)])
    assert reply.error is (ErrorCode.NONE if count == 100 else ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_lines_about_many_members_name_some_of_them():
    driver = Driver()
    tokens = [driver.send_join(client_id="x" * 100) for _ in range(40)]
    driver.advance(10_000)
    members = [driver.reply(token) for token in tokens]
    driver.leave(*[each.member_id for each in members[1:]])
    line = [line.text for line in driver.lines if line.event == "rebalance_prepared"][-1]
    assert "and 34 more left" in line
    assert len(line) < 1000


def test_subscriptions_are_read_when_they_are_asked_for_and_alike_ones_once(monkeypatch):
    read = []
    monkeypatch.setattr(
        "seamark.coordinator.membership.groups.subscribed_topics",
        lambda _type, metadata: read.extend(metadata) or frozenset(["t"]),
    )
    driver = Driver()
    for _ in range(20):
        driver.send_join(protocols=[("range", subscription("t"))])
    driver.advance(10_000)
    assert driver.state() == State.COMPLETING.value
    assert read == []
    assert driver.group().is_subscribed_to("t")
    assert read == [subscription("t")]
    assert driver.group().is_subscribed_to("t")
    assert len(read) == 1
