"""Reading what clients sent, where that takes long: on a thread beside the event loop, one piece of work after another.

A request of a megabyte takes a tenth of a second to decode, a batch that unfolds to 64 MiB as long to unfold. Neither
touches anything of the broker's, so the loop can serve everybody else meanwhile. One thread is enough: large requests
wait for each other and for nobody else. Batches go first, because producers wait for them one after another.

Whoever hangs up is not read any more: what is dropped lets go of the request at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Reading(Generic[T]):
    """Work for the thread, and what became of it."""

    __slots__ = ("_error", "_result", "_work", "done")

    def __init__(self, work: Callable[[], T], done: Callable[[], None] | None = None) -> None:
        self._work: Callable[[], T] | None = work
        # Called on the loop's thread when the work is done.
        self.done = done
        self._result: T | None = None
        self._error: BaseException | None = None

    def drop(self) -> None:
        """Nobody wants the result any more."""
        self._work = None

    def run(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
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

    def begin(self, reading: Reading[Any], *, first: bool = False) -> None:
        """Have it done, before all that waits if it is ``first``; ``done`` is called in a later turn of the loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seamark-broker-reading", daemon=True)
            self._thread.start()
        if first:
            self._waiting.appendleft(reading)
        else:
            self._waiting.append(reading)
        self._has_work.release()

    def stop(self) -> None:
        """End when the work under way is done; nobody is told of what is left."""
        self._is_stopped = True
        if self._thread is not None:
            self._has_work.release()
            self._thread.join()

    def _run(self) -> None:
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
