"""Faults of groups and their coordinators, as a part of ``broker.faults``.

    expire_member(group, member)      the member's session ends now
    move_coordinator(group, node)     another node coordinates the group
    hold_loading(group)               the coordinator answers as one that is loading, until the hold is released

All may be called from any thread and have taken effect on return. A group or member that is not there is a
``UsageError`` whose sentence says what is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from seamark.broker.cluster.cluster import Cluster
from seamark.broker.groups.runtime import GroupRuntime
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import Member
from seamark.coordinator.membership.timers import SESSION_TIMER
from seamark.errors import UsageError


class FaultyNode(Protocol):
    """A node, as far as faults are done to it."""

    # Every request is handled this much later.
    delay_seconds: float

    @property
    def id(self) -> int: ...

    @property
    def groups(self) -> GroupRuntime: ...


class FaultyBroker(Protocol):
    """What faults are done to."""

    @property
    def nodes(self) -> Sequence[FaultyNode]: ...

    @property
    def cluster(self) -> Cluster: ...


class LoadingHold:
    """A coordinator that does not finish loading; ``release`` it, or leave its ``with`` block."""

    def __init__(self, faults: GroupFaults, partition: int) -> None:
        self._faults = faults
        self._partition = partition
        self._is_held = True
        self._each(lambda runtime: runtime.hold(partition))
        faults.loading_holds.append(self)

    def release(self) -> None:
        """Let the load go on; a second call does nothing."""
        if self._is_held:
            self._is_held = False
            self._faults.loading_holds.remove(self)
            self._each(lambda runtime: runtime.release(self._partition))

    def _each(self, action: Callable[[GroupRuntime], None]) -> None:
        def act() -> None:
            for runtime in self._faults.runtimes:
                action(runtime)

        self._faults.call(act)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class GroupFaults:
    """Mixed into ``seamark.broker.faults.requests.Faults``."""

    broker: FaultyBroker
    call: Callable[[Callable[[], Any]], Any]
    # Those that were not released.
    loading_holds: list[LoadingHold]

    def expire_member(self, group: str, member: str) -> None:
        """End the session of a member, named by its member id or instance id, as if it had been silent for too long."""
        self.call(lambda: self._expire(group, member))

    def move_coordinator(self, group: str, node: int) -> None:
        """Make ``broker.nodes[node]`` the coordinator of the group, as after an election."""

        def move() -> None:
            if not 0 <= node < len(self.broker.nodes):
                raise UsageError(f"the broker has nodes 0 to {len(self.broker.nodes) - 1}, there is no {node}")
            cluster = self.broker.cluster
            partition = cluster.create_offsets_topic().partition(self._partition_of(group))
            if partition is not None and partition.leader != self.broker.nodes[node].id:
                cluster.move_leader(partition, self.broker.nodes[node].id)

        self.call(move)

    def hold_loading(self, group: str) -> LoadingHold:
        """Let the group's coordinator load from the start again and not come to an end, also when it moves."""

        def partition() -> int:
            self.broker.cluster.create_offsets_topic()
            return self._partition_of(group)

        return LoadingHold(self, self.call(partition))

    # -- on the event loop's thread

    @property
    def runtimes(self) -> list[GroupRuntime]:
        return [node.groups for node in self.broker.nodes]

    def _partition_of(self, group: str) -> int:
        return self.runtimes[0].partition_for(group)

    def _expire(self, group_id: str, name: str) -> None:
        runtime, group = self._live_group(group_id)
        member = group.members.get(group.static_ids.get(name, name))
        if member is None:
            known = ", ".join(map(_describe, group.members.values())) or "none"
            raise UsageError(f"group {group_id} has no member {name}; its members are: {known}")
        runtime.expire((runtime.partition_for(group_id), SESSION_TIMER, group_id, member.member_id), member)

    def _live_group(self, group_id: str) -> tuple[GroupRuntime, Group]:
        for runtime in self.runtimes:
            shard = runtime.coordinator.shards.get(runtime.partition_for(group_id))
            if shard is not None and group_id in shard.groups:
                return runtime, shard.groups[group_id]
        raise UsageError(f"there is no group {group_id}")


def _describe(member: Member) -> str:
    return member.member_id if member.instance_id is None else f"{member.member_id} ({member.instance_id})"
