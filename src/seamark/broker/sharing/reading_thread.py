"""Work beside the event loop: what takes long and touches nothing of the broker's, on a thread of its own.

A batch that unfolds to 64 MiB takes a tenth of a second to unfold, during which the loop serves everybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.storage.aside import Aside, Pauses

if TYPE_CHECKING:
    from seamark.broker.sharing.turns import Share, Wait, Work

T = TypeVar("T")

_NICENESS = 5


class Reading:
    """The ``Wait`` of ``turns`` for work that the thread does; ``aside`` has what became of it."""

    __slots__ = ("_aside", "_thread")

    def __init__(self, thread: ReadingThread, aside: Aside[Any]) -> None:
        self._thread = thread
        self._aside = aside

    def begin(self, work: Work) -> bool:
        self._thread.begin(self._aside, work.resume)
        return True


class ReadingThread:
    """Owned by the event loop's thread. The thread begins with the first work."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: SimpleQueue[tuple[Aside[Any], Callable[[], None]] | None] = SimpleQueue()
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def begin(self, aside: Aside[Any], done: Callable[[], None]) -> None:
        """Have it run; ``done`` is called in a later turn of the loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seamark-broker-reading", daemon=True)
            self._thread.start()
        self._queue.put((aside, done))

    def stop(self) -> None:
        """End when the work under way is done; nobody is told of what is left."""
        self._is_stopped = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        # On a busy machine the loop comes first. Linux has a priority for each thread; elsewhere there is none to set.
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while (wanted := self._queue.get()) is not None and not self._is_stopped:
            aside, done = wanted
            aside.run()
            try:
                self._loop.call_soon_threadsafe(done)
            except RuntimeError:
                # The loop was closed in the meantime.
                return
            # What was read must go with the last one who wants it.
            del wanted, aside, done


def beside(thread: ReadingThread, steps: Pauses[T]) -> Generator[Wait | None, None, T]:
    """Steps of the storage's as steps of the event loop's: what may be done aside is done on the thread."""
    with contextlib.closing(steps):
        while True:
            try:
                aside = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            yield None if aside is None else Reading(thread, aside)


class OneAtATime:
    """What only one piece of work may do at a time, such as to hold an unfolded batch; the others wait for it.

    Those who wait get it in turn by their shares, whoever has more work.
    """

    def __init__(self) -> None:
        self._holder: Work | None = None
        self._waiting: dict[Share, deque[Work]] = {}

    def begin(self, work: Work) -> bool:
        """Take it, as a ``Wait`` of ``seamark.broker.sharing.turns``; whoever has got it calls ``release``."""
        if self._holder is None:
            self._take(work)
            return False
        self._waiting.setdefault(work.share, deque()).append(work)
        return True

    def release(self) -> None:
        assert self._holder is not None
        self._holder.is_holding = False
        self._holder = None
        for share, line in self._waiting.items():
            work = line.popleft()
            # The share goes to the end.
            del self._waiting[share]
            if line:
                self._waiting[share] = line
            self._take(work)
            work.resume()
            break

    def _take(self, work: Work) -> None:
        self._holder = work
        work.is_holding = True
