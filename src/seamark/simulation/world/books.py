"""What must be true of one offsets partition, kept beside the code under test and without any of it.

The books note every append that was decided and every batch that the log took, in order. ``written`` is the state of
the whole log; ``applied`` that of the part whose storage was acknowledged, which is what the coordinator must show.
After a crash the books are cut to what the disk had to keep or happened to keep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

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
    """What was written at once, for one or several appends: its place in the log and what became of it."""

    __slots__ = (
        "base",
        "first_count",
        "has_failed",
        "is_acknowledged",
        "is_stored",
        "next_offset",
        "records",
        "tickets",
    )

    def __init__(self, tickets: list[int], records: Sequence[Record], base: int, next_offset: int) -> None:
        self.tickets = tickets
        self.records = records
        self.base = base
        self.next_offset = next_offset
        # How many records the first of the appends has.
        self.first_count = len(records)
        # What the log said of it, and whether the coordinator was told that it is stored.
        self.is_stored = False
        self.has_failed = False
        self.is_acknowledged = False

    def __repr__(self) -> str:
        return f"<the appends {self.tickets} at offset {self.base}>"


class Decided(NamedTuple):
    """An append that the coordinator asked for and that is not written yet; ``asker`` is whose request it is for."""

    ticket: int
    records: Sequence[Record]
    asker: Any
    moment_ms: int


class Books:
    """The log of one partition as it should be."""

    __slots__ = (
        "acknowledged_end",
        "applied",
        "batches",
        "compacted_end",
        "decided",
        "durable_end",
        "first_ticket",
        "in_flight",
        "is_active",
        "least_end",
        "next_ticket",
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
        # While several appends are settled at once: what keys had in between, which replies to the earlier ones show.
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
        # Whether a coordinator serves the groups of the partition.
        self.is_active = False
        self.decided: deque[Decided] = deque()
        # The appends whose outcome the coordinator was not told, with their batch once they are written.
        self.in_flight: dict[int, Batch | None] = {}
        # Tickets before the first are of groups that were given up; nobody waits for their outcome.
        self.first_ticket = self.next_ticket = 0

    def begin_coordinator(self) -> None:
        """A coordinator begins whose tickets count anew."""
        self.give_up()
        self.first_ticket = self.next_ticket = 0

    def give_up(self) -> None:
        """The groups are given up: what was decided and not written counts no more."""
        self.is_active = False
        self.decided.clear()
        self.in_flight.clear()
        self.first_ticket = self.next_ticket

    def note_decided(self, ticket: int, records: Sequence[Record], asker: Any, moment_ms: int) -> None:
        self.decided.append(Decided(ticket, records, asker, moment_ms))
        self.in_flight[ticket] = None
        self.next_ticket = ticket + 1

    def take_decided(self, count: int) -> list[Decided]:
        """So many records are about to be written: they must be those of the next appends, each of them whole."""
        taken: list[Decided] = []
        left = count
        while left > 0 and self.decided:
            taken.append(self.decided.popleft())
            left -= len(taken[-1].records)
        if left or not taken:
            raise InvariantViolated(
                "what was decided is written, whole and in its order",
                f"partition {self.partition} is given {count} records, {taken} are to be written",
            )
        return taken

    def note_written(self, taken: list[Decided], base: int) -> Batch:
        records = [record for each in taken for record in each.records]
        batch = self.note_append([each.ticket for each in taken], records, base, base + len(records))
        batch.first_count = len(taken[0].records)
        for each in taken:
            if each.asker is not None:
                each.asker.batch = batch
            self.in_flight[each.ticket] = batch
        return batch

    def note_told_stored(self, tickets: list[int]) -> list[Batch]:
        """The coordinator is told that a batch is stored; return those that count from now on."""
        if tickets[-1] < self.first_ticket:
            return []
        batch = self.in_flight.get(tickets[0])
        if batch is None or batch.tickets != tickets or not batch.is_stored:
            raise self._untrue(f"gets the appends {tickets} as stored, and {batch or 'none of them'} is not")
        for ticket in tickets:
            del self.in_flight[ticket]
        return self.note_acknowledged(batch)

    def note_told_failed(self, ticket: int) -> list[Batch]:
        """The coordinator is told that an append failed; return the batches behind it that count from now on."""
        if ticket < self.first_ticket:
            return []
        if ticket not in self.in_flight:
            raise self._untrue(f"gets the append {ticket} as failed a second time")
        batch = self.in_flight.pop(ticket)
        if batch is None:
            self.decided = deque(each for each in self.decided if each.ticket != ticket)
            return []
        if not batch.has_failed:
            raise self._untrue(f"gets the append {ticket} as failed, and {batch} is in the log")
        if ticket == batch.tickets[-1] and batch in self.open:
            # Whether it is in the log is known when that was opened again.
            self.open.remove(batch)
            return self._settle_open()
        return []

    def _untrue(self, reason: str) -> InvariantViolated:
        return InvariantViolated(
            "an append's outcome is reported once and as it is", f"partition {self.partition} {reason}"
        )

    def note_append(self, tickets: list[int], records: Sequence[Record], base: int, next_offset: int) -> Batch:
        batch = Batch(tickets, records, base, next_offset)
        self.batches.append(batch)
        self.open.append(batch)
        for record in records:
            apply_record(self.written, record)
        return batch

    def note_acknowledged(self, batch: Batch) -> list[Batch]:
        """Return the batches that count from now on: an early acknowledgement waits for those before it."""
        batch.is_acknowledged = True
        return self._settle_open()

    def _settle_open(self) -> list[Batch]:
        settled: list[Batch] = []
        while self.open and self.open[0].is_acknowledged:
            first = self.open.popleft()
            for number, record in enumerate(first.records):
                if settled or number >= first.first_count:
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
            self.note_append([], uncertain, end, log_end)
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
