"""One look at the groups of a cluster: what they committed, what their logs hold, who reads what.

A look is a bounded number of requests, whatever the number of groups: groups are described, their offsets read and the
bounds of all their partitions listed in batches. What does not answer is shown as not answering; it never takes the
rest with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.client.admin import Admin
from seamark.client.admin_types import GroupDescription, GroupMember
from seamark.client.records_api import Offset
from seamark.errors import SeamarkError
from seamark.plans.cluster_reading import read_logs
from seamark.rules.lag import Lag, lag_of
from seamark.topic_partition import TopicPartition
from seamark.wire import done_ahead
from seamark.wire.done_ahead import DoneAhead


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one log; ``error`` says why they are unknown."""

    log_start: int | None
    log_end: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as a group stands to it; ``done_ahead`` counts what our parallel consumer finished beyond."""

    partition: TopicPartition
    committed: Offset | None
    bounds: Bounds
    lag: Lag
    owner: GroupMember | None
    done_ahead: int | None


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
        """The sum over what answered; None if nothing did."""
        known = [view.lag.records for view in self.partitions if view.lag.records is not None]
        return sum(known) if known or not self.partitions else None

    @property
    def partitions_unknown(self) -> int:
        return sum(view.lag.records is None for view in self.partitions)


@dataclass(frozen=True, slots=True)
class Scan:
    """Groups that were found, in order of their names, and those that were not, with the reason."""

    groups: tuple[GroupView, ...]
    failed: Mapping[str, SeamarkError]


def scan(
    admin: Admin,
    group_ids: Sequence[str] | None = None,
    *,
    reset: str = "earliest",
    timeout: float | None = None,
) -> Scan:
    """Look at the named groups, or at all; ``reset`` is where a partition without a commit is counted from."""
    described = admin.describe_groups(group_ids, timeout=timeout)
    committed = admin.list_group_offsets(list(described), timeout=timeout)
    wanted = {
        name: _partitions_of(description, committed.values_by_key.get(name, {}))
        for name, description in described.items()
    }
    bounds = bounds_of(admin, {each for partitions in wanted.values() for each in partitions}, timeout=timeout)
    groups = []
    for name in sorted(described):
        offsets = committed.values_by_key.get(name, {})
        error = committed.errors.get(name)
        owners = {each: member for member in described[name].members for each in member.assignment}
        views = tuple(
            _view(partition, offsets.get(partition), bounds[partition], owners.get(partition), reset)
            for partition in wanted[name]
        )
        groups.append(GroupView(described[name], views, None if error is None else str(error)))
    return Scan(tuple(groups), dict(described.errors))


def bounds_of(
    admin: Admin, partitions: Iterable[TopicPartition], *, timeout: float | None = None
) -> dict[TopicPartition, Bounds]:
    """First and next offset of each log."""
    asked = list(partitions)
    logs, unreadable = read_logs(admin, asked, timeout=timeout)
    return {
        each: Bounds(*logs[each]) if each in logs else Bounds(None, None, unreadable.get(each, "it did not answer"))
        for each in asked
    }


def _partitions_of(description: GroupDescription, committed: Mapping[TopicPartition, Offset]) -> list[TopicPartition]:
    """What was committed and what is assigned: neither alone is everything that a group reads."""
    return sorted({*committed, *(each for member in description.members for each in member.assignment)})


def _view(
    partition: TopicPartition, committed: Offset | None, bounds: Bounds, owner: GroupMember | None, reset: str
) -> PartitionView:
    offset = None if committed is None else committed.offset
    ahead = None
    if committed is not None and committed.metadata:
        found = done_ahead.read(committed.metadata, committed.offset)
        ahead = found.count if isinstance(found, DoneAhead) else None
    lag = lag_of(offset, bounds.log_start, bounds.log_end, reset)
    return PartitionView(partition, committed, bounds, lag, owner, ahead)
