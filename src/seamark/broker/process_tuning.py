"""How a process that is nothing but a broker uses memory; not for one that embeds a broker, whose own business it is.

A request leaves no cyclic garbage, and a collection touches every group there is: the collector looks seldom. Requests
and answers of a megabyte come and go all the time: the allocator keeps what it has instead of giving each back to the
operating system, which would hand it out again page by page, cleared. What is kept this way is below ``KEPT_BYTES``
at the end of each heap; what is free between blocks in use goes back when the broker has nothing to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from pathlib import Path

KEPT_BYTES = 64 << 20
# The largest that glibc takes; above it memory always goes back at once.
_KEEP_UP_TO = 32 << 20
# Names and numbers of glibc's mallopt.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def tune_process() -> None:
    """Call it when everything that stays has been loaded."""
    gc.collect()
    gc.freeze()
    # Seldom enough to cost little, and few enough objects at a time that nobody waits for it.
    gc.set_threshold(10_000, 5, 1000)
    # Other C libraries have no such setting, and their allocators other habits.
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEEP_UP_TO)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


class SpareMemory:
    """What the process holds beyond what it had when memory was last given back."""

    def __init__(self) -> None:
        self._least = resident_bytes()

    @property
    def is_much(self) -> bool:
        return resident_bytes() > self._least + KEPT_BYTES // 4

    def give_back(self) -> None:
        """Give what is free back to the operating system; takes some milliseconds, so it is for another thread."""
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
        self._least = resident_bytes()


def resident_bytes() -> int:
    """What the process has in memory; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
