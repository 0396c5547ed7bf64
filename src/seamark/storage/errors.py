"""What storage refuses, as errors that name the file and, where there is one, the byte.

    LogError(file, position)
    +- TornTail                a file ends inside a batch
    +- CorruptBatch            stored bytes are not those that were written
    +- UnknownFormat           the directory was written by a build that this one does not know
    +- StorageFailed           the disk refused; the log may still be read
    |  +- MissingFile          there is no such file
    |  +- DiskFull             there is no room
    |  +- TooManyOpenFiles     the process may not open another file at the moment; nothing was touched
    |  +- WritesStopped        an earlier failure left the log fit for reading only, until it is opened again
    +- OffsetOutOfRange        an offset outside of the log was asked for

An ``OSError`` becomes one of these in ``translate`` and nowhere else; nothing above the filesystem port sees the
former.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from seamark.errors import SeamarkError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})


class LogError(SeamarkError):
    """A log's file cannot be used as asked; ``position`` is the byte in it, or None when the whole file is meant."""

    def __init__(self, file: str, position: int | None, reason: str) -> None:
        place = file if position is None else f"{file} at byte {position}"
        super().__init__(f"{place}: {reason}")
        self.file = file
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type[LogError], tuple[str, int | None, str]]:
        return type(self), (self.file, self.position, self.reason)


class TornTail(LogError):
    """The file ends inside a batch, as a crash in the middle of a write leaves it."""


class CorruptBatch(LogError):
    """The bytes are not a batch, or not the batch that was written."""


class UnknownFormat(LogError):
    """The directory has a format version that this build cannot read."""


class StorageFailed(LogError):
    """The disk answered with an error."""


class MissingFile(StorageFailed):
    """The file or directory does not exist."""


class DiskFull(StorageFailed):
    """There is no room for what was to be written."""


class TooManyOpenFiles(StorageFailed):
    """The file could not be opened because too many are open; the same call works once some are closed."""


class WritesStopped(StorageFailed):
    """A failed sync or an undone write that could not be undone: what is stored is no longer known."""


class OffsetOutOfRange(LogError):
    """The offset is before the log's start or behind its end."""

    def __init__(self, file: str, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(file, None, f"offset {offset} is outside the log, which has {log_start} to {log_end}")
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end

    def __reduce__(self) -> tuple[type[OffsetOutOfRange], tuple[str, int, int, int]]:  # type: ignore[override]
        return type(self), (self.file, self.offset, self.log_start, self.log_end)


def translate(error: OSError, file: str) -> StorageFailed:
    """Return what storage calls this failure of the operating system."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno == errno.ELOOP:
        return StorageFailed(file, None, "it is a symbolic link, which is not followed: use a regular file")
    if isinstance(error, FileNotFoundError):
        return MissingFile(file, None, reason)
    if error.errno in _NO_ROOM:
        return DiskFull(file, None, reason)
    if error.errno in _NO_DESCRIPTOR:
        return TooManyOpenFiles(file, None, reason)
    return StorageFailed(file, None, reason)


@contextmanager
def translated(file: str) -> Iterator[None]:
    """Run the block with its ``OSError`` translated."""
    try:
        yield
    except OSError as error:
        raise translate(error, file) from error
