"""Batches with a right checksum and something wrong inside, and mutations of sound ones by seed.

``sampled_cases`` names them; each is what one producer might send to one partition. The bytes are written field by
field, so that each can lie.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Iterator

import cramjam

from seamark.wire.records.compression import Codec, compress
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.varints import encode_varint

HEADER = struct.Struct(">qiibIhiqqqhii")
NOW_MS = 1_700_000_000_000


def record(
    number: int,
    *,
    time_delta: int | bytes = 0,
    offset_delta: int | bytes | None = None,
    key: bytes | None = b"k",
    value: bytes | None = b"value",
    headers: bytes = b"\x00",
    attributes: int = 0,
    length: int | bytes | None = None,
    key_length: int | bytes | None = None,
    value_length: int | bytes | None = None,
    tail: bytes = b"",
) -> bytes:
    """One record; a length or delta may be given as a number or as the bytes of its varint."""
    body = bytes((attributes,)) + _varint(time_delta) + _varint(number if offset_delta is None else offset_delta)
    for content, announced in ((key, key_length), (value, value_length)):
        body += _varint((-1 if content is None else len(content)) if announced is None else announced)
        body += content or b""
    body += headers + tail
    return _varint(len(body) if length is None else length) + body


def _varint(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else encode_varint(value)


def batch(
    body: bytes,
    count: int,
    *,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_delta: int | None = None,
    base_ms: int = NOW_MS,
    max_ms: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """A batch around ``body``, its checksum right unless it is given."""
    made = bytearray(
        HEADER.pack(
            base_offset,
            49 + len(body) if length is None else length,
            leader_epoch,
            magic,
            0,
            attributes,
            count - 1 if last_delta is None else last_delta,
            base_ms,
            base_ms if max_ms is None else max_ms,
            producer_id,
            producer_epoch,
            sequence,
            count,
        )
        + body
    )
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])) if crc is None else crc)
    return bytes(made)


def records(count: int = 3, **facts: object) -> bytes:
    return b"".join(record(number, **facts) for number in range(count))  # type: ignore[arg-type]


def compressed(codec: Codec, body: bytes, count: int, **facts: object) -> bytes:
    return batch(compress(codec, body), count, attributes=int(codec), **facts)  # type: ignore[arg-type]


def header(key: bytes, value: bytes | None) -> bytes:
    return encode_varint(len(key)) + key + encode_varint(-1 if value is None else len(value)) + (value or b"")


def headers(*given: tuple[bytes, bytes | None]) -> bytes:
    return encode_varint(len(given)) + b"".join(header(*each) for each in given)


def unsound_bodies() -> Iterator[tuple[str, bytes, int]]:
    """Name, records and count; none is what its count and lengths say."""
    three = records(3)
    yield "garbage", b"\x99garbage\x00\xff" * 5, 1
    yield "more records than there are", three, 5
    yield "fewer records than there are", three, 2
    yield "a billion records in few bytes", bytes(9), 2**31 - 1
    yield "record length too large", record(0, length=500), 1
    yield "record length too small", record(0, length=5), 1
    yield "record length zero", b"\x00" * 10, 1
    yield "record length negative", record(0, length=-3), 1
    yield "record length of 10 bytes", record(0, length=b"\xff" * 9 + b"\x01"), 1
    yield "trailing bytes in a record", record(0, tail=b"tail"), 1
    yield "trailing bytes in the batch", three + b"tail", 3
    yield "key longer than its record", record(0, key_length=1000), 1
    yield "value longer than its record", record(0, value_length=1000), 1
    yield "key cut by the value", record(0, key_length=3), 1
    yield "header count negative", record(0, headers=b"\x01"), 1
    yield "header count without headers", record(0, headers=encode_varint(3)), 1
    yield "a billion headers", record(0, headers=encode_varint(2**30)), 1
    yield "header key negative", record(0, headers=b"\x02\x01\x00"), 1
    yield "header key too long", record(0, headers=b"\x02" + encode_varint(99) + b"\x00"), 1
    yield "header value too long", record(0, headers=b"\x02\x00" + encode_varint(99)), 1
    yield "offset varint of 6 bytes", record(0, offset_delta=b"\x80\x80\x80\x80\x80\x00"), 1
    yield "timestamp varint of 11 bytes", record(0, time_delta=b"\x80" * 10 + b"\x00"), 1
    yield "cut in the last record", three[:-4], 3


def odd_bodies() -> Iterator[tuple[str, bytes, int]]:
    """Records that are sound, or that Kafka takes for sound."""
    yield "plain", records(3), 3
    yield "no keys", records(3, key=None), 3
    yield "tombstones", records(3, value=None), 3
    yield "headers", records(3, headers=headers((b"a", b"b"), (b"", None), (b"a", b""))), 3
    yield "padded varints", record(0, time_delta=b"\x80\x80\x00", offset_delta=b"\x80\x00"), 1
    yield "record attributes", records(2, attributes=0xFF), 2
    yield "empty key and value", records(2, key=b"", value=b""), 2
    yield "many small ones", records(300, key=None, value=b""), 300
    yield "times before the first", record(0) + record(1, time_delta=-5000), 2


def misleading_bodies() -> Iterator[tuple[str, bytes, int]]:
    """What Kafka stores in some form, and what then misleads or stops consumers."""
    yield "offset deltas beyond the batch", record(0, offset_delta=1000), 1
    yield "offset deltas in reverse", record(1) + record(0), 2
    yield "offset deltas all the same", record(0) + record(0), 2
    yield "offset delta negative", record(0, offset_delta=-1), 1
    yield "key length below null", record(0, key=None, key_length=-7), 1
    yield "value length below null", record(0, value=None, value_length=-7), 1
    yield "header value below null", record(0, headers=b"\x02\x02h" + encode_varint(-9)), 1
    yield "header key not UTF-8", record(0, headers=headers((b"\xff\xfe", b""))), 1


def head_cases() -> Iterator[tuple[str, bytes]]:
    """Sound records under a header that lies."""
    body = records(3)
    yield "wrong checksum", batch(body, 3, crc=1)
    yield "base offset not 0", batch(body, 3, base_offset=7)
    yield "base offset negative", batch(body, 3, base_offset=-7)
    yield "leader epoch of somebody", batch(body, 3, leader_epoch=99)
    yield "magic 0", batch(body, 3, magic=0)
    yield "magic 1", batch(body, 3, magic=1)
    yield "magic 3", batch(body, 3, magic=3)
    yield "magic negative", batch(body, 3, magic=-1)
    yield "length too small", batch(body, 3, length=10)
    yield "length too small for a header", batch(body, 3, length=40)
    yield "shorter than a header", batch(body, 3, length=40)[:52]
    yield "shorter than a header and attributes", batch(body, 3, length=14)[:26]
    yield "length negative", batch(body, 3, length=-1)
    yield "length beyond", batch(body, 3, length=49 + len(body) + 10)
    yield "two batches", batch(body, 3) * 2
    yield "bytes behind the batch", batch(body, 3) + b"more"
    yield "half a batch behind the batch", batch(body, 3) + batch(body, 3)[:70]
    yield "half a header behind the batch", batch(body, 3) + batch(body, 3)[:20]
    yield "garbage behind the batch", batch(body, 3) + b"garbage" * 9
    yield "an old batch behind the batch", batch(body, 3) + batch(body, 3, magic=1)
    yield "no records", batch(b"", 0)
    yield "no records with bytes", batch(body, 0)
    yield "count negative", batch(body, -3)
    yield "last delta too large", batch(body, 3, last_delta=9)
    yield "last delta too small", batch(body, 3, last_delta=1)
    yield "last delta negative", batch(body, 3, last_delta=-1)
    yield "last delta largest", batch(body, 3, last_delta=2**31 - 1)
    yield "control", batch(body, 3, attributes=0x20)
    yield "delete horizon", batch(body, 3, attributes=0x40)
    yield "unused attribute", batch(body, 3, attributes=0x80)
    yield "all unused attributes", batch(body, 3, attributes=0x7F80)
    yield "attributes negative", batch(body, 3, attributes=-(2**15))
    for codec in (5, 6, 7):
        yield f"codec {codec}", batch(body, 3, attributes=codec)
    yield "max timestamp too late", batch(body, 3, max_ms=NOW_MS + 99)
    yield "max timestamp too early", batch(body, 3, max_ms=NOW_MS - 99)
    yield "max timestamp far ahead", batch(body, 3, max_ms=2**62)
    yield "max timestamp missing", batch(body, 3, max_ms=-1)
    yield "max timestamp and unused attribute", batch(body, 3, max_ms=5, attributes=0x180)
    yield "no timestamps", batch(body, 3, base_ms=-1)
    yield "negative timestamps", batch(body, 3, base_ms=-50)
    yield "smallest timestamps", batch(body, 3, base_ms=-(2**63))
    yield "timestamps far ahead", batch(body, 3, base_ms=2**62)
    yield "timestamps that overflow", batch(record(0) + record(1, time_delta=5), 2, base_ms=2**63 - 1)
    yield "claims append time", batch(body, 3, attributes=0x08)
    yield "claims append time without one", batch(body, 3, attributes=0x08, max_ms=-1)
    yield "claims append time far ahead", batch(body, 3, attributes=0x08, max_ms=2**62)
    yield "producer without sequence", batch(body, 3, producer_id=77, producer_epoch=0)
    yield "producer without epoch", batch(body, 3, producer_id=77, sequence=0)
    yield "producer with a negative epoch", batch(body, 3, producer_id=78, producer_epoch=-5, sequence=0)
    yield "producer sequence negative", batch(body, 3, producer_id=77, producer_epoch=0, sequence=-9)
    yield "producer id negative", batch(body, 3, producer_id=-9, producer_epoch=3, sequence=3)
    yield "sequence without producer", batch(body, 3, sequence=5)
    yield "sequence that wraps", batch(body, 3, producer_id=77, producer_epoch=0, sequence=2**31 - 2)


def stream_cases() -> Iterator[tuple[str, bytes]]:
    """Compressed records whose stream is not what it should be."""
    body = records(3)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        name = codec.name.lower()
        good = compress(codec, body)
        yield f"{name} false", batch(b"this is no stream at all", 3, attributes=int(codec))
        yield f"{name} not compressed", batch(body, 3, attributes=int(codec))
        yield f"{name} empty", batch(b"", 3, attributes=int(codec))
        yield f"{name} cut", batch(good[: len(good) // 2], 3, attributes=int(codec))
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 0xFF
        yield f"{name} damaged", batch(bytes(damaged), 3, attributes=int(codec))
        other = Codec.GZIP if codec is not Codec.GZIP else Codec.ZSTD
        yield f"{name} is another", batch(compress(other, body), 3, attributes=int(codec))


def misleading_streams() -> Iterator[tuple[str, bytes]]:
    """Streams with something behind or beside the records, which some readers take and some do not."""
    body = records(3)
    half = len(body) // 2
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        name = codec.name.lower()
        good = compress(codec, body)
        yield f"{name} with bytes behind", batch(good + b"tail", 3, attributes=int(codec))
        yield f"{name} twice", batch(good + good, 3, attributes=int(codec))
        parts = compress(codec, body[:half]) + compress(codec, body[half:])
        yield f"{name} in two parts", batch(parts, 3, attributes=int(codec))
    raw = bytes(cramjam.snappy.compress_raw(body))
    yield "snappy raw", batch(raw, 3, attributes=int(Codec.SNAPPY))


CODECS = (Codec.NONE, Codec.GZIP, Codec.ZSTD)


def sampled_cases() -> dict[str, bytes]:
    """All of the above; bodies as they are and under two codecs."""
    found = dict(head_cases())
    for name, body, count in (*odd_bodies(), *unsound_bodies(), *misleading_bodies()):
        for codec in CODECS:
            label = name if codec is Codec.NONE else f"{name}, {codec.name.lower()}"
            found[label] = batch(body, count) if codec is Codec.NONE else compressed(codec, body, count)
    found.update(stream_cases())
    found.update(misleading_streams())
    return found


def mutated(seed: int) -> bytes:
    """A sound batch with a few bytes changed, cut or added, its checksum right, by seed."""
    chance = random.Random(seed)
    count = chance.randrange(1, 40)
    is_uniform = chance.random() < 0.5
    body = b"".join(
        record(
            number,
            time_delta=chance.choice((0, number, chance.randrange(-200, 20_000))),
            key=None if chance.random() < 0.2 else bytes(3 if is_uniform else chance.randrange(5)),
            value=b"v" * (20 if is_uniform else chance.randrange(200)),
            headers=headers((b"h", b"x")) if not is_uniform and chance.random() < 0.3 else b"\x00",
        )
        for number in range(count)
    )
    changed = bytearray(body)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 5))):
        kind = chance.randrange(4)
        place = chance.randrange(len(changed)) if changed else 0
        if kind == 0 and changed:
            changed[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind == 1 and changed:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[place : place + chance.randrange(1, 4)]
        else:
            changed[place:place] = chance.randbytes(chance.randrange(1, 3))
    codec = chance.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
    facts: dict[str, int] = {}
    if chance.random() < 0.2:
        facts["max_ms"] = NOW_MS + chance.randrange(-10, 10_000)
    if chance.random() < 0.1:
        count = chance.choice((count - 1, count + 1, 2**31 - 1))
    if codec is Codec.NONE:
        return batch(bytes(changed), count, **facts)
    return compressed(codec, bytes(changed), count, **facts)


def header_bomb(header_count: int, codec: Codec = Codec.ZSTD) -> bytes:
    """One small record with that many empty headers."""
    empty = encode_varint(header_count) + bytes(2 * header_count)
    return compressed(codec, record(0, value=b"", headers=empty), 1)


def value_bomb(size: int, codec: Codec, count: int = 1) -> bytes:
    """Records that hold ``size`` zeros in sum."""
    return compressed(codec, records(count, value=bytes(size // count)), count)


def record_bomb(count: int, codec: Codec = Codec.ZSTD) -> bytes:
    """That many records of two shapes in turn, so that no two neighbours are alike."""
    return compressed(codec, b"".join(record(n, key=b"k", value=bytes(n % 2)) for n in range(count)), count)


def gzip_members(count: int) -> bytes:
    """A batch whose gzip stream has that many members."""
    empty = gzip.compress(b"", mtime=0)
    return batch(empty * count + zlib.compress(records(3), wbits=31), 3, attributes=int(Codec.GZIP))
