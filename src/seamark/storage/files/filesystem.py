"""The filesystem port: the only way from a log to a disk.

Paths are text with ``/``. What a crash may take is part of the contract, and whoever implements the port, or
simulates a disk behind it, must keep to it:

- Bytes: all appends and truncations up to a file's last ``sync`` survive. Later ones may survive whole, in part, out of
  order in units of any size, or not at all; what is missing inside the surviving size may read as anything.
- Names: ``open`` with ``create``, ``rename`` and ``remove`` survive once ``sync_directory`` of their directory
  returned. Before that each of them, by itself, may or may not have happened. A rename is atomic either way: the
  target is the old file or the new one. A file's ``sync`` does not make its name durable, and a name can survive
  without the bytes.
- ``mkdir`` is durable on return, parents included: directories are made once in a log's life.
- A failed ``sync`` says nothing about which bytes are stored, and asking again says nothing either.

Reads see all that was written, synced or not. Failures are ``StorageFailed`` and its subclasses, never ``OSError``; a
failed ``append`` may have written any part of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class File(Protocol):
    """One open file; one owner uses it, except for the call that ``detached_sync`` returns."""

    def append(self, content: Bytes) -> None:
        """Write all of ``content`` behind the last byte."""

    def read(self, position: int, length: int) -> bytes:
        """Return ``length`` bytes from ``position``, or fewer where the file ends."""

    def truncate(self, size: int) -> None:
        """Cut the file to its first ``size`` bytes."""

    def size(self) -> int: ...

    def sync(self) -> None:
        """Return when everything written to the file so far is durable, also by others that opened it and closed it."""

    def detached_sync(self) -> Callable[[], None]:
        """Return a call that does what ``sync`` does, to be made once, on any thread, even after ``close``."""

    def close(self) -> None:
        """Let the file go; a second call does nothing."""


class Filesystem(Protocol):
    """Names and the files behind them."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open a file for reading and appending; ``create`` makes an empty one when there is none.

        ``read_only`` promises that it will not be written to, so that a disk which takes no writes can be read.
        """

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, in place of any file that has it."""

    def remove(self, path: str) -> None: ...

    def mkdir(self, directory: str) -> None:
        """Make a directory and its parents; one that is there already is fine."""

    def remove_directory(self, directory: str) -> None:
        """Remove a directory that is empty."""

    def sync_directory(self, directory: str) -> None:
        """Return when all names made, changed and removed in the directory are durable."""


def read_whole(filesystem: Filesystem, path: str) -> bytes:
    """Return all of a small file."""
    file = filesystem.open(path, read_only=True)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def read_start(filesystem: Filesystem, path: str, length: int) -> bytes:
    """Return the first bytes of a file, fewer if it has not as many."""
    file = filesystem.open(path, read_only=True)
    try:
        return file.read(0, length)
    finally:
        file.close()


def remove_if_there(filesystem: Filesystem, path: str) -> None:
    """Remove a file that may be gone already."""
    if filesystem.exists(path):
        filesystem.remove(path)
