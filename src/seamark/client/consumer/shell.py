"""A consumer's shell on the I/O thread: carries out what its core wants, and lets the caller wait for what concerns it.

Owner: everything here runs on the I/O loop, except the few values that the caller's thread reads without asking
(``needs_poll`` and the fetcher's take methods). Heartbeats, commits and look-ups go on whether or not it is here.

``turn`` is the caller's side of it: it polls the core until there is something to hand to the caller, or time is out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from seamark.client.cluster_view import ClusterView, Node
from seamark.client.config.config import ConsumerConfig
from seamark.client.consumer.settings import settings_of
from seamark.client.core.assignment_state import Position
from seamark.client.core.consumer_core import ConsumerCore
from seamark.client.core.effects import (
    Effect,
    FindCoordinator,
    ForgetCoordinator,
    LogLine,
    RefreshMetadata,
    SendToCoordinator,
    SendToNode,
    StartFetching,
    StopFetching,
    coordinator_found_line,
    coordinator_lost_line,
)
from seamark.client.core.fetch_port import FailureKind, Fetcher, FetchFailure
from seamark.client.core.subscriptions import SubscriptionKind
from seamark.client.errors import ClientError, ConnectionFailed, NoBrokerAvailable, OperationTimedOut
from seamark.client.net.client import Lane, NetworkClient
from seamark.client.net.surroundings import PROCESS, Surroundings
from seamark.client.requests import Request, VersionedRequest
from seamark.client.timing import Deadline
from seamark.client.zookeeper.dual import OffsetStorage, offset_storage
from seamark.errors import ClosedError, SeamarkError
from seamark.readable_log import readable_logger
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from seamark.wire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from seamark.wire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from seamark.wire.schema.schema import Message

log = readable_logger("seamark.client")

RESPONSES: dict[type[Message], type[Message]] = {
    HeartbeatRequest: HeartbeatResponse,
    JoinGroupRequest: JoinGroupResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    ListOffsetsRequest: ListOffsetsResponse,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    OffsetForLeaderEpochRequest: OffsetForLeaderEpochResponse,
    SyncGroupRequest: SyncGroupResponse,
}
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# Configuration, network, and how keys and values are deserialized.
MakeFetcher = Callable[[ConsumerConfig, NetworkClient, Any, Any], Fetcher]


def response_of(request: Request) -> type[Message]:
    return RESPONSES[request.request if isinstance(request, VersionedRequest) else type(request)]


class ConsumerLoop:
    def __init__(
        self,
        config: ConsumerConfig,
        make_fetcher: MakeFetcher,
        key: Any,
        value: Any,
        surroundings: Surroundings = PROCESS,
    ) -> None:
        self.config = config
        self._surroundings = surroundings
        # The calls of a consumer tell the time by their loop.
        self.now_ms = surroundings.now_ms
        self.core = ConsumerCore(
            settings_of(config), now_ms=self.now_ms(), rng=surroundings.make_random(), wall_ms=surroundings.wall_ms
        )
        self.network = NetworkClient(config, surroundings)
        self.core.membership.waiting.coordinator_problem = self._coordinator_problem
        # None: offsets are kept by the coordinator alone.
        self.offset_storage: OffsetStorage | None = offset_storage(config, self.network)
        self.fetcher = make_fetcher(config, self.network, key, value)
        # Read by the caller's thread: is there more to do in poll than to hand out records?
        self.needs_poll = True
        # Written by any thread: the next wait of the caller ends with WakeUp.
        self.is_woken = False
        self._is_started = False
        self._is_closed = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._coordinator: Node | None = None
        self._finding: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._refresh_again = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._wanted: tuple[frozenset[str], bool] | None = None

    # -- events

    def start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self.network.allow_topic_creation(self.config.allow_auto_create_topics)
            self.network.on_metadata(self._metadata_arrived)
            self.fetcher.on_arrival(self._changed.set)
            if self.network.view.version:
                # Somebody asked about topics before the first poll: what is known need not be waited for again.
                self.core.metadata_changed(self.network.view, self.now_ms())

    def after_event(self) -> None:
        """Carry out what the core wants after anything has happened to it."""
        core = self.core
        while effects := core.take_outbox():
            for effect in effects:
                self._carry_out(effect)
        self._want_topics()
        self.needs_poll = core.wants_caller
        self._arm()
        self._changed.set()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendToCoordinator(ticket, request, timeout_ms, overtakes):
                if isinstance(request, OffsetCommitRequest) and log.isEnabledFor(logging.DEBUG):
                    log.debug("sending a commit to %s: %s", self._coordinator, request)
                # Commits stay in front of it: what a member commits after it has left is refused.
                lane: Lane = "leaving" if overtakes and self.core.commits.is_idle else "coordinator"
                self._spawn(self._send(ticket, self._coordinator, request, timeout_ms, lane))
            case SendToNode(ticket, node_id, request, timeout_ms):
                node = self.network.node(node_id)
                self._spawn(self._send(ticket, node, request, timeout_ms, "main"))
            case FindCoordinator():
                if self._finding is None:
                    self._finding = self._spawn(self._find())
            case ForgetCoordinator(reason):
                self._coordinator_moved(reason)
            case RefreshMetadata():
                self._refresh()
            case StartFetching(partition, offset, leader_epoch, term):
                self.fetcher.start(partition, Position(offset, leader_epoch), term)
                state = self.core.assignment.get(partition)
                if state is not None and state.is_paused:
                    self.fetcher.pause([partition])
            case StopFetching(partitions):
                self.fetcher.stop(partitions)
            case LogLine():
                self._log(effect)
            case _:
                raise AssertionError(effect)

    def _log(self, line: LogLine) -> None:
        """One line per event, with what it is about as fields of the log record."""
        self.network.log.say(_LEVELS[line.level], line.event, line.text, **dict(line.fields))

    async def _send(self, ticket: int, node: Node | None, request: Request, timeout_ms: int, lane: Lane) -> None:
        try:
            if node is None:
                raise ConnectionFailed(self.config.group_id or "the leader", "the broker is no longer in the metadata")
            send = partial(self.network.send, node.id, timeout_ms=timeout_ms, lane=lane)
            storage = self.offset_storage
            if storage is not None and storage.concerns(request):
                response = await storage.exchange(request, send)
            else:
                response = await send(request, response_of(request))
        except ClosedError:
            return
        except SeamarkError as error:
            if not isinstance(error, ClientError):
                error = ConnectionFailed(str(node), str(error))
            self.core.failed(ticket, error, self.now_ms())
        else:
            self.core.answered(ticket, response, self.now_ms())
        self.after_event()

    async def _find(self) -> None:
        group_id = self.config.group_id or ""
        try:
            while self._coordinator is None:
                try:
                    self._coordinator = await self.network.coordinators.find(group_id, self._patience())
                except OperationTimedOut as error:
                    if not self._has_ever_connected:
                        raise NoBrokerAvailable(self.network.causes(), error.seconds) from error
        except ClosedError:
            return
        except ClientError as error:
            self._finding = None
            self.core.coordinator_refused(error, self.now_ms())
        else:
            self._finding = None
            self._log(coordinator_found_line(self._coordinator))
            self.core.coordinator_found(self.now_ms())
        self.after_event()

    def _patience(self) -> Deadline:
        return self._surroundings.deadline(self.config.default_api_timeout_ms / 1000)

    @property
    def _has_ever_connected(self) -> bool:
        """Did any broker answer yet? If not, the caller hears what is wrong; a later outage is waited for."""
        return self.network.view.version > 0

    def _coordinator_problem(self) -> ClientError | None:
        return self.network.coordinators.last_error(self.config.group_id or "")

    def _coordinator_moved(self, reason: str) -> None:
        node, self._coordinator = self._coordinator, None
        if node is not None:
            self._log(coordinator_lost_line(node, reason))
            self.network.coordinators.moved(self.config.group_id or "", node)

    # -- metadata

    def _refresh(self) -> None:
        if self._refreshing is not None:
            self._refresh_again = True
            return
        self._want_topics()
        self._refreshing = self._spawn(self._refreshed())

    async def _refreshed(self) -> None:
        try:
            view = await self.network.refresh_metadata(self._patience())
        except ClosedError:
            return
        except ClientError as error:
            if not self._has_ever_connected or not error.is_retriable:
                self.core.fail(error)
            self.core.metadata_failed()
            self._refreshing = None
            self.after_event()
            return
        self._refreshing = None
        if self._refresh_again:
            self._refresh_again = False
            self._refresh()
        self._metadata_arrived(view)

    def _metadata_arrived(self, view: ClusterView) -> None:
        self.core.metadata_changed(view, self.now_ms())
        self.fetcher.metadata_changed()
        self.after_event()

    def _want_topics(self) -> None:
        core = self.core
        wanted = (core.wanted_topics, core.subscription.kind is SubscriptionKind.PATTERN)
        if wanted != self._wanted:
            self._wanted = wanted
            if self.network.metadata.want_topics(wanted[0], also_all=wanted[1]):
                self.network.request_refresh()

    # -- time

    def _arm(self) -> None:
        at_ms = None if self._is_closed else self.core.next_tick_ms(self.now_ms())
        if at_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = at_ms
        if at_ms is not None:
            # One more millisecond: the core compares whole ones.
            delay_s = max(0, at_ms - self.now_ms() + 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_ms = None
        self.core.tick(self.now_ms())
        self.after_event()

    # -- the caller

    async def turn(self, deadline: Deadline) -> None:
        """Poll until there is something for the caller: records, a listener to call, an error, or no time left."""
        self.start()
        core = self.core
        while True:
            core.poll(self.now_ms())
            self.after_event()
            if self._concerns_caller() or self.fetcher.has_something or self.is_woken or deadline.is_over:
                return
            await self.changed(deadline, core.membership.poll_again_ms(self.now_ms()))

    def _concerns_caller(self) -> bool:
        core = self.core
        return core.listener_call is not None or core.has_error or core.commits.has_finished

    async def changed(self, deadline: Deadline, until_ms: int | None = None) -> None:
        """Wait for any event, the deadline, or a time of the core's."""
        self._changed.clear()
        wait_s = deadline.remaining
        if until_ms is not None:
            wait_s = min(wait_s, max(0, until_ms - self.now_ms() + 1) / 1000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(wait_s) else wait_s):
                await self._changed.wait()

    def wake(self) -> None:
        """On the I/O thread: somebody called ``wakeup``."""
        self._changed.set()

    def report_failures(self, failures: list[FetchFailure]) -> list[Exception]:
        """What the fetcher met; gives the errors to raise."""
        for failure in failures:
            self.core.fetch_failed(failure, self.now_ms())
        self.after_event()
        return [each.error for each in failures if each.kind is FailureKind.ERROR and each.error is not None]

    # -- life

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A fault of ours: the caller hears of it, the consumer does not go silent.
            text = "a task of the consumer failed, which is a bug in seamark; the next poll raises the error"
            self.network.log.fault(text, error)
            self.core.fail(error)
            self.needs_poll = True
            self._changed.set()

    async def shut(self) -> None:
        """End everything at once; may be called again."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self.fetcher.close()
        # Look-ups and requests under way end with ClosedError, which their tasks know.
        await self.network.close()
        if self.offset_storage is not None:
            self.offset_storage.close()
        await asyncio.sleep(0)
        for task in list(self._tasks):
            task.cancel()
        self.core.commits.end(self.now_ms())
        for effect in self.core.commits.take_effects():
            if isinstance(effect, LogLine):
                self._log(effect)
