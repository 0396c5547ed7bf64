"""The walk through a segment's file that finds out how much of it is sound, and makes its index on the way.

A batch is sound when its size and offsets are, its CRC fits, and its offsets go on where the one before ended; what its
producer wrote into it is the readers' to judge. After compaction
offsets have gaps; ``contiguous`` says that here they have none, which is the only check there is on a batch's offset:
its CRC leaves it out. The walk stops at the first batch that is not sound. What lies behind is for recovery to judge.
"""

from __future__ import annotations

from seamark.errors import DecodeError
from seamark.storage.errors import CorruptBatch, TornTail
from seamark.storage.files.filesystem import File
from seamark.storage.segments.index import SegmentContents
from seamark.wire.records.record_batch import (
    HEADER_BYTES,
    INT32_MAX,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    check_crc,
    read_outline,
)

_CHUNK_BYTES = 1 << 20
DEFAULT_INTERVAL_BYTES = 4096


def scan_segment(
    file: File,
    path: str,
    base_offset: int,
    *,
    contiguous: bool,
    interval_bytes: int = DEFAULT_INTERVAL_BYTES,
    end: int | None = None,
) -> SegmentContents:
    """Walk the whole file, or up to ``end``; never raises for what is in it."""
    contents = SegmentContents(base_offset)
    size = file.size() if end is None else end
    chunk = b""
    chunk_start = 0
    while contents.log_bytes < size:
        position = contents.log_bytes - chunk_start
        needed = HEADER_BYTES
        try:
            if len(chunk) - position >= HEADER_BYTES:
                header = read_outline(chunk, position)
                needed = header.size_bytes
                if len(chunk) - position >= needed:
                    check_crc(chunk, position, header)
                    if header.base_offset < contents.next_offset or (
                        contiguous and header.base_offset > contents.next_offset
                    ):
                        reason = f"the batch has offset {header.base_offset}, expected {contents.next_offset}"
                        contents.damage = CorruptBatch(path, contents.log_bytes, reason)
                        break
                    contents.take(header, memoryview(chunk)[position : position + needed], interval_bytes)
                    continue
        except DecodeError as error:
            contents.damage = CorruptBatch(path, contents.log_bytes, f"{error.field} is invalid: {error.reason}")
            break
        if needed > size - contents.log_bytes:
            left = size - contents.log_bytes
            contents.damage = TornTail(
                path, contents.log_bytes, f"the file ends {left} bytes into a batch of at least {needed}"
            )
            break
        chunk_start = contents.log_bytes
        chunk = file.read(chunk_start, max(needed, min(_CHUNK_BYTES, size - chunk_start)))
        if len(chunk) < needed:
            contents.damage = TornTail(path, contents.log_bytes, "the file cannot be read from here on")
            break
    return contents


def holds_sound_batch(file: File, position: int, next_offset: int) -> bool:
    """Is there behind ``position`` a whole batch of this segment? Garbage and a torn write hold none."""
    size = file.size()
    while size - position >= HEADER_BYTES:
        chunk = file.read(position, _CHUNK_BYTES)
        if len(chunk) < HEADER_BYTES:
            return False
        mark = chunk.find(MAGIC, MAGIC_POSITION)
        while mark >= 0:
            start = mark - MAGIC_POSITION
            # Eight bytes that continue the offsets are rare enough elsewhere to read the whole batch for a look at
            # its CRC.
            offset = int.from_bytes(chunk[start : start + LENGTH_POSITION], "big")
            if next_offset <= offset <= next_offset + INT32_MAX and _is_sound_batch(file, position + start):
                return True
            mark = chunk.find(MAGIC, mark + 1)
        if len(chunk) < _CHUNK_BYTES:
            return False
        # The start of a batch may lie across the end of the chunk.
        position += len(chunk) - MAGIC_POSITION
    return False


def _is_sound_batch(file: File, position: int) -> bool:
    try:
        header = read_outline(file.read(position, HEADER_BYTES))
        check_crc(file.read(position, header.size_bytes), 0, header)
    except DecodeError:
        return False
    return True
