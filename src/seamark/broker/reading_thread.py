"""Reading what clients sent, where that takes long: on a thread beside the event loop, one piece of work after another.

A request of a megabyte takes a tenth of a second to decode, a batch that unfolds to 64 MiB as long to unfold. Neither
touches anything of the broker's, so the loop can serve everybody else meanwhile. One thread is enough: it keeps large
requests waiting for each other and for nobody else, and only one of them takes memory at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
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
        self._queue: SimpleQueue[Reading[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, reading: Reading[Any]) -> None:
        """Have it done; its ``done`` is called in a later turn of the loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seamark-broker-reading", daemon=True)
            self._thread.start()
        self._queue.put(reading)

    def stop(self) -> None:
        """End when the work under way is done; nobody is told of what is left."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()

    def _run(self) -> None:
        while (reading := self._queue.get()) is not None:
            reading.run()
            done = reading.done
            assert done is not None
            try:
                self._loop.call_soon_threadsafe(done)
            except RuntimeError:
                # The loop was closed in the meantime.
                return
            del reading, done
