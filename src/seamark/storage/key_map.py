"""The last offset of each key, found by skimming over batches without making records of them.

Only the key and whether there is a value are looked at; values are neither copied nor kept, so memory follows the
number of distinct keys. A batch that belongs to a transaction, holds markers, or does not read as records is kept
whole by compaction and its keys count for nothing: whether they came into force cannot be told from here.
"""

from __future__ import annotations

from struct import Struct

from seamark.errors import DecodeError
from seamark.wire.compression import DEFAULT_MAX_DECOMPRESSED, Codec, decompress
from seamark.wire.record_batch import CODEC_MASK, CONTROL, HEADER_BYTES, LENGTH_OVERHEAD, TRANSACTIONAL
from seamark.wire.varints import read_varint

# Base offset, batch length, attributes, last offset delta and record count.
_SKIM = Struct(">qi9xhi30xi")
UNTOUCHABLE = TRANSACTIONAL | CONTROL
_NULL = 1


class KeyMap:
    """``latest`` is the last offset per key; ``tombstones`` has the offsets of records without a value.

    ``untouchable`` has the first offset of each batch that is kept whole.
    """

    __slots__ = ("latest", "tombstones", "untouchable")

    def __init__(self) -> None:
        self.latest: dict[bytes, int] = {}
        self.tombstones: set[int] = set()
        self.untouchable: list[int] = []

    def add(self, content: bytes) -> None:
        """Take in the whole batches in ``content``, which follow all those taken in before."""
        position = 0
        size = len(content)
        unpack = _SKIM.unpack_from
        keys: list[bytes] = []
        offsets: list[int] = []
        tombstones = self.tombstones
        while position < size:
            base_offset, length, attributes, delta, count = unpack(content, position)
            end = position + length + LENGTH_OVERHEAD
            if attributes & UNTOUCHABLE:
                self.untouchable.append(base_offset)
            elif count:
                start = position + HEADER_BYTES
                noted = len(keys)
                if attributes & CODEC_MASK:
                    records = _decompress(content[start:end], attributes & CODEC_MASK)
                    is_read = _skim(records, 0, len(records), count, base_offset, delta, keys, offsets, tombstones)
                else:
                    is_read = _skim(content, start, end, count, base_offset, delta, keys, offsets, tombstones)
                if not is_read:
                    self.untouchable.append(base_offset)
                    del keys[noted:], offsets[noted:]
            position = end
        self.latest.update(zip(keys, offsets, strict=True))

    def kept_offsets(self) -> list[int]:
        """Return, in order, the last offset of every key and the first of every batch that is kept whole."""
        return sorted([*self.latest.values(), *self.untouchable])


def _decompress(records: bytes, codec: int) -> bytes:
    try:
        return decompress(Codec(codec), records, DEFAULT_MAX_DECOMPRESSED)
    except DecodeError:
        return b""


def _skim(
    content: bytes,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    last_delta: int,
    keys: list[bytes],
    offsets: list[int],
    tombstones: set[int],
) -> bool:
    """Note keys and offsets of ``count`` records; False, some being noted, when the bytes are not those of as many."""
    previous = base_offset - 1
    last_offset = base_offset + last_delta
    add_key = keys.append
    add_offset = offsets.append
    try:
        for _ in range(count):
            # Varints of one and two bytes are read in place: nearly all are, and a call costs more than the rest.
            byte = content[position]
            if byte < 0x80:
                position += 1
                record_end = position + (byte >> 1)
            elif (high := content[position + 1]) < 0x80:
                position += 2
                record_end = position + ((byte & 0x7F | high << 7) >> 1)
            else:
                byte, position = read_varint(content, position, end, "length")
                record_end = position + byte
            if record_end > end:
                return False
            # The attributes come first and mean nothing; the timestamp is skipped byte by byte.
            position += 1
            while content[position] >= 0x80:
                position += 1
            byte = content[position + 1]
            if byte < 0x80:
                position += 2
                offset = base_offset + (byte >> 1)
            elif (high := content[position + 2]) < 0x80:
                position += 3
                offset = base_offset + ((byte & 0x7F | high << 7) >> 1)
            else:
                byte, position = read_varint(content, position + 1, end, "offset_delta")
                offset = base_offset + byte
            if not previous < offset <= last_offset:
                return False
            previous = offset
            byte = content[position]
            if byte < 0x80:
                position += 1
                if byte == _NULL:
                    position = record_end
                    continue
                key_end = position + (byte >> 1)
            else:
                byte, position = read_varint(content, position, end, "key_length")
                key_end = position + byte
            if not position <= key_end < record_end:
                return False
            add_key(content[position:key_end])
            add_offset(offset)
            if content[key_end] == _NULL:
                tombstones.add(offset)
            position = record_end
    except (IndexError, DecodeError):
        return False
    return position == end
