"""A plan: which committed offsets of which groups are to become what, and what they were when it was made.

Plans are values. ``build_plan`` makes one from what a cluster holds (``ClusterState``) and what is wanted; it changes
nothing and asks nobody. A partition whose offset already is the wanted one is left out.

Invariant: every change differs in its ``before`` and ``after``; groups and, within one, partitions are sorted and
unique, so that two plans with the same content are equal and have the same digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from seamark.client import Offset
from seamark.client.records import LARGEST_OFFSET
from seamark.counts import counted, number_text
from seamark.errors import UsageError
from seamark.plans.errors import OutsideLog, TopicChanged, some
from seamark.plans.progress import moved_to
from seamark.topic_partition import TopicPartition

# None takes the committed offset away.
Wanted = Mapping[str, Mapping[TopicPartition, Offset | int | None]]


@dataclass(frozen=True, slots=True)
class Change:
    """One committed offset; None stands for none: before the first commit, or after its deletion."""

    partition: TopicPartition
    before: Offset | None
    after: Offset | None


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """The changes of one group, in the order of their partitions."""

    group: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change; ``made_by`` and ``why`` are for people, ``undoes`` is the digest of the plan it undoes.

    ``topic_ids`` has the id of each topic as hexadecimal text, "" where the broker knows none.
    """

    cluster_id: str
    created_ms: int
    made_by: str
    why: str
    topic_ids: Mapping[str, str]
    groups: tuple[GroupChanges, ...]
    undoes: str | None = None

    def __iter__(self) -> Iterator[tuple[str, Change]]:
        for group in self.groups:
            for change in group.changes:
                yield group.group, change

    def __len__(self) -> int:
        return sum(len(group.changes) for group in self.groups)

    @property
    def partitions(self) -> dict[str, list[TopicPartition]]:
        """The partitions that it changes, per group."""
        return {group.group: [change.partition for change in group.changes] for group in self.groups}


class LogRange(NamedTuple):
    """What a partition holds: from ``log_start`` up to, not including, ``log_end``."""

    log_start: int
    log_end: int


def outside_log(offset: int, log: LogRange) -> str:
    """What is wrong with an offset that the log does not have; empty if it has it. The end itself may be set.

    >>> outside_log(99, LogRange(0, 2))
    'offset 99 is 97 offsets after the end of the log (0 to 2)'
    """
    where = f"of the log ({number_text(log.log_start)} to {number_text(log.log_end)})"
    asked = f"offset {number_text(offset)}"
    if offset < log.log_start:
        return f"{asked} is {counted(log.log_start - offset, 'offset')} before the start {where}"
    if offset > log.log_end:
        return f"{asked} is {counted(offset - log.log_end, 'offset')} after the end {where}"
    return ""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the cluster has it: its id tells it from another of the same name."""

    topic_id: str
    partition_count: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """Whether somebody may be committing; ``members`` are named as a person would look for them."""

    state: str
    type: str
    is_active: bool
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a cluster holds of the partitions that were asked about, at one time.

    ``committed`` has no entry where nothing is committed; ``logs`` none for a partition that does not answer, whose
    reason is then in ``unreadable``. A group that does not exist is not in ``groups``.
    """

    cluster_id: str
    topics: Mapping[str, TopicState]
    groups: Mapping[str, GroupState]
    committed: Mapping[str, Mapping[TopicPartition, Offset]]
    logs: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    unreadable: Mapping[TopicPartition, str] = field(default_factory=dict)


def build_plan(state: ClusterState, wanted: Wanted, *, made_by: str, why: str = "", now_ms: int) -> Plan:
    """The plan that turns what is committed into what is wanted.

    A number says nothing of metadata: what a done-ahead map has at or beyond it stays done, as ``progress`` says. An
    ``Offset`` is set as it is, with its metadata.

    TopicChanged names partitions to be set that do not exist; an offset may be taken away where the topic is gone.
    OutsideLog names those to be set below 0; others outside their log are for ``preview`` and ``apply`` to refuse.
    """
    _refuse_negative(state, wanted)
    groups = []
    missing: list[TopicPartition] = []
    for group in sorted(wanted):
        changes = []
        for partition, after in sorted((_address(place), offset) for place, offset in wanted[group].items()):
            before = state.committed.get(group, {}).get(partition)
            target = None if after is None else _offset(partition, before, after)
            topic = state.topics.get(partition.topic)
            if target is not None and (topic is None or partition.partition >= topic.partition_count):
                missing.append(partition)
            if not is_same(before, target):
                changes.append(Change(partition, before, target))
        if changes:
            groups.append(GroupChanges(group, tuple(changes)))
    if missing:
        raise TopicChanged(f"the cluster does not have {some(sorted(set(missing)))}")
    named = sorted({change.partition.topic for group in groups for change in group.changes})
    ids = {topic: state.topics[topic].topic_id if topic in state.topics else "" for topic in named}
    return Plan(state.cluster_id, now_ms, made_by, why, ids, tuple(groups))


def is_same(one: Offset | None, other: Offset | None) -> bool:
    """Whether two committed offsets say the same; leader epochs are compared where both are known."""
    if one is None or other is None:
        return one is other
    if one.leader_epoch >= 0 and other.leader_epoch >= 0 and one.leader_epoch != other.leader_epoch:
        return False
    return (one.offset, one.metadata) == (other.offset, other.metadata)


def _address(partition: TopicPartition) -> TopicPartition:
    return TopicPartition(*partition)


def _refuse_negative(state: ClusterState, wanted: Wanted) -> None:
    """A shift may lead below 0, where no plan can follow."""
    problems = [
        f"{partition}: {outside_log(offset, state.logs[partition])}"
        for offsets in wanted.values()
        for partition, offset in offsets.items()
        if isinstance(offset, int) and offset < 0 and partition in state.logs
    ]
    if problems:
        raise OutsideLog(problems)


def _offset(partition: TopicPartition, before: Offset | None, wanted: Offset | int) -> Offset:
    if isinstance(wanted, Offset):
        return wanted
    if isinstance(wanted, int) and wanted > LARGEST_OFFSET:
        raise UsageError(f"the offset for {partition} must be below 2^63, got {wanted}")
    return moved_to(before, Offset(wanted).offset)
