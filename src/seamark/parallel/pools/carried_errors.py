"""Errors of handlers, carried from the process where they were raised to the owner.

An error goes over pickled, and beside it as text with its stack: one that cannot be pickled, cannot be made again on
the other side, or is too large arrives as ``FailedElsewhere`` with that text. Nothing here raises, whatever an error's
own methods do: they belong to the user.
"""

from __future__ import annotations

import contextlib
import pickle
import struct
import traceback

from seamark.errors import SeamarkError, error_text

_TEXT_LENGTH = struct.Struct("!I")
# An error is read by people, and kept with its record until that is settled. More is content, not an error.
MOST_PICKLED_BYTES = 1 << 20
_MOST_TEXT = 64 << 10
# Stands between the text and the stack.
_END = "\0"


class FailedElsewhere(SeamarkError):
    """A handler failed in its process with an error that cannot be carried over; its text is kept."""


class UntellableError(SeamarkError):
    """A handler raised an error whose own text cannot be had; the error is chained."""


def packed(error: BaseException) -> bytes:
    """The error as bytes, with its text and its stack."""
    text, stack = _shortened(_told(error)), _shortened(_stack_of(error))
    pickled = b""
    # An error that cannot be pickled is told as text.
    with contextlib.suppress(BaseException):
        pickled = pickle.dumps(error)
    if len(pickled) > MOST_PICKLED_BYTES:
        text += f" (only the text of the error is kept: pickled it has {len(pickled)} bytes)"
        pickled = b""
    content = f"{text.replace(_END, '?')}{_END}{stack}".encode(errors="backslashreplace")
    return _TEXT_LENGTH.pack(len(content)) + content + pickled


def unpacked(content: bytes) -> BaseException:
    """The error, or what can be had of it, with its stack as a note."""
    start = _TEXT_LENGTH.size
    end = start + _TEXT_LENGTH.unpack_from(content)[0]
    text, _, stack = content[start:end].decode(errors="replace").partition(_END)
    if end < len(content):
        try:
            error = pickle.loads(content[end:])  # noqa: S301 - written by our own process
            if isinstance(error, BaseException):
                return _with_stack(tellable(error), stack)
        except BaseException:  # noqa: BLE001, S110 - an error that cannot be made again is told as text
            pass
    return _with_stack(FailedElsewhere(text), stack)


def _with_stack(error: BaseException, stack: str) -> BaseException:
    error.add_note(f"In the handler process:\n{stack}")
    return error


def tellable(error: BaseException) -> BaseException:
    """The error, or one that stands for it if it cannot even say what it is about."""
    try:
        str(error)
    except BaseException:  # noqa: BLE001 - the error's own method
        told = UntellableError(f"{type(error).__name__}, whose text is unavailable: its __str__ raised an error")
        told.__cause__ = error
        return told
    return error


def _told(error: BaseException) -> str:
    try:
        return error_text(error)
    except BaseException:  # noqa: BLE001 - the error's own method
        return f"{type(error).__name__}, whose text is unavailable: its __str__ raised an error"


def _stack_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - the error's own methods
        return "".join(traceback.format_tb(error.__traceback__))


def _shortened(text: str) -> str:
    if len(text) <= _MOST_TEXT:
        return text
    half = _MOST_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters omitted …\n{text[-half:]}"
