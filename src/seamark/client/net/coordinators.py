"""What one client knows of coordinators, and how it finds out: drives a pure core per group, on the I/O loop.

``find`` waits for the coordinator of one group; ``known`` only looks; ``find_each`` asks once about many. Lookups
happen when somebody needs one and never ahead of need (B22). What ListGroups tells (a broker lists the groups that it
coordinates) is learned too, so describing every group of a cluster needs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from seamark.client.cluster_view import Node
from seamark.client.errors import ClientError, NoBrokerAvailable, UnsupportedByBroker, broker_error
from seamark.client.net.discovery import (
    Action,
    CoordinatorDiscovery,
    Disconnect,
    Found,
    LookUp,
    NotFound,
    WakeAt,
    coordinator_connection_id,
    coordinator_not_available,
)
from seamark.client.net.exchanges import MOST_AT_ONCE, AnyBroker
from seamark.client.net.surroundings import PROCESS, Surroundings
from seamark.client.requests import VersionedRequest
from seamark.client.timing import Deadline
from seamark.errors import ClosedError
from seamark.portions import portions
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from seamark.wire.schema.schema import Message

_GROUP = 0
# The first version that carries many keys.
_BATCHED = 4
# What an answer says of a group that it does not name.
_LEFT_OUT: tuple[int, Node | None, str | None] = (ErrorCode.COORDINATOR_NOT_AVAILABLE, None, None)


class Network(AnyBroker, Protocol):
    def learn_node(self, node: Node) -> None: ...

    def disconnect(self, connection_id: int, reason: str) -> None: ...


class Coordinators:
    """The coordinators of the groups that one client works with."""

    def __init__(self, network: Network, surroundings: Surroundings = PROCESS) -> None:
        self._network = network
        self._surroundings = surroundings
        self._now_ms = surroundings.now_ms
        self._backoff = surroundings.backoff(network.config.retry_backoff_ms, network.config.retry_backoff_max_ms)
        self._groups: dict[str, CoordinatorDiscovery] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._is_closed = False

    def known(self, group_id: str) -> Node | None:
        core = self._groups.get(group_id)
        return None if core is None else core.node

    def last_error(self, group_id: str) -> ClientError | None:
        """What the last look-up met, while the coordinator is not known."""
        core = self._groups.get(group_id)
        return None if core is None else core.last_error

    async def find(self, group_id: str, deadline: Deadline) -> Node:
        """The group's coordinator, looked up if it is not known; OperationTimedOut says what the lookups met."""
        core = self._core(group_id)
        ticket: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
        self._carry_out(core, core.want(ticket, self._now_ms()))
        if not ticket.done():
            await asyncio.wait({ticket}, timeout=deadline.remaining)
        if ticket.done():
            return ticket.result()
        core.give_up(ticket)
        ticket.cancel()
        # No look-up has failed yet: then none was answered, and the addresses that were tried are what is wrong.
        last = core.last_error or NoBrokerAvailable(self._network.causes(), deadline.seconds)
        raise deadline.timed_out(f"finding the coordinator of group {group_id!r}", last)

    async def find_each(self, groups: Sequence[str], deadline: Deadline) -> dict[str, Node | ClientError]:
        """The coordinators of many groups; those not known are looked up once, all in one request where brokers can."""
        nodes: dict[str, Node | ClientError] = {}
        unknown = []
        for group_id in groups:
            node = self.known(group_id)
            if node is None:
                unknown.append(group_id)
            else:
                nodes[group_id] = node
        if unknown:
            nodes |= await self._look_up_each(unknown, deadline)
        return nodes

    async def _look_up_each(self, groups: list[str], deadline: Deadline) -> dict[str, Node | ClientError]:
        async def ask(some: list[str], *, is_batched: bool) -> FindCoordinatorResponse:
            return await self._network.send_to_any(
                find_coordinator_request(some),
                FindCoordinatorResponse,
                deadline=deadline,
                min_version=_BATCHED if is_batched else 0,
                max_version=None if is_batched else _BATCHED - 1,
            )

        try:
            parts = list(portions(groups, MOST_AT_ONCE))
            responses = await asyncio.gather(*(ask(part, is_batched=True) for part in parts))
        except UnsupportedByBroker:
            # Brokers before 3.0 take one key per request.
            parts = [[group_id] for group_id in groups]
            responses = await asyncio.gather(*(ask(part, is_batched=False) for part in parts))
        nodes: dict[str, Node | ClientError] = {}
        for part, response in zip(parts, responses, strict=True):
            answers = coordinators_of(response, part)
            for group_id in part:
                code, node, message = answers.get(group_id, _LEFT_OUT)
                if node is None:
                    nodes[group_id] = broker_error(code, "FindCoordinator", f"group {group_id!r}", message)
                else:
                    nodes[group_id] = node
                    self.learn(group_id, node)
        return nodes

    def learn(self, group_id: str, node: Node) -> None:
        """An answer to another question showed that ``node`` coordinates the group."""
        core = self._core(group_id)
        if core.node != node:
            self._carry_out(core, core.learned(node))

    def require(self, group_id: str) -> Node:
        """The coordinator as known now; CoordinatorMoved if there is none, and nothing is looked up (B23)."""
        node = self.known(group_id)
        if node is None:
            raise coordinator_not_available(group_id)
        return node

    def moved(self, group_id: str, node: Node | None = None) -> None:
        """A request showed that ``node`` is not the coordinator any more (B11)."""
        core = self._groups.get(group_id)
        if core is not None:
            self._carry_out(core, core.moved(node, self._now_ms()))

    def close(self) -> None:
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        for timer in self._timers:
            timer.cancel()
        for core in self._groups.values():
            for ticket in core.abandon():
                assert isinstance(ticket, asyncio.Future)
                if not ticket.done():
                    ticket.set_exception(
                        ClosedError(f"the client was closed while it looked up the coordinator of {core.group_id!r}")
                    )

    def _core(self, group_id: str) -> CoordinatorDiscovery:
        core = self._groups.get(group_id)
        if core is None:
            core = self._groups[group_id] = CoordinatorDiscovery(group_id, self._backoff)
        return core

    def _carry_out(self, core: CoordinatorDiscovery, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case LookUp():
                    task = asyncio.get_running_loop().create_task(self._look_up(core))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case WakeAt(at_ms=at_ms):
                    self._wake_at(core, at_ms)
                case Found(node=node, tickets=tickets):
                    self._network.learn_node(node)
                    for ticket in tickets:
                        assert isinstance(ticket, asyncio.Future)
                        if not ticket.done():
                            ticket.set_result(node)
                case NotFound(error=error, tickets=tickets):
                    for ticket in tickets:
                        assert isinstance(ticket, asyncio.Future)
                        if not ticket.done():
                            ticket.set_exception(error)
                case Disconnect(node=node):
                    self._network.disconnect(coordinator_connection_id(node.id), "the coordinator moved")

    def _wake_at(self, core: CoordinatorDiscovery, at_ms: int) -> None:
        if self._is_closed:
            return

        def wake() -> None:
            self._timers.discard(timer)
            self._carry_out(core, core.woken(self._now_ms()))

        # One more millisecond than the difference: the core compares whole ones.
        delay_s = max(0, at_ms - self._now_ms() + 1) / 1000
        timer = asyncio.get_running_loop().call_later(delay_s, wake)
        self._timers.add(timer)

    async def _look_up(self, core: CoordinatorDiscovery) -> None:
        deadline = self._surroundings.deadline(self._network.config.request_timeout_ms / 1000)
        try:
            response = await self._network.send_to_any(
                find_coordinator_request([core.group_id]), FindCoordinatorResponse, deadline=deadline
            )
        except ClientError as error:
            self._carry_out(core, core.io_failed(error, self._now_ms()))
            return
        code, node, message = coordinators_of(response, [core.group_id]).get(core.group_id, _LEFT_OUT)
        self._carry_out(core, core.answered(code, node, self._now_ms(), message))


def find_coordinator_request(groups: list[str]) -> VersionedRequest:
    """A lookup of one group, or of many from version 4 on."""

    def make(version: int) -> Message:
        if version >= _BATCHED:
            return FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=groups)
        return FindCoordinatorRequest(key=groups[0], key_type=_GROUP)

    return VersionedRequest(FindCoordinatorRequest, make)


def coordinators_of(
    response: FindCoordinatorResponse, groups: list[str]
) -> dict[str, tuple[int, Node | None, str | None]]:
    """Per group: error code, node, message; both forms of the answer read alike."""
    if response.coordinators:
        return {
            each.key: (
                each.error_code,
                None if each.error_code else Node(each.node_id, each.host, each.port),
                each.error_message,
            )
            for each in response.coordinators
        }
    if not response.error_code and not response.host:
        # The newer form, with no group in it.
        return {}
    node = None if response.error_code else Node(response.node_id, response.host, response.port)
    return {groups[0]: (response.error_code, node, response.error_message)}
