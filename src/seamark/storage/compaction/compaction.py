"""Compaction: the last value per key stays, in fewer and smaller segments, and every offset stays what it was.

The segments behind ``first_dirty`` are skimmed for the last offset of each key. Then all sealed segments are
rewritten, oldest first, neighbours being joined up to ``segment_bytes``. The segment that is written to takes no
part, so the log's end does not move. A rewrite whose last batches are gone ends with a batch without records that
says how far it reaches: segments stay contiguous.

A rewrite takes effect by one rename. Before it, the file is synced under another name, and the old indexes are gone
for good; a crash leaves the old segments and a file to throw away. After it, the first old segment is replaced, and
those that it covers as well are leftovers which recovery removes when a crash came first. Older segments go first and
durably, so a tombstone never goes before the values it hides, and a value only when a newer one is durable in a
segment behind it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from seamark.counts import counted
from seamark.readable_log import readable_logger
from seamark.storage.aside import Aside, Pauses
from seamark.storage.compaction.key_map import KeyMap
from seamark.storage.compaction.survivors import Survivors
from seamark.storage.errors import StorageFailed
from seamark.storage.files.filesystem import File, Filesystem, remove_if_there
from seamark.storage.files.names import CLEANED, segment_file
from seamark.storage.retention import newest_ms
from seamark.storage.segments.index import SegmentContents
from seamark.storage.segments.segment import Segment
from seamark.storage.settings import LogSettings
from seamark.wire.records import encode_batch
from seamark.wire.records.record_batch import INT32_MAX, read_outline

logger = readable_logger("seamark.storage")

_STEP_BYTES = 1 << 20


class Cleaning(NamedTuple):
    """How far compaction got: offsets may be missing below the first, each key is there once below the second.

    ``earliest_horizon_ms`` is when the next tombstone may go, or -1.
    """

    compacted_below: int = 0
    first_dirty: int = 0
    earliest_horizon_ms: int = -1


def cleanable(sealed: Sequence[Segment], settings: LogSettings, now_ms: int) -> list[Segment]:
    """Return the oldest segments, up to the first that is younger than the compaction lag."""
    if settings.min_compaction_lag_ms == 0:
        return list(sealed)
    young = (n for n, segment in enumerate(sealed) if now_ms - newest_ms(segment) < settings.min_compaction_lag_ms)
    return list(sealed[: next(young, len(sealed))])


def _dirty(segments: Sequence[Segment], cleaning: Cleaning) -> list[Segment]:
    return [segment for segment in segments if segment.next_offset > cleaning.first_dirty]


def _has_expired_tombstone(cleaning: Cleaning, now_ms: int) -> bool:
    return 0 <= cleaning.earliest_horizon_ms <= now_ms


def is_due(segments: Sequence[Segment], cleaning: Cleaning, settings: LogSettings, now_ms: int) -> bool:
    """Is a large enough part of the cleanable bytes dirty, or may a tombstone go?"""
    total = sum(segment.size for segment in segments)
    dirty = sum(segment.size for segment in _dirty(segments, cleaning))
    is_dirty = dirty > 0 and dirty >= total * settings.min_cleanable_dirty_ratio
    return is_dirty or (total > 0 and _has_expired_tombstone(cleaning, now_ms))


def plan(segments: Sequence[Segment], cleaning: Cleaning, settings: LogSettings, now_ms: int) -> Work | None:
    """Return what there is to do, whatever the dirty ratio, or None."""
    dirty = _dirty(segments, cleaning)
    if not dirty and not (segments and _has_expired_tombstone(cleaning, now_ms)):
        return None
    return Work(segments[: len(segments) - len(dirty)], dirty, settings, now_ms)


class Work:
    """One compaction; ``end`` is the offset up to which it cleans, final once the first rewrite is there."""

    def __init__(self, clean: Sequence[Segment], dirty: Sequence[Segment], settings: LogSettings, now_ms: int) -> None:
        self._clean = list(clean)
        self._dirty = list(dirty)
        self._settings = settings
        self._now_ms = now_ms
        self.end = (dirty or clean)[-1].next_offset
        self.earliest_horizon_ms = -1

    def rewrites(self, filesystem: Filesystem, directory: str) -> Generator[Rewrite | Aside[Any] | None]:
        """Yield each finished rewrite, to be put in place before the next is asked for, and pauses between."""
        most = self._settings.max_decompressed_bytes
        keys = KeyMap(most)
        for number, segment in enumerate(self._dirty):
            for first, last in segment.block_runs(_STEP_BYTES):
                yield from keys.add(segment.read_blocks(first, last))
                yield None
            if len(keys.latest) >= self._settings.compaction_max_keys:
                del self._dirty[number + 1 :]
                self.end = segment.next_offset
                break
        if keys.unread:
            logger.warning(
                "%s: compaction keeps %s unchanged, the first at offset %d: the records cannot be read, or "
                "there are too many",
                directory,
                counted(len(keys.unread), "batch", "batches"),
                keys.unread[0],
            )
        survivors = Survivors(keys, self._now_ms, self._settings.delete_retention_ms, most)
        rewrite: Rewrite | None = None
        try:
            segments = [*((segment, False) for segment in self._clean), *((segment, True) for segment in self._dirty)]
            for number, (segment, is_dirty) in enumerate(segments):
                if rewrite is None:
                    rewrite = Rewrite(filesystem, directory, segment.base_offset, self._settings.index_interval_bytes)
                yield from rewrite.take(segment, survivors, is_dirty)
                if number + 1 < len(segments) and self._may_join(rewrite, segments[number + 1][0]):
                    continue
                if rewrite.finish():
                    yield rewrite
                rewrite = None
        finally:
            if rewrite is not None:
                rewrite.abandon()
        self.earliest_horizon_ms = survivors.earliest_horizon_ms

    def _may_join(self, rewrite: Rewrite, segment: Segment) -> bool:
        return (
            rewrite.size + segment.size <= self._settings.segment_bytes
            and segment.next_offset - 1 - rewrite.base_offset <= INT32_MAX
        )


class Rewrite:
    """A new segment under construction, which will replace one or more neighbours."""

    def __init__(self, filesystem: Filesystem, directory: str, base_offset: int, interval_bytes: int) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._path = f"{directory}/{segment_file(base_offset, CLEANED)}"
        self._interval_bytes = interval_bytes
        self._built = SegmentContents(base_offset)
        self._pending = bytearray()
        self._is_changed = False
        self.replaced: list[Segment] = []
        remove_if_there(filesystem, self._path)
        self._file: File | None = filesystem.open(self._path, create=True)

    @property
    def base_offset(self) -> int:
        return self._built.base_offset

    @property
    def size(self) -> int:
        return self._built.log_bytes

    def take(self, segment: Segment, survivors: Survivors, is_dirty: bool) -> Pauses[None]:
        """Add what survives of a segment."""
        self.replaced.append(segment)
        decide = survivors.of_dirty if is_dirty else survivors.of_clean
        for first, last in _runs_to_read(segment, survivors.kept) if is_dirty else segment.block_runs(_STEP_BYTES):
            for decision in decide(segment.read_blocks(first, last)):
                if not isinstance(decision, tuple):
                    yield decision
                    continue
                batch, is_changed = decision
                self._is_changed |= is_changed
                if batch:
                    self._add(batch)
            self._write_pending()
            yield None

    def _add(self, batch: bytes) -> None:
        self._built.take(read_outline(batch), batch, self._interval_bytes)
        self._pending += batch

    def _write_pending(self) -> None:
        assert self._file is not None
        if self._pending:
            self._file.append(self._pending)
            self._pending.clear()

    def finish(self) -> bool:
        """Complete and sync the file; a rewrite that would change nothing is thrown away."""
        assert self._file is not None
        end_offset = self.replaced[-1].next_offset
        if self._built.next_offset != end_offset:
            self._add(encode_batch([], base_offset=end_offset - 1, last_offset=end_offset - 1))
        is_smaller = self._built.log_bytes != sum(segment.size for segment in self.replaced)
        if len(self.replaced) == 1 and not is_smaller and not self._is_changed:
            self.abandon()
            return False
        self._write_pending()
        self._file.sync()
        self._file.close()
        self._file = None
        return True

    def abandon(self) -> None:
        """Throw the file away; where that fails, the next opening does it."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with suppress(StorageFailed):
            remove_if_there(self._filesystem, self._path)

    def put_in_place(self) -> Segment:
        """Replace the first old segment; once that is durable the others are covered and may be removed."""
        for segment in self.replaced:
            segment.blocks  # noqa: B018 - an index that is about to go must have been read: reads go on until the swap
            remove_if_there(self._filesystem, segment.index_path)
        self._filesystem.sync_directory(self._directory)
        segment = Segment(self._filesystem, self._directory, self._built.summary(is_compacted=True), self._built.blocks)
        segment.trust()
        segment.last_append_ms = self.replaced[-1].last_append_ms
        self._filesystem.rename(self._path, segment.path)
        return segment


def _runs_to_read(segment: Segment, kept: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of blocks in which something is kept: most of a log that is worth compacting need not be read."""
    offsets = segment.blocks.offsets
    for first, last in segment.block_runs(_STEP_BYTES):
        number = first
        while number <= last:
            here = bisect_left(kept, offsets[number])
            if here == len(kept) or kept[here] >= segment.next_offset:
                return
            # The block of the next offset that is kept; the blocks before it have none.
            number = max(number, bisect_right(offsets, kept[here]) - 1)
            if number > last:
                break
            start = number
            while number <= last and _has_kept(kept, offsets, number, segment.next_offset):
                number += 1
            yield start, number - 1


def _has_kept(kept: Sequence[int], offsets: Sequence[int], number: int, next_offset: int) -> bool:
    end = offsets[number + 1] if number + 1 < len(offsets) else next_offset
    here = bisect_left(kept, offsets[number])
    return here < len(kept) and kept[here] < end
