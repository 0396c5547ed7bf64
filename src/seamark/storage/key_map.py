"""The last offset of each key, found by skimming over batches without making records of them.

Only the key and whether there is a value are looked at; values are neither copied nor kept, so memory follows the
number of distinct keys. A batch that belongs to a transaction, holds markers, or does not read as records is kept
whole by compaction and its keys count for nothing: whether they came into force cannot be told from here.
"""

from __future__ import annotations

from struct import Struct

from seamark.errors import DecodeError
from seamark.storage.aside import Pauses, unfolded_aside
from seamark.wire.records.compression import Unfolded
from seamark.wire.records.record_batch import CODEC_MASK, CONTROL, HEADER_BYTES, LENGTH_OVERHEAD, TRANSACTIONAL
from seamark.wire.records.record_walk import MAX_RECORDS
from seamark.wire.records.varints import read_varint

# Base offset, batch length, attributes, last offset delta and record count.
_SKIM = Struct(">qi9xhi30xi")
UNTOUCHABLE = TRANSACTIONAL | CONTROL
_NULL = 1
_UNREADABLE = -1, -1
# Records that are looked at before others get their turn.
_SLICE = 200


class KeyMap:
    """``latest`` is the last offset per key; ``tombstones`` has the offsets of records without a value.

    ``untouchable`` has the first offset of each batch that is kept whole, ``unread`` of those the ones that do not read
    as records or hold too many.
    """

    __slots__ = ("_max_bytes", "latest", "tombstones", "unread", "untouchable")

    def __init__(self, max_decompressed_bytes: int) -> None:
        self._max_bytes = max_decompressed_bytes
        self.latest: dict[bytes, int] = {}
        self.tombstones: set[int] = set()
        self.untouchable: list[int] = []
        self.unread: list[int] = []

    def add(self, content: bytes) -> Pauses[None]:
        """Take in the whole batches in ``content``, which follow all those taken in before; pauses at each yield."""
        position = 0
        size = len(content)
        unpack = _SKIM.unpack_from
        keys: list[bytes] = []
        offsets: list[int] = []
        tombstones = self.tombstones
        work = 0
        while position < size:
            base_offset, length, attributes, delta, count = unpack(content, position)
            end = position + length + LENGTH_OVERHEAD
            if attributes & UNTOUCHABLE:
                self.untouchable.append(base_offset)
            elif count:
                start, behind = position + HEADER_BYTES, end
                noted = len(keys)
                records: Unfolded = content
                if attributes & CODEC_MASK:
                    packed = memoryview(content)[start:end]
                    unfolded = yield from unfolded_aside(attributes & CODEC_MASK, packed, self._max_bytes)
                    records, behind = unfolded or (b"", 0)
                    start = 0
                left = count if count <= MAX_RECORDS else -1
                previous = base_offset - 1
                while left > 0 and start >= 0:
                    part = left if left < _SLICE else _SLICE
                    start, previous = _skim(
                        records,
                        start,
                        behind,
                        part,
                        base_offset,
                        previous,
                        base_offset + delta,
                        keys,
                        offsets,
                        tombstones,
                    )
                    left -= part
                    work += part
                    if work >= _SLICE:
                        work = 0
                        yield None
                if left or start != behind:
                    self.untouchable.append(base_offset)
                    self.unread.append(base_offset)
                    del keys[noted:], offsets[noted:]
            position = end
        self.latest.update(zip(keys, offsets, strict=True))

    def kept_offsets(self) -> list[int]:
        """Return, in order, the last offset of every key and the first of every batch that is kept whole."""
        return sorted([*self.latest.values(), *self.untouchable])


def _skim(
    content: Unfolded,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    previous: int,
    last_offset: int,
    keys: list[bytes],
    offsets: list[int],
    tombstones: set[int],
) -> tuple[int, int]:
    """Note keys and offsets of ``count`` records; return where they end, and their last offset.

    The end is -1, some being noted, when the bytes are not those of as many records.
    """
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
                return _UNREADABLE
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
                return _UNREADABLE
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
                return _UNREADABLE
            add_key(content[position:key_end])
            add_offset(offset)
            if content[key_end] == _NULL:
                tombstones.add(offset)
            position = record_end
    except (IndexError, DecodeError):
        return _UNREADABLE
    return position, previous
