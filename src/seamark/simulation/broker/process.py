"""One process of a simulated broker: the real shell of groups, its storage and its maintenance, in virtual time.

``runtime`` is what ships, and so are the partitions, the storage that syncs them, the timers and the maintenance. They
are given a virtual loop, a virtual clock and a simulated disk, and are watched where they meet the coordinator and the
log. When the process ends, nothing of it runs any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from seamark.broker.clock import LoopTimers
from seamark.broker.cluster.topics import OFFSETS_TOPIC, Topic
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.config.topic_configs import TopicConfig, values_without_own
from seamark.broker.groups.runtime import GroupRuntime
from seamark.broker.log.maintenance import Maintenance
from seamark.broker.log.partition import NO_LEADER, Partition
from seamark.errors import SeamarkError
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.broker.virtual_loop import (
    NoThread,
    ProcessLoop,
    Timing,
    VirtualClock,
    VirtualSyncs,
    VirtualTurns,
)
from seamark.simulation.broker.watch import Watch, WatchedCoordinator, WatchedPartition, WatchedStorage
from seamark.simulation.world.disk import Crashed, SimulatedDisk
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event
from seamark.storage import LogSettings, OpenFiles

_DIRECTORY = "data"
# How much of its turn a step of loading takes at most.
_STEP_SECONDS = 0.004


class OffsetsCluster:
    """The offsets topic and how many partitions the others have; there is one node, and it leads."""

    def __init__(self, topics: Mapping[str, int], topic: Topic) -> None:
        self._topics = topics
        self.topic = topic

    def partition_count(self, topic_name: str) -> int | None:
        return len(self.topic.partitions) if topic_name == OFFSETS_TOPIC else self._topics.get(topic_name)

    def partitions(self) -> Iterator[Partition]:
        yield from self.topic.partitions

    def rebalance_leaders(self) -> None:
        """Its leader is the preferred one."""


def broker_settings(backoff_ms: int, load_buffer_bytes: int) -> BrokerSettings:
    """The settings of a broker whose maintenance and loads are worth watching in a minute."""
    return BrokerSettings(
        {
            "auto.leader.rebalance.enable": "false",
            "log.cleaner.backoff.ms": backoff_ms,
            "log.retention.check.interval.ms": 10_000,
            "offsets.load.buffer.size": load_buffer_bytes,
        }
    )


_OTHER_VALUES = values_without_own(BrokerSettings())


def offsets_topic_config(log_settings: LogSettings) -> TopicConfig:
    config = TopicConfig({"cleanup.policy": ["compact"]}, _OTHER_VALUES, log_settings.durability)
    config.log_settings = log_settings
    return config


class BrokerProcess:
    """Implements ``CoordinatorNode`` and ``KeptBroker``. ``crashed`` is called when the disk ends it."""

    def __init__(
        self,
        loop: EventLoop,
        rng: random.Random,
        events: list[Event],
        disk: SimulatedDisk,
        invariants: Invariants,
        *,
        settings: BrokerSettings,
        config: TopicConfig,
        topics: Mapping[str, int],
        make_id: Callable[[], str],
        timing: Timing,
        crashed: Callable[[], None],
    ) -> None:
        self._virtual = loop
        self._rng = rng
        self._timing = timing
        self._crashed = crashed
        self._make_id = make_id
        self.is_alive = True
        self.settings = settings
        self.loop = ProcessLoop(loop, rng, self.enter, timing)
        self.clock = VirtualClock(self.loop, timing)
        self.timers = LoopTimers(self.loop, self.clock)  # type: ignore[arg-type]
        self.turns = VirtualTurns(self.loop, rng)
        self.reading_thread = NoThread(self.loop)  # type: ignore[arg-type]
        # So few that segments lose their files while they are written to, synced and compacted.
        open_files = OpenFiles(1 + int(rng.random() * 3))
        self._syncs = VirtualSyncs(self.loop, rng, open_files, timing)
        self.watch = Watch(loop, events, disk, invariants, self._deliver, self._syncs.lose_files)
        self.storage = WatchedStorage(
            _DIRECTORY,
            config.log_settings.durability,
            self.clock,
            self.timers,
            disk=disk,
            open_files=open_files,
            syncs=self._syncs,
        )
        self.storage.watch = self.watch
        topic = Topic(OFFSETS_TOPIC, bytes(16), config)
        topic.partitions = [
            WatchedPartition(topic, number, self.storage, self.watch) for number in range(len(invariants.books))
        ]
        self.partitions = topic.partitions
        self.cluster = OffsetsCluster(topics, topic)
        # By partition, when its last acknowledgement is handed on.
        self._acknowledging_ms = [0] * len(self.partitions)
        self._loading_seconds = 0.0
        # What is to happen in the middle of the next load.
        self.while_loading: Callable[[], None] | None = None
        self.runtime = GroupRuntime(self, self._coordinator, self._seconds)
        self.maintenance = Maintenance(self)
        self.runtime.start()
        self.maintenance.start()

    def _coordinator(self, *arguments: Any, **more: Any) -> WatchedCoordinator:
        return WatchedCoordinator(self.watch, *arguments, **{**more, "make_id": self._make_id})

    def _seconds(self) -> float:
        """The time that loading takes: a turn has few steps or many."""
        if self.while_loading is not None and self._rng.random() < 0.2:
            self.loop.call_after_ms(0, self.while_loading)
            self.while_loading = None
        self._loading_seconds += self._rng.random() ** 2 * _STEP_SECONDS
        return self._loading_seconds

    def enter(self, call: Callable[..., None], *arguments: Any) -> None:
        """Let something happen in the process; a crash of the disk in it is the end of the process."""
        if not self.is_alive:
            return
        try:
            call(*arguments)
        except Crashed:
            self._crashed()
        else:
            if self.watch.given_up:
                self.watch.check_given_up()

    def _deliver(self, number: int, acknowledge: Callable[[], None]) -> None:
        """Hand an acknowledgement on when the disk's timing allows."""
        timing = self._timing
        if timing.reorders or (timing.delay_ms and self.storage.acknowledges_at_once):
            delay_ms = int(self._rng.random() * timing.delay_ms)
            at_ms = self._virtual.now_ms + delay_ms
            if not timing.reorders:
                at_ms = self._acknowledging_ms[number] = max(at_ms, self._acknowledging_ms[number])
            self.loop.call_after_ms(at_ms - self._virtual.now_ms, acknowledge)
        else:
            acknowledge()

    # -- partitions

    def lead(self, number: int, epoch: int, loading_ms: int) -> None:
        """Begin to lead a partition, whose load takes a while; raises StorageFailed where its log cannot be opened."""
        partition = self.partitions[number]
        if self.storage.has_log(partition):
            log_end = partition.log.log_end
        else:
            log_end = 0
        partition.leader = 0
        partition.leader_epoch = epoch
        partition.epochs.begin(epoch, log_end)
        self.runtime.hold(number)
        self.loop.call_after_ms(loading_ms, self.runtime.release, number)
        self.runtime.became_leader(partition)

    def lose(self, number: int) -> None:
        """Lead a partition no more; its log stays open, as for another node."""
        partition = self.partitions[number]
        partition.leader = NO_LEADER
        self.runtime.lost_leadership(partition)
        self.watch.check_given_up()

    def note_failure(self, place: str, error: SeamarkError) -> None:
        self.watch.note("disk", place, str(error))

    def note_storage_failure(self, partition: Partition, error: SeamarkError) -> None:
        self.note_failure(partition.name, error)

    # -- the end

    def stop(self) -> None:
        """End in an orderly way."""
        self.maintenance.stop()
        self.runtime.stop()
        self.watch.check_given_up()
        self.timers.close()
        with suppress(StopIteration):
            self.storage.close().send(None)
        for partition in self.partitions:
            try:
                partition.close()
            except SeamarkError as error:
                self.note_failure(partition.name, error)

    def end(self) -> None:
        """Nothing more happens here."""
        self.is_alive = False
        with suppress(Crashed):
            self.maintenance.stop()
