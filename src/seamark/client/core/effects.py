"""What the consumer's pure cores want done: requests to send, calls into user code, ownership to change.

A core never does anything itself. Each of its methods returns a list of these, to be carried out in order by a shell:
the I/O thread in production, the virtual event loop in simulation. A request's outcome comes back with its ticket, a
listener's with ``listener_returned``. Tickets of one consumer are consecutive and never reused, so an answer that
arrives after its question was given up finds nobody waiting.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from seamark.client.requests import Request
from seamark.topic_partition import TopicPartition


class ListenerCall(Enum):
    """Which of the three methods of a rebalance listener."""

    REVOKED = "on_revoked"
    ASSIGNED = "on_assigned"
    LOST = "on_lost"


class SendToCoordinator(NamedTuple):
    """Answer with ``answered(ticket, response)`` or ``failed(ticket, reason)``; no answer at all only after a close.

    A coordinator takes the requests of a connection one by one. One that ``overtakes`` must not wait for the answer to
    a join that is under way, which may take as long as the group's slowest member.
    """

    ticket: int
    request: Request
    timeout_ms: int
    overtakes: bool = False


class SendToNode(NamedTuple):
    """As SendToCoordinator, to the broker that leads the partitions in the request."""

    ticket: int
    node_id: int
    request: Request
    timeout_ms: int


class FindCoordinator(NamedTuple):
    """The coordinator is needed and unknown. Asking again while a look-up is under way does no harm."""


class ForgetCoordinator(NamedTuple):
    """What is known of the coordinator turned out wrong, or its connection broke."""

    reason: str


class RefreshMetadata(NamedTuple):
    """Metadata of these topics is wanted, all topics if None; answered by ``metadata_changed``."""

    topics: frozenset[str] | None


class CallListener(NamedTuple):
    """Run user code on the caller's thread, then report with ``listener_returned``."""

    call: ListenerCall
    partitions: tuple[TopicPartition, ...]


class CommitBeforeJoin(NamedTuple):
    """Commit all positions, retrying until the deadline, then report with ``commit_before_join_finished``."""

    deadline_ms: int


class HoldBack(NamedTuple):
    """Neither fetch nor hand out these partitions any more; their owner does not change yet."""

    partitions: tuple[TopicPartition, ...]


class Own(NamedTuple):
    """The whole set of partitions owned from now on; those not owned before get a new term."""

    partitions: tuple[TopicPartition, ...]


class Release(NamedTuple):
    """The listener knows about these partitions: look their positions up and fetch them."""

    partitions: tuple[TopicPartition, ...]


class StartFetching(NamedTuple):
    """The position is known and good: fetch from there, under this term."""

    partition: TopicPartition
    offset: int
    leader_epoch: int
    term: int


class StopFetching(NamedTuple):
    """Fetch no more, and drop what was fetched."""

    partitions: tuple[TopicPartition, ...]


class Raise(NamedTuple):
    """Raise from the caller's poll."""

    error: BaseException


class LogLine(NamedTuple):
    """A line for the log, as data: ``event`` and ``fields`` are stable for tests, ``text`` is for people."""

    level: str
    event: str
    text: str
    fields: tuple[tuple[str, object], ...] = ()


Effect: TypeAlias = (
    SendToCoordinator
    | SendToNode
    | FindCoordinator
    | ForgetCoordinator
    | RefreshMetadata
    | CallListener
    | CommitBeforeJoin
    | HoldBack
    | Own
    | Release
    | StartFetching
    | StopFetching
    | Raise
    | LogLine
)


class Tickets:
    """Numbers requests: one counter per consumer, shared by its cores."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last
