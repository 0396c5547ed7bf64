"""A disk that a test can fill: whatever needs room on it is refused, as ``Faults.fill_disk`` promises.

Every file that the broker writes anew, its state, checkpoints, indexes and segments, is created first, and that fails
here. Appends to a log are refused by their partition: its file is open already, and a look into it costs nothing there.
What gives room back, or takes none, works as on a full disk of a system: reads, removals, renames and syncs.
"""

from __future__ import annotations

from collections.abc import Callable

from seamark.storage.errors import DiskFull
from seamark.storage.files.filesystem import File, Filesystem


class FillableDisk:
    """A filesystem with a switch; ``is_full`` is asked whenever something would take room."""

    def __init__(self, disk: Filesystem, is_full: Callable[[], bool]) -> None:
        self._disk = disk
        self._is_full = is_full

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        if create:
            self.check_room(path)
        return self._disk.open(path, create=create, read_only=read_only)

    def mkdir(self, directory: str) -> None:
        if not self._disk.exists(directory):
            self.check_room(directory)
        self._disk.mkdir(directory)

    def list(self, directory: str) -> list[str]:
        return self._disk.list(directory)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def rename(self, source: str, target: str) -> None:
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self._disk.remove(path)

    def remove_directory(self, directory: str) -> None:
        self._disk.remove_directory(directory)

    def sync_directory(self, directory: str) -> None:
        self._disk.sync_directory(directory)

    def check_room(self, path: str) -> None:
        """Raise ``DiskFull`` while the disk is full."""
        if self._is_full():
            raise DiskFull(path, None, "the disk is full")
