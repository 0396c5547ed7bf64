"""The counterpart of the client's ``ConsumerLoop`` in virtual time: carries out what a consumer's core wants.

The core, the look-up of the coordinator, the metadata rules, the backoffs and the calls of the caller (poll, commit,
close) are the client's own; only sockets, timers and threads are replaced. Everything runs in the process's clock.
``changed`` gives control back to whoever drives the caller, until something happens or the time has come.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator
from typing import Any

from seamark.client.cluster_view import ClusterView, Node
from seamark.client.consumer.shell import response_of
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
)
from seamark.client.core.fetch_port import FetchFailure
from seamark.client.core.settings import ConsumerSettings
from seamark.client.core.subscriptions import SubscriptionKind
from seamark.client.errors import ClientError, ConnectionFailed
from seamark.client.net.coordinators import coordinators_of, find_coordinator_request
from seamark.client.net.discovery import Action, CoordinatorDiscovery, Disconnect, Found, LookUp, NotFound, WakeAt
from seamark.client.requests import Request
from seamark.client.timing import Deadline, ExponentialBackoff
from seamark.simulation.members.record_source import RecordSource
from seamark.simulation.world.metadata_upkeep import MetadataUpkeep
from seamark.simulation.world.node_links import Exchange, Links
from seamark.simulation.world.process_clock import ProcessClock
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.wire_network import WireNetwork
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorResponse

# The one who waits for a coordinator; a shell has one core.
_CORE = "core"


class Waiting:
    """Awaited by a call: over when anything has changed, or at ``until_ms`` (None for never)."""

    __slots__ = ("until_ms",)

    def __init__(self, until_ms: int | None) -> None:
        self.until_ms = until_ms

    def __await__(self) -> Generator[Waiting, None, None]:
        yield self


class Done:
    """Awaited by a call that has nothing to wait for."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class ConsumerShell:
    """``on_change`` is called whenever a waiting caller should look again, ``on_event`` after each event."""

    # What the real loop has besides; the calls that need them, queries that change nothing, are not made here.
    config: Any = None
    network: Any = None

    def __init__(
        self,
        name: str,
        settings: ConsumerSettings,
        clock: ProcessClock,
        rng: random.Random,
        events: list[Event],
        wire: WireNetwork,
        fetcher: RecordSource,
        bootstrap: list[Node],
        *,
        metadata_max_age_ms: int,
        on_change: Callable[[], None],
        on_event: Callable[[], None],
    ) -> None:
        self.name = name
        self._clock = clock
        self._events = events
        member = settings.membership
        self.core = ConsumerCore(settings, now_ms=clock.now_ms, rng=rng, wall_ms=self.now_ms)
        self.fetcher = fetcher
        self._on_change = on_change
        self._on_event = on_event
        self.needs_poll = True
        self.is_woken = False
        self._is_closed = False
        self._group_id = member.group_id
        self._timeout_ms = member.request_timeout_ms
        backoff = ExponentialBackoff(member.retry_backoff_ms, member.retry_backoff_max_ms, random_source=rng)
        self.links = Links(
            name, bootstrap, clock, wire, ExponentialBackoff(50, 1000, random_source=rng), self._connection_lost
        )
        self._discovery = CoordinatorDiscovery(self._group_id, backoff)
        self._coordinator: Node | None = None
        self._is_finding = False
        self.metadata = MetadataUpkeep(
            clock, self.links, backoff, metadata_max_age_ms, self._timeout_ms, self._metadata_arrived
        )
        self._timer_ms: int | None = None
        self._wanted: tuple[frozenset[str], bool] | None = None
        fetcher.on_arrival(on_change)

    def now_ms(self) -> int:
        return self._clock.now_ms

    def start(self) -> None:
        """Nothing to be made ready: kept for the calls, which say it before each use."""

    # -- events

    def after_event(self) -> None:
        core = self.core
        while effects := core.take_outbox():
            for effect in effects:
                self._carry_out(effect)
        wanted = (core.wanted_topics, core.subscription.kind is SubscriptionKind.PATTERN)
        if wanted != self._wanted:
            self._wanted = wanted
            self.metadata.want(wanted[0], also_all=wanted[1])
        self.needs_poll = core.wants_caller
        self._arm()
        self._on_event()
        self._on_change()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendToCoordinator(ticket, request, timeout_ms):
                self._send(ticket, self._coordinator, request, timeout_ms, for_group=True)
            case SendToNode(ticket, node_id, request, timeout_ms):
                self._send(ticket, self.links.nodes.get(node_id), request, timeout_ms, for_group=False)
            case FindCoordinator():
                if not self._is_finding and self._coordinator is None:
                    self._is_finding = True
                    self._discover(self._discovery.want(_CORE, self._clock.now_ms))
            case ForgetCoordinator():
                node, self._coordinator = self._coordinator, None
                if node is not None:
                    self._discover(self._discovery.moved(node, self._clock.now_ms))
            case RefreshMetadata():
                self.metadata.refresh()
            case StartFetching(partition, offset, leader_epoch, term):
                self.fetcher.start(partition, Position(offset, leader_epoch), term)
            case StopFetching(partitions):
                self.fetcher.stop(partitions)
            case LogLine(_, event, text):
                self._events.append((self._clock.now_ms, "says", self.name, event, text))
            case _:
                raise AssertionError(effect)

    def _send(self, ticket: int, node: Node | None, request: Request, timeout_ms: int, *, for_group: bool) -> None:
        def answered(response: Any) -> None:
            self.core.answered(ticket, response, self._clock.now_ms)
            self.after_event()

        def failed(error: ClientError) -> None:
            # Not inside of what the core is doing at the moment.
            self._clock.call_later(0, tell_failure, error)

        def tell_failure(error: ClientError) -> None:
            self.core.failed(ticket, error, self._clock.now_ms)
            self.after_event()

        if node is None:
            failed(ConnectionFailed(self._group_id, "the broker is no longer in the metadata"))
            return
        exchange = Exchange(request, response_of(request), timeout_ms, answered, failed)
        self.links.link(node, for_group=for_group).send(exchange)

    # -- the coordinator

    def _discover(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case LookUp():
                    self._look_up()
                case WakeAt(at_ms=at_ms):
                    self._clock.call_at(at_ms + 1, self._wake_discovery)
                case Found(node=node):
                    self._is_finding = False
                    self._coordinator = node
                    self.links.nodes.setdefault(node.id, node)
                    self._clock.call_later(0, self._found, node)
                case NotFound(error=error):
                    self._is_finding = False
                    self._clock.call_later(0, self._refused, error)
                case Disconnect(node=node):
                    self.links.link(node, for_group=True).disconnect("the coordinator moved")

    def _look_up(self) -> None:
        def answered(response: FindCoordinatorResponse) -> None:
            code, node, message = coordinators_of(response, [self._group_id]).get(self._group_id, (15, None, None))
            self._discover(self._discovery.answered(code, node, self._clock.now_ms, message))

        def failed(error: ClientError) -> None:
            self._discover(self._discovery.io_failed(error, self._clock.now_ms))

        request = find_coordinator_request([self._group_id])
        self.links.send_to_any(Exchange(request, FindCoordinatorResponse, self._timeout_ms, answered, failed))

    def _wake_discovery(self) -> None:
        self._discover(self._discovery.woken(self._clock.now_ms))

    def _found(self, node: Node) -> None:
        if self._coordinator == node:
            self.core.coordinator_found(self._clock.now_ms)
            self.after_event()

    def _refused(self, error: ClientError) -> None:
        self.core.coordinator_refused(error, self._clock.now_ms)
        self.after_event()

    def _connection_lost(self) -> None:
        self.metadata.outdated()

    # -- metadata

    def _metadata_arrived(self, view: ClusterView) -> None:
        self.links.nodes.update(view.brokers)
        self.core.metadata_changed(view, self._clock.now_ms)
        self.fetcher.metadata_changed()
        self.after_event()

    # -- time

    def _arm(self) -> None:
        at_ms = None if self._is_closed else self.core.next_tick_ms(self._clock.now_ms)
        if at_ms != self._timer_ms:
            self._timer_ms = at_ms
            if at_ms is not None:
                # One more millisecond, as in the real loop: the core compares whole ones.
                self._clock.call_at(at_ms + 1, self._tick, at_ms)

    def _tick(self, armed_for_ms: int) -> None:
        if self._timer_ms == armed_for_ms:
            self._timer_ms = None
            self.core.tick(self._clock.now_ms)
            self.after_event()

    # -- the caller

    async def turn(self, deadline: Deadline) -> None:
        core = self.core
        while True:
            core.poll(self._clock.now_ms)
            self.after_event()
            if (
                core.listener_call is not None
                or core.has_error
                or core.commits.has_finished
                or self.fetcher.has_something
                or self.is_woken
                or deadline.is_over
            ):
                return
            await self.changed(deadline, core.membership.poll_again_ms(self._clock.now_ms))

    async def changed(self, deadline: Deadline, until_ms: int | None = None) -> None:
        at_ms = None if math.isinf(deadline.at) else math.ceil(deadline.at * 1000)
        if until_ms is not None:
            at_ms = until_ms + 1 if at_ms is None else min(at_ms, until_ms + 1)
        await Waiting(at_ms)

    def report_failures(self, failures: list[FetchFailure]) -> list[Exception]:
        raise AssertionError(f"these logs have no failures: {failures}")

    def wake(self) -> None:
        """Somebody called ``wakeup``."""
        self.is_woken = True
        self._on_change()

    def shut(self) -> Done:
        """End everything at once."""
        self._is_closed = True
        self._clock.end()
        self.links.close()
        return Done()
