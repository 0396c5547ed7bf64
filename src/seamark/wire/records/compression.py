"""Compression of record batches: which codecs there are, and decompression that cannot be made to take memory.

What a batch unfolds to is bounded before memory is taken. Each codec has its own way to know: gzip is inflated up to
a limit, snappy states its size (and cannot grow more than 22 times), lz4 and zstd frames are walked block by block
for the most that they can hold, and decoded into a buffer of that size. ``stream_bounds`` has those walks.

Snappy is in the framing of Java's snappy library, as Kafka's clients write it; raw snappy is read too. Lz4 is written
in independent blocks without checksums, the only kind that Kafka's Java client reads. Every error of a codec becomes
a ``DecodeError``.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from enum import IntEnum

from seamark.errors import BadValue, EncodeError, OverLimit, TrailingBytes, UnknownCodec
from seamark.wire.records.stream_bounds import check_blocks, lz4_bound, zstd_bound


class Codec(IntEnum):
    """The number that stands in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# A batch of Kafka's default size, 1 MiB, that shrank a hundredfold still fits; a bomb in it does little harm.
DEFAULT_MAX_DECOMPRESSED = 128 << 20

_ZLIB_WITH_GZIP_HEADER = 31
# The densest code of deflate is two bits for 258 bytes.
_GZIP_MAX_GROWTH = 1032

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_BLOCK_BYTES = 32 << 10
# Snappy's densest element is a copy of 64 bytes in three.
_SNAPPY_MAX_GROWTH = 22

# Version 1, independent blocks of at most 64 KiB, no checksums; the last byte is the checksum of the header itself.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_UNCOMPRESSED = 1 << 31
_LZ4_END = bytes(4)

# Kafka's own default.
_ZSTD_LEVEL = 3

# What may unfold to more is large: it has memory of its own, and who has a thread for it uses that.
LARGE_BYTES = 1 << 18
_INFLATED_AT_ONCE = 1 << 18

# Both give a number for an index and bytes for a slice.
Unfolded = bytes | mmap.mmap


def load_codecs() -> None:
    """Import what the codecs need. Who cannot be sure of a free file descriptor later does it at its start."""
    import zlib  # noqa: F401

    import cramjam  # noqa: F401


def compress(codec: Codec | int, data: bytes | memoryview, level: int | None = None) -> bytes:
    """Return ``data`` as Kafka's clients expect it under ``codec``; ``level`` is for gzip and zstd alone."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        import zlib

        return zlib.compress(data, -1 if level is None else level, _ZLIB_WITH_GZIP_HEADER)
    if codec == Codec.SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec == Codec.LZ4:
        return _compress_lz4(memoryview(data))
    if codec == Codec.ZSTD:
        import cramjam

        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise EncodeError("codec", codec, "it must be one of Kafka's compression codecs")


def decompress(codec: Codec | int, data: bytes | memoryview, max_bytes: int, position: int = 0) -> bytes:
    """Return what ``data`` unfolds to, at most ``max_bytes``; errors carry ``position``, where the data starts."""
    if codec == Codec.NONE:
        if len(data) > max_bytes:
            raise _too_large(position, max_bytes)
        return bytes(data)
    view = memoryview(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(view, max_bytes, position)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(view, max_bytes, position)
    if codec == Codec.LZ4:
        return _decompress_frame("lz4", view, lz4_bound(view, position), max_bytes, position)
    if codec == Codec.ZSTD:
        return _decompress_frame("zstd", view, zstd_bound(view, max_bytes, position), max_bytes, position)
    raise UnknownCodec("codec", position, f"compression codec {int(codec)} is not defined")


def unfold(codec: Codec | int, data: memoryview, max_bytes: int, position: int = 0) -> tuple[Unfolded, int]:
    """As ``decompress``, for what may be large: return where it is, and how many bytes of that it has.

    It is in memory of its own, which goes back to the system as soon as nobody refers to it. On a thread it lets others
    go on: nothing is copied in one piece, and the codecs let go of the interpreter.
    """
    bound = unfolded_bound(codec, data, max_bytes)
    if bound <= LARGE_BYTES or codec == Codec.NONE:
        content = decompress(codec, data, max_bytes, position)
        return content, len(content)
    # A stream that is too long is found out by the byte that would not fit.
    room = mmap.mmap(-1, bound + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with memoryview(room) as view:
        if codec == Codec.GZIP:
            size = _inflate_into(view, data, position)
        elif codec == Codec.SNAPPY:
            size = _unfold_snappy_into(view, data, max_bytes, position)
        else:
            size = _decode_into(view, codec, data, max_bytes, position)
    if size > max_bytes:
        raise _too_large(position, max_bytes)
    return room, size


def unfolded_bound(codec: Codec | int, data: memoryview, max_bytes: int) -> int:
    """Return the most bytes that ``decompress`` can make of ``data``, found without unfolding it."""
    if codec == Codec.GZIP:
        bound = len(data) * _GZIP_MAX_GROWTH
    elif codec == Codec.SNAPPY:
        bound = len(data) * _SNAPPY_MAX_GROWTH
    elif codec == Codec.LZ4:
        bound = lz4_bound(data, 0)
    elif codec == Codec.ZSTD:
        bound = zstd_bound(data, max_bytes, 0)
    else:
        return len(data)
    return min(bound, max_bytes)


def _too_large(position: int, max_bytes: int) -> OverLimit:
    return OverLimit("records", position, f"the records decompress to more than the {max_bytes} bytes allowed")


def _unsound(codec: str, position: int, reason: object) -> BadValue:
    return BadValue("records", position, f"the {codec} stream is corrupt: {reason}")


def _decompress_gzip(data: memoryview, max_bytes: int, position: int) -> bytes:
    import zlib

    inflater = zlib.decompressobj(_ZLIB_WITH_GZIP_HEADER)
    try:
        # One byte more than allowed tells a stream that fits from one that does not; 0 would mean no limit.
        content = inflater.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise _unsound("gzip", position, error) from None
    if len(content) > max_bytes:
        raise _too_large(position, max_bytes)
    if not inflater.eof:
        raise _unsound("gzip", position, "it ends early")
    if inflater.unused_data:
        raise TrailingBytes("records", position, f"{len(inflater.unused_data)} extra bytes after the gzip stream")
    return content


def _inflate_into(view: memoryview, data: memoryview, position: int) -> int:
    import zlib

    inflater = zlib.decompressobj(_ZLIB_WITH_GZIP_HEADER)
    size = 0
    left: bytes | memoryview = data
    while not inflater.eof and size < len(view):
        try:
            content = inflater.decompress(left, min(_INFLATED_AT_ONCE, len(view) - size))
        except zlib.error as error:
            raise _unsound("gzip", position, error) from None
        view[size : size + len(content)] = content
        size += len(content)
        left = inflater.unconsumed_tail
        if not content and not left and not inflater.eof:
            raise _unsound("gzip", position, "it ends early")
    if inflater.unused_data and size < len(view):
        raise TrailingBytes("records", position, f"{len(inflater.unused_data)} extra bytes after the gzip stream")
    return size


def _compress_snappy(data: memoryview) -> bytes:
    import cramjam

    parts = [_SNAPPY_HEADER]
    for start in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int, position: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    for block in _snappy_blocks(data, position):
        _snappy_size(block, left, max_bytes, position)
        part = _decompress_snappy_block(block, position)
        left -= len(part)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unfold_snappy_into(view: memoryview, data: memoryview, max_bytes: int, position: int) -> int:
    import cramjam

    size = 0
    for block in _snappy_blocks(data, position):
        _snappy_size(block, max_bytes - size, max_bytes, position)
        try:
            size += cramjam.snappy.decompress_raw_into(block, view[size:])
        except cramjam.DecompressionError as error:
            raise _unsound("snappy", position, error) from None
    return size


def _snappy_blocks(data: memoryview, position: int) -> Iterator[memoryview]:
    """The blocks of a stream as Java's library frames them; raw snappy is one block."""
    if data[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        yield data
        return
    if len(data) < len(_SNAPPY_HEADER):
        raise _unsound("snappy", position, "its header is truncated")
    at = len(_SNAPPY_HEADER)
    count = 0
    while at < len(data):
        check_blocks(count, position)
        count += 1
        if data[at : at + len(_SNAPPY_MAGIC)] == _SNAPPY_MAGIC:
            raise TrailingBytes("records", position, f"{len(data) - at} extra bytes after the snappy stream")
        size = int.from_bytes(data[at : at + 4])
        at += 4
        if size > len(data) - at:
            raise _unsound(
                "snappy", position, f"a block claims to have {size} bytes, but only {max(len(data) - at, 0)} are left"
            )
        yield data[at : at + size]
        at += size


def _snappy_size(block: memoryview, left: int, max_bytes: int, position: int) -> int:
    """What the block says that it unfolds to, which it can, and for which there is room."""
    import cramjam

    if not block:
        raise _unsound("snappy", position, "a block is empty")
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise _unsound("snappy", position, error) from None
    if size > len(block) * _SNAPPY_MAX_GROWTH:
        raise _unsound("snappy", position, f"a block of {len(block)} bytes cannot decompress to {size}")
    if size > left:
        raise _too_large(position, max_bytes)
    return size


def _decompress_snappy_block(block: memoryview, position: int) -> bytes:
    import cramjam

    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _unsound("snappy", position, error) from None


def _compress_lz4(data: memoryview) -> bytes:
    import cramjam

    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_UNCOMPRESSED).to_bytes(4, "little"), bytes(plain))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _decompress_frame(codec: str, data: memoryview, bound: int, max_bytes: int, position: int) -> bytes:
    """Decode into a buffer that holds what the blocks can hold, or what is allowed: the codec stops where it ends."""
    capacity = min(bound, max_bytes)
    # One byte at least, so that an empty stream has a buffer to decode into.
    buffer = bytearray(max(capacity, 1))
    size = _decode_frame(codec, data, memoryview(buffer), bound, max_bytes, position)
    if size > capacity:
        raise _too_large(position, max_bytes)
    return bytes(memoryview(buffer)[:size])


def _decode_into(view: memoryview, codec: Codec | int, data: memoryview, max_bytes: int, position: int) -> int:
    if codec == Codec.LZ4:
        return _decode_frame("lz4", data, view, lz4_bound(data, position), max_bytes, position)
    return _decode_frame("zstd", data, view, zstd_bound(data, max_bytes, position), max_bytes, position)


def _decode_frame(codec: str, data: memoryview, into: memoryview, bound: int, max_bytes: int, position: int) -> int:
    import cramjam

    try:
        size: int = getattr(cramjam, codec).decompress_into(data, into)
    except cramjam.DecompressionError as error:
        # A buffer smaller than the blocks' bound was cut to the allowed size, and the codec says so when it is full.
        if bound > max_bytes and "whole buffer" in str(error):
            raise _too_large(position, max_bytes) from None
        raise _unsound(codec, position, error) from None
    return size
