"""A broker that is the process: runs until a signal ends it.

What the caller got wrong (an option, an address in use, another broker's directory) is raised before anything serves.

Memory is tuned for a process that does nothing else; a process that embeds a broker is left alone. A request leaves no
cyclic garbage, and a collection touches every group there is: the collector looks seldom. Requests and answers of a
megabyte come and go all the time: the allocator keeps what it has instead of giving each back to the operating system,
which would hand it out again page by page, cleared. What is kept this way is below ``KEPT_BYTES`` at the end of each
heap; what is free between blocks in use goes back when the broker has nothing to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seamark.broker.event_loop import new_event_loop
from seamark.broker.server import BrokerServer
from seamark.broker.sharing.file_limits import raise_open_file_limit
from seamark.readable_log import ReadableFormatter

_MEMORY_SECONDS = 10.0
# In looks at the memory.
_LONGEST_WAIT = 64
KEPT_BYTES = 64 << 20
# The largest that glibc takes; above it memory always goes back at once.
_KEEP_UP_TO = 32 << 20
# Names and numbers of glibc's mallopt.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def run(*, say: Callable[[str], None], verbose: bool, **options: Any) -> None:
    """Serve until SIGTERM or SIGINT; ``options`` are those of ``BrokerServer``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ReadableFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    raise_open_file_limit()
    share_one_heap()
    # Large requests are read on another thread; the event loop's must not wait for it longer than this.
    sys.setswitchinterval(0.001)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve(loop, say, options))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _serve(loop: asyncio.AbstractEventLoop, say: Callable[[str], None], options: dict[str, Any]) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = BrokerServer(loop, _call_here, **options)
    await server.start()
    tune_process()
    _give_memory_back(loop, server, SpareMemory())
    try:
        say(f"ready bootstrap={server.bootstrap}")
        sys.stdout.flush()
        await ended.wait()
    finally:
        await server.stop()


def _give_memory_back(loop: asyncio.AbstractEventLoop, server: BrokerServer, spare: SpareMemory) -> None:
    """From time to time, when nothing waits to be done."""
    if not len(server.turns) and spare.is_much:
        loop.run_in_executor(None, spare.give_back)
    loop.call_later(_MEMORY_SECONDS, _give_memory_back, loop, server, spare)


def _call_here(function: Callable[[], Any]) -> Any:
    return function()


def share_one_heap() -> None:
    """Let all threads have one heap: what is free at the end of a thread's own never goes back. Before they begin."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


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
    """What the process holds beyond what it had when memory was last given back.

    What is in use cannot go back, and may be free later: it is tried again, after longer and longer waits.
    """

    def __init__(self) -> None:
        self._first = self._least = resident_bytes()
        self._wait = 1
        self._looks = 0

    @property
    def is_much(self) -> bool:
        """Whether to try; to be asked from time to time."""
        held = resident_bytes()
        if held > self._least + KEPT_BYTES // 4:
            self._wait = 1
            return True
        if held <= self._first + KEPT_BYTES // 4:
            return False
        self._looks += 1
        if self._looks < self._wait:
            return False
        self._looks = 0
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        return True

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
