"""Clients that are not members: simple consumers, zombies with a member's old credentials, and administrators.

None of them waits for an answer; what they are answered is checked where it leaves the broker.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from seamark.coordinator.commands import (
    Command,
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
    SyncGroup,
)
from seamark.coordinator.replies import Reply
from seamark.simulation.members.clients import Client, Member
from seamark.simulation.world.connections import Connection
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.network import Network


class Bystander(Client):
    """Calls ``act`` every now and then until it is silenced."""

    def __init__(
        self, name: str, loop: EventLoop, rng: random.Random, network: Network, *, pause_ms: int, times: int = -1
    ) -> None:
        super().__init__(name, loop, rng, network)
        self._pause_ms = pause_ms
        self._times = times
        loop.call_later(int(rng.random() * pause_ms), self._turn)

    def _turn(self) -> None:
        if self.is_silent or self._times == 0:
            self._hang_up()
            return
        self._times -= 1
        self._send(self.act())
        self._loop.call_later(self._pause_ms // 2 + int(self._rng.random() * self._pause_ms), self._turn)

    def act(self) -> Command:
        raise NotImplementedError

    def on_reply(self, connection: Connection, correlation: int, command: Command, reply: Reply) -> None:
        pass

    def on_disconnect(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None


class SimpleConsumer(Bystander):
    """Commits without membership, to a group of its own or into one where it has no business."""

    def __init__(
        self,
        name: str,
        loop: EventLoop,
        rng: random.Random,
        network: Network,
        *,
        groups: Sequence[str],
        topics: dict[str, int],
    ) -> None:
        super().__init__(name, loop, rng, network, pause_ms=2500)
        self._groups = groups
        self._topics = list(topics.items())

    def act(self) -> Command:
        rng = self._rng
        # Mostly its own group, which is the first.
        group_id = self._groups[int(rng.random() ** 3 * len(self._groups))]
        topic, count = rng.choice(self._topics)
        draw = rng.random()
        if draw < 0.2:
            return FetchOffsets(group_id, None if draw < 0.1 else [(topic, list(range(count)))], draw < 0.05)
        metadata = "m" * (5000 if draw > 0.95 else int(draw * 10))
        # One partition in ten does not exist.
        partitions = [OffsetToCommit(int(rng.random() * count * 1.1), int(rng.random() * 100), -1, metadata)]
        retention_ms = 10_000 if draw > 0.85 else -1
        return CommitOffsets(group_id, [(topic, partitions)], retention_ms=retention_ms)


class Zombie(Bystander):
    """Has a member's credentials of some moment and goes on using them."""

    def __init__(self, name: str, loop: EventLoop, rng: random.Random, network: Network, *, member: Member) -> None:
        super().__init__(name, loop, rng, network, pause_ms=1500, times=6)
        self._group_id = member.group_id
        self._member_id = member.member_id
        self._instance_id = member.instance_id if rng.random() < 0.8 else None
        self._generation = member.generation
        self._partitions = list(member.owned) or [(member.topics[0], 0)]

    def act(self) -> Command:
        draw = self._rng.random()
        if draw < 0.1:
            return Heartbeat(self._group_id, self._member_id, self._generation, self._instance_id)
        if draw < 0.15:
            return SyncGroup(self._group_id, self._member_id, self._generation, (), self._instance_id)
        generation = self._generation
        # A guess; not from -1 to 0, which is the number of a group before its first generation.
        if draw > 0.9 and generation > 0:
            generation += 1 if draw > 0.95 else -1
        topic, partition = self._partitions[int(self._rng.random() * len(self._partitions))]
        offsets = [OffsetToCommit(partition, int(self._rng.random() * 50))]
        return CommitOffsets(self._group_id, [(topic, offsets)], generation, self._member_id, self._instance_id)


class Administrator(Bystander):
    """Looks at groups, and deletes what it should and should not."""

    def __init__(
        self,
        name: str,
        loop: EventLoop,
        rng: random.Random,
        network: Network,
        *,
        groups: Sequence[str],
        topics: dict[str, int],
        instances: Sequence[tuple[str, str]],
    ) -> None:
        super().__init__(name, loop, rng, network, pause_ms=4000)
        self._groups = groups
        self._topics = list(topics.items())
        self._instances = instances

    def act(self) -> Command:
        rng = self._rng
        draw = rng.random()
        group_id = self._groups[int(rng.random() * len(self._groups))]
        topic, count = rng.choice(self._topics)
        if draw < 0.15:
            return DescribeGroups(list(self._groups))
        if draw < 0.25:
            return ListGroups(("stable",) if draw < 0.2 else ())
        if draw < 0.5:
            return DeleteGroups(list(self._groups) if draw < 0.3 else [group_id])
        if draw < 0.75:
            return DeleteOffsets(group_id, [(topic, list(range(count)))])
        if draw < 0.8:
            return ForgetTopics([topic])
        if draw < 0.9 and self._instances:
            owner, instance_id = rng.choice(self._instances)
            return LeaveGroup(owner, [LeavingMember("", instance_id)])
        return FetchOffsets(group_id, None, True)
