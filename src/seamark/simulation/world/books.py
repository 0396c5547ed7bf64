"""What must be true of one offsets partition, kept beside the code under test and without any of it.

The books note every batch that the log took, in order. ``written`` is the state of the whole log; ``applied`` that of
the part whose storage was acknowledged, which is what the coordinator must show. After a crash the books are cut to
what the disk had to keep or happened to keep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from seamark.coordinator.storing.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    Record,
    RecordKey,
    record_key,
)
from seamark.simulation.world.violations import InvariantViolated

StoredState = dict[RecordKey, Record]


def apply_record(state: StoredState, record: Record) -> None:
    """Last value per key; a tombstone takes the key away, and no record touches another key."""
    kind = type(record)
    if kind is OffsetCommitted:
        state[(record.group_id, record.topic, record.partition)] = record  # type: ignore[union-attr]
    elif kind is GroupStored:
        state[(record.group_id,)] = record
    elif kind is GroupRemoved:
        state.pop((record.group_id,), None)
    else:
        state.pop((record.group_id, record.topic, record.partition), None)  # type: ignore[union-attr]


class Batch:
    """One append: its place in the log and whether its storage was acknowledged."""

    __slots__ = ("base", "is_acknowledged", "next_offset", "records", "ticket")

    def __init__(self, ticket: int, records: Sequence[Record], base: int, next_offset: int) -> None:
        self.ticket = ticket
        self.records = records
        self.base = base
        self.next_offset = next_offset
        self.is_acknowledged = False


class Books:
    """The log of one partition as it should be."""

    __slots__ = (
        "acknowledged_end",
        "applied",
        "batches",
        "compacted_end",
        "durable_end",
        "least_end",
        "open",
        "partition",
        "superseded",
        "uncertain",
        "written",
    )

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.batches: list[Batch] = []
        self.open: deque[Batch] = deque()
        self.written: StoredState = {}
        self.applied: StoredState = {}
        # While several batches are settled at once: what keys had in between, which replies to the earlier ones show.
        self.superseded: dict[RecordKey, list[Record | None]] = {}
        # Replies may have left for everything below.
        self.acknowledged_end = 0
        # Up to where the log was last seen to survive compaction; -1 after a crash.
        self.compacted_end = -1
        # What was synced when that was last known.
        self.durable_end = 0
        # What the next opening of the log has to find.
        self.least_end = 0
        # An append that failed and could not be undone: the next opening may find it or not.
        self.uncertain: Sequence[Record] | None = None

    def note_append(self, ticket: int, records: Sequence[Record], base: int, next_offset: int) -> Batch:
        batch = Batch(ticket, records, base, next_offset)
        self.batches.append(batch)
        self.open.append(batch)
        for record in records:
            apply_record(self.written, record)
        return batch

    def note_acknowledged(self, batch: Batch) -> list[Batch]:
        """Return the batches that count from now on: an early acknowledgement waits for those before it."""
        batch.is_acknowledged = True
        settled: list[Batch] = []
        while self.open and self.open[0].is_acknowledged:
            first = self.open.popleft()
            for record in first.records:
                if settled:
                    key = record_key(record)
                    self.superseded.setdefault(key, []).append(self.applied.get(key))
                apply_record(self.applied, record)
            self.acknowledged_end = first.next_offset
            settled.append(first)
        return settled

    def values(self, key: RecordKey) -> list[Record | None]:
        """What the key is applied with, and what it was a moment ago if that still shows."""
        now = self.applied.get(key)
        return [now, *self.superseded[key]] if key in self.superseded else [now]

    def note_unloaded(self) -> None:
        """What was open is in the log, and counts when the partition is loaded again."""
        self.open.clear()
        self.applied = dict(self.written)

    def expect(self, durable_end: int | None, *, is_power_loss: bool, is_synced_before_replies: bool) -> None:
        """The process ends: note what the next opening has to find. Without a log there is no new durable end."""
        if durable_end is not None:
            self.durable_end = durable_end
            self.least_end = self.acknowledged_end
        if is_power_loss and not is_synced_before_replies:
            self.least_end = min(self.least_end, self.durable_end)

    def settle_opening(self, log_end: int) -> bool:
        """The log was opened and ends at ``log_end``; return whether anything acknowledged is missing.

        A batch survives whole or not at all, and nothing is found that was not written.
        """
        if log_end < self.least_end:
            raise InvariantViolated(
                "stored records survive a crash",
                f"partition {self.partition} ends at {log_end} after its opening, {self.least_end} was promised",
            )
        uncertain, self.uncertain = self.uncertain, None
        end = self.batches[-1].next_offset if self.batches else 0
        if uncertain is not None and log_end == end + len(uncertain):
            self.note_append(-1, uncertain, end, log_end)
        elif log_end < end:
            while self.batches and self.batches[-1].next_offset > log_end:
                self.batches.pop()
            self.written = {}
            for batch in self.batches:
                for record in batch.records:
                    apply_record(self.written, record)
        end = self.batches[-1].next_offset if self.batches else 0
        if end != log_end:
            raise InvariantViolated(
                "recovery cuts between batches",
                f"partition {self.partition} ends at {log_end}, its last batch at {end}",
            )
        is_loss = log_end < self.acknowledged_end
        self.acknowledged_end = min(self.acknowledged_end, log_end)
        self.least_end = self.acknowledged_end
        self.durable_end = log_end
        self.note_unloaded()
        return is_loss
