"""Which records of a batch outlive a compaction, and the batch that is left of them.

A record outlives it when no later record has its key. A tombstone, a record without a value, does so only for
``delete_retention_ms`` after the compaction that first met it: that moment is written into its batch as Kafka does
(the delete horizon, in place of the base timestamp), so it does not start anew with each compaction. Records without
a key go.

What is left of a batch keeps its offsets: those of the records, and the range from first to last. A batch that loses
nothing is copied byte for byte; one that loses all is gone. Records are copied as they lie: none is made, whatever its
value and headers are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from seamark.errors import BadValue, DecodeError, OverLimit
from seamark.readable_log import readable_logger
from seamark.storage.aside import Aside, Pauses, unfolded_aside
from seamark.storage.compaction.key_map import UNTOUCHABLE, KeyMap
from seamark.wire.records.compression import LARGE_BYTES, Codec, Unfolded
from seamark.wire.records.record_batch import (
    DELETE_HORIZON,
    HEADER_BYTES,
    INT64_MAX,
    INT64_MIN,
    LENGTH_OVERHEAD,
    NO_TIMESTAMP,
    OFFSETS_AND_COUNT,
    BatchHeader,
    read_header,
    read_outline,
)
from seamark.wire.records.record_skim import skim_records
from seamark.wire.records.record_walk import MAX_RECORDS
from seamark.wire.records.record_writer import replace_records, restamped_start

logger = readable_logger("seamark.storage")

# Records that are looked at before others get their turn.
_SLICE = 200
# Bytes that are copied before others get theirs.
_COPIED_AT_ONCE = 1 << 20
_GOES, _STAYS = 0, 1

# What is left of a batch and whether it was changed, or a pause.
Decision = tuple[bytes, bool] | Aside[Any] | None


class Survivors:
    """One compaction's decisions, made batch by batch in the order of their offsets."""

    def __init__(self, keys: KeyMap, now_ms: int, delete_retention_ms: int, max_decompressed_bytes: int) -> None:
        self._latest = keys.latest
        self._tombstones = keys.tombstones
        self._untouchable = frozenset(keys.untouchable)
        self._max_bytes = max_decompressed_bytes
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms
        self.kept = keys.kept_offsets()
        self._is_unreadable_told = False
        # The earliest moment at which a tombstone that was kept may go, or -1.
        self.earliest_horizon_ms = -1

    def of_dirty(self, content: bytes) -> Iterator[Decision]:
        """Yield what is left of each batch, and whether it was changed; the key map has seen these batches.

        Which offsets stay is known, so a batch is read only when a part of it stays.
        """
        position = 0
        kept = self.kept
        unpack = OFFSETS_AND_COUNT.unpack_from
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
                    yield (yield from self._rebuild(content, position, _offset_in(base, frozenset(kept[first:last]))))
            else:
                yield b"", True
            position = end

    def of_clean(self, content: bytes) -> Iterator[Decision]:
        """Do the same for batches that an earlier compaction left: a record goes when its key was written again."""
        stays = _key_not_in(self._latest)
        position = 0
        while position < len(content):
            _, length, attributes, _, _ = OFFSETS_AND_COUNT.unpack_from(content, position)
            end = position + length + LENGTH_OVERHEAD
            if attributes & UNTOUCHABLE:
                yield content[position:end], False
            else:
                yield (yield from self._rebuild(content, position, stays))
            position = end

    def _rebuild(
        self, content: bytes, position: int, stays: Callable[[int, bytes | None], bool]
    ) -> Pauses[tuple[bytes, bool]]:
        try:
            header = read_header(content, position)
            end = position + header.size_bytes
            if not header.record_count:
                return b"", True
            if header.record_count > MAX_RECORDS:
                raise OverLimit("record_count", position, f"there are {header.record_count} records")
            records, start, behind = yield from self._unfold(content, position, end, header)
            choice, count, largest_ms, has_tombstone = yield from self._choose(records, start, behind, header, stays)
            if not count:
                return b"", True
            is_horizon_new = has_tombstone and header.delete_horizon_ms is None
            if has_tombstone:
                self._note_horizon(self._new_horizon_ms if is_horizon_new else header.base_timestamp_ms)
            if count == header.record_count and not is_horizon_new:
                return content[position:end], False
            base_ms = self._new_horizon_ms if is_horizon_new else header.base_timestamp_ms
            chosen = yield from self._copy(records, start, behind, header, choice, header.base_timestamp_ms - base_ms)
        except DecodeError as error:
            outline = read_outline(content, position)
            if not self._is_unreadable_told:
                self._is_unreadable_told = True
                logger.warning(
                    "the batch at offset %d is kept unchanged, and so are others like it: its records cannot "
                    "be read (%s)",
                    outline.base_offset,
                    error,
                )
            return content[position : position + outline.size_bytes], False
        aside = Aside(
            lambda: replace_records(
                header,
                bytes(chosen),
                record_count=count,
                base_timestamp_ms=base_ms,
                max_timestamp_ms=header.max_timestamp_ms if header.timestamp_type else largest_ms,
                attributes=header.attributes | (DELETE_HORIZON if is_horizon_new else 0),
            )
        )
        if len(chosen) > LARGE_BYTES:
            yield aside
        return aside.result(), True

    def _note_horizon(self, horizon_ms: int) -> None:
        earliest = self.earliest_horizon_ms
        self.earliest_horizon_ms = horizon_ms if earliest < 0 else min(earliest, horizon_ms)

    def _unfold(
        self, content: bytes, position: int, end: int, header: BatchHeader
    ) -> Pauses[tuple[Unfolded, int, int]]:
        """Return the records on their own, and where in what is returned they begin and end."""
        if header.codec is Codec.NONE:
            return content[position:end], HEADER_BYTES, end - position
        compressed = memoryview(content)[position + HEADER_BYTES : end]
        unfolded = yield from unfolded_aside(header.codec, compressed, self._max_bytes)
        if unfolded is None:
            raise BadValue("records", position, "the records cannot be decompressed")
        return unfolded[0], 0, unfolded[1]

    def _choose(
        self,
        records: Unfolded,
        start: int,
        behind: int,
        header: BatchHeader,
        stays: Callable[[int, bytes | None], bool],
    ) -> Pauses[tuple[bytearray, int, int, bool]]:
        """Return for each record whether it stays, how many do, their largest time, and whether a tombstone does."""
        is_expired = header.delete_horizon_ms is not None and self._now_ms >= header.delete_horizon_ms
        choice = bytearray(header.record_count)
        count = 0
        largest: int | None = None
        has_tombstone = False
        skimmed = skim_records(records, start, behind, header.record_count)
        for number, (delta, time_delta, key, has_value, *_) in enumerate(skimmed):
            if number % _SLICE == _SLICE - 1:
                yield None
            if not stays(delta, key):
                continue
            if not has_value:
                if is_expired:
                    continue
                has_tombstone = True
            choice[number] = _STAYS
            count += 1
            if largest is None or time_delta > largest:
                largest = time_delta
        return choice, count, max(header.base_timestamp_ms + (largest or 0), NO_TIMESTAMP), has_tombstone

    def _copy(
        self, records: Unfolded, start: int, behind: int, header: BatchHeader, choice: bytearray, later_ms: int
    ) -> Pauses[bytearray]:
        """Return the chosen records, their times being counted from a base that is ``later_ms`` earlier than it was."""
        chosen = bytearray()
        for number, record in enumerate(skim_records(records, start, behind, header.record_count)):
            if number % _SLICE == _SLICE - 1:
                yield None
            if choice[number] == _GOES:
                continue
            _, time_delta, _, _, begin, attributes_at, offset_at, end = record
            if later_ms:
                if not INT64_MIN <= time_delta + later_ms <= INT64_MAX:
                    raise BadValue("timestamp_delta", begin, "it does not fit an int64 when a delete horizon is set")
                chosen += restamped_start(records[attributes_at], time_delta + later_ms, end - offset_at)
                begin = offset_at
            while end - begin > _COPIED_AT_ONCE:
                chosen += records[begin : begin + _COPIED_AT_ONCE]
                begin += _COPIED_AT_ONCE
                yield None
            chosen += records[begin:end]
        return chosen


def _offset_in(base_offset: int, offsets: frozenset[int]) -> Callable[[int, bytes | None], bool]:
    return lambda delta, _: base_offset + delta in offsets


def _key_not_in(keys: dict[bytes, int]) -> Callable[[int, bytes | None], bool]:
    return lambda _, key: key is not None and key not in keys
