"""Random lives of a log beside a naive model: a list of all records that were ever appended."""

from __future__ import annotations

import random
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.storage import Log, LogSettings, MemoryFilesystem, OpenFiles
from seamark.wire.records import Codec, Record, encode_batch
from tests.unit.storage.crashing_disk import CrashingDisk, PowerLost
from tests.unit.storage.log_readers import read_all

# F4, F7, F15, F32

DIRECTORY = "data/topic-0"


class Life:
    """A log and what it must hold."""

    def __init__(self, seed: int, disk) -> None:
        self.rng = random.Random(seed)
        self.disk = disk
        self.settings = LogSettings(
            segment_bytes=self.rng.choice([200, 600, 3000]),
            segment_ms=self.rng.choice([50, 10_000]),
            index_interval_bytes=self.rng.choice([0, 1, 200, 4096]),
            retention_ms=-1,
            delete_retention_ms=self.rng.choice([0, 100]),
        )
        self.open_files = OpenFiles(self.rng.choice([None, 1, 2, 3]))
        self.now_ms = 1000
        self.written: dict[int, Record] = {}
        self.was_compacted = False
        self.log = self.opened()
        self.log_start = 0
        self.log_end = 0
        self.durable_end = 0
        # The largest start that was ever asked for: an answer may be lost with a crash, its effect must not be undone.
        self.log_start_asked = 0

    def opened(self) -> Log:
        return Log.open(self.disk, DIRECTORY, self.settings, now_ms=self.now_ms, open_files=self.open_files)

    def step(self) -> None:
        self.now_ms += self.rng.randrange(20)
        action = self.rng.choices(
            [
                *("append", "sync", "sync_apart", "lose_files", "roll", "compact", "retain"),
                *("delete_records", "reopen", "abort_compaction"),
            ],
            [12, 2, 2, 3, 2, 2, 1, 1, 1, 1],
        )[0]
        getattr(self, action)()

    def lose_files(self) -> None:
        self.open_files.shrink_to(self.rng.randrange(2))
        if self.open_files.most is not None:
            assert len(self.open_files) <= self.open_files.most

    def sync_apart(self) -> None:
        """A sync on another thread: the log goes on between its beginning and its end."""
        pending = self.log.begin_sync()
        if pending is None:
            return
        for _ in range(self.rng.randrange(4)):
            getattr(self, self.rng.choice(["append", "lose_files", "roll", "retain", "sync", "compact"]))()
        pending.run()
        self.log.finish_sync(pending)
        self.durable_end = max(self.durable_end, pending.end_offset)
        assert self.log.durable_end >= self.durable_end

    def append(self) -> None:
        batches = b""
        added: list[Record] = []
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            count = self.rng.choice([1, 1, 2, 5])
            records = []
            for number in range(count):
                key = self.rng.choice([None, b"a", b"b", b"c", b"d" * 70])
                value = self.rng.choice([None, b"", self.rng.randbytes(self.rng.randrange(90))])
                records.append(Record(number, self.now_ms + self.rng.randrange(-5, 30), key=key, value=value))
            codec = self.rng.choice([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP])
            batches += encode_batch(records, codec=codec)
            for record in records:
                kept = Record(self.log_end + len(added), record.timestamp_ms, 0, record.key, record.value)
                added.append(kept)
        # Noted before the call: a crash inside it may leave all, some or none.
        self.written = {offset: record for offset, record in self.written.items() if offset < self.log_end}
        self.written.update({record.offset: record for record in added})
        self.log_end_possible = self.log_end + len(added)
        result = self.log.append(batches, self.now_ms, leader_epoch=3)
        assert result == (self.log_end, self.log_end + len(added) - 1, -1)
        self.log_end = self.log_end_possible

    def sync(self) -> None:
        self.log.sync()
        assert self.log.durable_end == self.log_end
        self.durable_end = self.log_end

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def compact(self) -> None:
        self.was_compacted = True
        # Compaction syncs first, so a crash in it may have made everything durable or not.
        self.log.compact(self.now_ms)
        self.durable_end = self.log_end

    def abort_compaction(self) -> None:
        self.was_compacted = True
        steps = self.log.compaction_steps(self.now_ms)
        with closing(steps):
            for _ in range(self.rng.randrange(6)):
                if next(steps, "end") == "end":
                    break
                if self.rng.random() < 0.5:
                    self.append()

    def retain(self) -> None:
        self.log.settings = LogSettings(
            **{name: getattr(self.settings, name) for name in self.settings.__slots__} | {"retention_bytes": 2000}
        )
        self.log_start_asked = self.log_end
        self.log.retain(self.now_ms)
        self.log.settings = self.settings
        self.log_start = self.log.log_start

    def delete_records(self) -> None:
        offset = self.rng.randint(self.log_start, self.log_end)
        self.log_start_asked = max(self.log_start_asked, offset)
        self.log.delete_records_before(offset)
        self.log_start = offset

    def reopen(self) -> None:
        self.log.close()
        self.durable_end = self.log_end
        self.log = self.opened()

    def crash(self) -> None:
        self.disk = self.disk.after_crash()
        self.log = self.opened()
        # A start that was stored outlives the records it stands behind.
        smallest = max(self.durable_end, self.log_start)
        largest = max(self.log_end, getattr(self, "log_end_possible", 0), self.log_start_asked)
        assert smallest <= self.log.log_end <= largest, (smallest, self.log.log_end, largest)
        # The start moves by itself only where nothing durable lies behind it: the records there were lost, not skipped.
        asked = max(self.log_start, self.log_start_asked)
        assert self.log_start <= self.log.log_start
        assert self.log.log_start <= asked or self.durable_end <= asked
        self.log_start = self.log.log_start
        self.log_end = self.durable_end = self.log.log_end
        self.written = {offset: record for offset, record in self.written.items() if offset < self.log_end}

    def check(self) -> None:
        log = self.log
        assert (log.log_start, log.log_end) == (self.log_start, self.log_end)
        assert self.durable_end <= log.durable_end <= log.log_end
        found = read_all(log, max_bytes=self.rng.choice([1, 300, 1 << 20]))
        expected = [
            record for offset, record in sorted(self.written.items()) if self.log_start <= offset < self.log_end
        ]
        if not self.was_compacted:
            assert found == expected
        self.check_records(found)
        if found:
            middle = self.rng.randint(self.log_start, self.log_end)
            assert read_all(log, from_offset=middle) == [record for record in found if record.offset >= middle]
        self.check_times(found)

    def check_records(self, found: list[Record]) -> None:
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            assert record == self.written[record.offset], "a record that was not written"
        # Where a key's last record is above the start, its value is what the log says too.
        last = {}
        for offset in sorted(self.written):
            last[self.written[offset].key] = self.written[offset]
        replayed = {record.key: record.value for record in found}
        for key, record in last.items():
            if key is not None and record.offset >= self.log_start:
                if record.value is None:
                    assert replayed.get(key) is None
                else:
                    assert replayed[key] == record.value

    def check_times(self, found: list[Record]) -> None:
        timestamp_ms = self.now_ms - self.rng.randrange(200)
        later = [(record.offset, record.timestamp_ms) for record in found if record.timestamp_ms >= timestamp_ms]
        assert self.log.offset_for_timestamp(timestamp_ms) == (later[0] if later else None)
        largest = max((record.timestamp_ms for record in found), default=None)
        at = [(record.offset, record.timestamp_ms) for record in found if record.timestamp_ms == largest]
        assert self.log.max_timestamp() == (at[0] if at else None)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_log_is_its_model(seed):
    life = Life(seed, MemoryFilesystem())
    for _ in range(60):
        life.step()
        life.check()


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_crash_at_any_change_keeps_what_was_synced_and_invents_nothing(seed):
    rng = random.Random(seed)
    life = Life(seed, CrashingDisk(random.Random(seed + 1)))
    for _ in range(4):
        life.disk.crash_at = life.disk.changes + rng.randrange(1, 60)
        for _ in range(40):
            try:
                life.step()
            except PowerLost:
                break
            life.check()
        life.disk.crash_at = None
        life.crash()
        life.check()


@pytest.mark.parametrize("seed", range(30))
def test_a_crash_during_recovery_is_recovered_from(seed):
    rng = random.Random(seed)
    life = Life(seed, CrashingDisk(random.Random(seed + 1)))
    for _ in range(60):
        life.step()
    for _ in range(5):
        life.disk = life.disk.after_crash()
        life.disk.crash_at = life.disk.changes + rng.randrange(1, 12)
        try:
            Log.open(life.disk, DIRECTORY, life.settings, now_ms=life.now_ms)
        except PowerLost:
            continue
    life.disk.crash_at = None
    life.crash()
    life.check()
    life.append()
    life.check()
