"""What idempotent producers wrote to a partition: enough to tell a repeated batch from a new one and from a gap.

Per producer id: its epoch and its last five batches, as Kafka keeps. ``check`` decides before the append and ``note``
remembers after it; the state is a function of the batch headers in the log, so replaying them gives it back.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from seamark.broker.refusals import RefusedByLog
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.record_batch import INT32_MAX

BATCHES_REMEMBERED = 5
_NO_EPOCH = -1


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
    """All producers of one partition."""

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
                ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} is in epoch {known_epoch}, not in {epoch}"
            )
        if state is None:
            # As Kafka: a producer nobody remembers may go on with any sequence; its records may have been deleted.
            return None
        if epoch > known_epoch:
            if first_sequence != 0 and known_epoch != _NO_EPOCH:
                raise _out_of_order(producer_id, epoch, first_sequence, "a new epoch begins with 0")
            return None
        last_sequence = _advanced(first_sequence, count - 1)
        for batch in state.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        if state.batches:
            expected = _advanced(state.batches[-1].last_sequence, 1)
            if first_sequence != expected:
                raise _out_of_order(producer_id, epoch, first_sequence, f"{expected} was expected")
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
        f"producer {producer_id} sent the sequence {sequence} in epoch {epoch}: {why}",
    )
