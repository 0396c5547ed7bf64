"""From the bytes of a batch to ``Record`` objects, in pure Python.

Two readers of the same grammar. ``fast_reader`` is one loop with the common sizes of varints written out; it knows
only sound bytes and gives up at the first thing that it does not expect. ``careful_reader`` then reads the records
again, field by field, and either finds them or raises the error that names the field and the place. So the fast
reader never explains and the careful one is never fast; a property test holds them to the same answer.

Positions in errors count in the caller's buffer. Inside compressed records there is no such position: the error then
has the position where the compressed records start, and its reason says where in the decompressed ones.
"""

from __future__ import annotations

from seamark.errors import BadLength, DecodeError, OverLimit, TrailingBytes
from seamark.wire.records.careful_reader import read_carefully
from seamark.wire.records.compression import DEFAULT_MAX_DECOMPRESSED, Codec, decompress
from seamark.wire.records.fast_reader import read_quickly
from seamark.wire.records.record_batch import (
    HEADER_BYTES,
    SMALLEST_RECORD_BYTES,
    BatchHeader,
    Buffer,
    Record,
    batch_end,
    check_crc,
    read_header,
    scan_batches,
)
from seamark.wire.records.record_cursor import (
    MAX_HEADERS_PER_BATCH,
    MAX_HEADERS_PER_RECORD,
    FrozenHeaders,
    MakeRecord,
    R,
    RecordCursor,
)


def decode_batch(
    buffer: Buffer, position: int = 0, *, verify: bool = True, max_bytes: int = DEFAULT_MAX_DECOMPRESSED
) -> list[Record]:
    """Return the records of the batch at ``position``; ``max_bytes`` bounds what compressed records may unfold to."""
    return decode_records(buffer, position, read_header(buffer, position), verify=verify, max_bytes=max_bytes)


def read_records(
    buffer: Buffer,
    position: int = 0,
    *,
    verify: bool = True,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
    include_control: bool = False,
) -> list[Record]:
    """Return the records of all whole batches from ``position`` on: the ``records`` field of a Fetch response.

    ``max_bytes`` holds for each batch. The markers in control batches are left out unless ``include_control`` is set.
    """
    records: list[Record] = []
    for header, start in scan_batches(buffer, position):
        if include_control or not header.is_control:
            records += decode_records(buffer, start, header, verify=verify, max_bytes=max_bytes)
    return records


def decode_records(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    verify: bool = True,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
) -> list[Record]:
    """``decode_batch`` for a batch whose header was read already."""
    batch = RecordSlices(buffer, position, header, verify=verify, max_bytes=max_bytes)
    records = batch.read(header.record_count, MAX_HEADERS_PER_BATCH + 1)
    if batch.header_count > MAX_HEADERS_PER_BATCH:
        field = f"records[{len(records) - 1}].header_count"
        raise OverLimit(field, batch.start, f"the batch has more than {MAX_HEADERS_PER_BATCH} headers")
    return records


class RecordSlices(RecordCursor):
    """The records of one batch, read some at a time: a batch of a few bytes can unfold to millions of records.

    In the caller's buffer the records, perhaps compressed, begin at ``start``.
    """

    __slots__ = ("_moved", "start")

    def __init__(
        self,
        buffer: Buffer,
        position: int,
        header: BatchHeader,
        *,
        verify: bool = True,
        max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
        max_headers: int = MAX_HEADERS_PER_RECORD,
    ) -> None:
        end = batch_end(buffer, position, header)
        if verify:
            check_crc(buffer, position, header)
        self.start = start = position + HEADER_BYTES
        # Where in the caller's buffer ``content`` begins.
        self._moved = start
        first = 0
        codec = header.codec
        if codec is Codec.NONE:
            if type(buffer) is bytes:
                content, first, self._moved = buffer, start, 0
            else:
                content, end = bytes(memoryview(buffer)[start:end]), end - start
        elif start == end and header.record_count == 0:
            content, end = b"", 0
        else:
            content = decompress(codec, memoryview(buffer)[start:end], max_bytes, start)
            end = len(content)
        self.header = header
        self.content = content
        self.position = first
        self.end = end
        self.left = header.record_count
        self.last_delta = -1
        self.header_count = 0
        self.max_headers = max_headers
        if header.record_count * SMALLEST_RECORD_BYTES > self.end - self.position:
            reason = f"{header.record_count} records do not fit into {self.end - self.position} bytes"
            raise self._placed(BadLength("record_count", self.position, reason))
        if not header.record_count and self.position != self.end:
            reason = f"{self.end - self.position} extra bytes after the last record"
            raise self._placed(TrailingBytes("records", self.position, reason))

    def read(self, most: int, most_headers: int) -> list[Record]:
        """The next records, up to ``most``, and none behind the one that brings their headers to ``most_headers``.

        DecodeError, and nothing is taken, if one of them is unsound.
        """
        return self.read_as(_make_record, "", -1, most, most_headers)

    def read_as(self, make: MakeRecord[R], topic: str, partition: int, most: int, most_headers: int) -> list[R]:
        """As ``read``, with records of the caller's own kind."""
        records = read_quickly(self, make, topic, partition, most, most_headers)
        if records is not None:
            return records
        try:
            return read_carefully(self, make, topic, partition, most, most_headers)
        except DecodeError as error:
            raise self._placed(error) from None

    def _placed(self, error: DecodeError) -> DecodeError:
        """The error with a position in the caller's buffer."""
        if self.header.codec is not Codec.NONE:
            reason = f"{error.reason} (byte {error.position} of the decompressed records)"
            return type(error)(error.field, self.start, reason)
        return type(error)(error.field, error.position + self._moved, error.reason)


_new_record = object.__new__


def _make_record(
    _topic: str,
    _partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: FrozenHeaders,
    timestamp_ms: int,
    timestamp_type: int,
    _leader_epoch: int,
) -> Record:
    # Without the constructor, which takes half as long again.
    record = _new_record(Record)
    record.offset = offset
    record.timestamp_ms = timestamp_ms
    record.timestamp_type = timestamp_type
    record.key = key
    record.value = value
    record.headers = [*headers]
    return record
