"""What the coordinator decides is carried out: in order, once, in one batch per turn, and in spite of the disk."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest

from seamark.coordinator.commands import (
    CommitOffsets,
    DeleteGroups,
    DescribeGroups,
    FetchOffsets,
    Heartbeat,
    ListGroups,
    OffsetToCommit,
    SyncGroup,
)
from seamark.coordinator.storing.loading import Revival
from seamark.log_limits import LINES_OF_A_CAUSE
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records import scan_batches
from tests.unit.broker.groups.group_harness import Asker, World, codes


@pytest.fixture
def world() -> World:
    made = World().with_offsets_topic()
    made.create_topic("t")
    return made


def groups_of_one_partition(world: World, count: int) -> list[str]:
    wanted = world.groups[0].partition_for("g0")
    names = (f"g{number}" for number in range(100_000))
    return [name for name in names if world.groups[0].partition_for(name) == wanted][:count]


def test_a_commit_is_answered_only_after_it_is_in_the_log(world: World) -> None:  # F4, F8
    asked = world.commit("g", 5)
    assert asked.replies == []
    assert world.committed("g") == -1
    world.turn()
    assert codes(asked) == [ErrorCode.NONE]
    assert world.committed("g") == 5
    assert len(world.log_keys(world.partition("g"))) == 1


def test_the_commits_of_one_turn_are_one_batch_per_partition(world: World) -> None:
    names = groups_of_one_partition(world, 20)
    asked = [world.commit(name, number) for number, name in enumerate(names)]
    other = world.commit("g1")
    world.turn()
    assert all(codes(each) == [ErrorCode.NONE] for each in [*asked, other])
    log = world.partition("g0").log
    [(header, _)] = scan_batches(log.read(0, 1 << 20))
    assert header.record_count == 20
    assert world.partition("g1").log.log_end == 1


def test_a_turn_that_would_exceed_the_largest_batch_becomes_several(world: World) -> None:
    settings = {"message.max.bytes": 2000}
    world = World(settings=settings).with_offsets_topic()
    world.create_topic("t")
    names = groups_of_one_partition(world, 100)
    asked = [world.commit(name) for name in names]
    world.turn()
    assert all(codes(each) == [ErrorCode.NONE] for each in asked)
    sizes = [header.size_bytes for header, _ in scan_batches(world.partition("g0").log.read(0, 1 << 20))]
    assert len(sizes) > 1
    assert max(sizes) <= 2000


def test_a_record_larger_than_a_batch_may_be_is_refused(world: World) -> None:  # F28
    world = World(settings={"message.max.bytes": 500, "offset.metadata.max.bytes": 10_000}).with_offsets_topic()
    world.create_topic("t")
    asked = world.ask(CommitOffsets("g", [("t", [OffsetToCommit(0, 1, -1, "m" * 4000)])]))
    small = world.commit("g", 2)
    world.turn()
    assert codes(asked) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert codes(small) == [ErrorCode.NONE]


def test_an_answer_that_brings_the_next_request_keeps_the_order_of_appends(world: World) -> None:
    committed: list[Asker] = []

    class Impatient(Asker):
        """Commits again from inside of its answer, as a connection with a waiting frame does."""

        def reply_value(self, value: Any) -> None:
            super().reply_value(value)
            committed.append(world.commit("g", 7))

    first = Impatient()
    world.groups[0].submit(CommitOffsets("g", [("t", [(0, 6, -1, "")])]), first)  # type: ignore[list-item]
    second = world.commit("g", 5)
    world.settle()
    assert codes(first) == codes(second) == codes(committed[0]) == [ErrorCode.NONE]
    assert world.committed("g") == 7


def test_an_asker_that_fails_takes_no_other_answer_with_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Asker):
        def reply_value(self, value: Any) -> None:
            raise RuntimeError("cannot be told anything")

    world.groups[0].submit(CommitOffsets("g", [("t", [(0, 6, -1, "")])]), Broken())  # type: ignore[list-item]
    other = world.commit("g", 8)
    with caplog.at_level(logging.ERROR, "seamark.broker.groups"):
        world.settle()
    assert codes(other) == [ErrorCode.NONE]
    assert "a reply could not be sent" in caplog.text


def test_a_full_disk_refuses_commits_and_serves_what_was_stored(world: World) -> None:  # F28
    world.commit("g", 3)
    world.settle()
    world.cluster.storage.is_full = True
    asked = world.commit("g", 4)
    world.settle()
    assert codes(asked) == [ErrorCode.NOT_COORDINATOR]
    assert world.committed("g") == 3
    world.cluster.storage.is_full = False
    again = world.commit("g", 5)
    world.settle()
    assert codes(again) == [ErrorCode.NONE]
    assert world.committed("g") == 5


def test_a_log_that_stopped_is_opened_again_and_loaded(world: World) -> None:
    world.commit("g", 3)
    world.settle()
    log = world.partition("g").log
    pending = log.begin_sync()
    assert pending is not None
    log.finish_sync(pending, StorageFailed("file", None, "a disk of no use"))
    refused = world.commit("g", 4)
    world.settle()
    assert codes(refused) == [ErrorCode.NOT_COORDINATOR]
    world.advance(1.1)
    assert world.committed("g") == 3
    again = world.commit("g", 5)
    world.settle()
    assert codes(again) == [ErrorCode.NONE]


def test_a_slow_sync_is_answered_after_the_commit_timeout_and_still_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:  # F9
    partition = world.partition("g")
    waiting: list[Any] = []
    monkeypatch.setattr(type(partition), "when_acknowledged", lambda _self, _end, callback: waiting.append(callback))
    asked = world.commit("g", 9)
    world.settle()
    assert asked.replies == []
    assert world.committed("g") == -1
    stable = world.ask(FetchOffsets("g", [("t", [0])], require_stable=True))
    assert stable.replies == []
    world.advance(5)
    assert codes(asked) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert stable.reply.error is ErrorCode.NOT_COORDINATOR  # F11
    waiting.pop()(None)
    assert world.committed("g") == 9


def test_a_failed_sync_refuses_the_commits_that_waited_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Any] = []
    partition = world.partition("g")
    monkeypatch.setattr(type(partition), "when_acknowledged", lambda _self, _end, callback: waiting.append(callback))
    asked = world.commit("g", 9)
    world.settle()
    waiting.pop()(StorageFailed("file", None, "no"))
    assert codes(asked) == [ErrorCode.NOT_COORDINATOR]
    assert world.committed("g") == -1


def test_a_silent_member_expires_when_the_clock_is_advanced(world: World) -> None:  # D30
    member = world.form_group("g")
    world.advance(9)
    assert world.ask(Heartbeat("g", member, 1)).reply.error is ErrorCode.NONE
    world.advance(9)
    assert world.ask(ListGroups(["Stable"])).reply.groups[0].group_id == "g"
    world.advance(2)
    [group] = world.ask(DescribeGroups(["g"])).reply.groups
    assert (group.state, group.members) == ("Empty", [])


def test_one_long_advance_equals_many_short_ones() -> None:  # D18, D30
    def history(steps: list[float]) -> tuple[str, int, list[bytes | None]]:
        world = World(settings={"group.initial.rebalance.delay.ms": 3000}).with_offsets_topic()
        world.create_topic("t")
        joined = world.join("g")
        world.commit("other", 5)
        world.settle()
        for seconds in steps:
            world.advance(seconds)
        assert joined.reply.generation == 1
        [group] = world.ask(DescribeGroups(["g"])).reply.groups
        return group.state, world.committed("other"), [key and key[:2] for key in world.log_keys(world.partition("g"))]

    # The join completes after 3 s, the member that never syncs is out 30 s later, the group is then empty.
    assert history([100.0]) == history([1.0] * 100)
    assert history([100.0])[0] == "Empty"


def test_expired_offsets_are_gone_after_an_advance(world: World) -> None:  # F29
    world.commit("g", 5)
    world.settle()
    world.advance(7 * 86_400 - 600)
    assert world.committed("g") == 5
    world.advance(1300)
    assert world.committed("g") == -1


def test_the_offsets_of_a_deleted_topic_are_removed(world: World) -> None:
    world.create_topic("other")
    world.commit("g", 5)
    world.commit("g", 6, topic="other")
    world.settle()
    world.cluster.delete_topic(world.cluster.topics["t"])
    world.settle()
    world.create_topic("t")
    assert world.committed("g") == -1
    assert world.committed("g", "other") == 6


def test_the_lines_of_the_log_say_what_happens_to_groups(world: World, caplog: pytest.LogCaptureFixture) -> None:  # M8
    with caplog.at_level(logging.INFO, "seamark.broker.groups"):
        world.form_group("g")
        world.advance(11)
    events = [getattr(record, "event", None) for record in caplog.records]
    assert "member_expired" in events
    text = caplog.text
    assert "preparing to rebalance group g" in text
    assert "stabilized group g generation 1 with 1 member" in text
    assert "now empty" in text


def test_the_answers_of_a_large_group_leave_in_several_turns() -> None:
    world = World(settings={"group.initial.rebalance.delay.ms": 3000}).with_offsets_topic()
    asked = [world.join("g") for _ in range(600)]
    answered = [0]
    for _ in range(3):
        world.clock.advance(3)
        world.timers.fire_due()
    while world.soon or answered[-1] == 0:
        answered.append(sum(bool(each.replies) for each in asked))
        world.turn()
    assert answered == [0, 250, 500]
    assert all(each.reply.error is ErrorCode.NONE for each in asked)


def wide_world(partitions: int) -> World:
    """A group with offsets of so many partitions."""
    world = World(settings={"offsets.retention.minutes": 1}).with_offsets_topic()
    world.create_topic("wide", partitions)
    committed = world.ask(CommitOffsets("g", [("wide", [(each, 1, -1, "") for each in range(partitions)])]))
    world.settle()
    assert set(codes(committed)) == {ErrorCode.NONE}
    return world


@pytest.mark.parametrize("way", ["the group is deleted", "its topic is deleted", "its offsets expire"])
def test_many_offsets_are_removed_some_in_each_turn_of_the_loop(way: str) -> None:
    world = wide_world(5000)
    log = world.partition("g").log
    begin = log.log_end
    asked = None
    if way == "the group is deleted":
        asked = world.ask(DeleteGroups(["g"]))
    elif way == "its topic is deleted":
        world.cluster.delete_topics([world.cluster.topics["wide"]])
    else:
        world.clock.advance(700)
        world.timers.fire_due()
    written = [log.log_end]
    while world.soon:
        world.turn()
        written.append(log.log_end)
    assert written[-1] - begin >= 5000
    assert max(after - before for before, after in pairwise(written)) <= 1000
    assert asked is None or asked.reply.groups == [("g", ErrorCode.NONE)]
    found = world.ask(FetchOffsets("g")).reply
    assert found.topics == []


def test_many_groups_are_loaded_some_in_each_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings={"offsets.topic.num.partitions": 1}).with_offsets_topic()
    world.create_topic("t")
    for number in range(900):
        world.commit(f"g{number}", number)
    world.settle()
    revived: list[int] = []
    original = Revival.take

    def take(revival: Revival, count: int) -> bool:
        revived.append(count)
        return original(revival, count)

    monkeypatch.setattr(Revival, "take", take)
    runtime = world.groups[0]
    runtime.hold(0)
    runtime.release(0)
    world.settle()
    assert world.committed("g899") == 899
    # The last one of them, when the load ends, finds nothing left to do.
    assert len(revived) >= 900 / 200
    assert max(revived[:-1]) <= 200


def test_warnings_that_clients_cause_are_written_a_few_times(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(50):
        joined = world.join(f"g{number}").reply
        world.ask(SyncGroup(f"g{number}", joined.member_id, joined.generation, []))
        world.settle()
    lines = [record for record in caplog.records if getattr(record, "event", "") == "assignment_incomplete"]
    assert len(lines) == LINES_OF_A_CAUSE
    assert lines[0].levelno == logging.WARNING
    assert lines[0].group == "g0"


def test_what_is_being_removed_when_the_broker_stops_is_removed_before_it_does() -> None:
    world = wide_world(5000)
    runtime = world.groups[0]
    world.cluster.delete_topics([world.cluster.topics["wide"]])
    removed = world.ask(DeleteGroups(["g"]))
    runtime.stop()
    assert removed.reply.groups == [("g", ErrorCode.NONE)]
    runtime.start()
    topic = world.cluster.offsets_topic()
    assert topic is not None
    for partition in topic.partitions:
        runtime.became_leader(partition)
    world.settle()
    assert world.ask(ListGroups()).reply.groups == []
