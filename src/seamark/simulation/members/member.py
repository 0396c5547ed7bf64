"""A small model of a consumer in a group: join, sync, heartbeats, work, commits, and what each error makes it do.

One periodic call serves heartbeats, work and request timeouts. The leader runs Seamark's own assignors. A member that
was fenced ends; every other error leads back into the group.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from seamark.assignors import Assignor, ClusterTopics, MemberSubscription, RangeAssignor, RoundRobinAssignor
from seamark.coordinator.commands import (
    Command,
    CommitOffsets,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SyncGroup,
)
from seamark.coordinator.replies import (
    CommitReply,
    FetchReply,
    HeartbeatReply,
    JoinedMember,
    JoinReply,
    Reply,
    SyncReply,
)
from seamark.simulation.members.clients import Client
from seamark.simulation.world.connections import Connection
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.network import Network
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from seamark.wire.protocol.error_codes import ErrorCode

PROTOCOL_TYPE = "consumer"
ASSIGNORS: dict[str, Assignor] = {each.name: each for each in (RangeAssignor(), RoundRobinAssignor())}
_REQUEST_TIMEOUT_MS = 8000
_FENCED = ErrorCode.FENCED_INSTANCE_ID
_UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


class Phase(Enum):
    DOWN = "down"
    JOINING = "joining"
    SYNCING = "syncing"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What a consumer is configured with."""

    group_id: str
    topics: tuple[str, ...]
    protocols: tuple[str, ...]
    instance_id: str | None = None
    session_timeout_ms: int = 6000
    rebalance_timeout_ms: int = 8000
    heartbeat_ms: int = 2000
    commit_chance: float = 0.6
    requires_known_id: bool = True
    skips_assignment: bool = True
    requires_stable: bool = True


class ModelMember(Client):
    """Implements ``clients.Member``."""

    def __init__(
        self,
        name: str,
        settings: MemberSettings,
        cluster: ClusterTopics,
        loop: EventLoop,
        rng: random.Random,
        network: Network,
    ) -> None:
        super().__init__(name, loop, rng, network)
        self.settings = settings
        self.group_id = settings.group_id
        self.instance_id = settings.instance_id
        self.topics = settings.topics
        self._cluster = cluster
        subscription = encode_subscription(Subscription(topics=list(settings.topics)), 1)
        self._offer = [(protocol, subscription) for protocol in settings.protocols]
        # Counts processes: calls made for an earlier one do nothing.
        self._life = 0
        self._reset()

    def _reset(self) -> None:
        self.phase = Phase.DOWN
        self.member_id = ""
        self.generation = -1
        self.owned: list[tuple[str, int]] = []
        self.is_turned_away = False
        self._protocol: str | None = None
        self._positions: dict[tuple[str, int], int] = {}
        # The request whose answer decides how to go on, and since when it is waited for.
        self._awaited = -1
        self._awaited_since_ms = 0
        self._paused_until_ms = 0

    @property
    def is_running(self) -> bool:
        return self.phase is not Phase.DOWN

    @property
    def is_settled(self) -> bool:
        return self.phase is Phase.SETTLED

    # -- what a lifetime does to it

    def start(self) -> None:
        if self.phase is Phase.DOWN and not self.is_silent:
            self._life += 1
            self._reset()
            self.phase = Phase.JOINING
            self._join()
            self._loop.call_later(int(self._rng.random() * self.settings.heartbeat_ms) + 1, self._tick, self._life)

    def crash(self) -> None:
        self._life += 1
        self._hang_up()
        self.phase = Phase.DOWN

    def leave(self) -> None:
        if self.member_id:
            self._send(LeaveGroup(self.group_id, [LeavingMember(self.member_id, self.instance_id)]))
        self._life += 1
        self.phase = Phase.DOWN
        self._connection = None

    def pause(self, duration_ms: int) -> None:
        self._paused_until_ms = self._loop.now_ms + duration_ms

    # -- time

    def _tick(self, life: int) -> None:
        if life != self._life:
            return
        settings = self.settings
        loop = self._loop
        if loop.now_ms < self._paused_until_ms:
            loop.call_at(self._paused_until_ms, self._tick, life)
            return
        if self.phase is Phase.SETTLED and (self._awaited < 0 or self._is_overdue(_REQUEST_TIMEOUT_MS)):
            if self._awaited >= 0:
                self._give_connection_up()
            else:
                self._work()
                self._awaited = self._send(Heartbeat(self.group_id, self.member_id, self.generation, self.instance_id))
                self._awaited_since_ms = loop.now_ms
        elif self.phase is not Phase.SETTLED and self._is_overdue(
            _REQUEST_TIMEOUT_MS + settings.rebalance_timeout_ms if self._awaited >= 0 else 0
        ):
            self._give_connection_up()
        loop.call_later(settings.heartbeat_ms, self._tick, life)

    def _is_overdue(self, patience_ms: int) -> bool:
        return self._loop.now_ms - self._awaited_since_ms >= patience_ms

    def _give_connection_up(self) -> None:
        if self._connection is None:
            self._retry()
        else:
            self._network.break_connection(self._connection)

    def on_disconnect(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            self._awaited = -1
            if self.phase is not Phase.DOWN:
                self._retry_later()

    def _retry_later(self) -> None:
        """Try what was under way once more, after a moment."""
        self._awaited = -1
        self._awaited_since_ms = self._loop.now_ms
        self._loop.call_later(20 + int(self._rng.random() * 300), self._retry_in, self._life)

    def _retry_in(self, life: int) -> None:
        if life == self._life:
            self._retry()

    def _retry(self) -> None:
        if self.phase is not Phase.SETTLED and self._awaited < 0:
            self._join()

    # -- membership

    def _join(self) -> None:
        settings = self.settings
        self.phase = Phase.JOINING
        self._awaited = self._send(
            JoinGroup(
                self.group_id,
                self.member_id,
                settings.session_timeout_ms,
                settings.rebalance_timeout_ms,
                PROTOCOL_TYPE,
                self._offer,
                settings.instance_id,
                settings.requires_known_id,
                settings.skips_assignment,
                self.name,
            )
        )
        self._awaited_since_ms = self._loop.now_ms

    def _rejoin(self, code: ErrorCode) -> None:
        """Go back into the group as the error allows."""
        if code is _FENCED:
            # Another process has this identity; two would take turns for ever.
            self.crash()
            return
        if code in _FORGOTTEN:
            self.member_id = ""
            self.generation = -1
        self.phase = Phase.JOINING
        if code in _STALE:
            self._join()
        else:
            self._retry_later()

    def on_reply(self, connection: Connection, correlation: int, command: Command, reply: Reply) -> None:
        if connection is not self._connection:
            return
        if self._loop.now_ms < self._paused_until_ms:
            # Read when the process goes on.
            self._loop.call_at(self._paused_until_ms, self.on_reply, connection, correlation, command, reply)
            return
        kind = type(reply)
        if kind is CommitReply:
            self._on_commit(command, reply)  # type: ignore[arg-type]
        elif kind is FetchReply:
            self._on_fetch(reply)  # type: ignore[arg-type]
        elif correlation == self._awaited:
            self._awaited = -1
            if kind is HeartbeatReply:
                self._on_heartbeat(command, reply)  # type: ignore[arg-type]
            elif kind is JoinReply:
                self._on_join(reply)  # type: ignore[arg-type]
            elif kind is SyncReply:
                self._on_sync(command, reply)  # type: ignore[arg-type]

    def _on_join(self, reply: JoinReply) -> None:
        code = reply.error
        self.is_turned_away = code is ErrorCode.GROUP_MAX_SIZE_REACHED
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self._join()
        elif self.is_turned_away:
            self.member_id = ""
            self._retry_later()
        elif code is not ErrorCode.NONE:
            self._rejoin(code)
        else:
            self.member_id = reply.member_id
            self.generation = reply.generation
            self._protocol = reply.protocol_name
            is_leader = reply.leader == reply.member_id and not reply.skip_assignment
            self.phase = Phase.SYNCING
            self._awaited = self._send(
                SyncGroup(
                    self.group_id,
                    self.member_id,
                    self.generation,
                    self._assign(reply.members) if is_leader else (),
                    self.instance_id,
                    reply.protocol_type,
                    reply.protocol_name,
                    protocol_required=True,
                )
            )
            self._awaited_since_ms = self._loop.now_ms

    def _assign(self, members: list[JoinedMember]) -> list[tuple[str, bytes]]:
        """The leader's part: who gets what."""
        subscriptions = [
            MemberSubscription(member_id, _topics_in(metadata), instance_id=instance_id)
            for member_id, instance_id, metadata in members
        ]
        assignments = ASSIGNORS[self._protocol or ""].assign(self._cluster, subscriptions)
        return [(member_id, _encoded(each.partitions)) for member_id, each in assignments.items()]

    def _on_sync(self, command: SyncGroup, reply: SyncReply) -> None:
        if self.phase is not Phase.SYNCING or command.generation != self.generation:
            return
        if reply.error is not ErrorCode.NONE:
            self._rejoin(reply.error)
            return
        self.phase = Phase.SETTLED
        self.owned = list(_partitions_in(reply.assignment))
        self._positions = {}
        self._fetch()

    def _on_heartbeat(self, command: Heartbeat, reply: HeartbeatReply) -> None:
        if self.phase is not Phase.SETTLED or command.generation != self.generation:
            return
        code = reply.error
        if code is ErrorCode.NONE or code in _COORDINATOR_ELSEWHERE:
            return
        if code is ErrorCode.REBALANCE_IN_PROGRESS and self._rng.random() < 0.5:
            self._commit()
        self._rejoin(code)

    # -- work

    def _fetch(self) -> None:
        if self.owned:
            self._send(FetchOffsets(self.group_id, _by_topic(self.owned), self.settings.requires_stable))

    def _work(self) -> None:
        if not self._positions:
            self._fetch()
            return
        draw = self._rng.random()
        for partition in self._positions:
            self._positions[partition] += 1 + int(draw * 7)
        if draw < self.settings.commit_chance:
            self._commit()

    def _commit(self) -> None:
        topics: dict[str, list[OffsetToCommit]] = {}
        for (topic, partition), position in self._positions.items():
            topics.setdefault(topic, []).append(OffsetToCommit(partition, position))
        if topics:
            self._send(
                CommitOffsets(self.group_id, list(topics.items()), self.generation, self.member_id, self.instance_id)
            )

    def _on_commit(self, command: CommitOffsets, reply: CommitReply) -> None:
        code = reply.topics[0][1][0][1]
        if (
            code in _STALE
            and self.phase is Phase.SETTLED
            and command.generation == self.generation
            and command.member_id == self.member_id
        ):
            self._awaited = -1
            self._rejoin(code)

    def _on_fetch(self, reply: FetchReply) -> None:
        # One that failed is asked for again at the next tick.
        if self.phase is Phase.SETTLED and reply.error is ErrorCode.NONE:
            owned = self.owned
            self._positions = {
                (topic, each.partition): max(each.offset, 0)
                for topic, offsets in reply.topics
                for each in offsets
                if (topic, each.partition) in owned
            }


_STALE = (
    _UNKNOWN,
    _FENCED,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_FORGOTTEN = (_UNKNOWN, ErrorCode.GROUP_ID_NOT_FOUND)
_COORDINATOR_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


# Few different ones come by again and again in a lifetime.
@lru_cache(maxsize=256)
def _topics_in(subscription: bytes) -> tuple[str, ...]:
    return tuple(decode_subscription(subscription).topics)


@lru_cache(maxsize=256)
def _partitions_in(assignment: bytes) -> tuple[tuple[str, int], ...]:
    if not assignment:
        return ()
    return tuple(
        (entry.topic, partition)
        for entry in decode_assignment(assignment).assigned_partitions
        for partition in entry.partitions
    )


def _by_topic(partitions: list[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())


def _encoded(partitions: tuple[TopicPartition, ...]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return encode_assignment(
        Assignment(assigned_partitions=[TopicPartitions(topic=name, partitions=each) for name, each in topics.items()]),
        1,
    )
