"""What the batches of a log say about who wrote them: its leaders by epoch, and its idempotent producers.

Both are functions of the batch headers in the log, so ``replay_headers`` gives them back when a log is opened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from seamark.broker.refusals import RefusedByLog
from seamark.errors import DecodeError
from seamark.readable_log import readable_logger
from seamark.storage.errors import LogError
from seamark.storage.log import Log
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.record_batch import HEADER, HEADER_BYTES, INT32_MAX, LENGTH_OVERHEAD

_log = readable_logger("seamark.broker")

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
BATCHES_REMEMBERED = 5
_NO_EPOCH = -1
_CHUNK_BYTES = 4 << 20


class LeaderEpochs:
    """Which leader wrote which offsets: one entry per leader epoch with the offset it began at.

    Epochs and offsets both go up. An epoch under which nothing was written gives way to the next one that begins at the
    same offset. A client that asks where an epoch ends learns from the answer whether what it read is still there.

    >>> epochs = LeaderEpochs()
    >>> epochs.begin(0, 0); epochs.begin(2, 10)
    >>> epochs.end_of(0, log_end=25), epochs.end_of(1, log_end=25), epochs.end_of(2, log_end=25), epochs.end_of(3, 25)
    ((0, 10), (0, 10), (2, 25), (-1, -1))
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Epoch and first offset of each, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def begin(self, epoch: int, start: int) -> None:
        """Note that from ``start`` on batches are written under ``epoch``; one that is known already changes
        nothing.
        """
        if self._epochs and epoch <= self._epochs[-1]:
            return
        while self._starts and self._starts[-1] >= start:
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch under which the record at ``offset`` was written."""
        number = bisect_right(self._starts, offset) - 1
        return self._epochs[number] if number >= 0 else UNDEFINED_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the largest epoch up to ``epoch`` and the offset behind its last record."""
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        if above == 0:
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def forget_before(self, log_start: int) -> None:
        """The log begins at ``log_start`` now: the epoch that holds it begins there too."""
        number = bisect_right(self._starts, log_start) - 1
        if number > 0:
            del self._epochs[:number]
            del self._starts[:number]
        if self._starts and self._starts[0] < log_start:
            self._starts[0] = log_start


class WrittenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerState:
    """The state of one producer id."""

    __slots__ = ("batches", "epoch", "last_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.last_ms = -1


class ProducerStates:
    """What idempotent producers wrote to a partition: enough to tell a repeated batch from a new one and from a gap.

    Per producer id: its epoch and its last five batches, as Kafka keeps. ``check`` decides before the append and
    ``note`` remembers after it.
    """

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def items(self) -> list[tuple[int, ProducerState]]:
        return list(self._states.items())

    def check(self, producer_id: int, epoch: int, first_sequence: int, count: int) -> WrittenBatch | None:
        """Return the batch as it was written before, or None for one that may be appended; RefusedByLog otherwise."""
        state = self._states.get(producer_id)
        known_epoch = _NO_EPOCH if state is None else state.epoch
        if epoch < known_epoch:
            raise RefusedByLog(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {known_epoch}, got the older epoch {epoch}",
            )
        if state is None:
            # As Kafka: a producer nobody remembers may go on with any sequence; its records may have been deleted.
            return None
        if epoch > known_epoch:
            if first_sequence != 0 and known_epoch != _NO_EPOCH:
                raise _out_of_order(producer_id, epoch, first_sequence, "a new epoch must begin with sequence 0")
            return None
        last_sequence = _advanced(first_sequence, count - 1)
        for batch in state.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        if state.batches:
            expected = _advanced(state.batches[-1].last_sequence, 1)
            if first_sequence != expected:
                raise _out_of_order(producer_id, epoch, first_sequence, f"expected {expected}")
        return None

    def note(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        first_offset: int,
        last_offset: int,
        ms: int,
    ) -> None:
        """Remember a batch that was appended, or that the log held when it was opened."""
        state = self._states.get(producer_id)
        if state is None or epoch > state.epoch:
            state = self._states[producer_id] = ProducerState(epoch)
        last_sequence = _advanced(first_sequence, count - 1)
        state.batches.append(WrittenBatch(first_sequence, last_sequence, first_offset, last_offset, ms))
        state.last_ms = max(state.last_ms, ms)

    def expire(self, before_ms: int) -> None:
        """Forget producers that have written nothing since."""
        self._states = {key: state for key, state in self._states.items() if state.last_ms >= before_ms}

    def restore(self, producer_id: int, state: ProducerState) -> None:
        self._states[producer_id] = state


def _advanced(sequence: int, by: int) -> int:
    """Sequences wrap behind the largest int32 to 0."""
    return sequence + by if sequence <= INT32_MAX - by else by - (INT32_MAX - sequence) - 1


def _out_of_order(producer_id: int, epoch: int, sequence: int, why: str) -> RefusedByLog:
    return RefusedByLog(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer_id} sent sequence {sequence} in epoch {epoch}: {why}",
    )


def replay_headers(log: Log, producers: ProducerStates, epochs: LeaderEpochs) -> None:
    """Fill ``producers`` and ``epochs`` from the batches of a log that was just opened.

    Only headers are looked at: no record is decoded. The log was checked by its opening, so a batch that cannot be read
    here is damage that the next read reports; the walk ends there.
    """
    offset = log.log_start
    try:
        while offset < log.log_end:
            content = log.read(offset, _CHUNK_BYTES)
            if len(content) < HEADER_BYTES:
                return
            position = 0
            while position < len(content):
                header = HEADER.unpack_from(content, position)
                base, length, epoch, _, _, _, delta, _, max_ms, producer_id, producer_epoch, sequence, _ = header
                epochs.begin(epoch, base)
                if producer_id >= 0 and sequence >= 0:
                    producers.note(producer_id, producer_epoch, sequence, delta + 1, base, base + delta, max_ms)
                offset = base + delta + 1
                position += length + LENGTH_OVERHEAD
    except (LogError, DecodeError) as error:
        _log.warning(
            "%s: producers and leader epochs are known only up to offset %d (%s)", log.directory, offset, error
        )
