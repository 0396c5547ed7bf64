"""What really became of every record, kept beside the engines, and the promises that are checked against it.

``over`` is what handlers were through with, or what was given up in an orderly way; ``runs`` how often a record was
handed to a handler. Both are facts of the world: an engine that was told less, or forgot, does not change them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from seamark.parallel.core.ports import ToCommit
from seamark.parallel.core.work import StartCall
from seamark.parallel.settings import Order, Settings
from seamark.simulation.parallel.log import PartitionLog, SimulatedRecord
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import DoneAhead, decode

# A map that is nearly as long as allowed may have left something out; the margin is more than one range takes.
_MAP_MARGIN = 24


class StayTruth:
    """One partition with one member: what it was started from, what it was given and what of it has ended."""

    __slots__ = (
        "accepted",
        "ended",
        "first",
        "following",
        "known",
        "known_epoch",
        "poll_ends",
        "position",
        "records",
        "start",
        "unfinished",
    )

    def __init__(self, start: int, known: DoneAhead | None, known_epoch: int = -1) -> None:
        """``known`` is the map of the commit that it starts from, ``known_epoch`` that commit's leader epoch."""
        self.start = start
        self.known_epoch = known_epoch
        self.position = start
        self.known = known or DoneAhead(max(start, 0))
        self.first = -1
        # By offset, the lane; upwards.
        self.unfinished: dict[int, Any] = {}
        self.records: dict[int, SimulatedRecord] = {}
        self.ended: set[int] = set()
        self.poll_ends: set[int] = {start}
        self.accepted = start
        self.following: tuple[int, StayTruth] | None = None

    def rewound(self, position: int) -> StayTruth:
        """The assignment that goes on when the partition is read again from ``position``: what lies below is kept."""
        kept = {offset: lane for offset, lane in self.unfinished.items() if offset < position}
        following = StayTruth(next(iter(kept), position), None)
        following.unfinished = kept
        following.records = {offset: self.records[offset] for offset in kept}
        following.position = position
        following.poll_ends.add(position)
        self.following = position, following
        return following

    def see_epochs(self, epochs: Iterable[tuple[int, int]]) -> None:
        """Records are polled at these offsets, of these leader epochs: the map speaks of no later one."""
        for offset, epoch in epochs:
            if 0 <= self.known_epoch < epoch:
                self.known = self.known.below(offset)

    def live(self, present: StayTruth | None, offset: int) -> StayTruth | None:
        """The ``present`` assignment if a record of this one still counts in it."""
        assignment = self
        while assignment is not present:
            if assignment.following is None or offset >= assignment.following[0]:
                return None
            assignment = assignment.following[1]
        return assignment

    def end(self, offset: int) -> None:
        if self.unfinished.pop(offset, _ABSENT) is not _ABSENT:
            self.ended.add(offset)


_ABSENT = object()


def rows_of(call: StartCall) -> Iterator[tuple[TopicPartition, int]]:
    """What the call is about; a work of columns stands for several records."""
    for work in call.works:
        for offset in work.offsets or (work.offset,):
            yield work.partition, offset


class Truth:
    def __init__(self, settings: Settings, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        self.settings = settings
        self.logs = logs
        self.is_at_most_once = settings.delivery == "at_most_once"
        self.over: set[SimulatedRecord] = set()
        self.given_up: set[SimulatedRecord] = set()
        self.runs: Counter[SimulatedRecord] = Counter()
        # What a handler failed at, or was on its way to when its process died.
        self.failed: set[SimulatedRecord] = set()
        # At most once somebody who seeks back asks for a second delivery.
        self.may_run_again: set[SimulatedRecord] = set()
        self.highest_committed: dict[TopicPartition, int] = {}
        self.commits = 0
        self.repeats = 0

    # When a handler is called.

    def check_start(self, call: StartCall, assignments: Mapping[TopicPartition, StayTruth]) -> None:
        within: set[tuple[TopicPartition, int]] = set()
        for partition, offset in rows_of(call):
            assignment = assignments.get(partition)
            if assignment is None or offset not in assignment.unfinished:
                raise InvariantViolated(
                    "only records in flight are run", f"{partition} offset {offset} was started out of turn"
                )
            if offset in assignment.known:
                raise InvariantViolated(
                    "what the map says is done is not run again", f"{partition} offset {offset} was started"
                )
            self._check_order(partition, assignment.unfinished[offset], assignment.records[offset], assignment, within)
            within.add((partition, offset))

    def begin(self, records: Iterable[SimulatedRecord]) -> None:
        """A handler is given these."""
        for record in records:
            self.runs[record] += 1
            if self.runs[record] > 1:
                self.repeats += 1
            if self.is_at_most_once:
                self._check_once(TopicPartition(record.topic, record.partition), record)

    def _check_order(
        self,
        partition: TopicPartition,
        lane: Any,
        record: SimulatedRecord,
        assignment: StayTruth,
        within: set[tuple[TopicPartition, int]],
    ) -> None:
        if lane is None:
            return
        for offset, other in assignment.unfinished.items():
            if offset >= record.offset:
                break
            if other == lane and (partition, offset) not in within and not self._was_tried(partition, offset):
                raise InvariantViolated(
                    "a key's records run in their order", f"{partition} offset {record.offset} came before {offset}"
                )
        if self.is_at_most_once or record.is_gone:
            return
        for before in self.logs[partition].below(record.offset):
            is_same_lane = self.settings.order is Order.PARTITION or before.key == record.key
            if is_same_lane and not self._is_settled(before) and (partition, before.offset) not in within:
                raise InvariantViolated(
                    "a key's records run in their order",
                    f"{partition} offset {record.offset} was started, {before.offset} of the same key is not finished",
                )

    def _was_tried(self, partition: TopicPartition, offset: int) -> bool:
        """At most once a record that failed is not run again, whatever else becomes of it.

        It may have failed without having been run: its process died on the way into the handler.
        """
        found = self.logs[partition].find(offset)
        return self.is_at_most_once and (found is None or found in self.runs or found in self.failed)

    def _check_once(self, partition: TopicPartition, record: SimulatedRecord) -> None:
        if self.highest_committed.get(partition, -1) <= record.offset:
            raise InvariantViolated(
                "at most once: nothing runs before its commit", f"{partition} offset {record.offset} was started"
            )
        if self.runs[record] > 1 and record not in self.may_run_again:
            raise InvariantViolated(
                "at most once: nothing runs twice", f"{partition} offset {record.offset} was started again"
            )

    # When a commit is made, and when the group takes it.

    def check_decision(self, partition: TopicPartition, to_commit: ToCommit, assignment: StayTruth, limit: int) -> None:
        """``limit`` is what the engine believes metadata may take."""
        offset, metadata, _ = to_commit
        if assignment.start >= 0 and offset < assignment.start:
            raise InvariantViolated(
                "an assignment never commits below its start", f"{partition}: {offset} < {assignment.start}"
            )
        if offset > max(assignment.position, assignment.start):
            raise InvariantViolated(
                "nothing is committed that was not read", f"{partition}: {offset}, read up to {assignment.position}"
            )
        if self.is_at_most_once:
            return
        first = next(iter(assignment.unfinished), offset)
        if offset > first:
            raise InvariantViolated(
                "a commit never passes unfinished work", f"{partition}: {offset} was decided, {first} is not finished"
            )
        if self.settings.delivery == "whole_batch":
            if metadata or (offset not in assignment.poll_ends and offset != assignment.first):
                raise InvariantViolated("whole polls are confirmed together", f"{partition}: {offset}")
            return
        self._check_map(partition, offset, metadata, assignment, limit)

    def _check_map(
        self, partition: TopicPartition, offset: int, metadata: str, assignment: StayTruth, limit: int
    ) -> None:
        said = decode(metadata, offset) or DoneAhead(offset)
        if len(metadata) > limit:
            raise InvariantViolated("metadata keeps to its limit", f"{partition}: {len(metadata)} of {limit}")
        for each in assignment.unfinished:
            if each in said:
                raise InvariantViolated("the map marks only finished records as done", f"{partition} offset {each}")
        if len(metadata) + _MAP_MARGIN >= limit:
            return
        missing = [each for each in assignment.ended if each > offset and each not in said]
        missing += [each for each in assignment.known if each > offset and each not in said]
        if missing:
            raise InvariantViolated(
                "the map omits nothing that fits", f"{partition}: {min(missing)} is missing in {said}"
            )

    def accepted(self, partition: TopicPartition, to_commit: ToCommit, assignment: StayTruth) -> None:
        offset, metadata, epoch = to_commit
        if offset < assignment.accepted:
            raise InvariantViolated(
                "within an assignment, committed offsets only increase",
                f"{partition}: {offset} after {assignment.accepted}",
            )
        assignment.accepted = offset
        self.highest_committed[partition] = max(offset, self.highest_committed.get(partition, -1))
        self.commits += 1
        if self.is_at_most_once:
            return
        log = self.logs[partition]
        # Who starts from this commit is sent back to where the log was truncated since.
        for record in log.below(log.still_there(offset, epoch)):
            if not self._is_settled(record):
                raise InvariantViolated(
                    "no record is lost", f"{partition}: {offset} is committed, {record.offset} is not finished"
                )
        for each in decode(metadata, offset) or ():
            found = log.find(each)
            if found is not None and found.leader_epoch <= epoch and not self._is_settled(found):
                raise InvariantViolated("no record is lost", f"{partition}: the map says {each} is done, it is not")

    def left(self) -> list[SimulatedRecord]:
        """What is still to be processed."""
        settled = self.runs.__contains__ if self.is_at_most_once else self._is_settled
        return [record for log in self.logs.values() for record in log.records if not settled(record)]

    def _is_settled(self, record: SimulatedRecord) -> bool:
        return record in self.over
