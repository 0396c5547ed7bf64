"""What running consumers ask of the whole process: a collector that looks less often, shorter turns, and signals.

Records that wait are many objects and none of them is in a cycle, but at Python's defaults the collector looks through
them after every few hundred that come: a third of all time with cheap handlers. So it looks less often, unless the
program has set a threshold of its own. It is given back when the last consumer has ended.

Python lets a thread run for 5 ms before another gets its turn. A loop that has to wait that long for the owner is late
for all its handlers at once, so turns are shorter there; with many threads more turns cost more than they bring.

SIGTERM and SIGINT mean: drain and end. A second one means: now. Signals can be heard by the main thread alone;
elsewhere nothing is done about them. The handlers that were there before are put back at the end.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

# The thresholds of CPython 3.11 and 3.12, and of 3.13: what a program has that never thought of it.
_UNTOUCHED = (700, 2000)
_NEW_OBJECTS = 10_000
_LOOP_SWITCH_S = 0.0005

_lock = threading.Lock()
_running = 0
_found: tuple[tuple[int, int, int], float]


@contextmanager
def relaxed_gc(*, for_a_loop: bool) -> Iterator[None]:
    """While a consumer runs. Consumers may overlap in any order."""
    global _running, _found
    with _lock:
        if not _running:
            _found = gc.get_threshold(), sys.getswitchinterval()
            first, *others = _found[0]
            if first in _UNTOUCHED:
                gc.set_threshold(_NEW_OBJECTS, *others)
        _running += 1
        if for_a_loop:
            sys.setswitchinterval(min(sys.getswitchinterval(), _LOOP_SWITCH_S))
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                threshold, switch = _found
                if gc.get_threshold() == (_NEW_OBJECTS, *threshold[1:]):
                    gc.set_threshold(*threshold)
                sys.setswitchinterval(switch)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class DrainOnSignal:
    def __init__(self, stop: Callable[[float | None], object]) -> None:
        self._stop = stop
        self._is_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._heard)

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        # No log here: a signal may come in the middle of a log line.
        is_second, self._is_asked = self._is_asked, True
        self._stop(0.0 if is_second else None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
