"""Plain functions on threads.

Threads take calls from one deque, one at a time, and go to sleep when it is empty. Waking costs more than a cheap
handler, so only one is woken at a time; a thread that starts on a call wakes the next one if more calls wait. With
cheap handlers one thread does all of them in a row, with slow ones all threads are at work after a moment.

Threads are daemons: a handler that hangs does not keep the program from ending.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import count

from seamark.parallel.actions import StartCall
from seamark.parallel.handler_calls import Argument, Handler, check_answer
from seamark.parallel.mailbox import Mailbox
from seamark.parallel.pools import WORTH_WAKING, taken_back
from seamark.parallel.stack_lines import line_of_thread
from seamark.parallel.work import Work


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

    def stands_at(self, work: Work) -> str | None:
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
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                self._is_full = len(self._threads) >= self._limit
                thread.start()
            return
        self._is_waking = True
        parked.release()

    def _work(self) -> None:
        parked = threading.Lock()
        parked.acquire()
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
            if queue and not self._is_waking and (idle or not self._is_full):
                self._wake_one()
            running[ident] = call
            try:
                answer = handler(call.works[0].record if is_plain else argument.of_works(call.works))
                if answer is not None:
                    check_answer(answer)
            except BaseException as error:  # noqa: BLE001 - also SystemExit: whatever it raises, its records are not done
                failed.append((call, error))
            else:
                succeeded.append(call)
            del running[ident]
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
