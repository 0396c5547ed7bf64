"""What running consumers ask of the whole interpreter; given back when the last of them has ended.

Records that wait are many objects and none of them is in a cycle, but at Python's defaults the collector looks through
them after every few hundred that come: a third of all time with cheap handlers. So it looks less often, unless the
program has set a threshold of its own.

Python lets a thread run for 5 ms before another gets its turn. A loop that has to wait that long for the owner is late
for all its handlers at once, so turns are shorter there; with many threads more turns cost more than they bring.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# The thresholds of CPython 3.11 and 3.12, and of 3.13: what a program has that never thought of it.
_UNTOUCHED = (700, 2000)
_NEW_OBJECTS = 10_000
_LOOP_SWITCH_S = 0.0005

_lock = threading.Lock()
_running = 0
_found: tuple[tuple[int, int, int], float]


@contextmanager
def tuned(*, for_a_loop: bool) -> Iterator[None]:
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
