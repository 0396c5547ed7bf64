"""Plain functions on threads.

Threads take calls from one deque, one at a time, and go to sleep when it is empty. Waking costs more than a cheap
handler, so only one is woken at a time; a thread that starts on a call wakes the next one if more calls wait. With
cheap handlers one thread does all of them in a row, with slow ones all threads are at work after a moment. Each call
has a copy of its thread's context, so what a handler sets there is not seen by the next.

Threads are daemons: a handler that hangs does not keep the program from ending.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextvars import copy_context
from itertools import count

from seamark.parallel.core.handler_kinds import check_answer
from seamark.parallel.core.work import InFlightRecord, StartCall
from seamark.parallel.pools.call import Argument, Handler, line_of_thread
from seamark.parallel.pools.carried_errors import tellable
from seamark.parallel.pools.pool import WORTH_WAKING, Mailbox, taken_back
from seamark.parallel.pools.whereabouts import running_in
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.parallel")


class ThreadPool:
    def __init__(self, handler: Handler, argument: Argument, mailbox: Mailbox, concurrency: int, ahead: int) -> None:
        self._handler = handler
        self._argument = argument
        self._mailbox = mailbox
        self._limit = concurrency
        self._low = ahead // 2
        self._queue: deque[StartCall] = deque()
        # The locks that sleeping threads wait for.
        self._idle: list[threading.Lock] = []
        self._is_waking = False
        # As many threads as there may be.
        self._is_full = False
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        self._numbers = count(1)
        self._running: dict[int, StartCall] = {}

    def start(self, calls: Sequence[StartCall]) -> None:
        self._queue.extend(calls)
        if not self._is_waking:
            self._wake_one()

    def withdraw(self) -> list[StartCall]:
        return taken_back(self._queue)

    def stands_at(self, work: InFlightRecord) -> str | None:
        for ident, call in list(self._running.items()):
            if work in call.works:
                frame = sys._current_frames().get(ident)
                return line_of_thread(frame) if frame is not None else None
        return None

    def close(self, timeout: float) -> None:
        self._is_closed = True
        self._queue.clear()
        while self._idle:
            self._idle.pop().release()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _wake_one(self) -> None:
        try:
            parked = self._idle.pop()
        except IndexError:
            if len(self._threads) < self._limit and not self._is_closed:
                self._is_waking = True
                name = f"seamark-handler-{next(self._numbers)}"
                thread = threading.Thread(target=self._live, name=name, daemon=True)
                self._threads.append(thread)
                self._is_full = len(self._threads) >= self._limit
                try:
                    thread.start()
                except RuntimeError as error:
                    self._threads.remove(thread)
                    self._cannot_start(error)
            return
        self._is_waking = True
        parked.release()

    def _cannot_start(self, error: RuntimeError) -> None:
        self._is_waking = False
        if not self._threads:
            # Nobody would run what waits: for the owner, which ends the consumer.
            raise error
        _log.warning("Only %d of %d handler threads could be started: %s", len(self._threads), self._limit, error)
        self._limit = len(self._threads)
        self._is_full = True

    def _live(self) -> None:
        """Work until the pool is closed, whatever is raised on the way.

        What a handler raises is reported by ``_work``. But some libraries throw an error into a thread from another
        one, for instance to time a call out, and it may arrive when the handler has already returned.
        """
        running_in.set(self)
        parked = threading.Lock()
        parked.acquire()
        while not self._is_closed:
            try:
                self._work(parked)
            except BaseException as error:  # noqa: BLE001 - the edge of the thread: calls would wait for it
                _log.exception("An exception was raised in a handler thread from outside; the thread continues.")
                call = self._running.pop(threading.get_ident(), None)
                if call is not None:
                    self._mailbox.failed.append((call, tellable(error)))
                self._mailbox.notify()
                with contextlib.suppress(ValueError):
                    self._idle.remove(parked)
                parked.acquire(blocking=False)

    def _work(self, parked: threading.Lock) -> None:
        ident = threading.get_ident()
        queue, mailbox, running, low = self._queue, self._mailbox, self._running, self._low
        succeeded, failed = mailbox.succeeded, mailbox.failed
        handler, argument = self._handler, self._argument
        is_plain, idle = argument.is_plain, self._idle
        self._is_waking = False
        while not self._is_closed:
            try:
                call = queue.popleft()
            except IndexError:
                self._sleep(parked)
                continue
            running[ident] = call
            if queue and not self._is_waking and (idle or not self._is_full):
                self._wake_one()
            try:
                given = call.works[0].record if is_plain else argument.of_works(call.works)
                answer = copy_context().run(handler, given)
                if answer is not None:
                    check_answer(answer)
            except BaseException as error:  # noqa: BLE001 - also SystemExit: whatever it raises, its records are not done
                del running[ident]
                failed.append((call, tellable(error)))
            else:
                del running[ident]
                succeeded.append(call)
            if len(queue) <= low or len(succeeded) >= WORTH_WAKING:
                mailbox.notify()

    def _sleep(self, parked: threading.Lock) -> None:
        self._idle.append(parked)
        if self._queue or self._is_closed:
            # Something came between the look and the list: whoever brought it may not have seen this thread.
            try:
                self._idle.remove(parked)
            except ValueError:
                pass
            else:
                return
        parked.acquire()
        self._is_waking = False
