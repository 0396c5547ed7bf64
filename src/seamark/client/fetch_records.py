"""From the bytes of a batch straight to the records that users get, without another object in between.

One loop for the batches that producers write: lengths of one or two bytes, anything else by the general reader of
``seamark.wire``, which also explains what is wrong with unsound bytes. So the loop here only has to notice that
something is unusual, never what. A record is taken only if it ends where its own length says, and the last one must end
with the batch; a length that reaches too far, which a slice would silently cut, is noticed by that. Where records are
of one size, as numbers and fixed structures are, ``fetch_alike`` reads them by columns.
"""

from __future__ import annotations

from seamark.client.fetch_alike import read_alike
from seamark.client.records_api import Record
from seamark.topic_partition import TopicPartition
from seamark.wire.compression import DEFAULT_MAX_DECOMPRESSED, Codec, decompress
from seamark.wire.record_batch import HEADER_BYTES, BatchHeader, Buffer, check_crc
from seamark.wire.records import decode_records

# When so many records were of one size, those that follow may be as well.
_RECORDS_TO_SEE = 3
# The offset deltas that are written in one byte are below this.
_SMALL_DELTAS = 64
# A time further away than this is left to the general reader, which checks that it fits.
_FAR_MS = 2**62


def read_batch(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    partition: TopicPartition,
    *,
    first_offset: int = 0,
    verify: bool = True,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
) -> list[Record]:
    """The batch's records from ``first_offset`` on; DecodeError if its bytes are unsound."""
    if verify:
        check_crc(buffer, position, header)
    start, end = position + HEADER_BYTES, position + header.size_bytes
    view = memoryview(buffer)[start:end]
    codec = header.codec
    content = bytes(view) if codec is Codec.NONE else decompress(codec, view, max_bytes, start) if view else b""
    records = _read(content, header, partition)
    if records is None:
        records = _read_generally(buffer, position, header, partition, max_bytes)
    if records and records[0].offset < first_offset:
        # A batch is sent whole, also when the position is inside it.
        return [record for record in records if record.offset >= first_offset]
    return records


def _read_generally(
    buffer: Buffer, position: int, header: BatchHeader, partition: TopicPartition, max_bytes: int
) -> list[Record]:
    topic, index = partition
    epoch = header.partition_leader_epoch
    return [
        Record(
            topic,
            index,
            each.offset,
            each.key,
            each.value,
            tuple(each.headers),
            each.timestamp_ms,
            each.timestamp_type,
            epoch,
        )
        for each in decode_records(buffer, position, header, verify=False, max_bytes=max_bytes)
    ]


def _read(content: bytes, header: BatchHeader, partition: TopicPartition) -> list[Record] | None:
    """The records, or None if anything about them is unusual.

    The lowest bit of a varint is its sign: a doubled length or delta is compared and halved once, where it is used.
    """
    topic, index = partition
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp_ms
    append_time = header.max_timestamp_ms
    kind = header.timestamp_type
    epoch = header.partition_leader_epoch
    if not -_FAR_MS < base_timestamp < _FAR_MS:
        return None
    make = Record
    records: list[Record] = []
    append = records.append
    position = 0
    last_delta = -1
    count = header.record_count
    left = count
    look_again = count - _RECORDS_TO_SEE
    size_before = 0
    try:
        while left:
            begin = position
            length = content[position]
            if length < 0x80:
                position += 1
            else:
                byte = content[position + 1]
                if byte > 0x7F:
                    return None
                length += (byte << 7) - 0x80
                position += 2
            behind = position + (length >> 1)

            # Behind the record's attributes, which mean nothing, stands its time.
            elapsed = content[position + 1]
            if elapsed < 0x80:
                position += 2
            else:
                byte = content[position + 2]
                if byte < 0x80:
                    elapsed += (byte << 7) - 0x80
                    position += 3
                else:
                    third = content[position + 3]
                    if third > 0x7F:
                        return None
                    elapsed += (byte << 7) + (third << 14) - 0x4080
                    position += 4
            delta = content[position]
            if delta < 0x80:
                position += 1
            else:
                byte = content[position + 1]
                if byte > 0x7F:
                    return None
                delta += (byte << 7) - 0x80
                position += 2
            if delta <= last_delta or delta & 1:
                return None
            last_delta = delta

            size = content[position]
            position += 1
            if size == 1:
                key = None
            elif size & 0x81:
                return None
            else:
                size >>= 1
                key = content[position : position + size]
                position += size
            size = content[position]
            position += 1
            if size == 1:
                value = None
            else:
                if size > 0x7F:
                    byte = content[position]
                    if byte > 0x7F:
                        return None
                    position += 1
                    size += (byte << 7) - 0x80
                if size & 1:
                    return None
                size >>= 1
                value = content[position : position + size]
                position += size

            if content[position]:
                headers, position = _read_headers(content, position)
            else:
                headers = ()
                position += 1
            if position != behind:
                return None
            append(
                make(
                    topic,
                    index,
                    base_offset + (delta >> 1),
                    key,
                    value,
                    headers,
                    append_time if kind else base_timestamp + (~(elapsed >> 1) if elapsed & 1 else elapsed >> 1),
                    kind,
                    epoch,
                )
            )
            left -= 1
            if left == look_again and left:
                if position - begin == size_before:
                    like = read_alike(content, begin, position, delta >> 1, left, header, partition)
                    if like:
                        records += like
                        left -= len(like)
                        position += len(like) * size_before
                        last_delta = delta + 2 * len(like)
                # Behind the records whose deltas have one byte, those with two bytes may be alike again.
                look_again = count - _SMALL_DELTAS - _RECORDS_TO_SEE if left > count - _SMALL_DELTAS - 1 else -1
            size_before = position - begin
    except (IndexError, UnicodeDecodeError):
        return None
    if position != len(content) or last_delta >> 1 > header.last_offset_delta:
        return None
    return records


def _read_headers(content: bytes, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Headers that are few and short; for all others a position that no record ends at."""
    count = content[position]
    if count & 0x81:
        return (), -1
    position += 1
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count >> 1):
        size = content[position]
        if size & 0x81:
            return (), -1
        size >>= 1
        position += 1
        key = content[position : position + size].decode()
        position += size
        size = content[position]
        position += 1
        if size == 1:
            headers.append((key, None))
            continue
        if size & 0x81:
            return (), -1
        size >>= 1
        headers.append((key, content[position : position + size]))
        position += size
    return tuple(headers), position
