"""How many segments may keep their files open: those used last do, and the others are opened again when needed.

Clients decide how many partitions and segments there are, the system how many files a process may have open. A segment
that gives its file up loses nothing: what it holds is written, and a sync opens the file by its name. Which one gives
up is decided by a second chance: whoever was used since it was last looked at is passed over once, so a use costs no
more than setting a mark.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from seamark.storage.errors import TooManyOpenFiles
from seamark.storage.files.filesystem import File, Filesystem


class Holder(Protocol):
    """Who keeps a file open; ``is_used`` is set by each use and taken back here."""

    is_used: bool

    def give_up(self) -> None:
        """Close the file; ``OpenFiles`` has forgotten the holder already."""


class OpenFiles:
    """Shared by all logs of one owner; without a limit where files cost nothing."""

    __slots__ = ("_holders", "most")

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._holders: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def open(self, filesystem: Filesystem, path: str, *, create: bool = False) -> File:
        """Open a file that its holder will ``add``, in place of one that was not used for long if there are too many.

        Where the process may open no more files at all, all others are closed first.
        """
        if self.most is not None:
            self.shrink_to(self.most - 1)
        try:
            return filesystem.open(path, create=create)
        except TooManyOpenFiles:
            if not self._holders:
                raise
            self.shrink_to(0)
            return filesystem.open(path, create=create)

    def add(self, holder: Holder) -> None:
        self._holders[holder] = None

    def discard(self, holder: Holder) -> None:
        """The holder has closed its file by itself."""
        self._holders.pop(holder, None)

    def shrink_to(self, count: int) -> None:
        """Close the files that were not used for long, until so many are open."""
        holders = self._holders
        while len(holders) > max(count, 0):
            holder, _ = holders.popitem(last=False)
            if holder.is_used and count > 0:
                holder.is_used = False
                holders[holder] = None
            else:
                holder.give_up()
