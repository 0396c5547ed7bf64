"""Which records of a batch outlive a compaction, and the batch that is left of them.

A record outlives it when no later record has its key. A tombstone, a record without a value, does so only for
``delete_retention_ms`` after the compaction that first met it: that moment is written into its batch as Kafka does
(the delete horizon, in place of the base timestamp), so it does not start anew with each compaction. Records without
a key go.

What is left of a batch keeps its offsets: those of the records, and the range from first to last. A batch that loses
nothing is copied byte for byte; one that loses all is gone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from struct import Struct

from seamark.errors import DecodeError
from seamark.readable_log import readable_logger
from seamark.storage.key_map import UNTOUCHABLE, KeyMap
from seamark.wire.record_batch import LENGTH_OVERHEAD
from seamark.wire.records import Record, decode_records, encode_batch, read_header

logger = readable_logger("seamark.storage")

# Base offset, batch length, attributes, last offset delta and record count.
_DECIDE = Struct(">qi9xhi30xi")


class Survivors:
    """One compaction's decisions, made batch by batch in the order of their offsets."""

    def __init__(self, keys: KeyMap, now_ms: int, delete_retention_ms: int) -> None:
        self._latest = keys.latest
        self._tombstones = keys.tombstones
        self._untouchable = frozenset(keys.untouchable)
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms
        self.kept = keys.kept_offsets()
        # The earliest moment at which a tombstone that was kept may go, or -1.
        self.earliest_horizon_ms = -1

    def of_dirty(self, content: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield what is left of each batch, and whether it was changed; the key map has seen these batches.

        Which offsets stay is known, so a batch is read only when a part of it stays.
        """
        position = 0
        kept = self.kept
        unpack = _DECIDE.unpack_from
        # A batch's tombstones matter only when there are any at all.
        tombstones = self._tombstones
        while position < len(content):
            base, length, attributes, delta, count = unpack(content, position)
            end = position + length + LENGTH_OVERHEAD
            first = bisect_left(kept, base)
            last = bisect_right(kept, base + delta, first)
            if first < last:
                is_whole = last - first == count and (not tombstones or tombstones.isdisjoint(kept[first:last]))
                if is_whole or attributes & UNTOUCHABLE or base in self._untouchable:
                    yield content[position:end], False
                else:
                    yield self._rebuild(content, position, _offset_in(frozenset(kept[first:last])))
            else:
                yield b"", True
            position = end

    def of_clean(self, content: bytes) -> Iterator[tuple[bytes, bool]]:
        """Do the same for batches that an earlier compaction left: a record goes when its key was written again."""
        stays = _key_not_in(self._latest)
        position = 0
        while position < len(content):
            _, length, attributes, _, _ = _DECIDE.unpack_from(content, position)
            end = position + length + LENGTH_OVERHEAD
            if attributes & UNTOUCHABLE:
                yield content[position:end], False
            else:
                yield self._rebuild(content, position, stays)
            position = end

    def _rebuild(self, content: bytes, position: int, stays: Callable[[Record], bool]) -> tuple[bytes, bool]:
        header = read_header(content, position)
        try:
            records = decode_records(content, position, header, verify=False)
        except DecodeError as error:
            logger.warning(
                "a batch at offset %d is kept whole: its records cannot be read (%s)", header.base_offset, error
            )
            return content[position : position + header.size_bytes], False
        horizon_ms = header.delete_horizon_ms
        is_horizon_new = False
        kept: list[Record] = []
        has_tombstone = False
        for record in records:
            if not stays(record):
                continue
            if record.value is None:
                if horizon_ms is None:
                    is_horizon_new = True
                elif self._now_ms >= horizon_ms:
                    continue
                has_tombstone = True
            kept.append(record)
        if not kept:
            return b"", True
        if is_horizon_new:
            horizon_ms = self._new_horizon_ms
        if has_tombstone and horizon_ms is not None:
            earliest = self.earliest_horizon_ms
            self.earliest_horizon_ms = horizon_ms if earliest < 0 else min(earliest, horizon_ms)
        if len(kept) == len(records) and not is_horizon_new:
            return content[position : position + header.size_bytes], False
        batch = encode_batch(
            kept,
            codec=header.codec,
            timestamp_type=header.timestamp_type,
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            delete_horizon_ms=horizon_ms,
            max_timestamp_ms=header.max_timestamp_ms if header.timestamp_type else None,
        )
        return batch, True


def _offset_in(offsets: frozenset[int]) -> Callable[[Record], bool]:
    return lambda record: record.offset in offsets


def _key_not_in(keys: dict[bytes, int]) -> Callable[[Record], bool]:
    return lambda record: record.key is not None and record.key not in keys
