"""How much an lz4 or zstd stream can unfold to, read from the headers of its blocks without decoding any.

A block's header says how long it is and the frame's header how much a block may hold, so the sum over the blocks
bounds the whole: an honest stream is never larger, and a lying one fails in the decoder when its buffer is full. The
walk takes time in proportion to the stream and no memory. It also refuses what the decoders would read on past, a
second frame in lz4 and bytes that no frame covers, and a zstd window that would take more memory than the output may.
"""

from __future__ import annotations

from itertools import count

from seamark.errors import BadValue, OverLimit, TrailingBytes

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_LIMITS = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
# The densest lz4 sequence spends one byte on 255.
_LZ4_MAX_GROWTH = 255

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK_LIMIT = 128 << 10
# What the format asks every decoder to support, and all that Kafka's compression levels use.
_ZSTD_USUAL_WINDOW = 8 << 20
_ZSTD_RAW, _ZSTD_REPEATED, _ZSTD_COMPRESSED = 0, 1, 2

# Each block costs a step, however little it holds. Clients fill blocks of 32 KiB or more, old ones of 1 KiB: this many
# are more than a batch of a megabyte has.
MAX_BLOCKS = 1 << 14


def _unsound(codec: str, position: int, reason: str) -> BadValue:
    return BadValue("records", position, f"the {codec} stream is corrupt: {reason}")


def check_blocks(count: int, position: int) -> None:
    """Refuse a stream that is cut into more blocks than any client writes."""
    if count > MAX_BLOCKS:
        raise OverLimit("records", position, f"the records are compressed in more than {MAX_BLOCKS} blocks")


def lz4_bound(data: memoryview, position: int) -> int:
    """Return the most bytes that the one lz4 frame in ``data`` can hold."""
    size = len(data)
    if data[:4] != _LZ4_MAGIC or size < 7:
        raise _unsound("lz4", position, "it does not start with a frame header")
    flags = data[4]
    block_limit = _LZ4_BLOCK_LIMITS.get(data[5] >> 4 & 7)
    if flags >> 6 != 1 or block_limit is None:
        raise _unsound("lz4", position, "its frame header has an unknown version or block size")
    block_checksum_bytes = 4 if flags & 0x10 else 0
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    bound = 0
    for number in count():
        check_blocks(number, position)
        block = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if at > size:
            raise _unsound("lz4", position, "it ends early")
        if block == 0:
            break
        length = block & 0x7FFFFFFF
        if length > block_limit:
            raise _unsound("lz4", position, f"a block of {length} bytes exceeds the frame's limit of {block_limit}")
        bound += length if block >> 31 else min(block_limit, length * _LZ4_MAX_GROWTH)
        at += length + block_checksum_bytes
    at += 4 if flags & 0x04 else 0
    if at > size:
        raise _unsound("lz4", position, "it ends early")
    if at < size:
        raise TrailingBytes("records", position, f"{size - at} extra bytes after the lz4 stream")
    return bound


def zstd_bound(data: memoryview, max_bytes: int, position: int) -> int:
    """Return the most bytes that the zstd frames in ``data`` can hold."""
    size = len(data)
    if not size:
        raise _unsound("zstd", position, "it is empty")
    bound = 0
    at = 0
    blocks = 0
    while at < size:
        blocks += 1
        check_blocks(blocks, position)
        magic = bytes(data[at : at + 4])
        if len(magic) == 4 and magic[0] >> 4 == 5 and magic[1:] == b"\x2a\x4d\x18":
            # A skippable frame: its length, and content that is not the decoder's.
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            if at > size:
                raise _unsound("zstd", position, "it ends early")
            continue
        if magic != _ZSTD_MAGIC:
            raise _unsound("zstd", position, "it does not start with a frame header")
        at, frame_bound, blocks = _zstd_frame(data, at, max_bytes, position, blocks)
        bound += frame_bound
    return bound


def _zstd_frame(data: memoryview, at: int, max_bytes: int, position: int, blocks: int) -> tuple[int, int, int]:
    """Return where the frame at ``at`` ends, the most that it can hold, and the blocks seen so far."""
    size = len(data)
    if at + 6 > size:
        raise _unsound("zstd", position, "it ends early")
    flags = data[at + 4]
    at += 5
    is_single_segment = bool(flags & 0x20)
    window = 0
    if not is_single_segment:
        window = (1 << (10 + (data[at] >> 3))) // 8 * (8 + (data[at] & 7))
        at += 1
    at += (0, 1, 2, 4)[flags & 3]
    content_bytes = (1 if is_single_segment else 0, 2, 4, 8)[flags >> 6]
    content = None
    if content_bytes:
        content = int.from_bytes(data[at : at + content_bytes], "little") + (256 if content_bytes == 2 else 0)
        at += content_bytes
        if content > max_bytes and at <= size:
            raise OverLimit(
                "records", position, f"the records decompress to {content} bytes, at most {max_bytes} are allowed"
            )
    if window > max(max_bytes, _ZSTD_USUAL_WINDOW):
        raise OverLimit(
            "records", position, f"the zstd stream requires a window of {window} bytes, at most {max_bytes} are allowed"
        )

    bound = 0
    is_last = False
    while not is_last:
        blocks += 1
        check_blocks(blocks, position)
        if at + 3 > size:
            raise _unsound("zstd", position, "it ends early")
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        at += 3
        is_last = bool(block & 1)
        kind, length = block >> 1 & 3, block >> 3
        if length > _ZSTD_BLOCK_LIMIT:
            raise _unsound("zstd", position, f"a block of {length} bytes exceeds the format's limit")
        if kind == _ZSTD_COMPRESSED:
            bound += _ZSTD_BLOCK_LIMIT
            at += length
        elif kind == _ZSTD_RAW:
            bound += length
            at += length
        elif kind == _ZSTD_REPEATED:
            bound += length
            at += 1
        else:
            raise _unsound("zstd", position, "a block has the reserved type")
    at += 4 if flags & 0x04 else 0
    if at > size:
        raise _unsound("zstd", position, "it ends early")
    return at, bound if content is None else min(bound, content), blocks
