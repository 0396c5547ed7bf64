"""Where a call comes from: a handler of some pool, a handler process, or a process that was forked off.

``stop`` goes by it: the end waits for handlers, so a handler must not wait for the end, and in another process there is
no consumer to stop.
"""

from __future__ import annotations

import multiprocessing
import os
from contextvars import ContextVar

from seamark.errors import MadeBeforeFork

# The pool whose handler runs here; tasks that a handler starts and ``asyncio.to_thread`` take it along.
running_in: ContextVar[object] = ContextVar("seamark_handler_pool", default=None)
# The name of the processes that handlers run in.
HANDLER_PROCESS = "seamark-handler-process"


def is_handler_process() -> bool:
    return multiprocessing.current_process().name == HANDLER_PROCESS


class Home:
    """The process in which ``what`` was made, whose threads a forked child does not have."""

    __slots__ = ("_process", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        return self._process == os.getpid()

    def check(self) -> None:
        if not self.is_here:
            raise MadeBeforeFork(self._what)
