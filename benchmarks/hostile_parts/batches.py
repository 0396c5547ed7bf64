"""Record batches that are small on the wire and large, or wrong, inside; and the requests that send and read them.

The records of a bomb are one record with millions of empty headers, millions of empty records, or one value of zeros;
each under every codec. Lies are batches whose header says something else than what is in them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, partial

from benchmarks.hostile_parts.shapes import CLIENT_ID, LIMIT_BYTES
from seamark.wire.compression import Codec, compress
from seamark.wire.crc32c import crc32c
from seamark.wire.frames import encode_request
from seamark.wire.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from seamark.wire.varints import encode_varint

CONTENTS = ("headers", "records", "zeros")
# Unfolded bytes of a bomb: below what the broker's readers take at most, so that they do not refuse it at once.
UNFOLDED_BYTES = 40_000_000
TIMESTAMP_MS = 1_700_000_000_000
# More would take longer to write than to read.
_MOST_RECORDS = 400_000
_MAX_INT = 2**31 - 1
_FROM_ATTRIBUTES = struct.Struct(">hiqqqhii")
_NO_VALUE = encode_varint(-1)
_KEY = encode_varint(1) + b"k"


def batch(
    content: bytes, records: int, *, codec: Codec = Codec.NONE, last_delta: int | None = None, base_offset: int = 0
) -> bytes:
    """A batch around bytes that are taken as they are. Its largest timestamp is none of its records': who searches
    for it looks at all of them.
    """
    last = records - 1 if last_delta is None else last_delta
    facts = _FROM_ATTRIBUTES.pack(int(codec), last, TIMESTAMP_MS, TIMESTAMP_MS + 1000, -1, -1, -1, records)
    checked = facts + content
    return struct.pack(">qiib", base_offset, 9 + len(checked), -1, 2) + _crc(checked) + checked


def _crc(checked: bytes) -> bytes:
    return struct.pack(">I", crc32c(checked))


def record(number: int, *, value: bytes | None = None, headers: int = 0) -> bytes:
    """One record with a key; its headers are empty."""
    content = _NO_VALUE if value is None else encode_varint(len(value)) + value
    body = b"\0" + encode_varint(0) + encode_varint(number) + _KEY + content + encode_varint(headers)
    body += (encode_varint(0) + _NO_VALUE) * headers
    return encode_varint(len(body)) + body


@cache
def unfolded(kind: str, size: int) -> tuple[bytes, int]:
    """The records of a bomb of about that size, and their number."""
    if kind == "headers":
        return record(0, headers=size // 2), 1
    if kind == "zeros":
        return record(0, value=bytes(size)), 1
    number = min(size // 12, _MOST_RECORDS)
    return b"".join(record(each) for each in range(number)), number


@cache
def bomb(kind: str, codec: Codec, size: int) -> bytes:
    """A batch of at most 1 MB that unfolds to about ``size`` bytes; smaller under a codec that cannot shrink so far."""
    while True:
        content, records = unfolded(kind, size)
        folded = content if codec is Codec.NONE else compress(codec, content)
        if len(folded) < LIMIT_BYTES - 1000:
            return batch(folded, records, codec=codec)
        size //= 2


def lies() -> dict[str, Callable[[], bytes]]:
    """Batches whose header is not true, by what is wrong with them; made when they are asked for."""
    one = record(0)
    headers = b"\0" + encode_varint(0) + encode_varint(0) + _KEY + _NO_VALUE + encode_varint(_MAX_INT)
    tiny = batch(one, 1)
    return {
        "2147483647 records announced, one there": lambda: batch(one, _MAX_INT),
        "2147483647 records announced in zstd": lambda: batch(compress(Codec.ZSTD, one), _MAX_INT, codec=Codec.ZSTD),
        "no records, last delta 2147483646": lambda: batch(b"", 0, last_delta=_MAX_INT - 1),
        "-1 records announced": lambda: batch(one, -1, last_delta=0),
        "2147483647 headers announced, none there": lambda: batch(encode_varint(len(headers)) + headers, 1),
        "last delta 2147483646 for one record": lambda: batch(one, 1, last_delta=_MAX_INT - 1),
        "90,000 records, none compressed": lambda: batch(b"".join(map(record, range(90_000))), 90_000),
        "a row of small batches": lambda: tiny * ((LIMIT_BYTES - 1000) // len(tiny)),
    }


def bombs(size: int = UNFOLDED_BYTES) -> dict[str, Callable[[], bytes]]:
    """Every content under every codec, by a text that says which; made when they are asked for."""
    return {
        f"{kind} {codec.name.lower()} unfolded={size}": partial(bomb, kind, codec, size)
        for kind in CONTENTS
        for codec in Codec
    }


def produce_frame(topic: str, records: bytes, partitions: int = 1, version: int = 9) -> bytes:
    """A Produce request with the same records for that many partitions, fewer if they do not fit."""
    partitions = max(1, min(partitions, (LIMIT_BYTES - 1000) // (len(records) + 20)))
    data = [ProduceRequestPartition(index=index, records=records) for index in range(partitions)]
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[ProduceRequestTopic(name=topic, partition_data=data)]
    )
    return encode_request(request, version, 1, CLIENT_ID)
