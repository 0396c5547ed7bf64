"""Plain functions in processes of their own, for work that keeps a processor busy.

Each process has a thread here that feeds it. Calls go over in lists worth some milliseconds, and answers come back in
bulk. A process that dies has failed exactly the call it was running: what it had ended is reported as it ended, and
what it had not begun goes to another; ``process_calls`` says how that is known. It is replaced, after a growing pause
if it dies again and again; one that cannot even start ends the consumer with the reason.

Processes are spawned, not forked: a fork copies the locks of threads that it does not copy.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from seamark.counts import counted, number_text
from seamark.errors import ConfigError, UsageError, error_text
from seamark.parallel.core.work import InFlightRecord, StartCall
from seamark.parallel.pools.call import Argument, Handler
from seamark.parallel.pools.machine import THIS_MACHINE, Machine
from seamark.parallel.pools.pool import Mailbox, taken_back
from seamark.parallel.pools.process_calls import MOST_CALLS, Ending, HandlerErrorLost, HandlerProcessDied, how_it_ended
from seamark.parallel.pools.process_child import GUARD, HandlerProcess
from seamark.parallel.pools.worker import LIST_LENGTH, TOLD_TO_END
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.parallel")

# A list of calls is to be worth this long.
_LIST_S = 0.01
_MOST_FALSE_STARTS = 2
_LONGEST_PAUSE_S = 5.0
# How long an idle process may take to end, with what handlers left running in it.
_END_S = 5.0


def pickled_handler(handler: Handler, argument: Argument) -> bytes:
    """What a process is started with; ConfigError for a handler that cannot be sent to one.

    UsageError in a process that is itself just being started: it runs the main part of the program again.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(f"a handler process must not start the program again: {GUARD}")
    try:
        return pickle.dumps((handler, argument))
    except Exception as error:
        reason = f"cannot be pickled for another process; define it at the top level of a module: {error}"
        raise ConfigError("handler", handler, reason) from error


class ProcessPool:
    def __init__(
        self,
        handler: Handler,
        argument: Argument,
        mailbox: Mailbox,
        concurrency: int,
        on_broken: Callable[[str], object],
        machine: Machine = THIS_MACHINE,
    ) -> None:
        """``on_broken`` is told, on any thread, why no process can be had."""
        self._payload = pickled_handler(handler, argument)
        self._argument = argument
        self._mailbox = mailbox
        self._on_broken = on_broken
        self._machine = machine
        self._queue: deque[StartCall] = deque()
        self._arrived = machine.condition()
        self._is_closed = False
        self._is_given_up = False
        # Why no process can be had, once that is known.
        self._problem: str | None = None
        self._running: dict[int, HandlerProcess] = {}
        # More processes than processors would only take turns.
        self._count = min(concurrency, machine.processors)
        self._threads = [
            machine.start_thread(partial(self._feed, number), f"seamark-handlers-process-{number}")
            for number in range(1, self._count + 1)
        ]

    def start(self, calls: Sequence[StartCall]) -> None:
        with self._arrived:
            self._queue.extend(calls)
            self._arrived.notify_all()
        if self._problem is not None:
            self._on_broken(self._problem)

    def withdraw(self) -> list[StartCall]:
        return taken_back(self._queue)

    def stands_at(self, work: InFlightRecord) -> str | None:
        for child in list(self._running.values()):
            if any(work in call.works for call in child.held):
                return f"process {child.pid}"
        return None

    def close(self, timeout: float) -> None:
        with self._arrived:
            self._is_closed = True
            self._queue.clear()
            self._arrived.notify_all()
        deadline = self._machine.clock() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._machine.clock()))
        self._is_given_up = True
        for child in list(self._running.values()):
            child.kill()

    # -- the thread of one process

    def _feed(self, number: int) -> None:
        try:
            self._keep_a_process(number)
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: calls would wait for it for ever
            _log.exception("The thread that feeds a handler process failed.")
            self._broken(f"the thread that feeds a handler process failed: {error_text(error)}")
        finally:
            self._running.pop(number, None)

    def _keep_a_process(self, number: int) -> None:
        false_starts = deaths = 0
        while not self._is_closed:
            try:
                child = HandlerProcess(self._payload, lambda: self._is_given_up, self._machine)
            except (OSError, RuntimeError, ValueError) as error:
                self._broken(f"a handler process could not be started: {error}")
                return
            self._running[number] = child
            problem = child.first_word()
            if problem is not None:
                child.end(0.0)
                if child.exit_code in (TOLD_TO_END, -signal.SIGTERM) or self._is_closed:
                    # While it started, which is no failure.
                    self._pause(0.1)
                    continue
                false_starts += 1
                if false_starts >= _MOST_FALSE_STARTS or child.exit_code == 0:
                    self._broken(f"a handler process could not be started: {problem}")
                    return
                continue
            false_starts = 0
            self._serve(child)
            if child.is_silent:
                self._died(child)
                deaths = 0 if child.reported > 1 else deaths + 1
                self._pause(min(_LONGEST_PAUSE_S, 0.05 * 2**deaths) if deaths > 1 else 0.0)

    def _broken(self, reason: str) -> None:
        self._problem = reason
        self._on_broken(reason)

    def _serve(self, child: HandlerProcess) -> None:
        """Until the pool is closed or the process is silent."""
        size = 1
        while not child.is_silent:
            calls = self._next_calls(size - child.held_count, may_wait=not child.held_count)
            if calls:
                self._give(child, calls)
            elif not child.held_count and self._is_closed:
                child.end(_END_S)
                return
            if not child.held_count:
                continue
            started = self._machine.clock()
            endings = child.take()
            self._report(endings)
            seconds_per_call = (self._machine.clock() - started) / max(1, len(endings))
            # Twice what is to be under way, so that the process has the next list when it is through with one.
            size = max(2, min(MOST_CALLS, int(2 * _LIST_S / max(seconds_per_call, 1e-6)), size * 2))

    def _next_calls(self, most: int, *, may_wait: bool) -> list[StartCall]:
        if may_wait:
            with self._arrived:
                while not self._queue and not self._is_closed:
                    self._arrived.wait()
        calls: list[StartCall] = []
        # A fair share: what one process hoards another cannot begin.
        most = min(most, 1 + len(self._queue) // self._count)
        while len(calls) < most:
            try:
                calls.append(self._queue.popleft())
            except IndexError:
                break
        return calls

    def _give(self, child: HandlerProcess, calls: list[StartCall]) -> None:
        try:
            content = self._packed(calls)
        except Exception as error:  # noqa: BLE001 - the calls that cannot be sent have failed, the others go on
            if len(calls) == 1:
                self._report([Ending(calls[0], error)])
                return
            for call in calls:
                self._give(child, [call])
        else:
            child.give(calls, content)

    def _packed(self, calls: Sequence[StartCall]) -> bytes:
        record_class, given = None, []
        if self._argument.is_arrow:
            given = [self._argument.of_works(call.works) for call in calls]
        else:
            record_class = type(calls[0].works[0].record)
            given = [[_row(work.record) for work in call.works] for call in calls]
        return LIST_LENGTH.pack(len(calls)) + pickle.dumps((record_class, given), pickle.HIGHEST_PROTOCOL)

    def _report(self, endings: Sequence[Ending]) -> None:
        for call, error in endings:
            if error is None:
                self._mailbox.succeeded.append(call)
            else:
                self._mailbox.failed.append((call, error))
        self._mailbox.notify()

    def _died(self, child: HandlerProcess) -> None:
        endings, not_begun = child.conclude()
        if not self._is_closed:
            failed = sum(isinstance(error, HandlerProcessDied | HandlerErrorLost) for _, error in endings)
            was_asked = not failed and child.exit_code in (0, TOLD_TO_END, -signal.SIGTERM)
            _log.log(
                logging.INFO if was_asked else logging.WARNING,
                "Handler process %s %s and is replaced: %s failed, %s not yet begun %s in other processes.",
                child.pid,
                how_it_ended(child.exit_code),
                counted(failed, "call"),
                number_text(len(not_begun)),
                "runs" if len(not_begun) == 1 else "run",
            )
        with self._arrived:
            self._queue.extendleft(reversed(not_begun))
            self._arrived.notify_all()
        self._report(endings)

    def _pause(self, seconds: float) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: self._is_closed, seconds)


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
