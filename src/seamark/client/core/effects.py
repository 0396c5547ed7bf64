"""What the consumer's pure cores want done: requests to send, calls into user code, ownership to change, lines to log.

A core never does anything itself. Each of its methods returns a list of these, to be carried out in order by a shell:
the I/O thread in production, the virtual event loop in simulation. A request's outcome comes back with its ticket, a
listener's with ``listener_returned``. Tickets of one consumer are consecutive and never reused, so an answer that
arrives after its question was given up finds nobody waiting.

What is logged about the group is data too, one line per event (M3 to M5 count the same events). Every line carries
``event`` and fields that a log pipeline can search; the text is for people. ``joined``, ``assigned``, ``revoked``,
``lost``, ``commit_failed``, ``coordinator_found`` and ``coordinator_lost`` are stable names. No line has a key, a value
or a secret in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from seamark.client.cluster_view import Node
from seamark.client.core.assignment_state import Position
from seamark.client.core.lasting_failures import AGAIN_MS
from seamark.client.core.positions.reset import OPTION
from seamark.client.errors import ClientError, CommitError
from seamark.client.requests import Request
from seamark.counts import number_text, shortened, some_of
from seamark.topic_partition import TopicPartition

# A group may have thousands of partitions; a line of the log should not.
_MAX_NAMED = 20
_MAX_TOPICS = 5


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


_HANDOVERS = {
    ListenerCall.ASSIGNED: ("info", "assigned", "was assigned"),
    ListenerCall.REVOKED: ("info", "revoked", "gives up"),
    ListenerCall.LOST: ("warning", "lost", "has lost"),
}


def handover_line(handover: CallListener) -> LogLine:
    level, event, verb = _HANDOVERS[handover.call]
    fields = (("partitions", tuple(map(str, handover.partitions))),)
    return LogLine(level, event, f"{verb} {_named(handover.partitions)}", fields)


def commit_failed_line(
    partitions: Iterable[TopicPartition], error: ClientError, *, is_automatic: bool = False, failures: int = 1
) -> LogLine:
    """``failures`` is how many commits have failed in a row, with this one."""
    names = tuple(partitions)
    kind = "an automatic commit" if is_automatic else "a commit"
    fields = (
        ("partitions", tuple(map(str, names))),
        ("reason", str(error)),
        ("is_automatic", is_automatic),
        ("failures", failures),
    )
    reason = error.reason if isinstance(error, CommitError) else error
    count = f" ({number_text(failures)} failed in a row)" if failures > 1 else ""
    return LogLine("warning", "commit_failed", f"{kind} of {_named(names)} failed: {reason}{count}", fields)


class FailedCommitLog:
    """Commits that fail go on failing, at every interval or as often as a program tries.

    Said at first, again for another cause and in another rebalance, now and then while it lasts, and when it is over.
    """

    __slots__ = ("_cause", "_failures", "_is_automatic", "_said_ms")

    def __init__(self, *, is_automatic: bool) -> None:
        self._is_automatic = is_automatic
        self._failures = 0
        self._cause: tuple[type[ClientError], int] | None = None
        self._said_ms = 0

    def ended(
        self, partitions: Iterable[TopicPartition], error: ClientError | None, now_ms: int, rebalances: int
    ) -> tuple[LogLine, ...]:
        """A commit has ended, after so many rebalances; gives the line to log, if one is due."""
        if error is None:
            failures, self._failures, self._cause = self._failures, 0, None
            if failures < 2:
                return ()
            kind = "automatic commits" if self._is_automatic else "commits"
            text = f"{kind} succeed again, after {number_text(failures)} failures"
            return (LogLine("warning", "commit_succeeds", text, (("failures", failures),)),)
        self._failures += 1
        cause = (type(error), rebalances)
        if cause == self._cause and now_ms - self._said_ms < AGAIN_MS:
            return ()
        self._cause = cause
        self._said_ms = now_ms
        return (commit_failed_line(partitions, error, is_automatic=self._is_automatic, failures=self._failures),)


def topics_refused_line(topics: Sequence[str]) -> LogLine:
    names = [repr(shortened(name)) for name in topics]
    text = (
        "leads the group, but other members subscribe to topics that this member is not authorized to describe, or "
        f"whose names are invalid; these topics are assigned to no member: {some_of(names)}"
    )
    return LogLine("warning", "group_topics_refused", text, (("topics", tuple(topics[:_MAX_TOPICS])),))


def coordinator_found_line(node: Node | None) -> LogLine:
    address = "" if node is None else node.address
    return LogLine("info", "coordinator_found", f"the coordinator is {address}", (("address", address),))


def coordinator_lost_line(node: Node, reason: str) -> LogLine:
    text = f"{node.address} is no longer the coordinator, or is unreachable: {reason}"
    return LogLine("info", "coordinator_lost", text, (("address", node.address), ("reason", reason)))


def _named(partitions: tuple[TopicPartition, ...]) -> str:
    shown = ", ".join(map(str, partitions[:_MAX_NAMED])) or "no partitions"
    more = len(partitions) - _MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def position_reset_line(
    partition: TopicPartition, before: Position, after: Position, reason: str, policy: str
) -> LogLine:
    text = (
        f"{partition} is reset to offset {after.offset}, its position was {before.offset}: {reason} ({OPTION}={policy})"
    )
    fields = {
        "partition": str(partition),
        "old_offset": before.offset,
        "new_offset": after.offset,
        "reason": reason,
        "policy": policy,
    }
    return LogLine("warning", "position_reset", text, tuple(fields.items()))
