"""What a sender holds while its record is on the way: a future that can be waited for, awaited, or called back from.

Records are delivered by the batch, so the state is the batch's (``BatchOutcome``), shared by all its deliveries; a
``Delivery`` only knows its place in it. The outcome is set once, on the I/O thread; any thread may read it or wait.
User callbacks never run on the I/O thread: see ``DeliveryThread``.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from array import array
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from seamark.client.errors import ClientError, OperationTimedOut
from seamark.client.producer.delivery_failures import FailedBatch
from seamark.client.timing import Deadline
from seamark.counts import counted
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

log = readable_logger("seamark.client")

NO_OFFSET = -1


class Delivered(NamedTuple):
    """Where a record was stored; ``offset`` is -1 if nobody told (acks=0, or a batch that was stored before)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


DeliveryCallback = Callable[[Delivered | None, ClientError | None], Any]


class BatchOutcome:
    """How a batch ended, and who waits for it."""

    __slots__ = (
        "_halves",
        "_lock",
        "_waiters",
        "append_time_ms",
        "base_offset",
        "error",
        "failure",
        "is_done",
        "partition",
        "timestamps",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.is_done = False
        self.error: ClientError | None = None
        # Set before the error: whom it was told to.
        self.failure: FailedBatch | None = None
        self.base_offset = NO_OFFSET
        # The broker's time for all records, or -1 where each has its own.
        self.append_time_ms = -1
        # Not a list: there is one for every batch whose deliveries are kept, and the collector would walk through all.
        self.timestamps = array("q")
        self._lock = threading.Lock()
        self._waiters: list[Callable[[], None]] = []
        self._halves: tuple[int, BatchOutcome, BatchOutcome] | None = None

    def become(self, middle: int, first: BatchOutcome, second: BatchOutcome) -> None:
        """The batch was split: records below ``middle`` share the first outcome, the others the second."""
        self._halves = (middle, first, second)

        def finish_if_both() -> None:
            if first.is_done and second.is_done:
                self.finish(first.base_offset, -1, first.error or second.error)

        first.when_done(finish_if_both)
        second.when_done(finish_if_both)

    def part(self, index: int) -> tuple[BatchOutcome, int]:
        """Whose outcome the record's is, and its place there."""
        if self._halves is None:
            return self, index
        middle, first, second = self._halves
        return first.part(index) if index < middle else second.part(index - middle)

    def finish(self, base_offset: int, append_time_ms: int, error: ClientError | None) -> None:
        """Set the outcome and tell all who wait; does nothing the second time."""
        with self._lock:
            if self.is_done:
                return
            self.base_offset, self.append_time_ms, self.error = base_offset, append_time_ms, error
            self.is_done = True
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def when_done(self, waiter: Callable[[], None]) -> None:
        """Call ``waiter`` once there is an outcome: at once, or on the thread that sets it."""
        with self._lock:
            if not self.is_done:
                self._waiters.append(waiter)
                return
        waiter()

    def forget(self, waiter: Callable[[], None]) -> None:
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def wait(self, timeout: float | None) -> bool:
        if self.is_done:
            return True
        event = threading.Event()
        self.when_done(event.set)
        if event.wait(timeout):
            return True
        self.forget(event.set)
        return self.is_done

    async def wait_async(self) -> None:
        """Wait in the caller's own event loop."""
        if self.is_done:
            return
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(arrived.set)

        self.when_done(tell)
        try:
            await arrived.wait()
        finally:
            self.forget(tell)

    def settled(self, index: int) -> Delivered:
        """Where the record was stored, or its error raised."""
        if (error := self.look(index)) is not None:
            raise error
        outcome, place = self.part(index)
        return outcome.delivered(place)

    def look(self, first: int, count: int = 1) -> ClientError | None:
        """The first error of these records, if any; with that the caller was told about all of them."""
        if self.error is None:
            return None
        if self._halves is not None:
            middle, head, tail = self._halves
            in_head = max(0, min(first + count, middle) - first)
            error = head.look(first, in_head) if in_head else None
            error_behind = tail.look(max(first, middle) - middle, count - in_head) if in_head < count else None
            return error or error_behind
        if self.failure is not None:
            self.failure.look(range(first, first + count))
        return self.error

    def failures(self) -> list[FailedBatch]:
        """Of the batch or its halves."""
        if self._halves is None:
            return [] if self.failure is None else [self.failure]
        _, first, second = self._halves
        return first.failures() + second.failures()

    def delivered(self, index: int) -> Delivered:
        topic, number = self.partition
        offset = NO_OFFSET if self.base_offset == NO_OFFSET else self.base_offset + index
        timestamp_ms = self.append_time_ms if self.append_time_ms >= 0 else self.timestamps[index]
        return Delivered(topic, number, offset, timestamp_ms)


class Delivery:
    """The future of one record: ``result()`` blocks, ``await`` awaits; both give ``Delivered`` or raise."""

    __slots__ = ("_index", "_outcome")

    def __init__(self, outcome: BatchOutcome, index: int) -> None:
        self._outcome = outcome
        self._index = index

    @property
    def partition(self) -> TopicPartition:
        """Where the record goes; known from the start."""
        return self._outcome.partition

    def done(self) -> bool:
        return self._outcome.is_done

    def result(self, timeout: float | None = None) -> Delivered:
        """Wait for the acknowledgement; OperationTimedOut if it is not there in ``timeout`` seconds."""
        if not self._outcome.wait(timeout):
            raise OperationTimedOut(f"delivery of a record to {self._outcome.partition}", timeout or 0.0)
        return self._outcome.settled(self._index)

    def exception(self, timeout: float | None = None) -> ClientError | None:
        if not self._outcome.wait(timeout):
            raise OperationTimedOut(f"delivery of a record to {self._outcome.partition}", timeout or 0.0)
        return self._outcome.look(self._index)

    def __await__(self) -> Generator[Any, None, Delivered]:
        yield from self._outcome.wait_async().__await__()
        return self._outcome.settled(self._index)

    def __repr__(self) -> str:
        outcome, place = self._outcome.part(self._index)
        state = (outcome.error or outcome.delivered(place)) if outcome.is_done else "on the way"
        return f"<Delivery to {outcome.partition}: {state}>"


class DeliveryRun(NamedTuple):
    """The futures of many records that were sent together: runs of (outcome, first index, count)."""

    runs: tuple[tuple[BatchOutcome, int, int], ...]

    def __len__(self) -> int:
        return sum(count for _, _, count in self.runs)

    def done(self) -> bool:
        return all(outcome.is_done for outcome, _, _ in self.runs)

    def result(self, timeout: float | None = None) -> list[Delivered]:
        """Where each record was stored, in the order they were given; raises the first error."""
        if (error := self.exception(timeout)) is not None:
            raise error
        return [outcome.settled(index) for outcome, first, count in self.runs for index in range(first, first + count)]

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """Wait for all of them; the first error, or None if every record was stored."""
        deadline = Deadline.never() if timeout is None else Deadline(timeout)
        for outcome, _, _ in self.runs:
            if not outcome.wait(None if timeout is None else deadline.remaining):
                raise deadline.timed_out(f"delivery of {counted(len(self), 'record')}")
        errors = [outcome.look(first, count) for outcome, first, count in self.runs]
        return next((error for error in errors if error is not None), None)

    def __await__(self) -> Generator[Any, None, list[Delivered]]:
        for outcome, _, _ in self.runs:
            yield from outcome.wait_async().__await__()
        return self.result()


class DeliveryThread:
    """Runs users' delivery callbacks, in the order of acknowledgement, apart from the I/O thread.

    Started by the first record that has a callback: a program that ends can start no more threads. What a callback
    raises is logged: there is nobody to raise it to.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """From any thread, before the first callback can be due."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._serve, name="seamark-delivery", daemon=True)
                    thread.start()
                    self._thread = thread

    def run(self, outcome: BatchOutcome, callbacks: list[tuple[int, DeliveryCallback]]) -> None:
        """On the I/O thread: have these called with the outcome that is about to be set."""
        self._work.put(lambda: _call(outcome, callbacks))

    def drain(self, timeout: float | None) -> bool:
        """Wait until the callbacks handed over so far have run; a callback itself need not wait for itself."""
        thread = self._thread
        if thread is None or threading.current_thread() is thread:
            return True
        reached = threading.Event()
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._work.put(reached.set)
        if is_closed:
            thread.join(timeout)
            return not thread.is_alive()
        return reached.wait(timeout)

    def close(self) -> None:
        """The thread ends when the callbacks handed over so far have run."""
        with self._lock:
            self._is_closed = True
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _call(outcome: BatchOutcome, callbacks: list[tuple[int, DeliveryCallback]]) -> None:
    outcome.wait(None)
    for index, callback in callbacks:
        try:
            callback(None if outcome.error else outcome.delivered(index), outcome.error)
        except BaseException:
            # Also SystemExit and CancelledError: they would end this thread, and with it all later callbacks.
            log.exception("a delivery callback failed", extra={"partition": str(outcome.partition)})
