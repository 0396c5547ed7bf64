"""Reading whole logs for the checks: what a log replays to, and what it replays to once compacted.

The compaction runs on a copy of the disk, so the log under test goes on as it was. Decoded records are remembered by
their bytes, since the same ones come by at every check.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.coordinator.storing.records import Record
from seamark.coordinator.storing.stored import from_bytes
from seamark.simulation.world.books import StoredState, apply_record
from seamark.simulation.world.disk import SimulatedDisk
from seamark.storage import Log
from seamark.wire.records import Record as LogRecord
from seamark.wire.records import read_records
from seamark.wire.records.record_batch import read_outline

_READ_BYTES = 1 << 20


class LogReader:
    def __init__(self) -> None:
        self._decoded: dict[tuple[bytes | None, bytes | None], Record | None] = {}

    def read(self, log: Log) -> list[LogRecord]:
        """All records of the log, oldest first."""
        records: list[LogRecord] = []
        offset = log.log_start
        while offset < log.log_end:
            content = log.read(offset, _READ_BYTES)
            if not content:
                break
            found = read_records(content)
            # What a batch held at its end may have been compacted away, so its header says where to go on.
            records += [record for record in found if record.offset >= offset]
            offset = _next_offset(content)
        return records

    def state_of(self, records: Iterable[LogRecord]) -> StoredState:
        state: StoredState = {}
        decoded = self._decoded
        for entry in records:
            place = (entry.key, entry.value)
            if place not in decoded:
                decoded[place] = from_bytes(entry.key, entry.value)
            record = decoded[place]
            if record is not None:
                apply_record(state, record)
        return state

    def state_after_compaction(self, log: Log, disk: SimulatedDisk) -> StoredState | None:
        """What the log replays to after it was closed, opened, rolled and compacted; None for an empty one."""
        if log.log_end == log.log_start:
            return None
        copy = Log.open(disk.copy(), log.directory, log.settings, now_ms=0)
        copy.roll(0)
        copy.compact(0)
        return self.state_of(self.read(copy))


def _next_offset(content: bytes) -> int:
    position = 0
    while True:
        outline = read_outline(content, position)
        position += outline.size_bytes
        if position >= len(content):
            return outline.next_offset
