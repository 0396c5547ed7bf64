"""One segment: a file of whole batches in the order of their offsets, and its index.

The last segment of a log is written to and keeps its file open, unless ``OpenFiles`` needs it for another; the others
are sealed, are opened for each read, and load their index when it is first needed. Bytes that this process wrote are
trusted. Bytes that were on disk before are cold: the first read of a block checks its CRC, so nothing is served that
was damaged while nobody looked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from seamark.errors import BadValue, DecodeError
from seamark.readable_log import readable_logger
from seamark.storage.aside import Aside, Pauses, unfolded_aside
from seamark.storage.errors import CorruptBatch, MissingFile, StorageFailed
from seamark.storage.files.filesystem import File, Filesystem, read_whole
from seamark.storage.files.names import INDEX, LOG, segment_file
from seamark.storage.files.open_files import OpenFiles
from seamark.storage.segments.index import Blocks, SegmentSummary, decode_blocks, decode_summary, encode_index
from seamark.storage.segments.scan import scan_segment
from seamark.wire.records.compression import DEFAULT_MAX_DECOMPRESSED, Codec, Unfolded
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    OFFSETS_AND_TIME,
    BatchHeader,
    batch_end,
    read_header,
)
from seamark.wire.records.record_skim import skim_records

logger = readable_logger("seamark.storage")

# Records that are looked at before others get their turn.
_RECORDS_PER_STEP = 200

# Of a record, or a pause.
OffsetAndTime = tuple[int, int] | Aside[Any] | None


class Segment:
    """Batches from ``base_offset`` up to ``next_offset``, ``size`` bytes of them."""

    __slots__ = (
        "_blocks",
        "_cold_end",
        "_filesystem",
        "_is_unreadable_told",
        "_open_files",
        "_verified_end",
        "base_offset",
        "directory",
        "file",
        "first_timestamp_ms",
        "is_compacted",
        "is_retired",
        "is_used",
        "last_append_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
        "size",
        "started_ms",
    )

    def __init__(self, filesystem: Filesystem, directory: str, summary: SegmentSummary, blocks: Blocks | None) -> None:
        self._filesystem = filesystem
        self.directory = directory
        self.base_offset = summary.base_offset
        self.size = summary.log_bytes
        self.next_offset = summary.next_offset
        self.max_timestamp_ms = summary.max_timestamp_ms
        self.max_timestamp_offset = summary.max_timestamp_offset
        self.first_timestamp_ms = summary.first_timestamp_ms
        self.is_compacted = summary.is_compacted
        self._blocks = blocks
        # Below the first and above the second the bytes are known to be those that were written.
        self._verified_end = 0
        self._cold_end = summary.log_bytes
        self._is_unreadable_told = False
        # Held while the segment is written to and until its bytes are synced, if ``OpenFiles`` has room.
        self.file: File | None = None
        self._open_files: OpenFiles | None = None
        # Whether the file was used since ``OpenFiles`` looked last. The use that it was opened for does not count, or
        # one pass over many logs would drive out those in use.
        self.is_used = False
        # Out of the log for good: its file may be gone.
        self.is_retired = False
        self.started_ms = 0
        self.last_append_ms = 0

    @classmethod
    def create(
        cls, filesystem: Filesystem, directory: str, base_offset: int, now_ms: int, open_files: OpenFiles
    ) -> Segment:
        """Make an empty segment, open for writing; its name is durable after the next sync of the directory."""
        summary = SegmentSummary(base_offset, 0, base_offset, -1, -1, -1, False, 0, 0)
        segment = cls(filesystem, directory, summary, Blocks())
        segment.open_for_writing(open_files, create=True)
        segment.started_ms = segment.last_append_ms = now_ms
        return segment

    @property
    def path(self) -> str:
        return f"{self.directory}/{segment_file(self.base_offset, LOG)}"

    @property
    def index_path(self) -> str:
        return f"{self.directory}/{segment_file(self.base_offset, INDEX)}"

    def trust(self) -> None:
        """Take all bytes as checked: whoever calls has just read or written them."""
        self._verified_end = self._cold_end

    def open_for_writing(self, open_files: OpenFiles, *, create: bool = False) -> None:
        """Hold the file; what lies behind the last whole batch is cut off."""
        if self.file is None:
            self._blocks = self.blocks
            self._open_files = open_files
            file = open_files.open(self._filesystem, self.path, create=create)
            if file.size() != self.size:
                file.truncate(self.size)
            self._hold(file, open_files)

    def _open_again(self) -> File:
        """Hold the file again that was given up; it is as it was left, or somebody else was at it."""
        assert self._open_files is not None
        file = self._open_files.open(self._filesystem, self.path)
        size = file.size()
        if size != self.size:
            file.close()
            raise StorageFailed(
                self.path, None, f"it has {size} bytes, but {self.size} were written: something else has changed it"
            )
        self._hold(file, self._open_files)
        return file

    def _hold(self, file: File, open_files: OpenFiles) -> None:
        self.file = file
        self.is_used = False
        open_files.add(self)

    def give_up(self) -> None:
        """Close the file, because others need it more; the next write opens it again."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def release(self) -> None:
        """Let the file go; reads open it again."""
        self.give_up()
        if self._open_files is not None:
            self._open_files.discard(self)

    def retire(self) -> None:
        """Let the file go for good: it is about to be removed or replaced."""
        self.is_retired = True
        self.release()

    def detached_sync(self) -> Callable[[], None]:
        """Return a call that makes durable what was written so far, to be made once, on any thread."""
        return self._sync_by_name if self.file is None else self.file.detached_sync()

    def _sync_by_name(self) -> None:
        """Sync a file that was given up: a sync is about the file's bytes, whoever wrote them through which handle."""
        try:
            file = self._filesystem.open(self.path, read_only=True)
        except MissingFile:
            if self.is_retired:
                return
            raise
        try:
            file.sync()
        finally:
            file.close()

    # ------------------------------------------------------------------ writing

    def append(
        self,
        content: bytes | bytearray | memoryview,
        next_offset: int,
        max_timestamp_ms: int,
        max_timestamp_offset: int,
        interval_bytes: int,
    ) -> None:
        """Write whole batches whose offsets go on from ``next_offset``; after a failure the segment is as before.

        Raises ``StorageFailed``: with ``file`` None nothing was written, otherwise any part, which is to be cut back to
        ``self.size``.
        """
        file = self.file
        if file is None:
            file = self._open_again()
        else:
            self.is_used = True
        blocks = self._blocks
        assert blocks is not None
        file.append(content)
        position = self.size
        positions = blocks.positions
        if not positions or position - positions[-1] >= interval_bytes:
            blocks.start_block(self.next_offset, position)
        blocks.checksums[-1] = crc32c(content, blocks.checksums[-1])
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = max_timestamp_offset
            blocks.latest_ms[-1] = max_timestamp_ms
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        self.size = position + len(content)
        self.next_offset = next_offset

    def summary(self) -> SegmentSummary:
        return SegmentSummary(
            self.base_offset,
            self.size,
            self.next_offset,
            self.max_timestamp_ms,
            self.max_timestamp_offset,
            self.first_timestamp_ms,
            self.is_compacted,
            0,
            0,
        )

    def write_index(self, *, durable: bool = False) -> None:
        """Write the index file; only for a segment whose bytes are synced."""
        content = encode_index(self.summary(), self.blocks)
        file = self._filesystem.open(self.index_path, create=True)
        try:
            file.truncate(0)
            file.append(content)
            if durable:
                file.sync()
        finally:
            file.close()

    # ------------------------------------------------------------------ reading

    @property
    def blocks(self) -> Blocks:
        """The index's blocks, read or made again from the segment on first use."""
        if self._blocks is None:
            self._blocks = self._load_blocks() or self._rebuild_blocks()
        return self._blocks

    def _load_blocks(self) -> Blocks | None:
        try:
            content = read_whole(self._filesystem, self.index_path)
        except StorageFailed:
            return None
        summary = decode_summary(content)
        if summary is None or summary.base_offset != self.base_offset or summary.log_bytes != self.size:
            return None
        return decode_blocks(content, summary)

    def _rebuild_blocks(self) -> Blocks:
        file = self.file or self._filesystem.open(self.path, read_only=True)
        try:
            contents = scan_segment(file, self.path, self.base_offset, contiguous=not self.is_compacted)
        finally:
            if file is not self.file:
                file.close()
        if contents.log_bytes != self.size:
            raise CorruptBatch(
                self.path, contents.log_bytes, "the bytes from here on differ from what was written"
            ) from contents.damage
        self.trust()
        return contents.blocks

    def read_blocks(self, first: int, last: int) -> bytes:
        """Return the bytes of the blocks from ``first`` to ``last``, both included, checked if they are cold."""
        content, damage = self._read_sound_blocks(first, last)
        if damage is not None:
            raise damage
        return content

    def _read_sound_blocks(self, first: int, last: int, enough: int | None = None) -> tuple[bytes, CorruptBatch | None]:
        """Return the bytes of the blocks up to the first damaged one, and what is wrong with that.

        Of blocks that need no check ``enough`` bytes will do; the first of them is whole all the same.
        """
        blocks = self.blocks
        start = blocks.positions[first]
        end = blocks.end_of(last, self.size)
        is_trusted = start >= self._cold_end or end <= self._verified_end
        if is_trusted and enough is not None:
            end = min(end, max(start + enough, blocks.end_of(first, self.size)))
        self.is_used = True
        file = self.file or self._filesystem.open(self.path, read_only=True)
        try:
            content = file.read(start, end - start)
        finally:
            if file is not self.file:
                file.close()
        if is_trusted and len(content) == end - start:
            return content, None
        end = blocks.end_of(last, self.size)
        view = memoryview(content)
        for number in range(first, last + 1):
            position = blocks.positions[number]
            block = view[position - start : blocks.end_of(number, self.size) - start]
            if crc32c(block) != blocks.checksums[number]:
                reason = (
                    f"the {blocks.end_of(number, self.size) - position} bytes from here on differ from what was written"
                )
                return content[: position - start], CorruptBatch(self.path, position, reason)
        if start <= self._verified_end:
            self._verified_end = max(self._verified_end, end)
        return content, None

    def verify(self) -> None:
        """Check every cold block; raise ``CorruptBatch`` at the first that is damaged."""
        for first, last in self.block_runs(1 << 20):
            self.read_blocks(first, last)

    def block_runs(self, run_bytes: int) -> Iterator[tuple[int, int]]:
        """Yield first and last block of runs of about ``run_bytes``."""
        first = 0
        positions = self.blocks.positions
        while first < len(positions):
            beyond = bisect_right(positions, positions[first] + run_bytes)
            last = beyond - 1 if beyond == len(positions) else max(first, beyond - 2)
            yield first, last
            first = last + 1

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes | memoryview:
        """Return whole batches from the one that has ``offset`` on, without those from ``end_offset`` on.

        The first batch is there however large it is; then as many as ``max_bytes`` hold and are sound.
        """
        if self.size == 0:
            return b""
        blocks = self.blocks
        positions = blocks.positions
        first = max(bisect_right(blocks.offsets, offset) - 1, 0)
        # The batch sought begins with this block, in it or right behind it, so the limit is at most this far.
        is_first = offset <= blocks.offsets[first]
        reach = (positions[first] if is_first else blocks.end_of(first, self.size)) + max_bytes
        last = bisect_right(positions, reach) - 1
        if end_offset < self.next_offset:
            last = min(last, max(bisect_right(blocks.offsets, end_offset) - 1, first))
        content, damage = self._read_sound_blocks(first, last, max_bytes if is_first else None)
        unpack = OFFSETS_AND_TIME.unpack_from
        size = len(content)
        start = 0
        if offset > blocks.offsets[first]:
            while start < size:
                base, length, delta, _ = unpack(content, start)
                if base + delta >= offset:
                    break
                behind = start + length + LENGTH_OVERHEAD
                if behind < start + HEADER_BYTES or size - HEADER_BYTES < behind != size:
                    reason = f"the batch claims to have {length} bytes, after which there is no batch"
                    raise CorruptBatch(self.path, positions[first] + start, reason)
                start = behind
        if damage is not None and start == size:
            raise damage
        limit = start + max_bytes
        boundary = bisect_right(positions, positions[first] + limit) - 1
        if end_offset < self.next_offset:
            boundary = min(boundary, bisect_right(blocks.offsets, end_offset) - 1)
        elif limit >= size and positions[first] + size == self.size:
            return memoryview(content)[start:] if start else content
        # Whole blocks need no walk: only the last one may have to be split.
        end = max(start, positions[max(boundary, first)] - positions[first])
        while end + HEADER_BYTES <= size:
            base, length, _, _ = unpack(content, end)
            behind = end + length + LENGTH_OVERHEAD
            if base >= end_offset or behind > size or (behind > limit and end > start):
                break
            end = behind
        return memoryview(content)[start:end] if start or end < size else content

    def is_end_mark(self, content: bytes | memoryview) -> bool:
        """A rewrite may end with a batch that only says where its offsets end; alone it is nothing to serve."""
        return self.is_compacted and len(content) == HEADER_BYTES

    def find_timestamp(self, timestamp_ms: int, from_offset: int) -> Pauses[tuple[int, int] | None]:
        """Return offset and timestamp of the first record not older than ``timestamp_ms``, from ``from_offset`` on."""
        if timestamp_ms > self.max_timestamp_ms:
            return None
        blocks = self.blocks
        unpack = OFFSETS_AND_TIME.unpack_from
        for number in range(bisect_left(blocks.latest_ms, timestamp_ms), len(blocks)):
            content = self.read_blocks(number, number)
            position = 0
            while position < len(content):
                base, length, delta, largest = unpack(content, position)
                if largest >= timestamp_ms and base + delta >= from_offset:
                    for place in self._timestamps(content, position, blocks.positions[number]):
                        if not isinstance(place, tuple):
                            yield place
                        elif place[1] >= timestamp_ms and place[0] >= from_offset:
                            return place
                position += length + LENGTH_OVERHEAD
        return None

    def find_max_timestamp(self, from_offset: int) -> Pauses[tuple[int, int] | None]:
        """Return offset and timestamp of the first record with the largest timestamp from ``from_offset`` on."""
        if self.max_timestamp_offset >= from_offset:
            place = yield from self.find_timestamp(self.max_timestamp_ms, from_offset)
            # None where a batch says that it has a later time than its records have: then all are looked at.
            if place is not None:
                return place
        best: tuple[int, int] | None = None
        blocks = self.blocks
        for number in range(max(bisect_right(blocks.offsets, from_offset) - 1, 0), len(blocks)):
            content = self.read_blocks(number, number)
            position = 0
            while position < len(content):
                base, length, delta, largest = OFFSETS_AND_TIME.unpack_from(content, position)
                if base + delta >= from_offset and largest >= 0 and (best is None or largest > best[1]):
                    for seen in self._timestamps(content, position, blocks.positions[number]):
                        if not isinstance(seen, tuple):
                            yield seen
                        elif seen[0] >= from_offset and seen[1] >= 0 and (best is None or seen[1] > best[1]):
                            best = seen
                position += length + LENGTH_OVERHEAD
        return best

    def _timestamps(self, content: bytes, position: int, block_position: int) -> Iterator[OffsetAndTime]:
        """Yield offset and timestamp of each record, and pauses; none of a batch whose records cannot be read."""
        try:
            header = read_header(content, position)
            yield from _offsets_and_times(content, position, header)
        except DecodeError as error:
            # Its bytes are those that its producer wrote: nothing is damaged, and its readers are told.
            if not self._is_unreadable_told:
                self._is_unreadable_told = True
                logger.warning(
                    "%s at byte %d: the records of a batch cannot be read (%s); it is skipped when looking up "
                    "timestamps",
                    self.path,
                    block_position + position,
                    error,
                )


def _offsets_and_times(content: bytes, position: int, header: BatchHeader) -> Iterator[OffsetAndTime]:
    end = batch_end(content, position, header)
    start = position + HEADER_BYTES
    records: Unfolded = content
    if header.codec is not Codec.NONE and header.record_count:
        packed = memoryview(content)[start:end]
        unfolded = yield from unfolded_aside(header.codec, packed, DEFAULT_MAX_DECOMPRESSED)
        if unfolded is None:
            raise BadValue("records", start, "the records cannot be decompressed")
        records, end = unfolded
        start = 0
    for number, (delta, time_delta, *_) in enumerate(skim_records(records, start, end, header.record_count), 1):
        if number % _RECORDS_PER_STEP == 0:
            yield None
        stamp = header.max_timestamp_ms if header.timestamp_type else header.base_timestamp_ms + time_delta
        yield header.base_offset + delta, stamp
