"""A move of committed offsets, as values: which group's offsets go where, how that was decided, what stands against it.

A move is made of groups, a group of partitions. The source is never changed; on the target every offset is a change in
the sense of ``seamark.plans``: from what was there when the plan was made (``before``) to what is wanted (``after``).

Invariant: a partition has a ``problem`` or an ``after``, never both, and what has a problem is never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from seamark.client import Offset
from seamark.plans.plan import Change, is_same
from seamark.stores.contract import BadOffset, StoredOffset
from seamark.topic_partition import TopicPartition


class Kind(StrEnum):
    """Between which stores."""

    ZOOKEEPER_TO_KAFKA = "zookeeper-to-kafka"
    KAFKA_TO_ZOOKEEPER = "kafka-to-zookeeper"
    GROUP_TO_GROUP = "group-to-group"
    CLUSTER_TO_CLUSTER = "cluster-to-cluster"


class How(StrEnum):
    """What the new offset was found by."""

    SAME_LOG = "same log"
    EQUAL_LOGS = "equal logs"
    RECORD_TIME = "record time"
    LOG_START = "log start"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """One offset; ``note`` is what a person should know of it, ``repeated`` how many records are read again at most."""

    partition: TopicPartition
    source: Offset | None
    before: Offset | None
    after: Offset | None
    how: str = ""
    note: str = ""
    problem: str = ""
    repeated: int | None = None

    @property
    def change(self) -> Change | None:
        """What has to be written; None if there is a problem or it is there already."""
        if self.problem or self.after is None or is_same(self.before, self.after):
            return None
        return Change(self.partition, self.before, self.after)


@dataclass(frozen=True, slots=True)
class GroupMove:
    """One group; ``problem`` stands against all of it, ``strays`` are entries of the store that are no offsets."""

    group: str
    to_group: str
    moves: tuple[PartitionMove, ...]
    problem: str = ""
    strays: tuple[str, ...] = ()

    @property
    def changes(self) -> list[Change]:
        return [change for move in self.moves if (change := move.change) is not None]

    @property
    def problems(self) -> list[str]:
        """Everything that stands against it or against a part of it."""
        parts = [f"{move.partition}: {move.problem}" for move in self.moves if move.problem]
        return [*([self.problem] if self.problem else []), *parts, *self.strays]

    def obstacle(self, *, partial: bool) -> str:
        """Why it is not to be moved; with ``partial`` what can be moved is."""
        if self.problem:
            return self.problem
        problems = self.problems
        if not problems or (partial and any(not move.problem for move in self.moves)):
            return ""
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{problems[0]}{more}"


@dataclass(frozen=True, slots=True)
class Place:
    """One side of a move as the plan remembers it; ``cluster_id`` is empty for ZooKeeper."""

    store: str
    address: str
    cluster_id: str = ""

    def __str__(self) -> str:
        return f"{self.store} {self.address}"


@dataclass(frozen=True, slots=True)
class MoveHeader:
    """What a plan says of itself before its first group."""

    kind: Kind
    source: Place
    target: Place
    created_ms: int
    why: str
    overlap_ms: int = 0


@dataclass(frozen=True, slots=True)
class MoveTotals:
    """What a plan says of itself after its last group; ``topic_ids`` are of the logs that new offsets point into."""

    groups: int
    offsets: int
    changes: int
    groups_with_problems: int
    topic_ids: Mapping[str, str]


def as_offset(stored: StoredOffset) -> Offset:
    epoch = -1 if stored.leader_epoch is None else stored.leader_epoch
    return Offset(stored.offset, stored.metadata, epoch)


def as_stored(offset: Offset) -> StoredOffset:
    return StoredOffset(offset.offset, offset.metadata, None if offset.leader_epoch < 0 else offset.leader_epoch)


def good_offsets(stored: Mapping[TopicPartition, StoredOffset | BadOffset]) -> dict[TopicPartition, Offset]:
    """What is stored and is an offset."""
    return {partition: as_offset(offset) for partition, offset in stored.items() if isinstance(offset, StoredOffset)}


def totals_of(groups: Iterable[GroupMove], topic_ids: Mapping[str, str]) -> MoveTotals:
    """The totals of groups that are held in memory; a plan file counts while it is written."""
    listed = list(groups)
    return MoveTotals(
        len(listed),
        sum(len(group.moves) for group in listed),
        sum(len(group.changes) for group in listed),
        sum(bool(group.problems) for group in listed),
        topic_ids,
    )
