"""A progress line in the terminal: rate, what is in flight, lag, and what holds the work back.

On a terminal one line is written over; elsewhere a plain line is printed now and then, so that logs stay readable.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self, TextIO

from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.parallel.observe.health import HasStatus
from seamark.parallel.observe.metrics import lag_of
from seamark.parallel.observe.status import State, Status
from seamark.readable_text import readable

_EVERY_S = 1.0
_EVERY_PLAIN_S = 10.0
_WIDTH = 100


def progress_text(status: Status, records_per_second: float) -> str:
    """One line about ``status``.

    >>> print(progress_text(Status(State.RUNNING, "billing", tally={"done": 1200}), 340.4))
    billing: 1,200 done, 340/s, 0 in flight
    """
    parts = [f"{status.tally.get('done', 0):,} done", f"{records_per_second:,.0f}/s", f"{status.in_flight:,} in flight"]
    lags = [lag_of(partition) for partition in status.partitions.values()]
    if lags and min(lags) >= 0:
        parts.append(f"lag {sum(lags):,}")
    if status.retrying:
        parts.append(f"{status.retrying:,} retrying")
    if status.parked:
        parts.append(f"{len(status.parked):,} parked")
    if dead := status.tally.get("dead_lettered", 0):
        parts.append(counted(dead, "dead letter"))
    paused = sum(partition.is_paused for partition in status.partitions.values())
    if paused:
        parts.append(f"{paused} paused")
    if status.stalls:
        worst = status.stalls[0].stall
        parts.append(
            f"{len(status.stalls)} stalled, the oldest {worst.partition} @ {worst.offset} for {worst.age:.0f} s"
        )
    if status.set_aside:
        parts.append(f"{len(status.set_aside)} set aside")
    if status.commits.failing_for:
        parts.append(f"commits failing for {status.commits.failing_for:.0f} s")
    state = "" if status.state is State.RUNNING else f" ({status.state.value})"
    return readable(f"{status.group}{state}: {', '.join(parts)}")


class Progress:
    """Shows a consumer's progress while it is entered."""

    def __init__(self, consumer: HasStatus, stream: TextIO | None = None, *, every: float | None = None) -> None:
        self._consumer = consumer
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._every = every or (_EVERY_S if self._is_terminal else _EVERY_PLAIN_S)
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen = 0
        self._seen_at = 0.0

    def __enter__(self) -> Self:
        self._seen_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="seamark-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        self._show()
        if self._is_terminal:
            self._write("\n")

    def _run(self) -> None:
        while not self._is_over.wait(self._every):
            self._show()

    def _show(self) -> None:
        try:
            status = self._consumer.blocking_status()
        except SeamarkError as error:
            line = str(error)
        else:
            now, done = time.monotonic(), status.tally.get("done", 0)
            line = progress_text(status, (done - self._seen) / max(now - self._seen_at, 1e-6))
            self._seen, self._seen_at = done, now
        self._write(f"\r{line[:_WIDTH]:<{_WIDTH}}" if self._is_terminal else f"{line}\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal is gone; the work is not.
            self._is_over.set()
