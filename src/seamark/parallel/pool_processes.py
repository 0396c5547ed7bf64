"""Plain functions in processes of their own, for work that keeps a processor busy.

Each process has a thread here that feeds it. Calls go over in lists worth some milliseconds, and answers come back in
bulk. A process that dies has failed exactly the call it was running: what it had ended is reported, what it had not
begun goes to another. It is replaced, after a growing pause if it dies again and again; one that cannot even start ends
the consumer with the reason.

Processes are spawned, not forked: a fork copies the locks of threads that it does not copy.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from seamark.errors import ConfigError, SeamarkError, UsageError
from seamark.parallel.actions import StartCall
from seamark.parallel.handler_calls import Argument, Handler
from seamark.parallel.mailbox import Mailbox
from seamark.parallel.pools import taken_back
from seamark.parallel.process_worker import BEGUN, END, ENDED, READY, TOLD_TO_END, serve
from seamark.parallel.work import Work

# A list of calls is to be worth this long, and never longer than so many calls.
_LIST_S = 0.01
_LIST_CALLS = 128
_START_S = 60.0
_MOST_FALSE_STARTS = 2
_LONGEST_PAUSE_S = 5.0


_GUARD = "a program that starts processes needs `if __name__ == '__main__':` around its main part"


class HandlerProcessDied(SeamarkError):
    """The process that ran the handler ended in the middle of a call."""

    def __init__(self, exit_code: int | None) -> None:
        how = f"with exit code {exit_code}"
        if exit_code is not None and exit_code < 0:
            try:
                how = f"by {signal.Signals(-exit_code).name}"
            except ValueError:
                how = f"by signal {-exit_code}"
        super().__init__(f"the handler's process ended {how} while it ran this call")
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[HandlerProcessDied], tuple[int | None]]:
        return type(self), (self.exit_code,)


def pickled_handler(handler: Handler, argument: Argument) -> bytes:
    """What a process is started with; ConfigError for a handler that cannot be sent to one.

    UsageError in a process that is itself just being started: it runs the main part of the program again.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(f"a handler process must not start the program again: {_GUARD}")
    try:
        return pickle.dumps((handler, argument))
    except Exception as error:
        reason = f"cannot be sent to a process, define it at the top of a module: {error}"
        raise ConfigError("handler", handler, reason) from error


class _Child:
    """One process, its pipe, and the calls it holds, in the order it runs them."""

    def __init__(self, payload: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.progress: Any = context.RawArray("q", 2)
        self.process = context.Process(target=serve, args=(theirs, self.progress, payload), daemon=True)
        self.held: deque[StartCall] = deque()
        self.reported = 0
        self.process.start()
        theirs.close()

    def first_word(self) -> str | None:
        """None if it is ready, else why it is not."""
        try:
            if not self.connection.poll(_START_S):
                return f"it did not start within {_START_S:g} s"
            word = self.connection.recv_bytes()
        except (EOFError, OSError):
            self.process.join(1.0)
            return f"it ended with exit code {self.process.exitcode} before it was ready ({_GUARD})"
        return None if word == READY else word.decode(errors="replace")

    def end(self, timeout: float) -> None:
        with contextlib.suppress(OSError):
            self.connection.send_bytes(END)
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(1.0)
        self.connection.close()


class ProcessPool:
    def __init__(
        self,
        handler: Handler,
        argument: Argument,
        mailbox: Mailbox,
        concurrency: int,
        on_broken: Callable[[str], object],
    ) -> None:
        """``on_broken`` is told, on any thread, why no process can be had."""
        self._payload = pickled_handler(handler, argument)
        self._argument = argument
        self._mailbox = mailbox
        self._on_broken = on_broken
        self._queue: deque[StartCall] = deque()
        self._arrived = threading.Condition()
        self._is_closed = False
        self._running: dict[int, _Child] = {}
        self._threads = [
            threading.Thread(target=self._feed, args=(number,), name=f"seamark-handlers-process-{number}", daemon=True)
            for number in range(1, process_count(concurrency) + 1)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, calls: Sequence[StartCall]) -> None:
        with self._arrived:
            self._queue.extend(calls)
            self._arrived.notify_all()

    def withdraw(self) -> list[StartCall]:
        return taken_back(self._queue)

    def stands_at(self, work: Work) -> str | None:
        for child in list(self._running.values()):
            if any(work in call.works for call in list(child.held)):
                return f"process {child.process.pid}"
        return None

    def close(self, timeout: float) -> None:
        with self._arrived:
            self._is_closed = True
            self._queue.clear()
            self._arrived.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for child in list(self._running.values()):
            child.process.kill()

    # -- the thread of one process

    def _feed(self, number: int) -> None:
        false_starts = deaths = 0
        while not self._is_closed:
            try:
                child = _Child(self._payload)
            except (OSError, RuntimeError, ValueError) as error:
                self._on_broken(f"a handler process could not be started: {error}")
                return
            self._running[number] = child
            problem = child.first_word()
            if problem is not None:
                child.end(0.0)
                if child.process.exitcode in (TOLD_TO_END, -signal.SIGTERM):
                    # While it started, which is no failure.
                    self._pause(0.1)
                    continue
                false_starts += 1
                if false_starts >= _MOST_FALSE_STARTS or child.process.exitcode == 0:
                    self._on_broken(f"a handler process could not be started: {problem}")
                    return
                continue
            false_starts = 0
            try:
                self._serve(child)
            except (EOFError, OSError):
                self._died(child)
                deaths = 0 if child.reported > 1 else deaths + 1
                self._pause(min(_LONGEST_PAUSE_S, 0.05 * 2**deaths) if deaths > 1 else 0.0)
        self._running.pop(number, None)

    def _serve(self, child: _Child) -> None:
        size = 1
        while True:
            calls = self._next_calls(size - len(child.held), may_wait=not child.held)
            if calls:
                child.held.extend(calls)
                child.connection.send_bytes(self._packed(calls))
            elif not child.held:
                child.end(5.0)
                return
            if self._is_closed and not child.connection.poll(0.2):
                child.end(0.0)
                return
            started = time.monotonic()
            ended = self._take_answer(child)
            each = (time.monotonic() - started) / max(1, ended)
            # Twice what is to be under way, so that the process has the next list when it is through with one.
            size = max(2, min(_LIST_CALLS, int(2 * _LIST_S / max(each, 1e-6)), size * 2))

    def _next_calls(self, most: int, *, may_wait: bool) -> list[StartCall]:
        if may_wait:
            with self._arrived:
                while not self._queue and not self._is_closed:
                    self._arrived.wait()
        calls: list[StartCall] = []
        # A fair share: what one process hoards another cannot begin.
        most = min(most, 1 + len(self._queue) // len(self._threads))
        while len(calls) < most:
            try:
                calls.append(self._queue.popleft())
            except IndexError:
                break
        return calls

    def _packed(self, calls: Sequence[StartCall]) -> bytes:
        if self._argument.is_arrow:
            return pickle.dumps(
                (None, [self._argument.of_works(call.works) for call in calls]), pickle.HIGHEST_PROTOCOL
            )
        rows = [[_row(work.record) for work in call.works] for call in calls]
        return pickle.dumps((type(calls[0].works[0].record), rows), pickle.HIGHEST_PROTOCOL)

    def _take_answer(self, child: _Child) -> int:
        ended, errors = pickle.loads(child.connection.recv_bytes())  # noqa: S301 - written by our own process
        child.reported += ended
        for place in range(ended):
            self._report(child.held.popleft(), errors.get(place))
        self._mailbox.notify()
        return int(ended)

    def _report(self, call: StartCall, error: BaseException | None) -> None:
        if error is None:
            self._mailbox.succeeded.append(call)
        else:
            self._mailbox.failed.append((call, error))

    def _died(self, child: _Child) -> None:
        child.process.join(1.0)
        child.connection.close()
        for _ in range(child.progress[ENDED] - child.reported):
            self._report(child.held.popleft(), None)
        if child.progress[BEGUN] > max(child.progress[ENDED], child.reported) and child.held:
            self._report(child.held.popleft(), HandlerProcessDied(child.process.exitcode))
        with self._arrived:
            self._queue.extendleft(reversed(child.held))
            self._arrived.notify_all()
        child.held.clear()
        self._mailbox.notify()

    def _pause(self, seconds: float) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: self._is_closed, seconds)


def process_count(concurrency: int) -> int:
    """More processes than processors would only take turns."""
    return min(concurrency, os.cpu_count() or 1)


def _row(record: Any) -> tuple[Any, ...]:
    return (
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        record.headers,
        record.timestamp_ms,
        record.timestamp_type,
        record.leader_epoch,
    )
