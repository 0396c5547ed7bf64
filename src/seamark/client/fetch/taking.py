"""The caller's side of fetching: records and columns out of the chunks that have arrived.

Everything here runs on the caller's thread. Chunks are taken in the order of their arrival, so no partition starves.
What was taken is counted as consumed at once; a record that cannot be deserialized, and a batch that cannot be read, is
a failure that stays where it is: everything before it is handed out first, and it is told again until a seek.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from seamark.client.core.assignment_state import Position
from seamark.client.core.fetch_port import FailureKind, FetchFailure, Moved, Taken, TakenColumns
from seamark.client.errors import DeserializationFailed, unreadable
from seamark.client.fetch.arrow import columns_of
from seamark.client.fetch.chunks import Chunk
from seamark.client.fetch.metrics import FetchMetrics
from seamark.client.fetch.planning import PartitionFetch
from seamark.client.fetch.records import ReadLimits
from seamark.client.records import Record
from seamark.client.serde.deserializers import Deserializer
from seamark.errors import DecodeError
from seamark.topic_partition import TopicPartition

Positions = dict[TopicPartition, tuple[int, Position]]


class _Shown:
    """Records that the caller may look at and has not taken; ``failure`` stands behind the last of them."""

    __slots__ = ("chunk", "failure", "left", "state")

    def __init__(self, state: PartitionFetch, chunk: Chunk, left: int, failure: DeserializationFailed | None) -> None:
        self.state = state
        self.chunk = chunk
        self.left = left
        self.failure = failure


class RecordTaking:
    def __init__(
        self,
        ready: deque[PartitionFetch],
        metrics: FetchMetrics,
        wants_more: Callable[[], None],
        *,
        key: Deserializer | None,
        value: Deserializer | None,
        limits: ReadLimits,
    ) -> None:
        self._ready = ready
        self._metrics = metrics
        self._wants_more = wants_more
        self._key = key
        self._value = value
        self._limits = limits
        # What this poll may still give, in bytes.
        self._room_bytes = 0
        # Whose chunk was begun: it goes on first.
        self._current: PartitionFetch | None = None
        self._shown: _Shown | None = None

    def take(self, most: int) -> Taken:
        records: list[Record] = []
        positions: Positions = {}
        failures: list[FetchFailure] = []
        self._room_bytes = self._limits.poll_bytes
        while len(records) < most and self._room_bytes > 0 and (state := self._next_partition()) is not None:
            chunk = state.chunks[0]
            failure_kind = self._take_from(state, chunk, most - len(records), records)
            if chunk.offset != state.position.offset:
                self._note_position(state, chunk, positions)
            if failure_kind is None:
                if chunk.is_empty:
                    self._finish(state, chunk)
            elif records:
                # They are handed out before the caller hears of it.
                break
            else:
                failures.append(self._report(state, chunk))
                break
        self._metrics.records_consumed += len(records)
        return Taken(records, positions, failures)

    def _take_from(self, state: PartitionFetch, chunk: Chunk, most: int, records: list[Record]) -> FailureKind | None:
        """Add what the chunk has next to the records; the answer is the failure that stands behind them, if any."""
        if chunk.failure_kind is not None:
            return chunk.failure_kind
        taken, failure = self._read(state, chunk, most)
        records += taken
        self._room_bytes -= chunk.took(len(taken))
        if failure is not None:
            chunk.spoil(failure)
        return chunk.failure_kind

    def _read(
        self, state: PartitionFetch, chunk: Chunk, most: int
    ) -> tuple[list[Record], DeserializationFailed | None]:
        """What the chunk has next, up to a record that cannot be deserialized; unsound bytes spoil it."""
        try:
            records = chunk.take(most)
        except DecodeError as error:
            chunk.spoil(unreadable(state.partition, chunk.offset, error, chunk.unread))
            return [], None
        if (self._key is not None or self._value is not None) and records:
            return self._deserialized(records, state.partition)
        return records, None

    def show(self, most: int) -> Taken:
        """What the next chunk has next; it stays there until ``take_shown``."""
        self._shown = None
        positions: Positions = {}
        while (state := self._next_partition()) is not None:
            chunk = state.chunks[0]
            if chunk.failure_kind is None:
                shown, failure = self._read(state, chunk, most)
                if shown:
                    self._shown = _Shown(state, chunk, len(shown), failure)
                    return Taken(shown, positions)
                if failure is not None:
                    chunk.spoil(failure)
            if chunk.offset != state.position.offset:
                self._note_position(state, chunk, positions)
            if chunk.failure_kind is not None:
                return Taken((), positions, [self._report(state, chunk)])
            if chunk.is_empty:
                self._finish(state, chunk)
        return Taken((), positions)

    def take_shown(self, count: int) -> Moved:
        """The caller has so many more of the records that were shown."""
        shown = self._shown
        if shown is None or not shown.state.is_alive:
            return {}
        state, chunk = shown.state, shown.chunk
        chunk.took(count)
        shown.left -= count
        if not shown.left:
            self._shown = None
            if shown.failure is not None:
                chunk.spoil(shown.failure)
        positions: Positions = {}
        self._note_position(state, chunk, positions)
        if chunk.failure_kind is None and chunk.is_empty:
            self._finish(state, chunk)
        self._metrics.records_consumed += count
        return positions

    def _deserialized(
        self, records: list[Record], partition: TopicPartition
    ) -> tuple[list[Record], DeserializationFailed | None]:
        """The records with keys and values as the user wants them, up to the first that cannot be read."""
        read_key, read_value = self._key, self._value
        made: list[Record] = []
        for raw in records:
            key, value = raw.key, raw.value
            part = "key"
            try:
                if read_key is not None and key is not None:
                    key = read_key(key)
                part = "value"
                if read_value is not None and value is not None:
                    value = read_value(value)
            except Exception as error:  # noqa: BLE001 - user code: told to the caller with the record
                reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                failure = DeserializationFailed(partition, raw.offset, part, reason, raw)
                failure.__cause__ = error
                return made, failure
            made.append(_with_content(raw, key, value))
        return made, None

    def take_columns(self, max_bytes: int) -> TakenColumns:
        """Columns of one chunk, or of its first batches if it is larger than ``max_bytes``."""
        positions: Positions = {}
        while (state := self._next_partition()) is not None:
            chunk = state.chunks[0]
            batch = None
            if chunk.failure_kind is None:
                try:
                    batch = columns_of(chunk, state.partition, max_bytes, self._limits)
                except DecodeError as error:
                    chunk.spoil(unreadable(state.partition, chunk.offset, error, chunk.unread))
            if chunk.offset != state.position.offset:
                self._note_position(state, chunk, positions)
            if chunk.failure_kind is not None:
                return TakenColumns(None, positions, [self._report(state, chunk)])
            if chunk.is_empty:
                self._finish(state, chunk)
            if batch is not None and batch.num_rows:
                self._metrics.records_consumed += batch.num_rows
                return TakenColumns(batch, positions)
        return TakenColumns(None, positions)

    # -- chunks

    def _next_partition(self) -> PartitionFetch | None:
        """The partition whose chunk is next; one that was stopped or paused has lost its turn."""
        state = self._current
        while state is None or not state.is_alive or state.is_paused or not state.chunks:
            if not self._ready:
                self._current = None
                return None
            state = self._ready.popleft()
        self._current = state
        return state

    def _note_position(self, state: PartitionFetch, chunk: Chunk, positions: Positions) -> None:
        state.position = Position(chunk.offset, chunk.leader_epoch)
        positions[state.partition] = (state.term, state.position)

    def _finish(self, state: PartitionFetch, chunk: Chunk) -> None:
        state.chunks.popleft()
        state.taken_bytes += chunk.byte_count
        if chunk.is_last:
            # What a node said may be another thing next time: it is asked again, unless a seek comes first.
            state.has_failed = False
        self._metrics.bytes_consumed += chunk.byte_count
        self._current = None
        self._wants_more()

    def _report(self, state: PartitionFetch, chunk: Chunk) -> FetchFailure:
        assert chunk.failure_kind is not None
        position = state.position
        if chunk.failure_kind is FailureKind.DIVERGED:
            position = Position(chunk.offset, chunk.leader_epoch)
        if chunk.is_spoiled:
            # It is told again; but first it is the turn of the others, which a caller who goes on wants to read.
            self._ready.append(state)
            self._current = None
        else:
            self._finish(state, chunk)
        failure = FetchFailure(state.partition, state.term, chunk.failure_kind, position, chunk.error)
        if chunk.error is not None and getattr(chunk.error.__cause__, "is_retriable", False):
            # A deserializer that depends on others, such as a schema registry, may succeed with the next poll.
            chunk.heal()
        return failure


def _with_content(raw: Record, key: object, value: object) -> Record:
    return Record(
        raw.topic,
        raw.partition,
        raw.offset,
        key,
        value,
        raw.headers,
        raw.timestamp_ms,
        raw.timestamp_type,
        raw.leader_epoch,
    )
