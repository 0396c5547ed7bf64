"""Threads in virtual time: code that waits runs as it is, and still one seed gives one run.

Exactly one thread runs at a time, the one that holds the baton. Where it waits, it runs the events that are due until
one of them says that a thread goes on: if that is itself it goes on without any switch, if it is another that one gets
the baton. The order of events depends on the seed alone, so it does not matter which thread runs them.

The threads of a program that crashed are ended where they wait, by an exception that no code catches for good.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from heapq import heappop
from math import ceil, inf
from queue import Empty

from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.violations import InvariantViolated

# How long a thread that still runs is waited for after Ctrl-C.
_LAST_S = 5.0


class Ended(BaseException):
    """Raised where a thread waits whose program has crashed, or whose lifetime is over."""


class Program:
    """What one member runs: its threads, which stop all at once when it is frozen or crashes."""

    __slots__ = ("frozen_until_ms", "threads")

    def __init__(self) -> None:
        self.threads: list[SimulatedThread] = []
        self.frozen_until_ms = 0


class SimulatedThread:
    """``program`` is None for the thread that runs the lifetime."""

    __slots__ = (
        "_threads",
        "body",
        "carrier",
        "is_due",
        "is_ending",
        "is_over",
        "is_waiting",
        "joining",
        "number",
        "program",
    )

    def __init__(self, threads: Threads, program: Program | None, body: Callable[[], object]) -> None:
        self._threads = threads
        self.program = program
        self.body = body
        self.carrier: _Carrier | None = None
        # Of its waits: a wake-up for an earlier one is none.
        self.number = 0
        self.is_waiting = False
        self.is_due = False
        self.is_ending = False
        self.is_over = False
        self.joining: list[SimulatedThread] = []

    def join(self, timeout: float) -> None:
        threads = self._threads
        deadline = threads.clock() + timeout
        while not self.is_over and (left := deadline - threads.clock()) > 0:
            self.joining.append(threads.current)
            threads.wait(left)


class Threads(EventLoop):
    """``delay_ms`` draws how long a thread that may go on waits for a processor.

    With ``events_on_main`` all events run on the thread that calls ``run_until``: for events that run code of others,
    which may belong to that thread.
    """

    __slots__ = ("_all", "_delay_ms", "_failure", "_is_closing", "_is_main_only", "_main", "current")

    def __init__(self, delay_ms: Callable[[], int], *, events_on_main: bool = False) -> None:
        super().__init__()
        self._delay_ms = delay_ms
        self._is_main_only = events_on_main
        self._is_closing = False
        self._main = SimulatedThread(self, None, lambda: None)
        self._main.carrier = _Carrier()
        self.current = self._main
        self._all: list[SimulatedThread] = []
        self._failure: BaseException | None = None

    def clock(self) -> float:
        return self.now_ms / 1000

    # For whoever has the baton.

    def start(self, program: Program, body: Callable[[], object]) -> SimulatedThread:
        thread = SimulatedThread(self, program, body)
        program.threads.append(thread)
        self._all.append(thread)
        self.call_later(0, _go_on, thread, 0)
        return thread

    def wait(self, seconds: float = inf) -> None:
        """The current thread waits until it is woken or time is up."""
        me = self.current
        if me.is_ending:
            raise Ended
        me.is_waiting = True
        if seconds != inf:
            self.call_later(ceil(seconds * 1000), _go_on, me, me.number)
        self._run(me)
        if me.is_ending:
            raise Ended

    def wake(self, thread: SimulatedThread) -> None:
        """It goes on a moment later, if it waits."""
        if thread.is_waiting:
            thread.is_waiting = False
            self.call_later(self._delay_ms(), _go_on, thread, thread.number)

    def end(self, program: Program) -> None:
        """The program crashed."""
        for thread in program.threads:
            thread.is_ending = True
            self.call_later(0, _go_on, thread, thread.number)

    def fail(self, error: BaseException) -> None:
        """The lifetime is over: the thread that runs it is told, and the current one ends here."""
        self._failure = self._failure or error
        self.current.is_ending = True
        raise Ended

    # For the thread that runs the lifetime.

    def run_until(self, moment_ms: int) -> None:
        self.call_at(moment_ms, _go_on, self._main, self._main.number)
        self._run(self._main)

    def close(self) -> None:
        """End all threads, one after the other."""
        self._is_closing = True
        for thread in self._all:
            thread.is_ending = True
            if thread.carrier is not None and not thread.is_over:
                thread.is_due = True
                self._pass_on(self._main, thread)
        self._all.clear()

    # The baton.

    def _run(self, me: SimulatedThread | None) -> None:
        """Run events until ``me`` may go on; for a thread that is over, None, until another has the baton."""
        heap, main, is_main_only = self._heap, self._main, self._is_main_only
        while True:
            if me is main:
                if self._failure is not None:
                    raise self._failure
            elif is_main_only or self._is_closing or self._failure is not None:
                self._pass_on(me, main)
                if me is None or me.is_due:
                    break
            self.now_ms, _, call, arguments = heappop(heap)
            self.steps += 1
            if self.steps > self._most_steps:
                self._failure = InvariantViolated("time goes on", f"after {self.steps} calls it is {self.now_ms} ms")
                continue
            if call is not _go_on:
                try:
                    call(*arguments)
                except Exception as error:  # noqa: BLE001 - raised again where the lifetime runs
                    self._failure = self._failure or error
                continue
            thread, number = arguments
            if number != thread.number or thread.is_over:
                continue
            program = thread.program
            if program is not None and program.frozen_until_ms > self.now_ms and not thread.is_ending:
                self.call_at(program.frozen_until_ms, _go_on, thread, number)
                continue
            if thread is me:
                break
            thread.is_due = True
            self._pass_on(me, thread)
            if me is None or me.is_due:
                break
        if me is not None:
            me.number += 1
            me.is_waiting = me.is_due = False

    def _pass_on(self, me: SimulatedThread | None, thread: SimulatedThread) -> None:
        """Give the baton to ``thread`` and wait for it to come back."""
        self.current = thread
        if thread.carrier is None:
            thread.number += 1
            thread.is_due = False
            thread.carrier = _idle_carrier()
            thread.carrier.body = partial(self._live, thread)
        thread.carrier.turn.release()
        if me is not None:
            assert me.carrier is not None
            try:
                me.carrier.turn.acquire()
            except BaseException as error:
                # Ctrl-C: the other thread gives the baton back where it waits next.
                self._failure = self._failure or error
                me.carrier.turn.acquire(timeout=_LAST_S)
                raise

    def _live(self, thread: SimulatedThread) -> None:
        try:
            if not thread.is_ending:
                thread.body()
        except Ended:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again where the lifetime runs
            self._failure = self._failure or error
        thread.is_over = True
        if thread.program is not None:
            thread.program.threads.remove(thread)
        for joining in thread.joining:
            self.wake(joining)
        assert thread.carrier is not None
        # Whoever takes it from now on is started by the loop below, or after it.
        _idle.append(thread.carrier)
        self._run(None)


def _go_on() -> None:
    """Stands for the event that a thread goes on."""


# What waits.


class WakeQueue:
    """A ``queue.SimpleQueue`` of wake-ups. ``on_end`` hears of each wait that ended, and whether it was woken."""

    def __init__(self, threads: Threads, on_end: Callable[[bool], None]) -> None:
        self._threads = threads
        self._on_end = on_end
        self._count = 0
        self._waiting: SimulatedThread | None = None

    def put(self, item: None) -> None:  # noqa: ARG002 - that it came is all
        self._count += 1
        if self._waiting is not None:
            self._threads.wake(self._waiting)

    def get(self, *, timeout: float) -> None:
        if not self._count:
            self._waiting = self._threads.current
            self._threads.wait(timeout)
            self._waiting = None
        self._on_end(self._count > 0)
        self.get_nowait()

    def get_nowait(self) -> None:
        if not self._count:
            raise Empty
        self._count -= 1

    def empty(self) -> bool:
        return not self._count


class Condition:
    """A ``threading.Condition``; whoever has the baton has its lock."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiting: list[SimulatedThread] = []

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *raised: object) -> None:
        pass

    def wait(self) -> bool:
        self._wait(inf)
        return True

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        deadline = self._threads.clock() + timeout
        while not predicate() and (left := deadline - self._threads.clock()) > 0:
            self._wait(left)
        return predicate()

    def _wait(self, seconds: float) -> None:
        me = self._threads.current
        self._waiting.append(me)
        try:
            self._threads.wait(seconds)
        finally:
            self._waiting.remove(me)

    def notify_all(self) -> None:
        for thread in self._waiting:
            self._threads.wake(thread)


# Threads of the system, which are used again: starting one costs more than many turns of a member.


class _Carrier:
    """Holds the place of a thread: it runs while its turn is free to be taken."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.body: Callable[[], None] | None = None

    def live(self) -> None:
        _SILENT.threads.add(threading.get_ident())
        while True:
            self.turn.acquire()
            body, self.body = self.body, None
            if body is not None:
                body()
            # What it belongs to may go.
            body = None


_idle: list[_Carrier] = []
# A fork has none of them.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def _idle_carrier() -> _Carrier:
    with contextlib.suppress(IndexError):
        return _idle.pop()
    carrier = _Carrier()
    threading.Thread(target=carrier.live, name="seamark-simulation", daemon=True).start()
    return carrier


class _SilentInSimulation(logging.Filter):
    """What simulated members log is of no use to anybody: the transcript tells what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.threads


_SILENT = _SilentInSimulation()
# Before all others, which make text of what is logged.
logging.getLogger("seamark.parallel").filters.insert(0, _SILENT)
