"""The side of a handler process: takes lists of calls from its pipe, runs them in order, answers in bulk.

What is written down about a call, and when, is the rule of ``process_calls``. An answer goes out at once for an error,
and else when a list is through or some milliseconds have passed.

The process ends when its owner says so, and by itself when the owner is gone, after the call at hand. It also ends when
the handler closed the pipe, as it could not answer any more. A copy of the process that a handler made with ``os.fork``
and that comes back from the handler ends there: only the process itself counts and answers.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import socket
import struct
import threading
import time
import traceback
from collections import deque
from collections.abc import MutableSequence, Sequence
from contextvars import copy_context
from types import FrameType
from typing import Any, NamedTuple

from seamark.errors import error_text
from seamark.parallel.core.handler_kinds import check_answer
from seamark.parallel.pools.process_calls import CUT_OFF, ProcessSide, Step
from seamark.parallel.pools.process_frames import BrokenFrame, FrameReader, framed

READY = b"ready"
END = b""
# The exit code that shells give for SIGTERM.
TOLD_TO_END = 143
# How many calls a list has stands before it, so that one that cannot be read can be answered all the same.
LIST_LENGTH = struct.Struct("!I")
RECEIVED_BYTES = 1 << 18
_ANSWER_S = 0.005
# How often a process that waits looks whether its owner is still there: a copy of the owner may hold the pipe open.
_LOOK_MS = 1_000
_LAST_S = 5.0


class _OwnerGone(Exception):
    """Nobody is interested in answers any more."""


def serve(connection: socket.socket, states: MutableSequence[int], payload: bytes) -> None:
    """The life of a handler process. ``payload`` is the pickled handler and argument."""
    # A terminal sends Ctrl-C to all processes of a program; the owner decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ending = _EndInOrder()
    signal.signal(signal.SIGTERM, ending.heard)
    exit_code = 0
    pipe = _Pipe(connection)
    try:
        _serve(pipe, ending, states, payload)
    except _OwnerGone:
        pass
    except BrokenFrame:
        exit_code = CUT_OFF
    finally:
        pipe.close()
        # Threads that a handler left behind would hold up the end for ever.
        last = threading.Timer(_LAST_S, os._exit, (exit_code,))
        last.daemon = True
        last.start()
    raise SystemExit(exit_code)


def _serve(pipe: _Pipe, ending: _EndInOrder, states: MutableSequence[int], payload: bytes) -> None:
    try:
        handler, argument = pickle.loads(payload)  # noqa: S301 - written by the process that started this one
    except Exception as error:  # noqa: BLE001 - told to the owner, which cannot go on without a handler
        pipe.send(error_text(error).encode())
        return
    pipe.send(READY)
    runner = _Runner(pipe, states, handler, argument)
    while (content := pipe.next_list()) != END:
        ending.is_busy = True
        runner.run_all(content)
        ending.is_busy = False
        if ending.is_asked:
            return


class _EndInOrder:
    """SIGTERM, which some supervisors send to all processes of a program, lets the calls at hand end first."""

    def __init__(self) -> None:
        self.is_busy = False
        self.is_asked = False

    def heard(self, _number: int, _frame: FrameType | None) -> None:
        self.is_asked = True
        if not self.is_busy:
            raise SystemExit(TOLD_TO_END)


class _Pipe:
    """The end of the pipe in the process, which waits."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._identity = os.fstat(connection.fileno())
        owner = multiprocessing.parent_process()
        assert owner is not None
        self._owner = owner.pid
        self._frames = FrameReader()
        self._lists: deque[bytes] = deque()
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)

    def send(self, content: bytes) -> None:
        self._check()
        try:
            self._connection.sendall(framed(content))
        except OSError:
            raise _OwnerGone from None

    def next_list(self) -> bytes:
        while not self._lists:
            self._check()
            if not self._readable.poll(_LOOK_MS):
                continue
            try:
                received = self._connection.recv(RECEIVED_BYTES)
            except OSError:
                raise _OwnerGone from None
            if not received:
                raise _OwnerGone
            self._lists.extend(self._frames.read(received))
        return self._lists.popleft()

    def _check(self) -> None:
        if os.getppid() != self._owner:
            raise _OwnerGone
        if not self._is_own():
            raise BrokenFrame("the handler closed the pipe of its process")

    def _is_own(self) -> bool:
        """Whether the descriptor is still the pipe's: it may be a file of the handler now, not to be touched."""
        try:
            return os.path.samestat(os.fstat(self._connection.fileno()), self._identity)
        except OSError:
            return False

    def close(self) -> None:
        if self._is_own():
            self._connection.close()
        else:
            self._connection.detach()


class _Unreadable(NamedTuple):
    """Stands for a call of a list that cannot be read."""

    error: Exception


class _Runner:
    """Takes the steps of ``ProcessSide`` for real."""

    def __init__(self, pipe: _Pipe, states: MutableSequence[int], handler: Any, argument: Any) -> None:
        self._pipe = pipe
        self._states = states
        self._side = ProcessSide()
        self._handler = handler
        self._argument = argument
        self._pid = os.getpid()
        self._told = 0.0

    def run_all(self, content: bytes) -> None:
        record_class, calls = _read_list(content)
        self._told = time.monotonic()
        steps = self._side.steps(calls, self._is_answer_due)
        error = None
        while True:
            try:
                step, given = steps.send(error)
            except StopIteration:
                return
            error = None
            if step is Step.STATE:
                place, state = given
                self._states[place] = state
            elif step is Step.RUN:
                error = self._run(record_class, given)
            else:
                self._pipe.send(given)
                self._told = time.monotonic()

    def _is_answer_due(self) -> bool:
        return time.monotonic() - self._told >= _ANSWER_S

    def _run(self, record_class: Any, rows: Any) -> BaseException | None:
        if isinstance(rows, _Unreadable):
            return rows.error
        failure = None
        try:
            if record_class is None:
                given = rows
            else:
                given = self._argument.of_records([record_class(*row) for row in rows])
            # What a handler sets in its context is not for the next call.
            check_answer(copy_context().run(self._handler, given))
        except BaseException as error:  # noqa: BLE001 - also SystemExit: its records are not done, the process goes on
            failure = error
        if os.getpid() != self._pid:
            _end_copy(failure)
        return failure


def _read_list(content: bytes) -> tuple[Any, Sequence[Any]]:
    """The class of records, None if calls are given what they are sent as; and the calls."""
    try:
        record_class, calls = pickle.loads(content[LIST_LENGTH.size :])  # noqa: S301 - written by the owner
    except Exception as error:  # noqa: BLE001 - then none of these calls can be run
        return None, [_Unreadable(error)] * LIST_LENGTH.unpack_from(content)[0]
    return record_class, calls


def _end_copy(failure: BaseException | None) -> None:
    """The end of a copy of the process, which nobody waits for but the handler that made it."""
    if isinstance(failure, SystemExit) and (failure.code is None or isinstance(failure.code, int)):
        os._exit(failure.code or 0)
    if failure is not None:
        traceback.print_exception(failure)
    os._exit(0 if failure is None else 1)
