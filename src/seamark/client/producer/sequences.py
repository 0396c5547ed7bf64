"""Idempotence: which identity and sequence each batch carries, and when the producer must start over (KIP-360).

Per partition the sequence counts records. A batch keeps its identity and sequence through all retries, so a broker that
has stored it already says so instead of storing it twice. When a batch fails for good, or the broker lost track of us,
the next sequence would leave a gap that the broker refuses: the epoch is raised by one and the partition's sequences
start at 0 again, for what waits too. That is done only when nothing of the partition is in flight, so no answer to the
old identity can be mistaken. Other partitions take the new epoch over when they have nothing unacknowledged.

A pure core, owned by whoever holds the producer's lock.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from seamark.client.producer.batches import ProducerBatch
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

LAST_EPOCH = 2**15 - 1
_SEQUENCES = 2**31
_NONE_YET = -1


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Decision(Enum):
    DELIVERED = "the batch is stored"
    RETRY = "send it again, unchanged or with a new epoch"
    NOT_OURS = "not about sequence numbers: handle the error code as usual"


class _Partition:
    __slots__ = ("identity", "last_acknowledged", "must_start_over", "next_sequence", "unacknowledged")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.last_acknowledged = _NONE_YET
        self.must_start_over = False
        # In order of sequence.
        self.unacknowledged: list[ProducerBatch] = []


class Sequences:
    def __init__(self) -> None:
        # None until a broker has given one, and again when the epochs are used up.
        self.identity: Identity | None = None
        self._partitions: dict[TopicPartition, _Partition] = {}

    @property
    def needs_identity(self) -> bool:
        return self.identity is None

    def identified(self, producer_id: int, epoch: int) -> None:
        self.identity = Identity(producer_id, epoch)

    def may_send(self, batch: ProducerBatch, in_flight: int, most_in_flight: int) -> bool:
        """Whether the first waiting batch of a partition may go now."""
        if self.identity is None:
            return False
        state = self._partitions.get(batch.partition)
        if state is None:
            return True
        if state.must_start_over:
            return in_flight == 0
        if batch.has_sequence:
            # A retry: only when all before it are through, and nothing behind it is under way.
            return in_flight == 0 and state.unacknowledged[:1] == [batch]
        if state.identity != self.identity and state.unacknowledged:
            return False
        if state.last_acknowledged == _NONE_YET:
            # A broker that knows nothing of us would take a later batch for the first.
            return in_flight == 0
        return in_flight < most_in_flight

    def assign(self, batch: ProducerBatch) -> None:
        """Give the batch its identity and sequence, right before it is sent."""
        assert self.identity is not None
        state = self._partitions.get(batch.partition)
        if state is None:
            state = self._partitions[batch.partition] = _Partition(self.identity)
        if state.must_start_over:
            self._start_over(state)
        elif state.identity != self.identity and not state.unacknowledged:
            self._begin(state, self.identity)
        if not batch.has_sequence:
            batch.set_sequence(state.identity, state.next_sequence)
            state.next_sequence = (state.next_sequence + batch.count) % _SEQUENCES
            state.unacknowledged.append(batch)

    def _start_over(self, state: _Partition) -> None:
        assert self.identity is not None
        if state.identity == self.identity:
            # Only this producer uses its id, so it may raise the epoch without asking.
            self.identity = Identity(self.identity.producer_id, self.identity.epoch + 1)
        self._begin(state, self.identity)

    @staticmethod
    def _begin(state: _Partition, identity: Identity) -> None:
        state.identity = identity
        state.must_start_over = False
        state.next_sequence = 0
        state.last_acknowledged = _NONE_YET
        for batch in state.unacknowledged:
            batch.set_sequence(identity, state.next_sequence)
            state.next_sequence = (state.next_sequence + batch.count) % _SEQUENCES

    def check_epochs(self) -> bool:
        """Whether a new id must be asked for first: a partition wants a higher epoch than there is."""
        if self.identity is None or self.identity.epoch < LAST_EPOCH:
            return False
        if any(state.must_start_over and state.identity == self.identity for state in self._partitions.values()):
            self.identity = None
            return True
        return False

    # -- what became of a batch

    def delivered(self, batch: ProducerBatch) -> None:
        state = self._partitions.get(batch.partition)
        if state is None or not batch.has_sequence:
            return
        if batch in state.unacknowledged:
            state.unacknowledged.remove(batch)
        if batch.identity == state.identity:
            state.last_acknowledged = (batch.base_sequence + batch.count - 1) % _SEQUENCES

    def failed(self, batch: ProducerBatch) -> None:
        """The batch will not be sent again: its sequences are missing from now on, if it had any."""
        state = self._partitions.get(batch.partition)
        if state is None or batch not in state.unacknowledged:
            return
        state.unacknowledged.remove(batch)
        state.must_start_over = True

    def replace(self, batch: ProducerBatch, halves: list[ProducerBatch]) -> None:
        state = self._partitions.get(batch.partition)
        if state is not None and batch in state.unacknowledged:
            place = state.unacknowledged.index(batch)
            state.unacknowledged[place : place + 1] = halves

    def judge(self, batch: ProducerBatch, code: ErrorCode) -> Decision:
        """What an answer with this code means for a batch that has a sequence."""
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return Decision.DELIVERED
        state = self._partitions.get(batch.partition)
        if state is None or not batch.has_sequence:
            return Decision.NOT_OURS
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if batch.identity == state.identity and state.unacknowledged[:1] == [batch]:
                # All before it are through, so the broker has lost track of them.
                state.must_start_over = True
            # Otherwise it overtook one that failed, and is sent again behind it.
            return Decision.RETRY
        if code is ErrorCode.UNKNOWN_PRODUCER_ID or (
            code is ErrorCode.INVALID_PRODUCER_EPOCH and self.identity is not None
        ):
            if batch.identity == state.identity:
                state.must_start_over = True
            return Decision.RETRY
        return Decision.NOT_OURS
