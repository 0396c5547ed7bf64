"""One look at the groups of a cluster: what they committed, what their logs hold, who reads what.

A look is a bounded number of requests, whatever the number of groups: groups are described, their offsets read and the
bounds of all their partitions listed in batches. What does not answer is shown as not answering; it never takes the
rest with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.client import Admin, Offset
from seamark.client.admin.types import GroupDescription, GroupMember
from seamark.errors import SeamarkError
from seamark.plans.cluster_reading import read_logs
from seamark.rules.lag import Basis, Lag, lag_of, total, total_unfinished
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead

OFFSETS_UNREAD = "committed offsets could not be read"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one log; ``error`` says why they are unknown."""

    log_start: int | None
    log_end: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as a group stands to it."""

    partition: TopicPartition
    committed: Offset | None
    bounds: Bounds
    lag: Lag
    owner: GroupMember | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group with its partitions in order; ``error`` says what of it could not be read."""

    description: GroupDescription
    partitions: tuple[PartitionView, ...]
    error: str | None = None

    @property
    def group_id(self) -> str:
        return self.description.group_id

    @property
    def records_behind(self) -> int | None:
        """The sum over the partitions whose lag is known; None if that of none is."""
        return total(view.lag for view in self.partitions)

    @property
    def unfinished(self) -> int | None:
        """Of these, what is neither lost nor done ahead by a parallel consumer."""
        return total_unfinished(view.lag for view in self.partitions)

    @property
    def lost(self) -> int:
        """Records that were deleted before the group had read them."""
        return sum(view.lag.lost for view in self.partitions)

    @property
    def beyond(self) -> int:
        """How far committed offsets lie beyond the ends of their logs."""
        return sum(view.lag.beyond for view in self.partitions)

    @property
    def partitions_unknown(self) -> int:
        """Partitions that do not answer."""
        return sum(view.lag.basis is Basis.UNKNOWN for view in self.partitions)

    @property
    def partitions_uncommitted(self) -> int:
        """Partitions for which the group has committed nothing."""
        return sum(view.lag.basis is Basis.NO_COMMIT for view in self.partitions)


@dataclass(frozen=True, slots=True)
class Scan:
    """Groups that were found, in order of their names, and those that were not, with the reason."""

    groups: tuple[GroupView, ...]
    failed: Mapping[str, SeamarkError]

    @property
    def unreadable(self) -> dict[str, str]:
        """Groups of which nobody knows how far they are, with the reason."""
        reasons = {view.group_id: view.error for view in self.groups if view.error}
        return reasons | {name: str(error) for name, error in self.failed.items()}


def scan(
    admin: Admin,
    group_ids: Sequence[str] | None = None,
    *,
    reset: str | None = None,
    whole_topics: bool = False,
    timeout: float | None = None,
) -> Scan:
    """Look at the named groups, or at all.

    ``reset`` is where a partition without a commit is counted from, earliest or latest; its lag is unknown without it.
    ``whole_topics`` adds, for groups without members, the partitions without a commit of the topics that the group has
    committed to: nobody is assigned to them, and they would go unseen.
    """
    described = admin.describe_groups(group_ids, timeout=timeout)
    committed = admin.list_group_offsets(list(described), timeout=timeout)
    wanted = {
        name: _partitions_of(description, committed.values_by_key.get(name, {}))
        for name, description in described.items()
    }
    if whole_topics:
        _add_uncommitted(admin, {name: wanted[name] for name in wanted if not described[name].members}, timeout)
    readable = {partition for name in committed for partition in wanted[name]}
    bounds = bounds_of(admin, readable, timeout=timeout)
    groups = []
    for name in sorted(described):
        offsets = committed.values_by_key.get(name, {})
        error = None if name in committed else _unread(committed.errors.get(name))
        # Without the offsets an assigned partition is unknown: it must not look as if nothing were committed.
        known = bounds if error is None else dict.fromkeys(wanted[name], Bounds(None, None, error))
        owners = {partition: member for member in described[name].members for partition in member.assignment}
        views = tuple(
            _view(partition, offsets.get(partition), known[partition], owners.get(partition), reset)
            for partition in wanted[name]
        )
        groups.append(GroupView(described[name], views, error))
    return Scan(tuple(groups), dict(described.errors))


def _unread(error: SeamarkError | None) -> str:
    return f"{OFFSETS_UNREAD}: {error or 'the coordinator did not return the group'}"


def bounds_of(
    admin: Admin, partitions: Iterable[TopicPartition], *, timeout: float | None = None
) -> dict[TopicPartition, Bounds]:
    """First and next offset of each log."""
    asked = list(partitions)
    logs, unreadable = read_logs(admin, asked, timeout=timeout)
    return {
        partition: Bounds(*logs[partition])
        if partition in logs
        else Bounds(None, None, unreadable.get(partition, "it did not respond"))
        for partition in asked
    }


def _partitions_of(description: GroupDescription, committed: Mapping[TopicPartition, Offset]) -> list[TopicPartition]:
    """What was committed and what is assigned: neither alone is everything that a group reads."""
    return sorted({*committed, *(partition for member in description.members for partition in member.assignment)})


def _add_uncommitted(admin: Admin, wanted: Mapping[str, list[TopicPartition]], timeout: float | None) -> None:
    """Complete the partitions of each topic; a topic that does not exist any more keeps those that were committed."""
    topics = {partition.topic for partitions in wanted.values() for partition in partitions}
    counts = {
        name: len(topic.partitions) for name, topic in admin.describe_topics(sorted(topics), timeout=timeout).items()
    }
    for partitions in wanted.values():
        for topic in {partition.topic for partition in partitions}:
            known = {partition.partition for partition in partitions if partition.topic == topic}
            if len(known) < counts.get(topic, 0):
                partitions += [TopicPartition(topic, index) for index in range(counts[topic]) if index not in known]
                partitions.sort()


def _view(
    partition: TopicPartition, committed: Offset | None, bounds: Bounds, owner: GroupMember | None, reset: str | None
) -> PartitionView:
    offset = None if committed is None else committed.offset
    finished = None
    if committed is not None and committed.metadata:
        finished = done_ahead.decode(committed.metadata, committed.offset)
    lag = lag_of(offset, bounds.log_start, bounds.log_end, reset, finished.ranges if finished else ())
    return PartitionView(partition, committed, bounds, lag, owner)
