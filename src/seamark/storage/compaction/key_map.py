"""The last offset of each key, found by skimming over batches without making records of them.

Only the key and whether there is a value are looked at; values are neither copied nor kept, so memory follows the
number of distinct keys. A batch that belongs to a transaction, holds markers, or does not read as records is kept
whole by compaction and its keys count for nothing: whether they came into force cannot be told from here.
"""

from __future__ import annotations

from seamark.storage.aside import Pauses, unfolded_aside
from seamark.wire.records.compression import Unfolded
from seamark.wire.records.record_batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    OFFSETS_AND_COUNT,
    TRANSACTIONAL,
)
from seamark.wire.records.record_skim import skim_keys
from seamark.wire.records.record_walk import MAX_RECORDS

UNTOUCHABLE = TRANSACTIONAL | CONTROL
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
        unpack = OFFSETS_AND_COUNT.unpack_from
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
                    start, previous = skim_keys(
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
