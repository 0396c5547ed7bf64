"""What a sync has to do, apart from the log that asked for it, so that it may run on another thread.

It holds its own handles, or opens a file by its name whose segment gave it up: the owner may roll, compact or close
meanwhile. Only the owner learns of the outcome, by ``Log.finish_sync``; nothing here touches the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seamark.storage.files.filesystem import Filesystem

if TYPE_CHECKING:
    from seamark.storage.segments.segment import Segment


class PendingSync:
    """``run`` it once; everything below ``end_offset`` is then durable."""

    __slots__ = ("_calls", "_filesystem", "directory", "end_offset", "name_changes", "owner", "sealed")

    def __init__(
        self,
        owner: object,
        filesystem: Filesystem,
        directory: str | None,
        calls: Sequence[Callable[[], None]],
        sealed: tuple[Segment, ...],
        end_offset: int,
        name_changes: int,
    ) -> None:
        # The log that asked: one that was opened in its place has nothing to learn from it.
        self.owner = owner
        self._filesystem = filesystem
        self.directory = directory
        self._calls = calls
        self.sealed = sealed
        self.end_offset = end_offset
        self.name_changes = name_changes

    def run(self) -> None:
        """Sync files, oldest first, and then the names of new ones; raise ``StorageFailed`` when one fails."""
        for call in self._calls:
            call()
        if self.directory is not None:
            self._filesystem.sync_directory(self.directory)
