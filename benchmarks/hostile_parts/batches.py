"""Record batches that are small on the wire and large, or wrong, inside; and the requests that send and read them.

A bomb holds as much as the broker takes and no more: what goes beyond a limit is refused at once and costs nothing. Its
records are as many as a batch may have, or have as many headers, or are one value of zeros; each under every codec.
Lies are batches whose header says something else than what is in them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache, lru_cache, partial

from benchmarks.hostile_parts.shapes import CLIENT_ID, LIMIT_BYTES
from seamark.storage.settings import LEAST_DECOMPRESSED_BYTES
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from seamark.wire.records.compression import Codec, compress
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.record_batch import read_header
from seamark.wire.records.record_walk import MAX_HEADERS, MAX_HEADERS_OF_ONE_RECORD, MAX_RECORDS
from seamark.wire.records.varints import encode_varint

CONTENTS = ("headers", "records", "zeros")
# What a bomb unfolds to, a little below what a topic with default settings takes.
UNFOLDED_BYTES = LEAST_DECOMPRESSED_BYTES - (1 << 20)
TIMESTAMP_MS = 1_700_000_000_000
# The last record of a bomb is so much later than the others: who searches for it by time looks at all of them.
LAST_IS_LATER_MS = 1000
_VERSION = 9
_MAX_INT = 2**31 - 1
_FROM_ATTRIBUTES = struct.Struct(">hiqqqhii")
_NO_VALUE = encode_varint(-1)
# Room for what is around a batch in a request of 1 MB.
_LARGEST_BATCH_BYTES = LIMIT_BYTES - 1000
# What a record takes beside its value: lengths, deltas, the key.
_LEAST_RECORD_BYTES = 18


def batch(content: bytes, records: int, *, codec: Codec = Codec.NONE, last_delta: int | None = None) -> bytes:
    """A batch around bytes that are taken as they are."""
    last = records - 1 if last_delta is None else last_delta
    latest_ms = TIMESTAMP_MS + LAST_IS_LATER_MS
    checked = _FROM_ATTRIBUTES.pack(int(codec), last, TIMESTAMP_MS, latest_ms, -1, -1, -1, records) + content
    return struct.pack(">qiib", 0, 9 + len(checked), -1, 2) + _crc(checked) + checked


def _crc(checked: bytes) -> bytes:
    return struct.pack(">I", crc32c(checked))


def record(number: int, *, value: bytes = b"", headers: int = 0, header_value: bytes = b"", later_ms: int = 0) -> bytes:
    """One record, its number its key; its headers have no key and are all the same."""
    key = struct.pack(">I", number)
    body = b"\0" + encode_varint(later_ms) + encode_varint(number) + _sized(key) + _sized(value)
    body += encode_varint(headers) + (b"\0" + _sized(header_value)) * headers
    return _sized(body)


def _sized(content: bytes) -> bytes:
    return encode_varint(len(content)) + content


@lru_cache(maxsize=len(CONTENTS))
def unfolded(kind: str, size: int) -> tuple[bytes, int]:
    """The records of a bomb of at most about that size, and their number."""
    if kind == "zeros":
        return record(0, value=bytes(size), later_ms=LAST_IS_LATER_MS), 1
    if kind == "headers":
        each = min(MAX_HEADERS_OF_ONE_RECORD, max(1, size // 2))
        number = max(1, min(MAX_HEADERS, size // 2) // each)
        # A header takes up to three bytes beside its value.
        value = bytes(max(0, size // (number * each) - 3))
        make = partial(record, headers=each, header_value=value)
    else:
        number = max(1, min(MAX_RECORDS, size // _LEAST_RECORD_BYTES))
        make = partial(record, value=bytes(max(0, size // number - _LEAST_RECORD_BYTES)))
    return b"".join(map(make, range(number - 1))) + make(number - 1, later_ms=LAST_IS_LATER_MS), number


@cache
def bomb(kind: str, codec: Codec, size: int) -> bytes:
    """A batch of at most 1 MB that unfolds to about ``size`` bytes; smaller under a codec that cannot shrink so far."""
    if codec is Codec.NONE:
        size = min(size, int(0.95 * LIMIT_BYTES))
    while True:
        content, records = unfolded(kind, size)
        folded = content if codec is Codec.NONE else compress(codec, content)
        if len(folded) < _LARGEST_BATCH_BYTES - 100:
            return batch(folded, records, codec=codec)
        size = int(0.95 * size * _LARGEST_BATCH_BYTES / len(folded))


@cache
def lies() -> dict[str, bytes]:
    """Batches whose header is not true, by what is wrong with them."""
    one = record(0)
    headers = b"\0" + encode_varint(0) + encode_varint(0) + _NO_VALUE + _NO_VALUE + encode_varint(_MAX_INT)
    tiny = batch(one, 1)
    return {
        "2147483647 records announced, one there": batch(one, _MAX_INT),
        "2147483647 records announced in zstd": batch(compress(Codec.ZSTD, one), _MAX_INT, codec=Codec.ZSTD),
        "no records, last delta 2147483646": batch(b"", 0, last_delta=_MAX_INT - 1),
        "-1 records announced": batch(one, -1, last_delta=0),
        "2147483647 headers announced, none there": batch(encode_varint(len(headers)) + headers, 1),
        "last delta 2147483646 for one record": batch(one, 1, last_delta=_MAX_INT - 1),
        "a row of small batches": tiny * (_LARGEST_BATCH_BYTES // len(tiny)),
        "zeros beyond the limit": batch(
            compress(Codec.ZSTD, record(0, value=bytes(LEAST_DECOMPRESSED_BYTES))), 1, codec=Codec.ZSTD
        ),
        "headers beyond the limit": batch(record(0, headers=MAX_HEADERS_OF_ONE_RECORD + 1), 1),
    }


def bombs(size: int) -> dict[str, bytes]:
    """Every content under every codec, by a text that says which."""
    return {
        f"{kind} {codec.name.lower()}, up to {size} bytes": bomb(kind, codec, size)
        for kind in CONTENTS
        for codec in Codec
    }


def that_fit(records: bytes, partitions: int) -> int:
    """To how many of so many partitions one request can send these records."""
    return max(1, min(partitions, _LARGEST_BATCH_BYTES // (len(records) + 20)))


def produce_frame(topic: str, records: bytes, partitions: Iterable[int] = (0,)) -> bytes:
    """A Produce request with the same records for all these partitions."""
    data = [ProduceRequestPartition(index=index, records=records) for index in partitions]
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[ProduceRequestTopic(name=topic, partition_data=data)]
    )
    return encode_request(request, _VERSION, 1, CLIENT_ID)


def produced_codes(answer: bytes) -> list[int]:
    """The error code of each partition in the answer to ``produce_frame``."""
    _, response = decode_response(ProduceResponse, answer[4:], _VERSION)
    return [each.error_code for topic in response.responses for each in topic.partition_responses]


def last_offset(records: bytes) -> int:
    """Of the record that a search by time in these records finds, if they are the first of their partition."""
    return read_header(records).record_count - 1
