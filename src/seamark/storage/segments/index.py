"""A segment's sparse index: where offsets and times are, and what the bytes between were.

A segment is a row of blocks, each of one or more whole batches; a block ends at the first append after
``index_interval_bytes``. Per block the index has the first offset, the position, the largest timestamp of the segment
up to the block's end (so that the column rises and can be searched), and the CRC-32C of all its bytes. A batch's own
CRC leaves out its offset; the block's does not.

In memory for the segment that is written to; a file for the others, with a summary in front that is enough to open a
log. The file is written only after the segment was synced, and says how long it was: an index that fits its segment
vouches for it. Kafka's own index files have no checksum; ours have, so one that is damaged or belongs to another
segment is never followed.
"""

from __future__ import annotations

import sys
from array import array
from struct import Struct
from typing import NamedTuple

from seamark.storage.errors import LogError
from seamark.wire.records import BatchHeader
from seamark.wire.records.crc32c import crc32c

_MAGIC = b"SMIX"
_VERSION = 1
_COMPACTED = 1
_FIXED = Struct("<4sHHqqqqqqI")
_CHECKSUMS = Struct("<II")
SUMMARY_BYTES = _FIXED.size + _CHECKSUMS.size
_BLOCK_BYTES = 28


class SegmentSummary(NamedTuple):
    """What is known of a segment without its blocks.

    ``max_timestamp_offset`` is the first offset of the batch that has the largest timestamp, ``first_timestamp_ms``
    the largest of the first batch; both are -1 in a segment without one.
    """

    base_offset: int
    log_bytes: int
    next_offset: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    first_timestamp_ms: int
    is_compacted: bool
    block_count: int
    blocks_crc: int


class Blocks:
    """The columns of an index; all rise from block to block, except the checksums."""

    __slots__ = ("checksums", "latest_ms", "offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.latest_ms = array("q")
        self.checksums = array("I")

    def __len__(self) -> int:
        return len(self.offsets)

    def start_block(self, offset: int, position: int) -> None:
        self.offsets.append(offset)
        self.positions.append(position)
        self.latest_ms.append(self.latest_ms[-1] if self.latest_ms else -1)
        self.checksums.append(0)

    def end_of(self, number: int, log_bytes: int) -> int:
        """Return where block ``number`` ends in a segment of ``log_bytes``."""
        return self.positions[number + 1] if number + 1 < len(self.positions) else log_bytes

    def encode(self) -> bytes:
        columns = (self.offsets, self.positions, self.latest_ms, self.checksums)
        if sys.byteorder == "big":
            columns = tuple(array(column.typecode, column) for column in columns)  # type: ignore[assignment]
            for column in columns:
                column.byteswap()
        return b"".join(column.tobytes() for column in columns)


class SegmentContents:
    """The summary and the blocks of a row of batches, made as they go by.

    ``damage`` is why the walk that made it ended before its file did, or None.
    """

    __slots__ = (
        "base_offset",
        "blocks",
        "damage",
        "first_timestamp_ms",
        "log_bytes",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
    )

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.log_bytes = 0
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = -1
        self.first_timestamp_ms = -1
        self.damage: LogError | None = None
        self.blocks = Blocks()

    def take(self, header: BatchHeader, batch: bytes | memoryview, interval_bytes: int) -> None:
        """Go on with a batch that was checked."""
        blocks = self.blocks
        if not blocks.positions or self.log_bytes - blocks.positions[-1] >= interval_bytes:
            blocks.start_block(header.base_offset, self.log_bytes)
        blocks.checksums[-1] = crc32c(batch, blocks.checksums[-1])
        if header.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp_ms
            self.max_timestamp_offset = header.base_offset
            blocks.latest_ms[-1] = header.max_timestamp_ms
        if self.log_bytes == 0:
            self.first_timestamp_ms = header.max_timestamp_ms
        self.log_bytes += header.size_bytes
        self.next_offset = header.next_offset

    def summary(self, *, is_compacted: bool) -> SegmentSummary:
        return SegmentSummary(
            self.base_offset,
            self.log_bytes,
            self.next_offset,
            self.max_timestamp_ms,
            self.max_timestamp_offset,
            self.first_timestamp_ms,
            is_compacted,
            0,
            0,
        )


def encode_index(summary: SegmentSummary, blocks: Blocks) -> bytes:
    """Return an index file's bytes; the summary's block fields are filled in here."""
    body = blocks.encode()
    fixed = _FIXED.pack(
        _MAGIC,
        _VERSION,
        _COMPACTED if summary.is_compacted else 0,
        summary.base_offset,
        summary.log_bytes,
        summary.next_offset,
        summary.max_timestamp_ms,
        summary.max_timestamp_offset,
        summary.first_timestamp_ms,
        len(blocks),
    )
    blocks_crc = crc32c(body)
    return fixed + _CHECKSUMS.pack(blocks_crc, crc32c(blocks_crc.to_bytes(4, "little"), crc32c(fixed))) + body


def decode_summary(content: bytes) -> SegmentSummary | None:
    """Return the summary at the start of an index file, or None when it is not sound."""
    if len(content) < SUMMARY_BYTES:
        return None
    fixed = content[: _FIXED.size]
    magic, version, flags, base, log_bytes, next_offset, largest, largest_at, first, count = _FIXED.unpack(fixed)
    blocks_crc, crc = _CHECKSUMS.unpack_from(content, _FIXED.size)
    if magic != _MAGIC or version != _VERSION or crc != crc32c(blocks_crc.to_bytes(4, "little"), crc32c(fixed)):
        return None
    return SegmentSummary(
        base, log_bytes, next_offset, largest, largest_at, first, bool(flags & _COMPACTED), count, blocks_crc
    )


def decode_blocks(content: bytes, summary: SegmentSummary) -> Blocks | None:
    """Return the blocks of a whole index file, or None when they are not those that the summary vouches for."""
    body = content[SUMMARY_BYTES:]
    count = summary.block_count
    if len(body) != count * _BLOCK_BYTES or crc32c(body) != summary.blocks_crc:
        return None
    blocks = Blocks()
    start = 0
    for column, width in ((blocks.offsets, 8), (blocks.positions, 8), (blocks.latest_ms, 8), (blocks.checksums, 4)):
        column.frombytes(body[start : start + count * width])
        if sys.byteorder == "big":
            column.byteswap()
        start += count * width
    return blocks
