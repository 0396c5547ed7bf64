"""The parallel consumer for asyncio programs: handlers run on the caller's own loop.

    async def handle(record):
        await pool.execute("insert into charges values ($1)", record.value)

    async with AsyncParallelConsumer(config, ["orders"], handle) as consumer:
        await consumer.wait()

Settings and promises are those of ``ParallelConsumer``. Polling and committing are the work of a thread of its own, so
a loop that is busy delays handlers, and neither heartbeats nor commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self

from seamark.errors import ConfigError, UsageError
from seamark.parallel.core.handler_kinds import is_async
from seamark.parallel.handle import (
    ANSWER_S,
    LOOK_S,
    WAITS_FOR_ITSELF,
    ConsumerHandle,
    OwnerBusy,
    Place,
    T,
    check_condition,
    check_drain,
    read_partition,
)
from seamark.parallel.observe.status import Status, Summary
from seamark.parallel.pools.call import Handler, check_handler
from seamark.parallel.pools.caller_loop import CallerLoopPool
from seamark.parallel.pools.pool import Mailbox, Pool
from seamark.parallel.pools.whereabouts import running_in
from seamark.parallel.run.runtime import Runtime
from seamark.parallel.settings import Settings
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")


class EndOnLoops:
    """The end of a consumer, for whoever waits for it on any loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_told = False
        self._events: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}

    def event(self) -> asyncio.Event:
        """Of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            event = self._events.get(loop)
            if event is None:
                self._events = {other: its for other, its in self._events.items() if not other.is_closed()}
                event = self._events[loop] = asyncio.Event()
                if self._is_told:
                    event.set()
        return event

    def tell(self) -> None:
        """By the thread that has ended."""
        with self._lock:
            self._is_told = True
            for loop, event in self._events.items():
                # Nobody waits on a loop that is closed.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(event.set)


class AsyncParallelConsumer(ConsumerHandle):
    """As ``ParallelConsumer``, for ``async def`` handlers, which run on the loop that enters its ``async with`` block.

    The block is entered once. Its end stops the consumer: handlers under way get ``drain`` seconds, what is over is
    committed, and the group is left. So does a cancellation of the task that is in the block, which is raised when all
    has ended; a second one cuts the draining short. ``on_commit`` is called on the loop.

    If the consumer ends by itself, ``wait`` and ``wait_until`` raise ConsumerStopped, each time; ``stop`` and the end
    of the block raise it if nobody has been told yet.
    """

    _loop: asyncio.AbstractEventLoop
    _end: EndOnLoops

    def _where_to_run(self, handler: Handler, run_in: str) -> Place:
        check_handler(handler)
        if not is_async(handler):
            reason = "must be a coroutine function, or it would block the loop: use async def, or ParallelConsumer"
            raise ConfigError("handler", handler, reason)
        if run_in not in ("auto", "loop"):
            raise ConfigError("run_in", run_in, "is not supported: handlers run on the caller's loop")
        return "loop"

    def _make_pool(self, mailbox: Mailbox, ahead: int) -> Pool:
        concurrency = self.settings.concurrency
        return CallerLoopPool(self._handler, self._argument, mailbox, concurrency, ahead, loop=self._loop)

    def _runtime_settings(self) -> Settings:
        """With a callback that the owner's thread hands to the loop."""
        on_commit = self.settings.commit.on_commit
        if on_commit is None:
            return self.settings
        context = copy_context()

        def tell(committed: Mapping[Any, int], error: BaseException | None) -> None:
            try:
                on_commit(committed, error)
            except Exception:  # noqa: BLE001 - user code: a callback that fails must not stop commits
                _log.exception("The on_commit callback failed.")

        def tell_on_loop(committed: Mapping[Any, int], error: BaseException | None) -> None:
            self._loop.call_soon_threadsafe(tell, committed, error, context=context)

        return dataclasses.replace(
            self.settings, commit=dataclasses.replace(self.settings.commit, on_commit=tell_on_loop)
        )

    # -- running

    async def __aenter__(self) -> Self:
        if self._runtime is None:
            self._loop = asyncio.get_running_loop()
            self._end = EndOnLoops()
            # Made first, so that callbacks of commits are told on this loop before the end is.
            self._end.event()
        runtime = self._begin()
        threading.Thread(target=self._own_and_tell, args=(runtime,), name="seamark-parallel", daemon=True).start()
        return self

    def _own_and_tell(self, runtime: Runtime) -> None:
        self._own(runtime)
        self._end.tell()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._home.is_here:
            return
        await self._stop()
        self._raise_at_end_of_block(error)

    async def wait(self, timeout: float | None = None) -> Summary | None:
        """The summary once it has ended, None if it has not in ``timeout`` seconds; ConsumerStopped if by itself.

        May be awaited on any loop. UsageError if a handler calls it: the end waits for the handler.
        """
        self._check_entered()
        if self._is_handler():
            raise UsageError(WAITS_FOR_ITSELF)
        try:
            async with asyncio.timeout(timeout):
                await self._end.event().wait()
        except TimeoutError:
            return None
        self._raise_failure()
        return self._summary

    async def wait_until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        """Wait until ``condition()`` is true; False if it is not in ``timeout`` seconds, or the consumer is stopped.

        ``condition`` is a plain function, called on the loop of the caller about fifty times a second. If the consumer
        ends by itself before it is true, ConsumerStopped is raised.
        """
        check_condition(condition)
        self._check_entered()
        ended, clock = self._end.event(), asyncio.get_running_loop().time
        deadline = math.inf if timeout is None else clock() + timeout
        while not condition():
            left = deadline - clock()
            if left <= 0:
                return False
            if ended.is_set():
                self._raise_failure()
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, left)):
                    await ended.wait()
        return True

    def _check_entered(self) -> None:
        self._home.check()
        if self._runtime is None:
            self._running()

    async def stop(self, drain: float | None = None) -> Summary | None:
        """Start nothing more, let handlers end for at most ``drain`` seconds, commit, leave the group; on any loop.

        Waits for the end, but not if a handler calls it, for which the end waits: then it asks for the stop and returns
        None at once. Cancelled, it drains no longer and raises the cancellation when all has ended. Raises
        ConsumerStopped if the consumer has ended by itself and nothing has raised that before.
        """
        summary = await self._stop(drain)
        if not self._is_told:
            self._raise_failure()
        return summary

    async def _stop(self, drain: float | None = None) -> Summary | None:
        check_drain(drain)
        if not self._has_begun() or self._end.event().is_set():
            return self._summary
        self._ask_to_stop(drain)
        if not self._is_handler():
            await self._drained()
        return self._summary

    def _is_handler(self) -> bool:
        """Whether a handler of this consumer calls, for which its end waits."""
        return self._runtime is not None and running_in.get() is self._runtime.pool

    async def _drained(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        ended = self._end.event()
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                self._ask_to_stop(0.0)
        if cancelled is not None:
            raise cancelled

    def _ask_to_stop(self, drain: float | None = None) -> None:
        # Nothing can drain on a loop that is closed.
        super()._ask_to_stop(0.0 if self._loop.is_closed() else drain)

    def _end_with_program(self) -> None:
        _log.warning(
            "The program exits while the parallel consumer of group %r is running, and the event loop of its "
            "handlers has ended. Finished records are committed; leave the async with block before the loop ends "
            "to drain handlers.",
            self._group,
        )
        self._ask_to_stop(0.0)
        self._ended.wait()

    # -- questions and orders

    async def status(self) -> Status:
        """What is going on; also before the start and after the end, and on any loop."""
        try:
            return await self._answer(self._ask_status())
        except OwnerBusy:
            return self._older_status()

    async def skip(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Give up a record that is running, waits for a retry or is parked; the frontier passes it."""
        await self._answer(self._ask_to_skip(read_partition(partition), offset))

    async def dead_letter(
        self, partition: TopicPartition | tuple[str, int], offset: int, topic: str | None = None
    ) -> None:
        """Write a record that is running, waits for a retry or is parked to the dead-letter topic and pass it."""
        await self._answer(self._ask_to_dead_letter(read_partition(partition), offset, topic))

    @staticmethod
    async def _answer(answer: Future[T]) -> T:
        # Shielded: the owner answers also who has given up.
        waiting = asyncio.shield(asyncio.wrap_future(answer))
        try:
            return await asyncio.wait_for(waiting, ANSWER_S)
        except TimeoutError:
            raise OwnerBusy from None
