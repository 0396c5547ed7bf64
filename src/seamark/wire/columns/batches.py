"""Which batches of a partition's bytes become rows, and where their records lie.

The walk checks each header and CRC, leaves out batches outside the range, control batches and aborted transactions,
unfolds compressed records, and counts rows and bytes. Both counts are bounded by bytes that are there, so room for the
columns can be made before a record is looked at. It costs Python time per batch, never per record.

A batch of a few bytes may unfold to many, so the walk can be told to stop: before the batch that would bring the bytes
or the rows above a limit, but not without one batch. What one batch has above the limit of rows, the kernels leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.errors import BadChecksum, BadLength, BadValue, DecodeError, UsageError
from seamark.wire.records import MAX_HEADERS_PER_RECORD, RecordSlices
from seamark.wire.records.compression import Codec, decompress
from seamark.wire.records.control_markers import decode_control_marker
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    INT32_MAX,
    INT64_MAX,
    LENGTH_OVERHEAD,
    LENGTH_POSITION,
    LOG_APPEND_TIME,
    MAGIC,
    SMALLEST_RECORD_BYTES,
    TRANSACTIONAL,
    read_header,
    scan_batches,
)

# Arrow's binary and string columns count bytes in an int32.
MAX_ROW_BYTES = INT32_MAX


class Section:
    """Records that lie in one piece of memory: those of the batches in ``table`` (columns: ``kernels.B_…``).

    ``content`` is the caller's buffer number ``buffer_index`` and ``compressed_at`` None, or ``content`` is unfolded
    and its compressed form starts in that buffer at ``compressed_at``.
    """

    __slots__ = ("buffer_index", "compressed_at", "content", "table")

    def __init__(self, content: memoryview, buffer_index: int, compressed_at: int | None) -> None:
        self.content = content
        self.buffer_index = buffer_index
        self.compressed_at = compressed_at
        self.table: list[tuple[int, ...]] = []


class AbortedTransactions:
    """Kafka's rule for read_committed: a producer's transactional batches are dropped from where its aborted
    transaction starts to the marker that ends it.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        # Latest first, so that the next to start is the last of the list.
        self._to_come = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def drops(self, buffer: memoryview, position: int, attributes: int, producer_id: int, last_offset: int) -> bool:
        """Take note of the batch and say whether its records are to be left out."""
        if producer_id < 0:
            return False
        while self._to_come and self._to_come[-1][1] <= last_offset:
            self._open.add(self._to_come.pop()[0])
        if attributes & CONTROL:
            if producer_id in self._open and _is_abort(buffer, position):
                self._open.discard(producer_id)
            return False
        return bool(attributes & TRANSACTIONAL) and producer_id in self._open


def _is_abort(buffer: memoryview, position: int) -> bool:
    records = RecordSlices(buffer, position, read_header(buffer, position), verify=False).read(1, 0)
    if not records:
        return False
    try:
        return decode_control_marker(records[0]).kind == "abort"
    except DecodeError as error:
        # The marker counts in its own key or value; a caller knows only the buffer.
        reason = f"{error.reason} (byte {error.position} of the marker)"
        raise type(error)(error.field, position + HEADER_BYTES, reason) from None


class Selection:
    """The sections to decode, with the sums that room is made for, and how far the walk has come."""

    def __init__(
        self,
        start: int | None,
        end: int | None,
        *,
        verify: bool,
        max_bytes: int,
        skip_control: bool,
        aborted: Iterable[tuple[int, int]] | None,
        max_batch_bytes: int | None = None,
        max_headers: int = MAX_HEADERS_PER_RECORD,
        stop_bytes: int | None = None,
        stop_rows: int | None = None,
        log_end: int | None = None,
    ) -> None:
        self.sections: list[Section] = []
        self.row_count = 0
        self.record_bytes = 0
        self.cut_off = False
        self.several_buffers = False
        self.next_offset = start
        self.first_offset = 0 if start is None else start
        self._previous_end = 0
        self.last_offset = INT64_MAX if end is None else end - 1
        self._seen_all = self.last_offset < self.first_offset
        self._verify = verify
        self.max_headers = max_headers
        self._max_bytes = min(max_bytes, MAX_ROW_BYTES)
        self._max_batch_bytes = MAX_ROW_BYTES if max_batch_bytes is None else max_batch_bytes
        self._stop_bytes = INT64_MAX if stop_bytes is None else stop_bytes
        self.stop_rows = INT32_MAX if stop_rows is None else stop_rows
        self._log_end = log_end
        self._unfolded_bytes = 0
        self._skip_control = skip_control
        self._aborted = None if aborted is None else AbortedTransactions(aborted)

    def walk(self, buffers: Sequence[memoryview]) -> None:
        """Take the batches of ``buffers``, which are of one partition and in order."""
        seen = self.first_offset
        self.several_buffers = len(buffers) > 1
        for index, buffer in enumerate(buffers):
            if self._seen_all:
                break
            try:
                seen = self._walk_one(buffer, index, seen)
            except DecodeError as error:
                if self.several_buffers:
                    raise in_buffer(error, index) from None
                raise
            if self.record_bytes > MAX_ROW_BYTES:
                raise UsageError(
                    f"{self.record_bytes} bytes of records in one call, but an Arrow column holds at most "
                    f"{MAX_ROW_BYTES}: decode fewer buffers at once"
                )
        if seen > self.first_offset or self.sections:
            self.next_offset = min(seen, self.last_offset + 1)

    def _walk_one(self, buffer: memoryview, index: int, seen: int) -> int:
        """Return the offset behind the last one that this buffer answers for."""
        unpack = HEADER.unpack_from
        first_offset, final_offset = self.first_offset, self.last_offset
        verify, aborted = self._verify, self._aborted
        log_end = self._log_end
        dropped_flag = CONTROL if self._skip_control else 0
        size = len(buffer)
        section: Section | None = None
        self.cut_off = False
        position = 0
        while position < size:
            if size - position < HEADER_BYTES:
                # Too short for a batch, but what there is of one may still be wrong.
                next(scan_batches(buffer, position), None)
                self.cut_off = True
                break
            (
                base_offset, batch_length, _, magic, crc, attributes, last_offset_delta,
                base_timestamp, max_timestamp, producer_id, _, _, count,
            ) = unpack(buffer, position)  # fmt: skip
            behind = position + LENGTH_OVERHEAD + batch_length
            codec = attributes & CODEC_MASK
            # Compressed, cut off or wrong: what the rules of a header say is decided in one place, and not here.
            if (
                codec
                or magic != MAGIC
                or behind > size
                or batch_length < HEADER_BYTES - LENGTH_OVERHEAD
                or base_offset < 0
                or last_offset_delta < 0
                or base_offset > INT64_MAX - last_offset_delta
                or not 0 <= count <= last_offset_delta + 1
                or count * SMALLEST_RECORD_BYTES > behind - position - HEADER_BYTES
            ):
                if next(scan_batches(buffer, position), None) is None:
                    self.cut_off = True
                    break
                if not HEADER_BYTES <= behind - position <= size - position:
                    raise BadValue("batch_length", position + LENGTH_POSITION, "it changed while it was read")
            if self.sections and self._is_enough(count, behind - position):
                self._seen_all = True
                return seen
            if log_end is not None:
                self._check_place(position, base_offset, base_offset + last_offset_delta + 1, log_end)
            if base_offset > final_offset:
                self._seen_all = True
                return int(base_offset)
            if verify:
                computed = crc32c(buffer[position + ATTRIBUTES_POSITION : behind])
                if computed != crc:
                    raise BadChecksum("crc", position + CRC_POSITION, f"stored {crc:#010x}, computed {computed:#010x}")

            last_offset = base_offset + last_offset_delta
            dropped = last_offset < first_offset or attributes & dropped_flag
            if aborted is not None and aborted.drops(buffer, position, attributes, producer_id, last_offset):
                dropped = True
            if not dropped:
                begin = position + HEADER_BYTES
                end = behind
                if codec:
                    section = self._unfold(buffer, index, begin, behind, Codec(codec), count)
                    begin = 0
                    end = len(section.content)
                elif section is None or section.compressed_at is not None:
                    section = Section(buffer, index, None)
                    self.sections.append(section)
                append_time = 1 if attributes & LOG_APPEND_TIME else 0
                section.table.append(
                    (begin, end, count, base_offset, last_offset_delta, base_timestamp, max_timestamp, append_time)
                )
                self.row_count += count
                self.record_bytes += end - begin
            if last_offset >= seen:
                seen = last_offset + 1
            position = behind
        return seen

    def _is_enough(self, count: int, size: int) -> bool:
        return self.record_bytes + size > self._stop_bytes or self.row_count + count > self.stop_rows

    def _check_place(self, position: int, base_offset: int, next_offset: int, log_end: int) -> None:
        """Refuse a batch that cannot be where it says: its checksum does not cover its base offset."""
        if base_offset < self._previous_end:
            reason = f"the batch claims to begin at offset {base_offset}, before the end of the previous batch"
            raise BadValue("base_offset", position, reason)
        if next_offset > log_end:
            reason = f"the batch claims to end at offset {next_offset}, but the log ends before {log_end}"
            raise BadValue("base_offset", position, reason)
        self._previous_end = next_offset

    def _unfold(self, buffer: memoryview, index: int, begin: int, end: int, codec: Codec, count: int) -> Section:
        content = b""
        if begin < end or count:
            limit = min(self._max_batch_bytes, self._max_bytes - self._unfolded_bytes)
            content = decompress(codec, buffer[begin:end], limit, begin)
        if count * SMALLEST_RECORD_BYTES > len(content):
            raise BadLength("record_count", begin, f"{count} records do not fit into {len(content)} decompressed bytes")
        self._unfolded_bytes += len(content)
        section = Section(memoryview(content), index, begin)
        self.sections.append(section)
        return section


def in_buffer(error: DecodeError, index: int) -> DecodeError:
    """The same error, saying in which of several buffers its position counts."""
    return type(error)(error.field, error.position, f"{error.reason} (in buffer {index} of the call)")
