"""The promises that are checked at every step of a lifetime, each from what went in and what came out.

- one owner per partition per generation; one protocol per generation; generations go up
- a stale generation, member or instance never commits
- a reply never precedes its stored records
- a committed offset goes back only by an explicit commit: what is shown is the last commit in the order of the log
- every parked request is answered exactly once
- stored records survive a crash, as far as the durability promises
- at every crash, unload and end: the live state is that of the log, and compaction does not change it

The books and ledgers behind them are kept by simple means of their own and share no rule with the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.coordinator import Coordinator, Effects, LogLine
from seamark.coordinator.commands import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from seamark.coordinator.placement import partition_for
from seamark.coordinator.replies import (
    CommitReply,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    Reply,
    SyncReply,
)
from seamark.coordinator.shard import Status
from seamark.coordinator.storing.records import GroupRemoved, GroupStored, OffsetCommitted, Record
from seamark.simulation.broker.asked import Asked
from seamark.simulation.broker.ledger import Ledger
from seamark.simulation.broker.log_checks import LogReader
from seamark.simulation.world.books import Batch, Books
from seamark.simulation.world.disk import SimulatedDisk
from seamark.simulation.world.violations import InvariantViolated
from seamark.storage import Log
from seamark.wire.protocol.consumer_protocol import decode_assignment
from seamark.wire.protocol.error_codes import ErrorCode

_NONE = ErrorCode.NONE
_SIGNS_OF_LIFE = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


class Invariants:
    """The state of all promises of one lifetime."""

    def __init__(self, offsets_partitions: int) -> None:
        self.books = [Books(number) for number in range(offsets_partitions)]
        self.ledgers: dict[str, Ledger] = {}
        # Requests the coordinator has and has not answered, in the order they came.
        self.outstanding: dict[Asked, None] = {}
        self._generations: set[tuple[str, int, int]] = set()
        self.commits = 0
        self.checks = 0
        self._homes: dict[str, int] = {}
        self._parked_joins: dict[str, int] = {}
        self._parked_members: dict[str, int] = {}
        self._assignments: dict[bytes, list[tuple[str, int]]] = {b"": []}
        self._reader = LogReader()

    @property
    def rebalances(self) -> int:
        """How many generations have had an assignment."""
        return len(self._generations)

    def ledger(self, group_id: str) -> Ledger:
        ledger = self.ledgers.get(group_id)
        if ledger is None:
            ledger = self.ledgers[group_id] = Ledger(group_id)
        return ledger

    def home(self, group_id: str) -> int:
        """The offsets partition of a group."""
        home = self._homes.get(group_id)
        if home is None:
            home = self._homes[group_id] = partition_for(group_id, len(self.books))
        return home

    # -- what goes in

    def note_request(self, request: Asked, coordinator: Coordinator) -> None:
        self.outstanding[request] = None
        command = request.command
        group_id: str | None = getattr(command, "group_id", None)
        if group_id is None:
            return
        request.partition = self.home(group_id)
        kind = type(command)
        if kind is JoinGroup:
            self._parked_joins[group_id] = self._parked_joins.get(group_id, 0) + 1
        if kind is JoinGroup or kind is SyncGroup:
            member_id: str = command.member_id  # type: ignore[union-attr]
            self._parked_members[member_id] = self._parked_members.get(member_id, 0) + 1
        elif kind is FetchOffsets and command.require_stable:  # type: ignore[union-attr]
            shard = coordinator.shards.get(request.partition)
            books = self.books[request.partition]
            if shard is not None and shard.status is Status.ACTIVE:
                for batch in reversed(books.open):
                    if any(record.group_id == group_id for record in batch.records):
                        request.open_batch = batch
                        break

    def check_decision(self, request: Asked, effects: Effects, now_ms: int) -> None:
        """The coordinator has decided what to store for the request."""
        command = request.command
        if type(command) is CommitOffsets and effects.appends:
            group_id = command.group_id or ""
            ledger = self.ledger(group_id)
            ledger.check_commit(
                command,
                now_ms,
                self._parked_members.get(command.member_id, 0) > 0,
                self._parked_joins.get(group_id, 0) > 0,
            )
            if command.generation >= 0 and command.member_id in ledger.alive_ms:
                ledger.alive_ms[command.member_id] = now_ms

    def note_intention(self, records: Iterable[Record]) -> None:
        for record in records:
            if type(record) is GroupStored and not record.members:
                self.ledger(record.group_id).note_emptied(record.generation)

    def note_log_lines(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            if line.event == "rebalance_prepared":
                # Between the generations commits count again, until the next one is announced.
                self.ledger(line.group_id).is_completing = False

    def note_clock_step(self, by_ms: int) -> None:
        """The clock was set ahead, and sessions end by as much later."""
        for ledger in self.ledgers.values():
            ledger.alive_ms = {member_id: alive_ms + by_ms for member_id, alive_ms in ledger.alive_ms.items()}

    # -- what comes out

    def check_reply(self, request: Asked, reply: Reply, coordinator: Coordinator, now_ms: int) -> None:
        if request.is_answered or request not in self.outstanding:
            raise InvariantViolated("every request is answered exactly once", f"a second answer to {request.command}")
        request.is_answered = True
        del self.outstanding[request]
        command = request.command
        kind = type(command)
        if kind is Heartbeat:
            assert type(reply) is HeartbeatReply
            self._check_heartbeat(command, reply, request, coordinator, now_ms)  # type: ignore[arg-type]
        elif kind is CommitOffsets:
            assert type(reply) is CommitReply
            self._check_commit(request, command, reply, now_ms)  # type: ignore[arg-type]
        elif kind is FetchOffsets:
            assert type(reply) is FetchReply
            self._check_fetch(request, command, reply)  # type: ignore[arg-type]
        elif kind is JoinGroup:
            assert type(reply) is JoinReply
            self._check_join(command, reply, now_ms)  # type: ignore[arg-type]
        elif kind is SyncGroup:
            assert type(reply) is SyncReply
            self._check_sync(command, reply, now_ms)  # type: ignore[arg-type]
        elif kind is LeaveGroup:
            assert type(reply) is LeaveReply
            self._note_left(command, reply)  # type: ignore[arg-type]
        elif kind is DeleteOffsets:
            assert type(reply) is DeleteOffsetsReply
            self._check_deleted_offsets(command, reply)  # type: ignore[arg-type]
        elif type(reply) is DeleteGroupsReply:
            self._check_deleted_groups(reply)

    def _check_join(self, command: JoinGroup, reply: JoinReply, now_ms: int) -> None:
        group_id = command.group_id or ""
        self._parked_joins[group_id] -= 1
        self._unpark(command.member_id)
        ledger = self.ledger(group_id)
        if reply.error is _NONE:
            ledger.grant(reply.member_id, command.instance_id, reply.generation, command.session_timeout_ms, now_ms)
            ledger.agree(reply.generation, reply.protocol_name)
            if reply.members and reply.leader != reply.member_id:
                raise InvariantViolated("only the leader receives the list of members", f"{reply}")
            return
        for member_id in (command.member_id, ledger.holders.get(command.instance_id or "", "")):
            if member_id in ledger.alive_ms:
                ledger.alive_ms[member_id] = now_ms

    def _check_sync(self, command: SyncGroup, reply: SyncReply, now_ms: int) -> None:
        group_id, member_id = command.group_id or "", command.member_id
        self._unpark(member_id)
        ledger = self.ledger(group_id)
        if member_id in ledger.alive_ms:
            ledger.alive_ms[member_id] = now_ms
        if reply.error is not _NONE:
            return
        if not any(_assigns(stored, command, reply) for stored in self.books[self.home(group_id)].values((group_id,))):
            raise _early(
                "SyncGroup", f"{member_id} receives an assignment that is not stored in generation {command.generation}"
            )
        ledger.own(ledger.instances.get(member_id, member_id), command.generation, self.assigned(reply.assignment))

    def assigned(self, assignment: bytes) -> list[tuple[str, int]]:
        """The partitions in the bytes of an assignment."""
        partitions = self._assignments.get(assignment)
        if partitions is None:
            partitions = self._assignments[assignment] = [
                (entry.topic, partition)
                for entry in decode_assignment(assignment).assigned_partitions
                for partition in entry.partitions
            ]
        return partitions

    def _check_heartbeat(
        self, command: Heartbeat, reply: HeartbeatReply, request: Asked, coordinator: Coordinator, now_ms: int
    ) -> None:
        if reply.error not in _SIGNS_OF_LIFE:
            return
        ledger = self.ledger(command.group_id or "")
        shard = coordinator.shards.get(request.partition or 0)
        if shard is not None and shard.status is Status.ACTIVE:
            if not ledger.is_let_in(command.member_id, command.generation):
                raise InvariantViolated(
                    "a stale member's heartbeat is refused",
                    f"{command} is answered {reply.error.name}; newest is {ledger.generation}, let in {ledger.granted}",
                )
            if command.member_id in ledger.sessions:
                ledger.alive_ms[command.member_id] = now_ms

    def _check_commit(self, request: Asked, command: CommitOffsets, reply: CommitReply, now_ms: int) -> None:
        batch = request.batch
        for _, codes in reply.topics:
            for _, code in codes:
                if code is _NONE:
                    if batch is None or not batch.is_acknowledged:
                        raise _early("OffsetCommit", f"{command} is acknowledged, {batch} is not stored")
                    self.commits += 1
                elif code is ErrorCode.OFFSET_METADATA_TOO_LARGE:
                    alive_ms = self.ledger(command.group_id or "").alive_ms
                    if command.member_id in alive_ms:
                        alive_ms[command.member_id] = now_ms

    def _check_fetch(self, request: Asked, command: FetchOffsets, reply: FetchReply) -> None:
        if reply.error is not _NONE:
            return
        group_id = command.group_id or ""
        books = self.books[self.home(group_id)]
        if request.open_batch is not None and request.open_batch in books.open:
            raise _early("OffsetFetch", f"{command} asked for stable offsets and got them before {request.open_batch}")
        shown = 0
        for topic, offsets in reply.topics:
            for partition, offset, leader_epoch, metadata, _ in offsets:
                record = books.applied.get((group_id, topic, partition))
                if type(record) is OffsetCommitted:
                    shown += 1
                found = (offset, leader_epoch, metadata)
                if found != _visible(record) and not (
                    books.superseded
                    and any(found == _visible(each) for each in books.values((group_id, topic, partition)))
                ):
                    raise InvariantViolated(
                        "a committed offset goes back only by an explicit commit",
                        f"{topic}-{partition} of {group_id} is shown at {offset}, {record} is stored",
                    )
        if command.topics is None and not books.superseded:
            count = sum(len(key) == 3 and key[0] == group_id for key in books.applied)
            if shown != count:
                raise InvariantViolated("a fetch of everything shows everything", f"{shown} of {count} in {group_id}")

    def _note_left(self, command: LeaveGroup, reply: LeaveReply) -> None:
        ledger = self.ledger(command.group_id or "")
        for member_id, instance_id, code in reply.members:
            if code is _NONE:
                if member_id:
                    ledger.depart(member_id)
                elif instance_id is not None:
                    ledger.depart_instance(instance_id)

    def _check_deleted_offsets(self, command: DeleteOffsets, reply: DeleteOffsetsReply) -> None:
        group_id = command.group_id or ""
        books = self.books[self.home(group_id)]
        for topic, codes in reply.topics:
            for partition, code in codes:
                if code is _NONE and None not in books.values((group_id, topic, partition)):
                    raise _early("OffsetDelete", f"{topic}-{partition} of {group_id} is still stored")

    def _check_deleted_groups(self, reply: DeleteGroupsReply) -> None:
        for group_id, code in reply.groups:
            if code is _NONE and any(key[0] == group_id for key in self.books[self.home(group_id or "")].applied):
                raise _early("DeleteGroups", f"something of {group_id} is still stored")

    def _unpark(self, member_id: str) -> None:
        self._parked_members[member_id] -= 1

    # -- storage

    def note_told_stored(self, number: int, tickets: list[int]) -> list[Batch]:
        return self._note_settled(self.books[number].note_told_stored(tickets))

    def note_told_failed(self, number: int, ticket: int) -> list[Batch]:
        return self._note_settled(self.books[number].note_told_failed(ticket))

    def _note_settled(self, settled: list[Batch]) -> list[Batch]:
        for each in settled:
            for record in each.records:
                if type(record) is GroupStored and record.members:
                    ledger = self.ledger(record.group_id)
                    ledger.note_stored(record)
                    # A static member's new id is stored under the same generation and is no rebalance.
                    self._generations.add((record.group_id, ledger.incarnation, record.generation))
                elif type(record) is GroupRemoved:
                    self.ledger(record.group_id).begin_incarnation()
        return settled

    def check_applied(self, number: int, settled: Sequence[Batch], coordinator: Coordinator) -> None:
        """The coordinator has been told of these batches: it must show them, and nothing that came later."""
        groups = coordinator.shard(number).groups
        applied = self.books[number].applied
        for batch in settled:
            for record in batch.records:
                group = groups.get(record.group_id)
                live: Record | None = None
                if type(record) is GroupStored or type(record) is GroupRemoved:
                    expected = applied.get((record.group_id,))
                    live = group.stored if group is not None else None
                else:
                    place: tuple[str, int] = (record.topic, record.partition)  # type: ignore[union-attr]
                    expected = applied.get((record.group_id, *place))
                    live = group.offsets.get(place) if group is not None else None
                if live is not expected and live != expected:
                    raise InvariantViolated(
                        "the live state is that of the log", f"{live} is live where {expected} is stored"
                    )

    def check_shard(self, number: int, coordinator: Coordinator) -> None:
        """The whole live state of a partition against its books."""
        shard = coordinator.shard(number)
        if shard.status is Status.ACTIVE and shard.stored_state() != self.books[number].applied:
            raise InvariantViolated(
                "the live state is that of the log",
                f"partition {number} shows {shard.stored_state()}, stored is {self.books[number].applied}",
            )

    def check_unloaded(self, number: int, coordinator: Coordinator) -> None:
        """Nothing is left of a partition that was given up."""
        for request in self.outstanding:
            if request.partition == number:
                raise InvariantViolated(
                    "every request is answered exactly once", f"{request.command} still waits after the unload"
                )
        shard = coordinator.shard(number)
        if shard.groups or shard.tickets_in_flight:
            raise InvariantViolated("an unloaded partition holds nothing", f"{shard.groups} {shard.tickets_in_flight}")

    def check_log(self, number: int, log: Log, disk: SimulatedDisk, when: str) -> None:
        """The log against the books, and after compaction once more."""
        self.checks += 1
        self._compare(number, self._reader.state_of(self._reader.read(log)), f"the log {when}")
        books = self.books[number]
        # An append that failed for good may be on the disk, and a copy of the disk would show it. And an opening right
        # after an unload finds what was checked there.
        if books.uncertain is None and books.compacted_end != log.log_end:
            compacted = self._reader.state_after_compaction(log, disk)
            if compacted is not None:
                self._compare(number, compacted, f"the compacted log {when}")
            books.compacted_end = log.log_end

    def _compare(self, number: int, found: object, what: str) -> None:
        written = self.books[number].written
        if found != written:
            raise InvariantViolated("replay of the log gives what was stored", f"{what} gives {found}, not {written}")

    # -- crashes and loads

    def note_crash(self) -> None:
        """The process is gone, and every request it had."""
        for books in self.books:
            books.compacted_end = -1
        self.outstanding.clear()
        self._parked_joins.clear()
        self._parked_members.clear()

    def note_opened(self, number: int, log_end: int) -> None:
        if self.books[number].settle_opening(log_end):
            for group_id, ledger in self.ledgers.items():
                if self.home(group_id) == number:
                    ledger.begin_incarnation()
                    ledger.has_lost_records = True

    def note_loaded(self, number: int, now_ms: int) -> None:
        self.books[number].is_active = True
        written = self.books[number].written
        for group_id, ledger in self.ledgers.items():
            if self.home(group_id) == number:
                stored = written.get((group_id,))
                ledger.load(stored if type(stored) is GroupStored else None, now_ms)


def _assigns(stored: Record | None, command: SyncGroup, reply: SyncReply) -> bool:
    return (
        type(stored) is GroupStored
        and stored.generation == command.generation
        and any(each.member_id == command.member_id and each.assignment == reply.assignment for each in stored.members)
    )


def _visible(record: Record | None) -> tuple[int, int, str]:
    if type(record) is OffsetCommitted:
        return record.offset, record.leader_epoch, record.metadata
    return -1, -1, ""


def _early(api: str, reason: str) -> InvariantViolated:
    return InvariantViolated("a reply never precedes its stored records", f"{api}: {reason}")
