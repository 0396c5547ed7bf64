"""Nodes with group coordinators on one store in memory, without sockets, threads or an event loop.

``turn`` lets happen what an event loop would do next; ``advance`` moves the clock. Answers are kept by the asker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from seamark.broker.clock import BrokerClock
from seamark.broker.cluster.cluster import Cluster
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.groups.runtime import GroupRuntime
from seamark.broker.log.partition import Partition
from seamark.broker.log.storage import LogStorage
from seamark.broker.sharing.turns import Turns
from seamark.coordinator.commands import Command, CommitOffsets, FetchOffsets, JoinGroup, SyncGroup
from seamark.coordinator.replies import CommitReply, FetchReply
from seamark.storage.settings import Durability
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records import read_records


def finished(answer: Any) -> Any:
    """What a handler answers, whether it works in steps or not."""
    if not isinstance(answer, Generator):
        return answer
    while True:
        try:
            next(answer)
        except StopIteration as end:
            return end.value


class Asker:
    """Keeps its one reply."""

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def reply_value(self, value: Any) -> None:
        self.replies.append(value)

    @property
    def reply(self) -> Any:
        assert len(self.replies) == 1, f"answered {len(self.replies)} times"
        return self.replies[0]


class ManualClock(BrokerClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = 0.0
        self._stepped_ms = 0

    def monotonic(self) -> float:
        return 100.0 + self._moved

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self._moved * 1000) + self._stepped_ms

    def advance(self, seconds: float) -> None:
        self._moved += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock to another time, while as long as before passes."""
        self._stepped_ms += int(seconds * 1000)


class ManualTimers:
    def __init__(self, clock: BrokerClock) -> None:
        self._clock = clock
        self._waiting: list[SimpleNamespace] = []

    def call_after(self, seconds: float, callback: Callable[[], None]) -> SimpleNamespace:
        timer = SimpleNamespace(deadline=self._clock.monotonic() + seconds, callback=callback)
        timer.cancel = lambda: self._waiting.remove(timer) if timer in self._waiting else None
        self._waiting.append(timer)
        return timer

    def fire_due(self) -> None:
        while due := [each for each in self._waiting if each.deadline <= self._clock.monotonic() + 1e-9]:
            first = min(due, key=lambda each: each.deadline)
            self._waiting.remove(first)
            first.callback()


class World:
    """``nodes`` share a cluster; node n's coordinator is ``groups[n]``."""

    def __init__(self, nodes: int = 1, settings: Mapping[str, object] | None = None) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.soon: list[Callable[[], None]] = []
        self.settings = BrokerSettings({"group.initial.rebalance.delay.ms": 0, **(settings or {})})
        storage = LogStorage(None, Durability.OS, self.clock, self.timers)  # type: ignore[arg-type]
        self.cluster = Cluster(self.settings, storage)
        for number in range(nodes):
            node: Any = SimpleNamespace(
                id=number,
                is_running=True,
                loop=SimpleNamespace(call_soon=lambda step, *given: self.soon.append(partial(step, *given))),
                cluster=self.cluster,
                settings=self.settings,
                clock=self.clock,
                timers=self.timers,
            )
            node.turns = Turns(node.loop)
            node.groups = GroupRuntime(node)
            node.parts = [node.groups]
            self.cluster.nodes.append(node)
            node.groups.start()

    @property
    def groups(self) -> list[GroupRuntime]:
        return [node.groups for node in self.cluster.nodes]

    def with_offsets_topic(self) -> World:
        """Make the offsets topic and load all of it."""
        self.cluster.create_offsets_topic()
        self.settle()
        return self

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self.cluster.create_topic(name, [[0]] * partitions, {})

    def turn(self) -> None:
        """What is waiting for the next turn of the loop."""
        waiting = self.soon[:]
        self.soon.clear()
        for callback in waiting:
            callback()

    def settle(self) -> None:
        while self.soon:
            self.turn()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.timers.fire_due()
        self.settle()

    def ask(self, command: Command, node: int = 0) -> Asker:
        """Submit, without letting anything else happen."""
        asker = Asker()
        self.groups[node].submit(command, asker)
        return asker

    def commit(self, group: str, offset: int = 1, topic: str = "t", node: int = 0, **more: Any) -> Asker:
        return self.ask(CommitOffsets(group, [(topic, [(0, offset, -1, "")])], **more), node)  # type: ignore[list-item]

    def committed(self, group: str, topic: str = "t", node: int = 0) -> int:
        reply: FetchReply = self.ask(FetchOffsets(group, [(topic, [0])]), node).reply
        assert reply.error is ErrorCode.NONE, reply
        return reply.topics[0][1][0].offset

    def join(self, group: str, member_id: str = "", node: int = 0, **more: Any) -> Asker:
        fields: dict[str, Any] = {"require_known_member_id": False, **more}
        asked = self.ask(JoinGroup(group, member_id, 10_000, 30_000, "consumer", [("range", b"")], **fields), node)
        # Without an initial delay the join is complete in the next turn.
        self.timers.fire_due()
        return asked

    def form_group(self, group: str, **more: Any) -> str:
        """A stable group of one member; returns its id."""
        joined = self.join(group, **more).reply
        synced = self.ask(SyncGroup(group, joined.member_id, joined.generation, [(joined.member_id, b"all")]))
        self.settle()
        assert synced.reply.error is ErrorCode.NONE
        return str(joined.member_id)

    def partition(self, group: str) -> Partition:
        topic = self.cluster.offsets_topic()
        assert topic is not None
        return topic.partitions[self.groups[0].partition_for(group)]

    def log_keys(self, partition: Partition) -> list[bytes | None]:
        log = partition.log
        return [record.key for record in read_records(log.read(log.log_start, 1 << 30))] if log.log_end else []


def codes(asker: Asker) -> list[ErrorCode]:
    reply: CommitReply = asker.reply
    return [code for _, found in reply.topics for _, code in found]
