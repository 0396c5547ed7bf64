"""How many records a group has still to read of one partition.

The plain difference between log end and committed offset is wrong in three cases, and each has its own basis here: what
was deleted below the log's start cannot be read any more; a partition without a commit starts where the group's reset
policy says; a commit beyond the log's end (a topic made anew, a wrong reset) is not a negative lag.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Basis(enum.Enum):
    """What the number of records was counted from."""

    COMMITTED = "committed"
    # The committed offset was deleted by retention; reading starts at the log's start or where the reset policy says.
    LOG_START = "log start"
    RESET = "no commit"
    # The commit lies beyond the end of the log.
    BEYOND = "beyond the end"
    # The partition did not answer.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Lag:
    """``records`` to read, None if unknown; ``lost``: deleted before they were read; ``beyond``: past the log's end."""

    records: int | None
    basis: Basis
    lost: int = 0
    beyond: int = 0


UNKNOWN = Lag(None, Basis.UNKNOWN)


def lag_of(committed: int | None, log_start: int | None, log_end: int | None, reset: str = "earliest") -> Lag:
    """The lag of one partition; a log bound of None means that the partition did not answer.

    >>> lag_of(100, 0, 150)
    Lag(records=50, basis=<Basis.COMMITTED: 'committed'>, lost=0, beyond=0)
    >>> lag_of(100, 120, 150).records, lag_of(100, 120, 150).lost
    (30, 20)
    >>> lag_of(None, 120, 150, reset="earliest").records, lag_of(None, 120, 150, reset="latest").records
    (30, 0)
    >>> lag_of(160, 0, 150)
    Lag(records=0, basis=<Basis.BEYOND: 'beyond the end'>, lost=0, beyond=10)
    """
    if log_start is None or log_end is None:
        return UNKNOWN
    if committed is None or committed < 0:
        return Lag(log_end - log_start if reset == "earliest" else 0, Basis.RESET)
    if committed > log_end:
        return Lag(0, Basis.BEYOND, beyond=committed - log_end)
    if committed < log_start:
        return Lag(log_end - log_start, Basis.LOG_START, lost=log_start - committed)
    return Lag(log_end - committed, Basis.COMMITTED)
