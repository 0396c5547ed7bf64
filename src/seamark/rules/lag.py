"""How far a group is behind in one partition, and what the difference of two offsets hides.

``records`` is what Kafka's own tool prints as LAG: the log's end minus the committed offset. It falls into three parts,
``lag = lost + done_ahead + unfinished``: what was deleted (by retention or DeleteRecords) before the group had read it,
what a parallel consumer has finished beyond its committed offset, and what is left to do. A committed offset beyond the
log's end (a topic made anew, a wrong reset) has a negative lag, as in Kafka's tool, and ``beyond`` says how far.

All of these count offsets, as Kafka does. Where a log has gaps (compaction, transaction markers) there are fewer
records. Only the log's start tells what was deleted: a gap behind it is never counted as lost.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seamark.counts import counted


class Basis(enum.Enum):
    """What the number of records was counted from."""

    COMMITTED = "committed"
    # Nothing is committed: the consumer's auto.offset.reset decides where it starts, and only the consumer knows that.
    NO_COMMIT = "no commit"
    # The committed offset lies beyond the end of the log.
    BEYOND = "beyond the end"
    # The partition did not answer.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Lag:
    """``records`` is None where it is not known, and negative for a committed offset beyond the end."""

    records: int | None
    basis: Basis
    lost: int = 0
    beyond: int = 0
    done_ahead: int = 0

    @property
    def unfinished(self) -> int | None:
        """What the group has still to do; None where that is not known."""
        if self.records is None:
            return None
        return 0 if self.beyond else self.records - self.lost - self.done_ahead


UNKNOWN = Lag(None, Basis.UNKNOWN)


def lag_of(
    committed: int | None,
    log_start: int | None,
    log_end: int | None,
    reset: str | None = None,
    done_ahead: Sequence[tuple[int, int]] = (),
) -> Lag:
    """The lag of one partition; a log bound of None means that the partition did not answer.

    ``reset`` is where a partition without a commit is counted from: earliest, latest, or None if that is not known.
    ``done_ahead`` are ranges (start, stop) beyond the committed offset that were finished out of order.

    >>> lag_of(100, 0, 150)
    Lag(records=50, basis=<Basis.COMMITTED: 'committed'>, lost=0, beyond=0, done_ahead=0)
    >>> lag_of(100, 120, 150).records, lag_of(100, 120, 150).lost, lag_of(100, 120, 150).unfinished
    (50, 20, 30)
    >>> lag_of(100, 0, 150, done_ahead=[(101, 141)]).unfinished
    10
    >>> lag_of(None, 120, 150).records, lag_of(None, 120, 150, reset="earliest").records
    (None, 30)
    >>> lag_of(160, 0, 150).records, lag_of(160, 0, 150).beyond
    (-10, 10)
    """
    if log_start is None or log_end is None:
        return UNKNOWN
    if committed is None or committed < 0:
        if reset is None:
            return Lag(None, Basis.NO_COMMIT)
        return Lag(log_end - log_start if reset == "earliest" else 0, Basis.NO_COMMIT)
    if committed > log_end:
        return Lag(log_end - committed, Basis.BEYOND, beyond=committed - log_end)
    # What was finished ahead and deleted afterwards was not lost.
    lost = log_start - committed - _within(done_ahead, committed, log_start) if committed < log_start else 0
    return Lag(log_end - committed, Basis.COMMITTED, lost, done_ahead=_within(done_ahead, committed, log_end))


def total(lags: Iterable[Lag]) -> int | None:
    """The lag of several partitions together; None if that of none is known.

    A partition whose committed offset lies beyond the end is left out: its negative lag would hide that of the others.

    >>> total([lag_of(100, 0, 150), lag_of(160, 0, 150), lag_of(None, 0, 150)])
    50
    """
    known = [lag.records for lag in lags if lag.records is not None and not lag.beyond]
    return sum(known) if known else None


def total_unfinished(lags: Iterable[Lag]) -> int | None:
    """As ``total``, of what is left to do."""
    known = [lag.unfinished for lag in lags if lag.unfinished is not None and not lag.beyond]
    return sum(known) if known else None


def loss_text(lag: Lag) -> str:
    """What is wrong with an offset that the log does not hold; empty if nothing is.

    >>> loss_text(lag_of(20, 60, 100)), loss_text(lag_of(130, 0, 100)), loss_text(lag_of(20, 0, 100))
    ('40 records deleted before being read', "the committed offset is 30 beyond the log's end", '')
    """
    if lag.beyond:
        return f"the committed offset is {lag.beyond} beyond the log's end"
    return f"{counted(lag.lost, 'record')} deleted before being read" if lag.lost else ""


def _within(ranges: Iterable[tuple[int, int]], low: int, high: int) -> int:
    """How many offsets of the ranges lie from ``low`` up to below ``high``."""
    return sum(max(0, min(stop, high) - max(start, low)) for start, stop in ranges)
