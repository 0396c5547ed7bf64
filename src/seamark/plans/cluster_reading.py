"""Reads from a cluster what plans are decided on, through an admin client.

One question per kind of thing, for all groups and partitions at once. Offsets are read as stable ones: those that an
open transaction may still change are waited for. A partition whose log does not answer in time is reported as such and
does not fail the rest; what concerns the groups themselves must be complete and is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from seamark.client import Offset
from seamark.client.errors import BrokerError, UnsupportedByBroker
from seamark.plans.plan import ClusterState, GroupState, LogRange, TopicState
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from seamark.client import Admin
    from seamark.client.admin.types import GroupDescription, GroupMember
    from seamark.client.cluster_view import TopicView

# A leaderless partition would otherwise hold up a dry run for as long as a whole call may take.
_LOG_TIMEOUT_S = 10.0

GroupPartitions = Mapping[str, Iterable[TopicPartition]]


def read_state(admin: Admin, wanted: GroupPartitions, *, timeout: float | None = None) -> ClusterState:
    """The state of these groups and of these partitions in them; an empty list asks for all that a group has."""
    asked = {group: sorted(set(partitions)) or None for group, partitions in wanted.items()}
    cluster_id = admin.describe_cluster(timeout=timeout).cluster_id
    groups = read_groups(admin, asked, timeout=timeout)
    committed = read_committed(admin, asked, timeout=timeout)
    partitions = {TopicPartition(*partition) for some in asked.values() for partition in some or ()}
    partitions |= {partition for offsets in committed.values() for partition in offsets}
    topics = read_topics(admin, {partition.topic for partition in partitions}, timeout=timeout)
    there = [
        partition
        for partition in partitions
        if partition.topic in topics and partition.partition < topics[partition.topic].partition_count
    ]
    logs, unreadable = read_logs(admin, there, timeout=timeout)
    return ClusterState(cluster_id, topics, groups, committed, logs, unreadable)


def read_groups(admin: Admin, groups: Iterable[str], *, timeout: float | None = None) -> dict[str, GroupState]:
    """The groups that exist."""
    described = admin.describe_groups(list(groups), timeout=timeout)
    for error in described.errors.values():
        if not (isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND):
            raise error
    return {name: _group_state(group) for name, group in described.items()}


def read_committed(
    admin: Admin, wanted: Mapping[str, Iterable[TopicPartition] | None], *, timeout: float | None = None
) -> dict[str, dict[TopicPartition, Offset]]:
    """What each group has committed, of the given partitions or (None) of all."""
    if not wanted:
        return {}
    try:
        offsets = admin.list_group_offsets(wanted, require_stable=True, timeout=timeout).raise_if_failed()
    except UnsupportedByBroker:
        # Before 2.5 a broker cannot be asked for stable offsets.
        offsets = admin.list_group_offsets(wanted, timeout=timeout).raise_if_failed()
    return dict(offsets)


def read_topics(admin: Admin, names: Iterable[str], *, timeout: float | None = None) -> dict[str, TopicState]:
    """The topics that exist; one that may not be seen is raised, since it is not the same as one that is gone."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    described = admin.describe_topics(wanted, timeout=timeout)
    for error in described.errors.values():
        if not (isinstance(error, BrokerError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise error
    return {name: _topic_state(topic) for name, topic in described.items()}


def read_logs(
    admin: Admin, partitions: Iterable[TopicPartition], *, timeout: float | None = None
) -> tuple[dict[TopicPartition, LogRange], dict[TopicPartition, str]]:
    """Where each log starts and ends, and why the others could not be looked at."""
    wanted = sorted(partitions)
    if not wanted:
        return {}, {}
    patience = _LOG_TIMEOUT_S if timeout is None else min(timeout, _LOG_TIMEOUT_S)
    starts = admin.list_offsets(dict.fromkeys(wanted, "earliest"), timeout=patience)
    ends = admin.list_offsets(dict.fromkeys(starts, "latest"), timeout=patience)
    unreadable = {partition: str(error) for partition, error in (starts.errors | ends.errors).items()}
    logs = {partition: LogRange(starts[partition].offset, ends[partition].offset) for partition in ends}
    for partition, log in logs.items():
        if min(log) < 0:
            unreadable[partition] = f"ListOffsets returned no start or end of the log ({min(log)})"
    return {partition: log for partition, log in logs.items() if partition not in unreadable}, unreadable


def _group_state(group: GroupDescription) -> GroupState:
    return GroupState(group.state, group.type, group.is_active, tuple(_member(member) for member in group.members))


def _member(member: GroupMember) -> str:
    name = member.instance_id or member.client_id or member.member_id
    return f"{name} at {member.host.removeprefix('/')}"


def _topic_state(topic: TopicView) -> TopicState:
    topic_id = "" if not any(topic.topic_id) else topic.topic_id.hex()
    return TopicState(topic_id, len(topic.partitions))
