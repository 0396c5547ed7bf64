"""Groups follow the leadership of their offsets partition, and a load never stops the loop for long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from seamark.broker.groups.loading import Load, LoadQueue, read_batches
from seamark.broker.log.reopening import REOPENING_SECONDS
from seamark.broker.log.storage import LogStorage
from seamark.coordinator.commands import FetchOffsets, Heartbeat, SyncGroup
from seamark.storage import Durability, Log, MemoryFilesystem
from seamark.storage.errors import CorruptBatch, StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records import Record, encode_batch
from tests.support.hostile_batches import batch
from tests.unit.broker.groups.group_harness import World, codes


def fetch_error(world: World, group: str, node: int = 0) -> ErrorCode:
    error = world.ask(FetchOffsets(group, [("t", [0])]), node).reply.error
    assert isinstance(error, ErrorCode)
    return error


@pytest.fixture
def world() -> World:
    made = World(nodes=2).with_offsets_topic()
    made.create_topic("t")
    return made


def leader_of(world: World, group: str) -> int:
    return world.partition(group).leader


def test_only_the_leader_of_the_partition_serves_the_group(world: World) -> None:  # B5
    leader = leader_of(world, "g")
    assert fetch_error(world, "g", leader) is ErrorCode.NONE
    assert fetch_error(world, "g", 1 - leader) is ErrorCode.NOT_COORDINATOR


def test_groups_move_with_the_leadership_of_their_partition(world: World) -> None:  # F13, F15
    leader = leader_of(world, "g")
    committed = world.commit("g", 42, node=leader)
    world.settle()
    assert codes(committed) == [ErrorCode.NONE]
    world.cluster.move_leader(world.partition("g"), 1 - leader)
    assert fetch_error(world, "g", leader) is ErrorCode.NOT_COORDINATOR
    assert fetch_error(world, "g", 1 - leader) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # F14
    world.settle()
    assert world.committed("g", node=1 - leader) == 42


class UnsyncedCommit:
    """A commit of group g that is written and not synced, while its partition moves to the other node."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[Callable[[StorageFailed | None], None]] = []
        monkeypatch.setattr(
            LogStorage, "wait_for_sync", lambda _storage, _partition, _end, callback: self.waiting.append(callback)
        )
        self.partition = world.partition("g")
        leader = self.partition.leader
        self.log = self.partition.log
        self.log.settings = replace(self.log.settings, durability=Durability.COMMIT)
        self.asked = world.commit("g", 42, node=leader)
        world.settle()
        world.cluster.move_leader(self.partition, 1 - leader)
        world.settle()
        self.node = 1 - leader


def test_what_the_former_leader_wrote_is_served_when_it_is_synced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = UnsyncedCommit(world, monkeypatch)
    assert codes(commit.asked) == [ErrorCode.NOT_COORDINATOR]
    assert fetch_error(world, "g", commit.node) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.groups[commit.node].is_loading
    commit.log.sync()
    for callback in commit.waiting:
        callback(None)
    world.settle()
    assert world.committed("g", node=commit.node) == 42
    assert not world.groups[commit.node].is_loading


def test_what_the_former_leader_wrote_and_cannot_be_synced_is_served_when_the_log_was_opened_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = UnsyncedCommit(world, monkeypatch)
    commit.log.stop_writes("a sync failed")
    for callback in commit.waiting:
        callback(StorageFailed("disk", None, "a sync failed"))
    world.settle()
    assert fetch_error(world, "g", commit.node) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.advance(REOPENING_SECONDS)
    assert world.committed("g", node=commit.node) == 42


def test_a_partition_lost_before_its_log_is_synced_is_not_loaded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = UnsyncedCommit(world, monkeypatch)
    world.cluster.move_leader(commit.partition, 1 - commit.node)
    commit.log.sync()
    for callback in commit.waiting:
        callback(None)
    world.settle()
    assert fetch_error(world, "g", commit.node) is ErrorCode.NOT_COORDINATOR
    assert world.committed("g", node=1 - commit.node) == 42


def test_members_stay_in_the_group_when_the_coordinator_moves(world: World) -> None:
    leader = leader_of(world, "g")
    joined = world.join("g", node=leader).reply
    synced = world.ask(SyncGroup("g", joined.member_id, 1, [(joined.member_id, b"all")]), leader)
    world.settle()
    assert synced.reply.assignment == b"all"
    world.cluster.move_leader(world.partition("g"), 1 - leader)
    world.settle()
    assert world.ask(Heartbeat("g", joined.member_id, 1), 1 - leader).reply.error is ErrorCode.NONE
    world.advance(11)
    assert world.ask(Heartbeat("g", joined.member_id, 1), 1 - leader).reply.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_what_waits_at_a_coordinator_that_loses_its_partition_is_sent_away(world: World) -> None:
    leader = leader_of(world, "g")
    commit = world.commit("g", 1, node=leader)
    world.cluster.move_leader(world.partition("g"), 1 - leader)
    world.settle()
    assert codes(commit) == [ErrorCode.NOT_COORDINATOR]
    assert world.committed("g", node=1 - leader) == -1


def test_a_held_partition_answers_as_a_loading_one_until_it_is_released(world: World) -> None:  # F14, D28, D29
    leader = leader_of(world, "g")
    world.commit("g", 42, node=leader)
    world.settle()
    runtime = world.groups[leader]
    number = runtime.partition_for("g")
    runtime.hold(number)
    world.settle()
    assert fetch_error(world, "g", leader) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.ask(Heartbeat("g", "m", 1), leader).reply.error is ErrorCode.NONE
    assert world.ask(SyncGroup("g", "m", 1), leader).reply.error is ErrorCode.REBALANCE_IN_PROGRESS
    runtime.hold(number)
    runtime.release(number)
    world.settle()
    assert fetch_error(world, "g", leader) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    runtime.release(number)
    world.settle()
    assert world.committed("g", node=leader) == 42


def test_partitions_added_later_do_not_move_groups_until_the_next_start() -> None:  # F16
    world = World(settings={"offsets.topic.num.partitions": 50}).with_offsets_topic()
    world.create_topic("t")
    world.commit("demoGroup", 7)
    world.settle()
    topic = world.cluster.offsets_topic()
    assert topic is not None
    world.cluster.add_partitions(topic, [[0]] * 10)
    world.settle()
    runtime = world.groups[0]
    assert runtime.partition_for("demoGroup") == 38
    assert world.committed("demoGroup") == 7
    runtime.stop()
    runtime.start()
    for partition in topic.partitions:
        runtime.became_leader(partition)
    world.settle()
    assert runtime.partition_for("demoGroup") == 8
    assert world.committed("demoGroup") == -1


def test_the_topic_decides_the_number_of_partitions_not_the_setting() -> None:  # F16
    world = World(settings={"offsets.topic.num.partitions": 50})
    world.cluster.create_topic("__consumer_offsets", [[0]] * 3, {})
    world.settle()
    assert world.groups[0].coordinator.offsets_partitions == 3


def test_a_node_that_was_stopped_refuses_and_starts_anew(world: World) -> None:
    leader = leader_of(world, "g")
    world.commit("g", 42, node=leader)
    world.settle()
    runtime = world.groups[leader]
    runtime.stop()
    assert fetch_error(world, "g", leader) is ErrorCode.COORDINATOR_NOT_AVAILABLE  # D3
    runtime.start()
    runtime.became_leader(world.partition("g"))
    world.settle()
    assert world.committed("g", node=leader) == 42


def test_damage_in_the_log_ends_the_load_there_and_not_the_service(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(settings={"offsets.load.buffer.size": 1}).with_offsets_topic()
    world.create_topic("t")
    leader = leader_of(world, "g")
    world.commit("g", 42, node=leader)
    world.settle()
    log = world.partition("g").log
    original = log.read

    def read(offset: int, max_bytes: int) -> bytes:
        if offset >= 1:
            raise CorruptBatch("segment", 70, "not what was written")
        return original(offset, max_bytes)

    monkeypatch.setattr(log, "read", read)
    world.commit("g", 43, node=leader)
    world.settle()
    runtime = world.groups[leader]
    runtime.hold(runtime.partition_for("g"))
    runtime.release(runtime.partition_for("g"))
    world.settle()
    assert "loaded only up to its first unreadable batch" in caplog.text
    assert world.committed("g", node=leader) == 42


def test_a_load_gives_the_loop_back_after_a_few_milliseconds(world: World) -> None:
    leader = leader_of(world, "g")
    for offset in range(300):
        world.commit("g", offset, node=leader)
        world.settle()
    now = 0.0

    def slow_clock() -> float:
        nonlocal now
        now += 0.001
        return now

    replayed: list[int] = []
    finished: list[int] = []
    turns: list[object] = []
    queue = LoadQueue(
        lambda partition, records: replayed.append(len(records)),
        lambda partition, count: False,
        lambda partition, _seconds: finished.append(partition),
        turns.append,
        slow_clock,
    )
    queue.add(Load(world.partition("g"), 1 << 20))
    count = 0
    while turns:
        count += 1
        turns.pop()()  # type: ignore[operator]
    assert finished == [world.partition("g").index]
    assert sum(replayed) == 1
    assert count > 50


def test_a_small_load_buffer_reads_the_whole_log_all_the_same() -> None:  # F15
    world = World(settings={"offsets.load.buffer.size": 1}).with_offsets_topic()
    world.create_topic("t")
    for offset in range(50):
        world.commit("g", offset)
        world.settle()
    runtime = world.groups[0]
    runtime.hold(runtime.partition_for("g"))
    runtime.release(runtime.partition_for("g"))
    world.settle()
    assert world.committed("g") == 49


def test_a_batch_without_readable_records_is_left_out_and_what_follows_is_loaded():
    log = Log.open(MemoryFilesystem(), "__consumer_offsets-0", now_ms=0)
    log.append(encode_batch([Record(0, key=b"first", value=b"1")]), now_ms=0, leader_epoch=0)
    log.append(batch(b"\x99garbage" * 3, 1), now_ms=0, leader_epoch=0)
    log.append(batch(b"no stream", 3, attributes=4), now_ms=0, leader_epoch=0)
    log.append(encode_batch([Record(0, key=b"second", value=b"2")]), now_ms=0, leader_epoch=0)
    unreadable: list[int] = []
    batches = read_batches(log, 1 << 20, lambda offset, _error: unreadable.append(offset))
    assert [(each.key, each.value) for records in batches for each in records] == [(b"first", b"1"), (b"second", b"2")]
    assert unreadable == [1, 2]
