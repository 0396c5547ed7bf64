"""Logs that take no more writes since the disk failed them: opened again, attempt after attempt, until it works.

Meanwhile they are read as before. A disk that turned read-only or lost its connection so needs no restart of the broker
once it is back. One line in the log says that a log cannot be opened yet, and one that it takes writes again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from seamark.broker.clock import Timers
from seamark.broker.log.partition import Partition
from seamark.errors import SeamarkError
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.broker")

# Between two attempts.
REOPENING_SECONDS = 1.0


class LogReopening:
    """Owned by the event loop's thread."""

    def __init__(
        self, timers: Timers, is_needed: Callable[[Partition], bool], done: Callable[[Partition], None]
    ) -> None:
        """``is_needed`` is asked before each attempt; ``done`` is told of the one that worked."""
        self._timers = timers
        self._is_needed = is_needed
        self._done = done
        self._planned: set[Partition] = set()

    def plan(self, partition: Partition) -> None:
        """Begin to try, if the partition's log was stopped and nobody tries yet."""
        if partition not in self._planned and partition.is_open and partition.log.writes_stopped:
            self._planned.add(partition)
            self._try_later(partition, is_first=True)

    def _try_later(self, partition: Partition, *, is_first: bool) -> None:
        self._timers.call_after(REOPENING_SECONDS, partial(self._try, partition, is_first=is_first))

    def _try(self, partition: Partition, *, is_first: bool) -> None:
        if not self._is_needed(partition):
            self._planned.discard(partition)
            return
        if partition.log.writes_stopped:
            try:
                partition.reopen()
            except SeamarkError as error:
                if is_first:
                    _log.warning(
                        "%s cannot be reopened yet, retrying every %g s: %s",
                        partition.name, REOPENING_SECONDS, error,
                    )  # fmt: skip
                self._try_later(partition, is_first=False)
                return
            _log.warning("%s accepts writes again, from offset %d on", partition.name, partition.log_end)
        self._planned.discard(partition)
        self._done(partition)
