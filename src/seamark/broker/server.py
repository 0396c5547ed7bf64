"""The broker on its event loop: made from settings, started, stopped; what holds all parts together.

Everything here runs on one thread. ``seamark.broker.embedded`` puts it on a thread of its own for tests, ``seamark
broker`` runs it in the foreground.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from seamark.addresses import parse_address
from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.clock import BrokerClock, LoopTimers
from seamark.broker.cluster.cluster import Cluster, check_node_count
from seamark.broker.cluster.state import DirectoryLock
from seamark.broker.cluster.topics import OFFSETS_TOPIC
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.faults.requests import Faults
from seamark.broker.groups.zookeeper import SETTING as OFFSETS_IN_ZOOKEEPER
from seamark.broker.groups.zookeeper import ZookeeperOffsets
from seamark.broker.log.maintenance import Maintenance
from seamark.broker.log.partition import Partition
from seamark.broker.log.reopening import LogReopening
from seamark.broker.log.storage import LogStorage
from seamark.broker.metrics.endpoint import MetricsEndpoint
from seamark.broker.metrics.log_lines import SETTING as LOG_FORMAT
from seamark.broker.metrics.log_lines import LogLines
from seamark.broker.net.connections import Connections
from seamark.broker.net.listener import Listener, parse_advertised
from seamark.broker.net.release_versions import newest_versions
from seamark.broker.node import Node
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.security.security import Security
from seamark.broker.security.settings import forget_secrets
from seamark.broker.sharing.answers_in_progress import AnswersInProgress
from seamark.broker.sharing.fetch_budget import FetchBudget
from seamark.broker.sharing.reading_thread import OneAtATime, ReadingThread
from seamark.broker.sharing.turns import Share, Steps, Turns
from seamark.errors import ConfigError, SeamarkError, UsageError
from seamark.log_limits import LogLimits
from seamark.readable_log import readable_logger
from seamark.storage.errors import DiskFull
from seamark.storage.settings import Durability
from seamark.wire.records.compression import load_codecs

_log = readable_logger("seamark.broker")

# Turns of the event loop that ``advance`` waits for: a due timer may start work that needs a few of them.
_TURNS_AFTER_ADVANCE = 5
# A failure that goes on is told this often.
_SECONDS_BETWEEN_LINES = 600.0
# Partitions that are named where many failed.
_NAMED = 5


class BrokerServer:
    """Construct it on the event loop's thread; the arguments are those of ``seamark.Broker``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[Callable[[], Any]], Any],
        *,
        data: str | None = None,
        nodes: int = 1,
        listen: str = "127.0.0.1:0",
        settings: Mapping[str, object] | None = None,
        durability: str = "os",
        security: Security | None = None,
        max_versions: str | None = None,
        insecure: bool = False,
    ) -> None:
        check_node_count(nodes)
        try:
            promised = Durability(durability)
        except ValueError:
            raise ConfigError("durability", durability, "it must be os or commit") from None
        self.loop = loop
        self.settings = BrokerSettings(settings)
        self.security = Gatekeeper(security, self.settings.given)
        forget_secrets(self.settings.given)
        # For lines about what clients do.
        self.log_limits = LogLimits(_log)
        self.metrics = MetricsEndpoint(self)
        self._log_lines = LogLines(self.settings.given.get(LOG_FORMAT))
        address = parse_address("listen", listen)
        protocol = self.security.protocol
        listeners = [Listener(protocol, address.host, address.port and address.port + n) for n in range(nodes)]
        self._check_exposure(listeners[0], insecure=insecure)
        self._advertise(listeners)
        connect = self.settings.given.get(OFFSETS_IN_ZOOKEEPER)
        # What version 0 of the offset requests is kept in; None: it is not served.
        self.zookeeper_offsets = None if connect is None else ZookeeperOffsets(loop, connect)
        # An import opens files, and clients may have taken all descriptors when the first compressed batch comes.
        load_codecs()
        limits = None if max_versions is None else newest_versions(max_versions)
        self.endpoints = load_endpoints(limits, has_zookeeper=connect is not None)
        self.clock = BrokerClock()
        self.timers = LoopTimers(loop, self.clock)
        self.turns = Turns(loop, self._tell_rest)
        self.answers_in_progress = AnswersInProgress()
        self.reading_thread = ReadingThread(loop)
        self.unfolding = OneAtATime()
        self._lock: DirectoryLock | None = None
        self.storage = LogStorage(data, promised, self.clock, self.timers)
        self.cluster = Cluster(self.settings, self.storage, self._run)
        self.faults = Faults(self, call)
        # Those of each node.
        self.connections: list[Connections] = []
        self.fetch_budget = FetchBudget(self.settings, self.connections)
        self.nodes = [Node(self, number, listener) for number, listener in enumerate(listeners)]
        self.cluster.nodes += self.nodes
        self.maintenance = Maintenance(self)
        self._reopening = LogReopening(self.timers, lambda partition: not partition.is_deleted, self._reopened)
        # By place and kind of failure, when it was last told.
        self._told_failures: dict[tuple[str, str], float] = {}
        self._settings_at_start: tuple[dict[str, Any], dict[str, Any]] = {}, {}

    def _run(self, steps: Steps) -> None:
        self.turns.run(self.turns.own, steps)

    def _tell_rest(self, share: Share, step_seconds: float, rest_seconds: float) -> None:
        sentence = (
            f"a request blocked all other clients for {step_seconds * 1000:.0f} ms, as earlier ones did; its next "
            f"large requests are delayed by {rest_seconds:.1f} s (send smaller requests)"
        )
        self.log_limits.write(logging.WARNING, share.name, sentence, about=f"{share.name}: ")

    def _check_exposure(self, listener: Listener, *, insecure: bool) -> None:
        if self.security.is_open and not insecure and not listener.is_loopback:
            raise UsageError(
                f"{listener.host or 'all addresses'} can be reached from other machines, and clients that do not log "
                "in may do everything: listen on 127.0.0.1, require a login or a certificate, restrict anonymous "
                "clients by ACLs, or pass --insecure (insecure=True)"
            )

    def _advertise(self, listeners: list[Listener]) -> None:
        text = self.settings["advertised.listeners"]
        if text:
            first = parse_advertised(text)
            for number, listener in enumerate(listeners):
                listener.advertised = first._replace(port=first.port + number)

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, separated by commas."""
        return ",".join(node.bootstrap for node in self.nodes)

    async def start(self) -> None:
        """Take up what is on disk and listen; on return all nodes serve."""
        try:
            self._log_lines.start()
            if not self.storage.is_in_memory:
                self._lock = DirectoryLock(self.storage.directory)
            self.cluster.load()
            self._settings_at_start = dict(self.settings.dynamic), dict(self.settings.dynamic_default)
            self.security.restore(self.cluster)
            for node in self.nodes:
                await node.listen()
            # All of them run before anybody leads: the first one must not take everything.
            for node in self.nodes:
                node.enter()
            self.cluster.leadership.settle(self.cluster.partitions())
            self.cluster.save()
            await self.metrics.start()
        except DiskFull as error:
            await self._end()
            raise DiskFull(
                error.file, None, f"{error.reason}; the broker needs free space on this disk to start"
            ) from error
        except BaseException:
            await self._end()
            raise
        self.maintenance.start()

    async def stop(self) -> None:
        """Answer nobody any more, sync and close everything; a second call does nothing."""
        for reason, names in (await self._end()).items():
            _log.error(
                "%d partitions were not closed cleanly and are checked at the next start (%s): %s",
                len(names),
                ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else ""),
                reason,
            )

    async def _end(self) -> dict[str, list[str]]:
        """As ``stop``; what could not be closed, which says nothing new when a start has failed."""
        self.maintenance.stop()
        self.metrics.stop()
        self.turns.stop()
        self.reading_thread.stop()
        # Leadership stays as it is: at the end of everything there is nobody to hand it to.
        for node in self.nodes:
            node.leave()
        for node in self.nodes:
            for part in node.parts:
                part.stop()
        if self.zookeeper_offsets is not None:
            self.zookeeper_offsets.close()
        self.timers.close()
        await self.storage.close()
        failed = self.cluster.close()
        if self._lock is not None:
            self._lock.release()
        self._log_lines.stop()
        # Connections that were closed get to send what they had.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return failed

    def note_storage_failure(self, partition: Partition, error: SeamarkError) -> None:
        """Say that a partition cannot be written or read, and see to it that it can be again."""
        self.note_failure(partition.name, error)
        # The coordinator opens those of its own again, since it has to load what is left in them.
        if partition.topic.name != OFFSETS_TOPIC:
            self._reopening.plan(partition)

    def note_failure(self, place: str, error: SeamarkError) -> None:
        """Log a failure once in a while for each place and kind; clients are told every time."""
        key = (place, type(error).__name__)
        now = self.clock.real_monotonic()
        if now - self._told_failures.get(key, -inf) >= _SECONDS_BETWEEN_LINES:
            self._told_failures[key] = now
            # A log's error begins with its file, which for one in memory is the place.
            _log.error("%s: %s", place, str(error).removeprefix(f"{place}: "))

    def _reopened(self, partition: Partition) -> None:
        for key in [key for key in self._told_failures if key[0] == partition.name]:
            del self._told_failures[key]

    async def advance(self, seconds: float) -> None:
        """Move the broker's clock and let everything happen that is due by then."""
        if not seconds >= 0:
            raise ConfigError("seconds", seconds, "time can only move forward")
        self.clock.advance(seconds)
        for _ in range(_TURNS_AFTER_ADVANCE):
            self.timers.wake()
            await asyncio.sleep(0)

    async def restore(self) -> None:
        """All nodes run and lead what they should, the clock is right, and settings are those of the start."""
        for node in self.nodes:
            await node.start()
        self.cluster.rebalance_leaders()
        self.clock.restore()
        given, given_default = self._settings_at_start
        self.settings.change(dict.fromkeys(self.settings.dynamic) | given)
        self.settings.change(dict.fromkeys(self.settings.dynamic_default) | given_default, is_default=True)
        self.cluster.save()
