"""Coroutine functions on one event loop, in a thread of its own.

As many workers as may run at a time take calls from a deque, each a task that lives as long as the pool: a call costs
no task of its own. Each call has a copy of the worker's context, so what a handler sets there is not seen by the next.
What ends in one turn of the loop is reported together. A plain function runs on the loop too, one call at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from types import CoroutineType, coroutine
from typing import Any

from seamark.parallel.core.handler_kinds import check_answer, is_async
from seamark.parallel.core.work import InFlightRecord, StartCall
from seamark.parallel.pools.call import Argument, Handler, line_of_coroutine
from seamark.parallel.pools.carried_errors import tellable
from seamark.parallel.pools.pool import WORTH_WAKING, Mailbox, taken_back
from seamark.parallel.pools.whereabouts import running_in
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.parallel")


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopWorkers:
    """The workers of a pool on ``loop``, whichever thread runs that. ``Pool`` but for ``close``."""

    # Whether a worker that is cancelled goes on with the next call: it does where the pool alone may end its tasks.
    _outlives_cancellation = True
    # The task whose cancellation ends the program's use of the pool, if that has one.
    _user: asyncio.Task[Any] | None = None

    def __init__(
        self,
        handler: Handler,
        argument: Argument,
        mailbox: Mailbox,
        concurrency: int,
        ahead: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._handler = handler
        self._argument = argument
        self._mailbox = mailbox
        self._is_async = is_async(handler)
        self._limit = concurrency if self._is_async else 1
        self._low = ahead // 2
        self._queue: deque[StartCall] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # By the identity of the call, which has no hash.
        self._running: dict[int, tuple[StartCall, Coroutine[Any, Any, Any] | None]] = {}
        self._is_told = False
        self._is_notifying = False
        self._is_closed = False
        self._loop = loop

    def start(self, calls: Sequence[StartCall]) -> None:
        self._queue.extend(calls)
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon_threadsafe(self._distribute)

    def withdraw(self) -> list[StartCall]:
        return taken_back(self._queue)

    def stands_at(self, work: InFlightRecord) -> str | None:
        for call, started in list(self._running.values()):
            if work in call.works:
                return line_of_coroutine(started) if started is not None else "the event loop"
        return None

    # On the loop.

    def _distribute(self) -> None:
        self._is_told = False
        wanted = len(self._queue)
        while wanted > 0 and self._idle:
            future = self._idle.pop()
            if not future.done():
                future.set_result(None)
            wanted -= 1
        while wanted > 0 and len(self._tasks) < self._limit and not self._is_closed:
            self._tasks.add(self._new_task())
            wanted -= 1

    def _new_task(self) -> asyncio.Task[None]:
        return self._loop.create_task(self._work())

    async def _work(self) -> None:
        queue, mailbox, running = self._queue, self._mailbox, self._running
        succeeded, failed = mailbox.succeeded, mailbox.failed
        handler, argument = self._handler, self._argument
        is_plain, has_coroutine, user = argument.is_plain, self._is_async, self._user
        cancellations, take_step = 0, CoroutineType.send
        running_in.set(self)
        task = asyncio.current_task()
        assert task is not None
        while not self._is_closed:
            try:
                call = queue.popleft()
            except IndexError:
                await self._sleep(task)
                continue
            if user is not None:
                cancellations = user.cancelling()
            try:
                given = call.works[0].record if is_plain else argument.of_works(call.works)
                context = copy_context()
                if has_coroutine:
                    started = handler(given)
                    running[id(call)] = call, started
                    if type(started) is not CoroutineType:
                        started = _awaited(started)
                    try:
                        waits_for = context.run(take_step, started, None)
                    except StopIteration as end:
                        answer = end.value
                    else:
                        answer = await _rest_of(started, waits_for, context)
                    if answer is not None:
                        check_answer(answer)
                else:
                    running[id(call)] = call, None
                    check_answer(context.run(handler, given))
                if task.cancelling():
                    # A cancellation that was not delivered yet makes the call fail, as it would a task of its own.
                    await self._settle_cancellation(task)
            except BaseException as error:  # noqa: BLE001 - also SystemExit and CancelledError: its records are not done
                if self._has_ended():
                    return
                if isinstance(error, asyncio.CancelledError):
                    is_interrupted = user is not None and user.cancelling() > cancellations
                    mailbox.cancelled.append((call, tellable(error), is_interrupted))
                else:
                    failed.append((call, tellable(error)))
                if task.cancelling() and self._outlives_cancellation:
                    with contextlib.suppress(asyncio.CancelledError):
                        await self._settle_cancellation(task)
            else:
                succeeded.append(call)
            running.pop(id(call), None)
            if len(queue) <= self._low or len(succeeded) >= WORTH_WAKING:
                if not has_coroutine:
                    mailbox.notify()
                elif not self._is_notifying:
                    self._is_notifying = True
                    self._loop.call_soon(self._notify)
            if not self._outlives_cancellation:
                if task.cancelling():
                    return
                # A handler that never waits must not keep the loop from the rest of the program.
                await asyncio.sleep(0)

    async def _sleep(self, task: asyncio.Task[Any]) -> None:
        future = self._loop.create_future()
        self._idle.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if self._has_ended() or not self._outlives_cancellation:
                if future in self._idle:
                    self._idle.remove(future)
                raise
            # A handler cancelled all tasks of its loop. The calls that ran have failed; this worker had none.
            if future in self._idle:
                self._idle.remove(future)
            with contextlib.suppress(asyncio.CancelledError):
                await self._settle_cancellation(task)

    async def _settle_cancellation(self, task: asyncio.Task[Any]) -> None:
        """Have a cancellation delivered now, if it was not yet: it was not meant for the next calls of this worker."""
        try:
            await asyncio.sleep(0)
        finally:
            while task.cancelling() and self._outlives_cancellation:
                task.uncancel()

    def _has_ended(self) -> bool:
        return self._is_closed

    def _notify(self) -> None:
        self._is_notifying = False
        self._mailbox.notify()


@coroutine
def _rest_of(begun: Coroutine[Any, Any, Any], waits_for: Any, context: Context) -> Generator[Any, Any, Any]:
    """Of a coroutine that began in this context and waits for something; all of its steps are taken there."""
    run = context.run
    while True:
        try:
            try:
                sent = yield waits_for
            except GeneratorExit:
                run(begun.close)
                raise
            except BaseException as error:  # noqa: BLE001 - for the coroutine, which decides what becomes of it
                waits_for = run(begun.throw, error)
            else:
                waits_for = run(begun.send, sent)
        except StopIteration as end:
            return end.value


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class LoopPool(LoopWorkers):
    def __init__(self, handler: Handler, argument: Argument, mailbox: Mailbox, concurrency: int, ahead: int) -> None:
        super().__init__(handler, argument, mailbox, concurrency, ahead, _new_event_loop())
        # The loop was told to stop by the pool, not by a handler.
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="seamark-handlers", daemon=True)
        self._thread.start()

    def close(self, timeout: float) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.clear()
        self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    # On the loop.

    def _stop(self) -> None:
        self._is_stopping = True
        self._loop.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._is_stopping:
                self._run_loop()
        finally:
            for task in self._tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _run_loop(self) -> None:
        """Until the pool is closed, or a handler or one of its tasks has stopped the loop that all of them share."""
        try:
            self._loop.run_forever()
        except BaseException:  # SystemExit in a task that a handler started ends the loop
            if self._loop.is_closed():
                raise
            _log.exception("A task started by a handler raised an error out of the event loop; the loop continues.")
        else:
            if not self._is_stopping:
                _log.warning("A handler stopped the event loop that handlers run on; the loop continues.")
