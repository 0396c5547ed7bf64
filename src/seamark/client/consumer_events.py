"""What a consumer writes into the log about its group, one line per event, as data (M3 to M5 count the same events).

Every line carries ``event`` and fields that a log pipeline can search; the text is for people. ``joined``,
``assigned``, ``revoked``, ``lost``, ``commit_failed``, ``coordinator_found`` and ``coordinator_lost`` are stable names.
No line has a key, a value or a secret in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.client.assignment_state import Position
from seamark.client.errors import ClientError, CommitError
from seamark.client.lasting_failures import AGAIN_MS
from seamark.client.membership_effects import CallListener, ListenerCall, LogLine
from seamark.client.metadata_cache import Node
from seamark.client.positions_policy import OPTION
from seamark.topic_partition import TopicPartition

# A group may have thousands of partitions; a line of the log should not.
_MAX_NAMED = 20

_HANDOVERS = {
    ListenerCall.ASSIGNED: ("info", "assigned", "was assigned"),
    ListenerCall.REVOKED: ("info", "revoked", "gives up"),
    ListenerCall.LOST: ("warning", "lost", "has lost"),
}


def handover_line(handover: CallListener) -> LogLine:
    level, event, verb = _HANDOVERS[handover.call]
    fields = (("partitions", tuple(map(str, handover.partitions))),)
    return LogLine(level, event, f"{verb} {_named(handover.partitions)}", fields)


def commit_failed_line(partitions: Iterable[TopicPartition], error: ClientError, *, is_automatic: bool) -> LogLine:
    names = tuple(partitions)
    kind = "an automatic commit" if is_automatic else "a commit"
    fields = (("partitions", tuple(map(str, names))), ("reason", str(error)), ("is_automatic", is_automatic))
    reason = error.reason if isinstance(error, CommitError) else error
    return LogLine("warning", "commit_failed", f"{kind} of {_named(names)} failed: {reason}", fields)


class AutomaticCommitLog:
    """Automatic commits that fail go on failing at every interval: said at first, then now and then, and at the end."""

    __slots__ = ("_failures", "_said_ms")

    def __init__(self) -> None:
        self._failures = 0
        self._said_ms = 0

    def ended(
        self, partitions: Iterable[TopicPartition], error: ClientError | None, now_ms: int
    ) -> tuple[LogLine, ...]:
        """An automatic commit has ended; gives the line to log, if one is due."""
        if error is None:
            failures, self._failures = self._failures, 0
            if failures < 2:
                return ()
            return (LogLine("warning", "commit_succeeds", f"automatic commits succeed again, after {failures} failed"),)
        self._failures += 1
        if self._failures > 1 and now_ms - self._said_ms < AGAIN_MS:
            return ()
        self._said_ms = now_ms
        return (commit_failed_line(partitions, error, is_automatic=True),)


def coordinator_found_line(node: Node | None) -> LogLine:
    address = "" if node is None else node.address
    return LogLine("info", "coordinator_found", f"the coordinator is {address}", (("address", address),))


def coordinator_lost_line(node: Node, reason: str) -> LogLine:
    text = f"{node.address} is not the coordinator any more, or cannot be reached: {reason}"
    return LogLine("info", "coordinator_lost", text, (("address", node.address), ("reason", reason)))


def _named(partitions: tuple[TopicPartition, ...]) -> str:
    shown = ", ".join(map(str, partitions[:_MAX_NAMED])) or "no partitions"
    more = len(partitions) - _MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def position_reset_line(
    partition: TopicPartition, before: Position, after: Position, reason: str, policy: str
) -> LogLine:
    text = (
        f"{partition} is read from offset {after.offset}, not from its position {before.offset}: {reason} "
        f"({OPTION}={policy})"
    )
    fields = {
        "partition": str(partition),
        "old_offset": before.offset,
        "new_offset": after.offset,
        "reason": reason,
        "policy": policy,
    }
    return LogLine("warning", "position_reset", text, tuple(fields.items()))
