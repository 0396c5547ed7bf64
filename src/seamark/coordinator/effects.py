"""What a call into the coordinator wants done: replies to send, records to append, timers to set, lines to log.

The shell carries effects out in this order of lists; within a list the order is the order of decisions. An append's
outcome comes back through ``stored`` or ``failed`` with the same ticket, a due timer through ``fire`` with the same
key. Tickets of one shard are consecutive and never reused, not even after an unload.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from seamark.coordinator.replies import Reply
from seamark.coordinator.storing.records import Record

# The shell's own name for a waiting request, anything but None; every token is answered exactly once.
Token = Hashable
# (offsets partition, kind, group, member): unique over all shards of a process.
TimerKey = tuple[int, str, str, str]


class Append(NamedTuple):
    """Records to write to the offsets partition as one batch, in ticket order."""

    partition: int
    ticket: int
    records: list[Record]


class Arm(NamedTuple):
    """Call ``fire(key)`` at the deadline or later; replaces a timer of the same key."""

    key: TimerKey
    deadline_ms: int


class Cancel(NamedTuple):
    """The timer is no longer needed; firing it nevertheless does no harm."""

    key: TimerKey


class LogLine(NamedTuple):
    """A line for the log, as data: ``event`` is stable for tests and metrics, ``text`` is for people."""

    level: str
    event: str
    group_id: str
    text: str


class Effects:
    """The effects of one call."""

    __slots__ = ("appends", "log_lines", "replies", "timers")

    def __init__(self) -> None:
        self.replies: list[tuple[Token, Reply]] = []
        self.appends: list[Append] = []
        self.timers: list[Arm | Cancel] = []
        self.log_lines: list[LogLine] = []

    def extend(self, other: Effects) -> None:
        """Add another call's effects behind these."""
        self.replies += other.replies
        self.appends += other.appends
        self.timers += other.timers
        self.log_lines += other.log_lines

    def info(self, event: str, group_id: str, text: str) -> None:
        self.log_lines.append(LogLine("info", event, group_id, text))

    def warn(self, event: str, group_id: str, text: str) -> None:
        self.log_lines.append(LogLine("warning", event, group_id, text))

    def error(self, event: str, group_id: str, text: str) -> None:
        self.log_lines.append(LogLine("error", event, group_id, text))
