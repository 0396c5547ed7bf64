"""Every exception Seamark raises, in one tree; ``str()`` of each is a sentence and its fields are data.

    SeamarkError
    +- UsageError                     the caller is wrong
    |  +- ConfigError                 an option has a bad name or value
    |  +- ClosedError                 the object was closed
    |  +- MadeBeforeFork              the object belongs to the process that this one was forked from
    |  +- MissingExtra                an optional dependency is not installed
    +- WireError
    |  +- DecodeError                 bytes that are not what they should be: field and position say where
    |  |  +- Truncated  BadLength  BadChecksum  BadText  BadValue  UnknownCodec  UnknownVersion  TrailingBytes
    |  +- EncodeError                 a value that the format cannot carry
    |     +- OutOfRange  NotNullable

A lower layer never lets another exception out for bad input; each boundary translates once.
"""

from __future__ import annotations

from seamark.readable_text import readable

# In place of a setting's value that may be a secret: an unknown name may be a misspelt password's.
HIDDEN = "[hidden]"


class SeamarkError(Exception):
    """The root: catch this to catch everything Seamark raises on purpose.

    Its text is one line that a terminal or a log may show, whatever the names in it are; its fields have them as they
    are.
    """

    def __str__(self) -> str:
        return readable(super().__str__())


class UsageError(SeamarkError):
    """The caller asked for something that cannot be."""


def error_text(error: BaseException) -> str:
    """What kind of error it is and what it says, or the kind alone if it says nothing.

    >>> error_text(ValueError("no such customer")), error_text(TimeoutError())
    ('ValueError: no such customer', 'TimeoutError')
    """
    kind, text = type(error).__name__, str(error)
    return f"{kind}: {text}" if text else kind


def _shown(value: object) -> str:
    """A function by its name: where it lies in memory says nothing to anybody."""
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else repr(value)


class ConfigError(UsageError):
    """An option has an unknown name or a value it cannot have; a value of ``HIDDEN`` is not shown."""

    def __init__(self, option: str, value: object, reason: str) -> None:
        super().__init__(f"{option}: {reason}" if value == HIDDEN else f"{option}={_shown(value)}: {reason}")
        self.option = option
        self.value = value
        self.reason = reason

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        return type(self), (self.option, self.value, self.reason)


class ClosedError(UsageError):
    """The object was closed and can do nothing more."""


class MadeBeforeFork(UsageError):
    """The object's threads and connections are those of the parent process; ``what`` it is."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"this {what} was made before os.fork() and belongs to the parent process: make a new one in the child, or "
            "start the child with multiprocessing's 'spawn' method"
        )
        self.what = what

    def __reduce__(self) -> tuple[type[MadeBeforeFork], tuple[str]]:
        return type(self), (self.what,)


class MissingExtra(UsageError):
    """A part was used whose optional dependencies are not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs optional packages: pip install 'seamark[{extra}]'")
        self.extra = extra


class WireError(SeamarkError):
    """Bytes and values that do not fit together."""


class DecodeError(WireError):
    """The bytes at ``position`` are not a valid ``field``.

    ``position`` counts from the start of the buffer that was handed to the decoder.
    """

    def __init__(self, field: str, position: int, reason: str) -> None:
        super().__init__(f"{field} at byte {position}: {reason}")
        self.field = field
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type[DecodeError], tuple[str, int, str]]:
        return type(self), (self.field, self.position, self.reason)


class Truncated(DecodeError):
    """The buffer ends inside the field."""


class BadLength(DecodeError):
    """A length or count is negative, overlong, over a limit or larger than what holds it."""


class OverLimit(BadLength):
    """What was sent is larger than this reader takes in: it may be sound, and it would cost too much to find out."""


class BadChecksum(DecodeError):
    """The stored checksum is not that of the bytes."""


class BadText(DecodeError):
    """A string is not UTF-8."""


class BadValue(DecodeError):
    """A field holds a value that it must not hold."""


class UnknownCodec(DecodeError):
    """The compression codec is not one that Kafka defines."""


class UnknownVersion(DecodeError):
    """The message, batch or record has a version that this build cannot read."""


class TrailingBytes(DecodeError):
    """Bytes are left over behind a complete message."""


class EncodeError(WireError):
    """``value`` cannot be written as ``field``."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        shown = repr(value)
        super().__init__(f"{field}={shown if len(shown) <= 80 else shown[:77] + '...'}: {reason}")
        self.field = field
        self.value = value
        self.reason = reason

    def __reduce__(self) -> tuple[type[EncodeError], tuple[str, object, str]]:
        return type(self), (self.field, self.value, self.reason)


class OutOfRange(EncodeError):
    """The value is outside what the field's type or version can carry."""


class NotNullable(EncodeError):
    """None was given where the format has no null."""
