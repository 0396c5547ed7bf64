"""Coroutine functions on the event loop of the caller, beside whatever else that runs.

So handlers may use what is bound to that loop: connection pools, sessions, locks, queues. Handlers see the context
variables that were set when the pool was made. The loop is not ours: a worker makes room for other tasks after every
call, and one that is cancelled ends with the call at hand, which has failed; the next calls get another worker.

When a program ends, ``asyncio.run`` cancels all tasks that ``asyncio.all_tasks`` knows of. Workers are not among them:
only the task that uses the pool may end them, after it has drained them. What a handler waits for is cancelled all the
same if it is another task, so a call that is cancelled together with that user has not failed: it was interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from contextvars import Context, copy_context

from seamark.parallel.core.work import StartCall
from seamark.parallel.pools.call import Argument, Handler
from seamark.parallel.pools.loop import LoopWorkers
from seamark.parallel.pools.pool import CannotRunHandlers, Mailbox

# How long handlers that are cancelled at the end may take to clean up, before their records are let go.
_CLEAN_UP_S = 1.0
_LOOP_CLOSED = (
    "the event loop of its handlers was closed while the consumer ran: leave the async with block before the loop ends"
)


class CallerLoopPool(LoopWorkers):
    _outlives_cancellation = False

    def __init__(
        self,
        handler: Handler,
        argument: Argument,
        mailbox: Mailbox,
        concurrency: int,
        ahead: int,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """On the loop's own thread."""
        super().__init__(handler, argument, mailbox, concurrency, ahead, loop)
        self._context: Context = copy_context()
        self._user = asyncio.current_task()
        self._has_no_tasks = threading.Event()

    def start(self, calls: Sequence[StartCall]) -> None:
        try:
            super().start(calls)
        except RuntimeError as error:
            if not self._loop.is_closed():
                raise
            raise CannotRunHandlers(_LOOP_CLOSED) from error

    def close(self, timeout: float) -> None:
        """By the owner, which waits for workers to end; not if the loop is closed, and nothing of it runs any more."""
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.clear()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)
            self._has_no_tasks.wait(max(timeout, _CLEAN_UP_S))

    # On the loop.

    def _new_task(self) -> asyncio.Task[None]:
        task = self._loop.create_task(self._work(), name="seamark-handler", context=self._context.copy())
        task.add_done_callback(self._task_ended)
        asyncio._unregister_task(task)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._is_closed:
            self._tell_if_empty()
        elif self._queue:
            self._distribute()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
            # What does not end by that is not ours any more: the program cancels it again at its own end.
            asyncio._register_task(task)
        self._tell_if_empty()

    def _tell_if_empty(self) -> None:
        if not self._tasks:
            self._has_no_tasks.set()
