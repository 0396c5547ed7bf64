"""A chunk: what one Fetch answer holds of one partition, handed out batch by batch.

The bytes stay as they came until the caller takes them: a batch is decoded when its first record is wanted, on the
caller's thread, and a slice at a time, for a few bytes can unfold to millions of records. The walk over batches is the
same for objects and for columns, and both may take turns on one chunk. What is skipped (control batches, aborted
transactions, records before the position) moves the position without giving records. The invariant: ``offset`` is the
next one to hand out, ``leader_epoch`` that of the batch before it.

A chunk can also be a failure in place of bytes: it is met when everything fetched before it was taken.

``AbortedBatches`` is Kafka's rule for read_committed. A Fetch answer lists the aborted transactions that reach into its
records: producer and first offset. A producer's transactional batches are left out from that offset on, up to the
marker that ends the transaction. The walk has a state, so each batch must be shown once, in order. Whether open
transactions are read at all is the broker's matter: it sends nothing beyond the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seamark.client.core.assignment_state import NO_EPOCH
from seamark.client.core.fetch_port import FailureKind
from seamark.client.fetch.records import BatchReader, ReadLimits
from seamark.errors import DecodeError, Truncated
from seamark.wire.records import RecordSlices, decode_control_marker
from seamark.wire.records.record_batch import INT64_MAX, BatchHeader, Buffer, last_whole_batch, read_header

if TYPE_CHECKING:
    from seamark.client.records import Record
    from seamark.topic_partition import TopicPartition

_NO_LIMITS_GIVEN = ReadLimits()


class AbortedBatches:
    """The filter for the records of one Fetch answer."""

    __slots__ = ("_open", "_to_come")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        # Latest first: the next to begin is the last of the list.
        self._to_come = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def copy(self) -> AbortedBatches:
        made = AbortedBatches(())
        made._to_come = list(self._to_come)
        made._open = set(self._open)
        return made

    def drops(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Take note of the batch, and say whether its records are to be left out."""
        if header.producer_id < 0:
            return False
        while self._to_come and self._to_come[-1][1] <= header.last_offset:
            self._open.add(self._to_come.pop()[0])
        if header.is_control:
            if header.producer_id in self._open and _is_abort(buffer, position, header):
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open


def _is_abort(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    # The marker is the first; whatever a hostile batch has behind it is not looked at.
    records = RecordSlices(buffer, position, header, verify=False).read(1, 0)
    return bool(records) and decode_control_marker(records[0]).kind == "abort"


_Mark = tuple[int, int | None, int, int, AbortedBatches | None]


def end_of(buffer: Buffer, offset: int) -> tuple[int, int]:
    """Where the whole batches of an answer end: the next offset to fetch, and the byte behind the last one.

    Looks at lengths only. What is unsound stops the walk; the caller meets it when it takes the batch.
    """
    next_offset, end = last_whole_batch(buffer)
    # No offset follows the largest that there is; the batch that claims to have it is refused when it is taken.
    return max(offset, min(next_offset, INT64_MAX)), end


def plausible_end(next_offset: int, offset: int, high_watermark: int, size: int) -> int:
    """The least of where the last of ``size`` bytes of batches says that it ends, and where it can.

    A broker may read records that were written after it looked at its high watermark, each of them a byte at least. A
    batch that says it reaches further is damaged, which is told when it is taken. -1 means that it is not known.
    """
    return next_offset if high_watermark < 0 else min(next_offset, max(offset, high_watermark) + size)


class Chunk:
    __slots__ = (
        "_batch_end",
        "_batch_start",
        "_buffer",
        "_end_offset",
        "_filter",
        "_is_adjacent",
        "_limits",
        "_next_record",
        "_partition",
        "_position",
        "_previous_end",
        "_reader",
        "_records",
        "_slice_bytes",
        "byte_count",
        "error",
        "failure_kind",
        "is_last",
        "is_spoiled",
        "leader_epoch",
        "offset",
    )

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        buffer: Buffer = b"",
        *,
        end_offset: int | None = None,
        aborted: AbortedBatches | None = None,
        limits: ReadLimits = _NO_LIMITS_GIVEN,
        failure_kind: FailureKind | None = None,
        error: Exception | None = None,
        leader_epoch: int = NO_EPOCH,
    ) -> None:
        self._partition = partition
        self._buffer = memoryview(buffer)
        self._filter = aborted
        self._limits = limits
        # No batch reaches beyond this; the checksum of a batch does not cover where it says that it begins.
        self._end_offset = end_offset
        self._previous_end: int | None = None
        # The next batch that was not looked at yet; the one before it while it has more slices, the decoded records of
        # that one, and where it ends.
        self._position = 0
        self._reader: BatchReader | None = None
        self._records: list[Record] = []
        self._next_record = 0
        self._slice_bytes = 0
        self._batch_start = 0
        self._is_adjacent = False
        self._batch_end = offset
        self.byte_count = len(buffer)
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.failure_kind = failure_kind
        self.error = error
        # Nothing is fetched behind it until the caller has taken it.
        self.is_last = failure_kind is not None
        self.is_spoiled = False

    @property
    def is_empty(self) -> bool:
        """Nothing is left to look at."""
        return self._position >= self.byte_count and not self._records and self._reader is None

    @property
    def unread(self) -> memoryview:
        """The bytes from the next batch on that was not read yet."""
        return self._buffer[self._position :]

    def spoil(self, error: Exception) -> None:
        """What stands at ``offset`` cannot be handed out: nothing more comes from this chunk."""
        self.is_spoiled = True
        self.failure_kind = FailureKind.ERROR
        self.error = error

    def heal(self) -> None:
        """What could not be handed out may be tried again."""
        self.is_spoiled = False
        self.failure_kind = None
        self.error = None

    # -- as objects

    def take(self, most: int) -> list[Record]:
        """Up to so many records, none only when the chunk is empty; DecodeError where the bytes are unsound."""
        while not self._records:
            if self._reader is None:
                if self._position >= self.byte_count:
                    return []
                self._open_next()
            else:
                self._decode_slice(self._reader)
        first = self._next_record
        if first == 0 and len(self._records) <= most:
            return self._records
        return self._records[first : first + most]

    def took(self, count: int) -> int:
        """The first ``count`` records of the last ``take`` were handed out; about how much memory they take up."""
        if not count:
            return 0
        records = self._records
        taken_bytes = self._slice_bytes * count // len(records)
        self._next_record += count
        if self._next_record < len(records):
            self.offset = records[self._next_record - 1].offset + 1
        else:
            self.offset = self._batch_end if self._reader is None else records[-1].offset + 1
            self._records = []
            self._next_record = 0
        return taken_bytes

    def _open_next(self) -> None:
        """Make ready to decode the next batch, or pass it by."""
        header, start = self._next_batch()
        if not self._has_rows(header, start):
            self._pass(header)
            return
        reader = BatchReader(self._buffer, start, header, self._partition, self._limits)
        records = reader.next_slice(self.offset)
        self._pass(header, moves=not records)
        self._batch_start = start
        self._batch_end = header.next_offset
        self._keep(reader, records)

    def _decode_slice(self, reader: BatchReader) -> None:
        try:
            records = reader.next_slice(self.offset)
        except DecodeError:
            # What comes next is in this batch: it was not passed after all.
            self._rewind()
            raise
        self._keep(reader, records)
        if not records:
            self.offset = max(self.offset, self._batch_end)

    def _keep(self, reader: BatchReader, records: list[Record]) -> None:
        self._records = records
        self._slice_bytes = reader.slice_bytes
        self._reader = None if reader.is_done else reader

    # -- as columns

    def take_batches(self, max_bytes: int) -> list[memoryview]:
        """The bytes of the next batches that have rows, at least one batch however large, in as few pieces as can be.

        All are of one leader epoch, which is ``leader_epoch`` then. What is decoded already is given up and read again:
        rows below ``offset`` as it was before are to be cut off.
        """
        self._rewind()
        pieces: list[memoryview] = []
        taken = 0
        while self._position < self.byte_count:
            try:
                header, start = self._next_batch()
            except DecodeError:
                if taken:
                    # Met again by the next call, which then begins with it.
                    break
                raise
            size = header.size_bytes
            if taken and taken + size > max_bytes:
                break
            if pieces and header.partition_leader_epoch != self.leader_epoch:
                break
            taken += size
            if self._has_rows(header, start):
                if pieces and self._is_adjacent:
                    first_piece = start - len(pieces[-1])
                    pieces[-1] = self._buffer[first_piece : start + size]
                else:
                    pieces.append(self._buffer[start : start + size])
                self._is_adjacent = True
            else:
                self._is_adjacent = False
            self._pass(header)
        return pieces

    def _rewind(self) -> None:
        if self._records or self._reader is not None:
            self._reader = None
            self._records = []
            self._next_record = 0
            self._position = self._batch_start
            self._previous_end = None

    def mark(self) -> _Mark:
        """Where the walk stands, for ``go_back``."""
        self._rewind()
        return self._position, self._previous_end, self.offset, self.leader_epoch, self._filter and self._filter.copy()

    def go_back(self, mark: _Mark, *, offset: int | None = None, leader_epoch: int | None = None) -> None:
        """Walk again from the mark; up to ``offset`` everything was handed out."""
        self._position, self._previous_end, self.offset, self.leader_epoch, self._filter = mark
        if offset is not None:
            self.offset = offset
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch

    # -- the walk

    def _next_batch(self) -> tuple[BatchHeader, int]:
        header = read_header(self._buffer, self._position)
        if header.size_bytes > self.byte_count - self._position:
            raise Truncated("batch", self._position, "the batch extends beyond the fetched bytes")
        if header.next_offset > INT64_MAX:
            reason = f"the batch claims to end at offset {header.last_offset}, after which no offset is left"
            raise DecodeError("base_offset", self._position, reason)
        if self._end_offset is not None and header.next_offset > self._end_offset:
            reason = (
                f"the batch claims to end at offset {header.next_offset}, but the log ends before {self._end_offset}"
            )
            raise DecodeError("base_offset", self._position, reason)
        if self._previous_end is not None and header.base_offset < self._previous_end:
            reason = f"the batch claims to begin at offset {header.base_offset}, before the end of the previous batch"
            raise DecodeError("base_offset", self._position, reason)
        return header, self._position

    def _has_rows(self, header: BatchHeader, start: int) -> bool:
        # The filter must see every batch, control batches too: they hold the markers.
        is_dropped = self._filter is not None and self._filter.drops(self._buffer, start, header)
        return not is_dropped and not header.is_control and header.last_offset >= self.offset

    def _pass(self, header: BatchHeader, *, moves: bool = True) -> None:
        self._position += header.size_bytes
        self._previous_end = header.next_offset
        self.leader_epoch = header.partition_leader_epoch
        if moves:
            self.offset = max(self.offset, header.next_offset)
