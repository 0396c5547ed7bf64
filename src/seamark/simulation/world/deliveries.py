"""The promises of a group of real clients about its records, checked from what applications do and nodes answer.

- at least once: no record is passed over; what is committed was processed before, by whomever
- at most once: no record is processed twice; it is processed only once its offset is acknowledged as committed
- a committed offset never goes back, and an owner starts where the group has committed: nothing acknowledged is lost
- a partition has one owner among the members of one generation that hold themselves for stable
- records come in order, and only of partitions that the listener was told of; callbacks come in order

A copied request may be taken late, and the offset it brings is then an older one: after that (``is_exact`` is false)
committed offsets may go back, which at-least-once allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from seamark.coordinator.commands import CommitOffsets
from seamark.coordinator.replies import CommitReply
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode


class Promise(Enum):
    AT_LEAST_ONCE = "at least once"
    AT_MOST_ONCE = "at most once"


class Belief(NamedTuple):
    """What one member holds for true: ``identity`` is its instance id, or else its own name."""

    name: str
    identity: str
    generation: int
    owned: Sequence[TopicPartition]


class Progress:
    """One partition as one group sees it."""

    __slots__ = ("acknowledged", "attempted", "done", "done_until", "processed", "repeated")

    def __init__(self) -> None:
        # Every offset below was processed by somebody; only kept under at-least-once.
        self.done_until = 0
        # Offsets that were processed; only kept under at-most-once.
        self.done: set[int] = set()
        # The last offset that a coordinator acknowledged, and the largest that anybody sent; -1 for none.
        self.acknowledged = -1
        self.attempted = -1
        self.processed = 0
        self.repeated = 0


class Deliveries:
    """All groups of one lifetime."""

    def __init__(self) -> None:
        self.promises: dict[str, Promise] = {}
        self.progress: dict[str, dict[TopicPartition, Progress]] = {}
        self._beliefs: dict[str, dict[str, Belief]] = {}
        self.is_exact = True

    def add_group(self, group_id: str, promise: Promise) -> None:
        self.promises[group_id] = promise
        self.progress[group_id] = {}
        self._beliefs[group_id] = {}

    def of(self, group_id: str, partition: TopicPartition) -> Progress:
        found = self.progress[group_id].get(partition)
        if found is None:
            found = self.progress[group_id][partition] = Progress()
        return found

    @property
    def processed(self) -> int:
        return sum(each.processed for group in self.progress.values() for each in group.values())

    @property
    def repeated(self) -> int:
        return sum(each.repeated for group in self.progress.values() for each in group.values())

    # -- records

    def note_processed(self, group_id: str, name: str, partition: TopicPartition, offset: int) -> None:
        progress = self.of(group_id, partition)
        progress.processed += 1
        if self.promises[group_id] is Promise.AT_LEAST_ONCE:
            if offset > progress.done_until:
                raise InvariantViolated(
                    "at least once: no record is passed over",
                    f"{name} processes {offset} of {partition}, group {group_id} has done all below "
                    f"{progress.done_until}",
                )
            if offset == progress.done_until:
                progress.done_until += 1
            else:
                progress.repeated += 1
            return
        if offset in progress.done:
            raise InvariantViolated(
                "at most once: no record is processed twice", f"{name} processes {offset} of {partition} once more"
            )
        if progress.acknowledged <= offset:
            raise InvariantViolated(
                "at most once: a record is processed once its offset is committed",
                f"{name} processes {offset} of {partition}, group {group_id} has committed {progress.acknowledged}",
            )
        progress.done.add(offset)

    # -- offsets

    def check_attempt(self, command: CommitOffsets) -> None:
        """A commit has reached a node; whether it is taken is another matter."""
        group_id = command.group_id or ""
        is_careful = self.promises[group_id] is Promise.AT_LEAST_ONCE
        for topic, offsets in command.topics:
            for number, offset, _, _ in offsets:
                progress = self.of(group_id, TopicPartition(topic, number))
                if is_careful and offset > progress.done_until:
                    raise InvariantViolated(
                        "at least once: what is committed was processed",
                        f"{command.member_id} commits {offset} of {topic}-{number}, group {group_id} has done all "
                        f"below {progress.done_until}",
                    )
                progress.attempted = max(progress.attempted, offset)

    def check_acknowledged(self, command: CommitOffsets, reply: CommitReply) -> None:
        group_id = command.group_id or ""
        for (topic, offsets), (_, codes) in zip(command.topics, reply.topics, strict=True):
            for (number, offset, _, _), (_, code) in zip(offsets, codes, strict=True):
                if code is not ErrorCode.NONE:
                    continue
                progress = self.of(group_id, TopicPartition(topic, number))
                if self.is_exact and offset < progress.acknowledged:
                    raise InvariantViolated(
                        "a committed offset never goes back",
                        f"{command.member_id} commits {offset} of {topic}-{number} in generation "
                        f"{command.generation}, committed was {progress.acknowledged}",
                    )
                progress.acknowledged = offset

    def check_told(self, group_id: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit was reported to the application as stored."""
        for partition, offset in offsets.items():
            acknowledged = self.of(group_id, partition).acknowledged
            if acknowledged < offset and self.is_exact:
                raise InvariantViolated(
                    "a commit that is reported as stored is stored",
                    f"{name} is given {offset} of {partition} as stored, but the coordinator acknowledged "
                    f"{acknowledged}",
                )

    def check_start(self, group_id: str, name: str, partition: TopicPartition, offset: int, end: int) -> None:
        """A new owner begins to read here."""
        progress = self.of(group_id, partition)
        if not self.is_exact:
            return
        least = max(progress.acknowledged, 0)
        # Without a committed offset the policy decides: the start or the end.
        most = end if progress.attempted < 0 else progress.attempted
        if progress.acknowledged < 0:
            most = max(most, end)
        if not least <= offset <= most:
            raise InvariantViolated(
                "an owner starts where the group has committed",
                f"{name} starts {partition} at {offset}, committed is {progress.acknowledged}, the largest ever sent "
                f"{progress.attempted}",
            )

    # -- owners

    def check_belief(self, group_id: str, belief: Belief | None, name: str) -> None:
        """What a member holds for true has changed; None if it is not stable."""
        beliefs = self._beliefs[group_id]
        if belief is None:
            beliefs.pop(name, None)
            return
        beliefs[name] = belief
        for other in beliefs.values():
            if other.generation != belief.generation or other.identity == belief.identity:
                continue
            twice = set(other.owned).intersection(belief.owned)
            if twice:
                raise InvariantViolated(
                    "one owner per partition among the stable members of a generation",
                    f"{sorted(map(str, twice))} of group {group_id} generation {belief.generation} belong to "
                    f"{other.name} and to {belief.name}",
                )

    # -- the end

    def unprocessed(self, group_id: str, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Partitions that are not processed up to their ends, though that is promised."""
        if self.promises[group_id] is Promise.AT_MOST_ONCE:
            return []
        return [each for each, end in ends.items() if self.of(group_id, each).done_until < end]

    def uncommitted(self, group_id: str, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Partitions that are not committed up to their ends."""
        return [each for each, end in ends.items() if end and self.of(group_id, each).acknowledged < end]


class ListenerOrder:
    """What one process was told by its listener, and the order of its callbacks and records."""

    __slots__ = ("_next", "_reported", "_started", "held", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}
        self._started = 0
        self._reported = 0

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        again = self.held.intersection(partitions)
        if again:
            raise self._wrong(f"is assigned {sorted(map(str, again))} which it already owns")
        self.held.update(partitions)

    def gone(self, partitions: Iterable[TopicPartition]) -> None:
        strange = set(partitions) - self.held
        if strange:
            raise self._wrong(f"gives up {sorted(map(str, strange))} which it does not own")
        self.held.difference_update(partitions)
        for partition in partitions:
            self._next.pop(partition, None)

    def given(self, partition: TopicPartition, offset: int) -> None:
        """Poll has given this record."""
        if partition not in self.held:
            raise self._wrong(f"is given {offset} of {partition} which it does not own")
        expected = self._next.get(partition, offset)
        if offset != expected:
            raise InvariantViolated(
                "records come in order", f"{self.name} is given {offset} of {partition} where {expected} was next"
            )
        self._next[partition] = offset + 1

    def commit_started(self) -> int:
        self._started += 1
        return self._started

    def commit_reported(self, number: int) -> None:
        if number != self._reported + 1:
            raise InvariantViolated(
                "callbacks come in the order of their commits",
                f"{self.name} gets the callback of commit {number} after that of commit {self._reported}",
            )
        self._reported = number

    def _wrong(self, what: str) -> InvariantViolated:
        return InvariantViolated("a listener is called for every change of ownership", f"{self.name} {what}")
