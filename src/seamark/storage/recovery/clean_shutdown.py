"""The mark that a log was closed with everything synced and indexed: the next opening need not read it all.

The mark says how many segments and bytes there were, so one that a crash brings back, or that outlives a change of the
files, does not fit and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.readable_log import readable_logger
from seamark.storage.errors import StorageFailed
from seamark.storage.files.filesystem import Filesystem, remove_if_there
from seamark.storage.files.names import CLEAN_SHUTDOWN_FILE
from seamark.storage.recovery.checkpoint import Checkpoint, write_checkpoint
from seamark.storage.segments.segments import Segments

logger = readable_logger("seamark.storage")


def mark_clean(filesystem: Filesystem, directory: str, segments: Segments) -> None:
    """Leave the mark; the segments are synced, and each has its index."""
    fields = {"log_end": segments.active.next_offset, "segments": len(segments), "bytes": segments.size}
    write_checkpoint(filesystem, directory, CLEAN_SHUTDOWN_FILE, fields)


def unmark_clean(filesystem: Filesystem, directory: str, segments: Segments) -> None:
    """Take the mark away, and the index that is about to be outdated."""
    try:
        remove_if_there(filesystem, f"{directory}/{CLEAN_SHUTDOWN_FILE}")
        remove_if_there(filesystem, segments.active.index_path)
    except StorageFailed as error:
        logger.warning("%s: an outdated clean-shutdown file could not be removed (%s)", directory, error)


def fits(mark: Checkpoint | None, sizes: Sequence[int]) -> bool:
    """Was the log closed with segments of these sizes?"""
    return mark is not None and mark.fields.get("segments") == len(sizes) and mark.fields.get("bytes") == sum(sizes)


def warn_of_loss(mark: Checkpoint | None, directory: str, log_end: int) -> None:
    """Say so when the log ends before where it was closed: a last segment that is gone leaves no other trace."""
    closed_at = mark.fields.get("log_end", 0) if mark is not None else 0
    if closed_at > log_end:
        logger.error("%s: the log was closed at offset %d and ends at %d now", directory, closed_at, log_end)
