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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from seamark.broker.turns import Share, Work

T = TypeVar("T")

_NICENESS = 5


class Reading(Generic[T]):
    """Work for the thread, and what became of it; a ``Wait`` of ``seamark.broker.turns``."""

    __slots__ = ("_error", "_result", "_thread", "_work", "done")

    def __init__(self, thread: ReadingThread, work: Callable[[], T]) -> None:
        self._thread = thread
        self._work: Callable[[], T] | None = work
        # Called on the loop's thread when the work is done.
        self.done: Callable[[], None] | None = None
        self._result: T | None = None
        self._error: BaseException | None = None

    def begin(self, work: Work) -> bool:
        self.done = work.resume
        self._thread.begin(self)
        return True

    def run(self) -> None:
        work, self._work = self._work, None
        assert work is not None
        try:
            self._result = work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error

    def result(self) -> T:
        """What the work returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


class ReadingThread:
    """Owned by the event loop's thread. The thread begins with the first work."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Reading[Any]] = deque()
        self._has_work = threading.Semaphore(0)
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def begin(self, reading: Reading[Any]) -> None:
        """Have it done; its ``done`` is called in a later turn of the loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seamark-broker-reading", daemon=True)
            self._thread.start()
        self._waiting.append(reading)
        self._has_work.release()

    def stop(self) -> None:
        """End when the work under way is done; nobody is told of what is left."""
        self._is_stopped = True
        if self._thread is not None:
            self._has_work.release()
            self._thread.join()

    def _run(self) -> None:
        # On a busy machine the loop comes first. Linux has a priority for each thread; elsewhere there is none to set.
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while True:
            self._has_work.acquire()
            if self._is_stopped:
                return
            reading = self._waiting.popleft()
            reading.run()
            # Taken out: it refers to the reading, and what was read must go with the last one who wants it.
            done, reading.done = reading.done, None
            assert done is not None
            try:
                self._loop.call_soon_threadsafe(done)
            except RuntimeError:
                # The loop was closed in the meantime.
                return
            del reading, done


class OneAtATime:
    """What only one piece of work may do at a time, such as to hold an unfolded batch; the others wait for it.

    Those who wait get it in turn by their shares, whoever has more work.
    """

    def __init__(self) -> None:
        self._holder: Work | None = None
        self._waiting: dict[Share, deque[Work]] = {}

    def begin(self, work: Work) -> bool:
        """Take it, as a ``Wait`` of ``seamark.broker.turns``; whoever has got it calls ``release``."""
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
