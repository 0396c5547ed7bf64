"""Finding the coordinator of a group: a pure core that says what to send and when, and who is told (B1 to B11, B24).

Driven by the shell with (event, now_ms); each call gives the actions to take. One lookup is outstanding at a time, and
whoever asks meanwhile is chained to it: tickets are answered in the order in which they came, so asynchronous commits
that wait for a coordinator keep their order.

    idle      --want-->      looking       LookUp
    looking   --found-->     known         Found to all tickets; a new address means Connect
    looking   --error, i/o-> waiting       WakeAt after a backoff
    waiting   --wake-->      looking       LookUp
    looking   --refusal-->   idle          NotFound to all tickets: retrying is useless
    known     --moved-->     idle          Disconnect; the next want looks it up again
    any       --learned-->   known         Found to all tickets: another answer named the coordinator

A ticket may give up by itself (its deadline passed); the lookup goes on for the others.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

from seamark.client.cluster_view import Node
from seamark.client.errors import BrokerError, ClientError, broker_error
from seamark.client.timing import ExponentialBackoff
from seamark.wire.protocol.error_codes import ErrorCode, error_code

# Kafka's client numbers connections by node; the coordinator's own connection counts down from here (B25).
LARGEST_INT = 2**31 - 1


def coordinator_connection_id(node_id: int) -> int:
    """The id of the separate connection to a coordinator: a waiting fetch cannot delay what goes over it."""
    return LARGEST_INT - node_id


def leaving_connection_id(node_id: int) -> int:
    """The id of a third connection: for a member that leaves while the second one waits for the answer to its join."""
    return -coordinator_connection_id(node_id)


@dataclass(frozen=True, slots=True)
class LookUp:
    """Send FindCoordinator for the group to any broker (B1)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call ``woken`` at this time."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Found:
    """Tell these tickets, in this order, that the coordinator is known."""

    node: Node
    tickets: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class NotFound:
    """Tell these tickets, in this order, that there will be no coordinator."""

    error: ClientError
    tickets: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the coordinator connection to this node: it is not the coordinator any more (B7, B11)."""

    node: Node


Action = LookUp | WakeAt | Found | NotFound | Disconnect


class Phase(Enum):
    IDLE = "idle"
    LOOKING = "looking"
    WAITING = "waiting"
    KNOWN = "known"


class CoordinatorDiscovery:
    """The state for one group. Owned by the thread that drives it."""

    __slots__ = ("_backoff", "_failures", "_not_before_ms", "_tickets", "group_id", "last_error", "node", "phase")

    def __init__(self, group_id: str, backoff: ExponentialBackoff) -> None:
        self.group_id = group_id
        self.phase = Phase.IDLE
        self.node: Node | None = None
        # What the last lookup failed with: the reason given when a deadline passes.
        self.last_error: ClientError | None = None
        self._backoff = backoff
        self._failures = 0
        self._not_before_ms = 0
        self._tickets: dict[Hashable, None] = {}

    @property
    def waiting_count(self) -> int:
        return len(self._tickets)

    def want(self, ticket: Hashable, now_ms: int) -> list[Action]:
        """Someone needs the coordinator; ``ticket`` is how it is told."""
        if self.node is not None:
            return [Found(self.node, (ticket,))]
        self._tickets[ticket] = None
        return self._look(now_ms) if self.phase is Phase.IDLE else []

    def give_up(self, ticket: Hashable) -> None:
        """The one who waits does not want it any more."""
        self._tickets.pop(ticket, None)

    def woken(self, now_ms: int) -> list[Action]:
        """The time of a WakeAt has come."""
        if self.phase is not Phase.WAITING:
            return []
        if now_ms < self._not_before_ms:
            return [WakeAt(self._not_before_ms)]
        if not self._tickets:
            # Nobody waits any more: look again when somebody does (B22 holds for retries too).
            self.phase = Phase.IDLE
            return []
        return self._look(now_ms)

    def answered(self, code: int, node: Node | None, now_ms: int, message: str | None = None) -> list[Action]:
        """The lookup was answered with an error code, or with a node."""
        if self.phase is not Phase.LOOKING:
            return []
        known = error_code(code)
        if known is ErrorCode.NONE and node is not None:
            return self.learned(node)
        error = broker_error(known, "FindCoordinator", f"group {self.group_id!r}", message)
        if error.is_retriable:
            return self._failed(error, now_ms)
        return self._refused(error)

    def learned(self, node: Node) -> list[Action]:
        """The coordinator was named, by a look-up or by the answer to another question."""
        self.phase = Phase.KNOWN
        self.node = node
        self._failures = 0
        self.last_error = None
        return [Found(node, self._take_tickets())]

    def io_failed(self, error: ClientError, now_ms: int) -> list[Action]:
        """The lookup did not get an answer; an error that time cannot heal ends it (B10)."""
        if self.phase is not Phase.LOOKING:
            return []
        return self._failed(error, now_ms) if error.is_retriable else self._refused(error)

    def moved(self, node: Node | None, now_ms: int) -> list[Action]:
        """A request showed that ``node`` does not coordinate the group any more, or cannot be reached (B11).

        Stale news, about a node that is not the one known now, changes nothing.
        """
        if self.node is None or (node is not None and node != self.node):
            return []
        gone, self.node = self.node, None
        self.phase = Phase.IDLE
        self._not_before_ms = max(self._not_before_ms, now_ms)
        return [Disconnect(gone)]

    def abandon(self) -> tuple[Hashable, ...]:
        """The client is closing: those who wait, in their order, to be told so."""
        self.phase = Phase.IDLE
        return self._take_tickets()

    def _look(self, now_ms: int) -> list[Action]:
        if now_ms < self._not_before_ms:
            self.phase = Phase.WAITING
            return [WakeAt(self._not_before_ms)]
        self.phase = Phase.LOOKING
        return [LookUp(self.group_id)]

    def _failed(self, error: ClientError, now_ms: int) -> list[Action]:
        self.last_error = error
        self._failures += 1
        self._not_before_ms = now_ms + int(self._backoff.wait_ms(self._failures))
        self.phase = Phase.WAITING
        return [WakeAt(self._not_before_ms)]

    def _refused(self, error: ClientError) -> list[Action]:
        self.last_error = error
        self.phase = Phase.IDLE
        return [NotFound(error, self._take_tickets())]

    def _take_tickets(self) -> tuple[Hashable, ...]:
        taken = tuple(self._tickets)
        self._tickets.clear()
        return taken


def coordinator_not_available(group_id: str) -> BrokerError:
    """What a request fails with that needs a coordinator while there is none (B23)."""
    return broker_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "FindCoordinator", f"group {group_id!r}")
