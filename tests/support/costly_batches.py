"""Batches that an attacker would write: sound length and checksum, few bytes, and much behind them."""

from __future__ import annotations

import struct

from seamark.wire.records.compression import Codec, compress
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.varints import encode_varint


def sealed(
    content: bytes, *, base_offset: int = 0, count: int = 1, last_delta: int | None = None, attributes: int = 0
) -> bytes:
    """A batch around these bytes of records, with a right length and CRC."""
    last_delta = max(count - 1, 0) if last_delta is None else last_delta
    covered = struct.pack(">hiqqqhii", attributes, last_delta, 1000, 1000, -1, -1, -1, count) + content
    return struct.pack(">qiibI", base_offset, len(covered) + 9, 0, 2, crc32c(covered)) + covered


def record(delta: int = 0, value: bytes = b"", headers: int = 0) -> bytes:
    """One record with so many empty headers."""
    body = b"\x00\x00" + encode_varint(delta) + b"\x01" + encode_varint(len(value)) + value
    body += encode_varint(headers) + b"\x00\x01" * headers
    return encode_varint(len(body)) + body


def header_bomb(headers: int, *, base_offset: int = 0, records: int = 1, attributes: int = 0) -> bytes:
    """Records with so many empty headers each."""
    content = b"".join(record(delta, headers=headers) for delta in range(records))
    return _folded(content, Codec.ZSTD, base_offset, records, attributes)


def record_bomb(count: int, *, base_offset: int = 0, codec: Codec = Codec.ZSTD) -> bytes:
    """So many records without key, value and headers."""
    return _folded(b"".join(map(record, range(count))), codec, base_offset, count)


def value_bomb(size: int, *, base_offset: int = 0, codec: Codec = Codec.ZSTD) -> bytes:
    """One record with a value of so many zeros."""
    return _folded(record(value=bytes(size)), codec, base_offset, 1)


def _folded(content: bytes, codec: Codec, base_offset: int, count: int, attributes: int = 0) -> bytes:
    return sealed(compress(codec, content), base_offset=base_offset, count=count, attributes=codec | attributes)
