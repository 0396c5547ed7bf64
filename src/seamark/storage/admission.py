"""What happens to batches on their way into the log: checked, and given their offsets and leader epoch.

Offset and epoch stand before what a batch's CRC covers, so a batch is changed in place and its CRC, checked here,
stays that of its producer. Under log-append time the broker's clock replaces the timestamps, and the CRC is made
anew.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from seamark.errors import BadChecksum, BadLength, BadValue, OutOfRange, Truncated
from seamark.wire.records import read_header, restamp
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    INT64_MAX,
    LENGTH_OVERHEAD,
    MAGIC,
    SMALLEST_RECORD_BYTES,
    Buffer,
)

_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LEADER_EPOCH_POSITION = 12


class Admitted(NamedTuple):
    """Batches as they will be stored; ``max_timestamp_offset`` is the first offset of the batch with the largest."""

    content: bytearray | memoryview
    next_offset: int
    max_timestamp_ms: int
    max_timestamp_offset: int


def admit(
    batches: Buffer,
    next_offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
    *,
    in_place: bool = False,
    is_crc_checked: bool = False,
) -> Admitted:
    """Return ``batches`` under the offsets from ``next_offset`` on; ``in_place`` if they may be changed themselves.

    Raises ``DecodeError`` where they are not sound: a batch in the log must never be one that recovery would cut.
    """
    content: bytearray | memoryview
    if append_time_ms is not None:
        content = _restamp_all(batches, append_time_ms)
    elif in_place:
        content = memoryview(batches)
    else:
        content = bytearray(batches)
    size = len(content)
    position = 0
    largest_ms = largest_at = -1
    view = memoryview(content)
    while position < size:
        if size - position < HEADER_BYTES:
            raise Truncated("batch_header", position, f"only {size - position} of {HEADER_BYTES} bytes are present")
        _, length, _, magic, crc, attributes, delta, _, timestamp_ms, _, _, _, count = HEADER.unpack_from(
            content, position
        )
        end = position + length + LENGTH_OVERHEAD
        if (
            magic != MAGIC
            or not 0 < count <= delta + 1
            or not position + HEADER_BYTES < end <= size
            or attributes & CODEC_MASK > 4
            or (not attributes & CODEC_MASK and count * SMALLEST_RECORD_BYTES > end - position - HEADER_BYTES)
        ):
            _refuse(content, position)
        if not is_crc_checked and crc32c(view[position + ATTRIBUTES_POSITION : end]) != crc:
            raise BadChecksum("crc", position + CRC_POSITION, f"stored {crc:#010x} does not match the bytes")
        if next_offset > INT64_MAX - delta - 1:
            raise BadValue("last_offset_delta", position, "the log has no offsets left for the batch")
        _BASE_OFFSET.pack_into(content, position, next_offset)
        try:
            _LEADER_EPOCH.pack_into(content, position + _LEADER_EPOCH_POSITION, leader_epoch)
        except struct_error:
            raise OutOfRange("partition_leader_epoch", leader_epoch, "it must be a 32-bit integer") from None
        if timestamp_ms > largest_ms:
            largest_ms = timestamp_ms
            largest_at = next_offset
        next_offset += delta + 1
        position = end
    if not size:
        raise Truncated("batch_header", 0, "there is no batch to append")
    return Admitted(content, next_offset, largest_ms, largest_at)


def _refuse(content: bytearray | memoryview, position: int) -> None:
    """Raise what is wrong with a header that is not fit to be appended."""
    header = read_header(content, position)
    if header.size_bytes > len(content) - position:
        raise Truncated("batch", position, f"only {len(content) - position} of {header.size_bytes} bytes are present")
    raise BadLength("record_count", position + 57, "a batch to append must have at least one record")


def _restamp_all(batches: Buffer, append_time_ms: int) -> bytearray:
    view = memoryview(batches)
    content = bytearray()
    position = 0
    while position < len(view):
        size = read_header(view, position).size_bytes
        if size > len(view) - position:
            raise Truncated("batch", position, f"only {len(view) - position} of {size} bytes are present")
        header = read_header(view, position)
        # The CRC is made anew by the restamp, which must not turn damaged bytes into sound ones.
        if crc32c(view[position + ATTRIBUTES_POSITION : position + size]) != header.crc:
            raise BadChecksum("crc", position + CRC_POSITION, f"stored {header.crc:#010x} does not match the bytes")
        content += restamp(view[position : position + size], append_time_ms)
        position += size
    return content
