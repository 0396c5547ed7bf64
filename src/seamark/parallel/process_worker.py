"""The side of a handler process: takes lists of calls from its pipe, runs them in order, answers in bulk.

An answer is the number of calls that ended since the last, and the errors among them by place. It goes out at once for
an error, and else when a list is through or some milliseconds have passed. Two shared numbers say at any time how many
calls were begun and how many ended well, so that the death of the process can be put down to exactly one call.
"""

from __future__ import annotations

import pickle
import signal
import time
import traceback
from collections.abc import MutableSequence
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from seamark.errors import SeamarkError
from seamark.parallel.handler_calls import check_answer

READY = b"ready"
END = b""
BEGUN, ENDED = 0, 1
# The exit code that shells give for SIGTERM.
TOLD_TO_END = 143
_ANSWER_S = 0.005


class FailedElsewhere(SeamarkError):
    """A handler failed in its process with an error that cannot be carried over; its text is kept."""


def serve(connection: Connection, progress: MutableSequence[int], payload: bytes) -> None:
    """The life of a handler process. ``payload`` is the pickled handler and argument."""
    # A terminal sends Ctrl-C to all processes of a program; the owner decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ending = _EndInOrder()
    signal.signal(signal.SIGTERM, ending.heard)
    try:
        handler, argument = pickle.loads(payload)  # noqa: S301 - written by the process that started this one
    except Exception as error:  # noqa: BLE001 - told to the owner, which cannot go on without a handler
        connection.send_bytes(f"{type(error).__name__}: {error}".encode())
        return
    connection.send_bytes(READY)
    while True:
        try:
            content = connection.recv_bytes()
        except (EOFError, OSError):
            return
        if content == END:
            return
        ending.is_busy = True
        _run_all(connection, progress, handler, argument, content)
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


def _run_all(connection: Connection, progress: Any, handler: Any, argument: Any, content: bytes) -> None:
    record_class, calls = pickle.loads(content)  # noqa: S301 - written by the process that started this one
    told = time.monotonic()
    ended = 0
    for rows in calls:
        progress[BEGUN] += 1
        try:
            if record_class is None:
                given = rows
            else:
                given = argument.of_records([record_class(*row) for row in rows])
            check_answer(handler(given))
        except BaseException as error:  # noqa: BLE001 - also SystemExit: its records are not done, the process goes on
            connection.send_bytes(pickle.dumps((ended + 1, {ended: portable(error)})))
            progress[ENDED] += 1
            ended, told = 0, time.monotonic()
            continue
        progress[ENDED] += 1
        ended += 1
        if time.monotonic() - told >= _ANSWER_S:
            connection.send_bytes(pickle.dumps((ended, {})))
            ended, told = 0, time.monotonic()
    if ended:
        connection.send_bytes(pickle.dumps((ended, {})))


def portable(error: BaseException) -> BaseException:
    """The error as it can be read elsewhere, with its stack as a note."""
    stack = "".join(traceback.format_exception(error))
    try:
        error.__traceback__ = None
        error.add_note(f"In the handler's process:\n{stack}")
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made on the line itself
        if isinstance(copy, BaseException):
            return copy
    except Exception:  # noqa: BLE001, S110 - an error that cannot be carried is told as text
        pass
    told = FailedElsewhere(f"{type(error).__name__}: {error}")
    told.add_note(f"In the handler's process:\n{stack}")
    return told
