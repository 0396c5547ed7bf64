"""Logs that may keep only a few files open: the others are opened when they are needed, and nothing is lost by it."""

from __future__ import annotations

import pytest

from seamark.storage import Log, LogSettings, MissingFile, OpenFiles, StorageFailed, TooManyOpenFiles
from tests.unit.storage.crashing_disk import CrashingDisk, CrashingFile
from tests.unit.storage.log_readers import batch, read_all

SETTINGS = LogSettings(retention_ms=-1)
TINY = LogSettings(segment_bytes=1, retention_ms=-1)


class CountedFile(CrashingFile):
    def close(self) -> None:
        self._disk.is_open.discard(self)
        super().close()


class CountingDisk(CrashingDisk):
    """Knows how many files are open, and has a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open: set[CountedFile] = set()
        self.limit: int | None = None
        self.most_open = 0
        self.opened: list[str] = []

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> CountedFile:
        if self.limit is not None and len(self.is_open) >= self.limit:
            raise TooManyOpenFiles(path, None, "too many open files")
        plain = super().open(path, create=create, read_only=read_only)
        file = CountedFile(self, path, plain._node)
        self.is_open.add(file)
        self.most_open = max(self.most_open, len(self.is_open))
        self.opened.append(path)
        return file


@pytest.fixture
def disk():
    return CountingDisk()


def opened(disk, name, open_files, settings=SETTINGS):
    return Log.open(disk, f"data/{name}", settings, now_ms=1, open_files=open_files)


def append(log, value):
    log.append(batch((None, value)), now_ms=1, leader_epoch=0)


def values(log):
    return [record.value for record in read_all(log)]


def test_many_logs_are_written_read_and_closed_with_few_files(disk):
    open_files = OpenFiles(3)
    logs = [opened(disk, f"t-{number}", open_files) for number in range(20)]
    for turn in (b"a", b"b"):
        for log in logs:
            append(log, turn)
        assert [values(log) for log in logs] == [[b"a", b"b"][: 1 + (turn == b"b")]] * 20
    for log in logs:
        log.sync()
        assert log.durable_end == 2
    for log in logs:
        log.close()
    assert disk.most_open <= 3 + 1, "one more for what is opened and closed at once"
    assert not disk.is_open
    open_files = OpenFiles(3)
    found = [opened(disk, f"t-{number}", open_files) for number in range(20)]
    assert [values(log) for log in found] == [[b"a", b"b"]] * 20
    assert disk.most_open <= 3 + 1


def test_segments_that_wait_for_their_sync_hold_no_more_files_than_others(disk):
    log = opened(disk, "t-0", OpenFiles(2), TINY)
    for number in range(30):
        append(log, b"%d" % number)
    assert len(log.segments) == 30
    assert disk.most_open <= 2 + 1
    log.sync()
    survivor = Log.open(disk.after_crash(), "data/t-0", TINY, now_ms=1)
    assert values(survivor) == [b"%d" % number for number in range(30)]


def test_a_log_in_use_keeps_its_file_and_idle_ones_give_theirs_up(disk):
    open_files = OpenFiles(3)
    busy = opened(disk, "busy-0", open_files)
    idle = [opened(disk, f"idle-{number}", open_files) for number in range(10)]
    append(busy, b"0")
    disk.opened.clear()
    for log in idle:
        append(log, b"x")
        append(busy, b"y")
    assert not [path for path in disk.opened if "busy" in path]
    assert len(open_files) == 3


def test_what_was_written_before_a_file_was_given_up_is_durable_after_the_sync(disk):
    open_files = OpenFiles(2)
    log = opened(disk, "t-0", open_files)
    append(log, b"a")
    open_files.shrink_to(0)
    pending = log.begin_sync()
    append(log, b"b")
    open_files.shrink_to(0)
    assert not disk.is_open
    pending.run()
    log.finish_sync(pending)
    assert log.durable_end == 1
    log.sync()
    assert log.durable_end == 2
    assert values(Log.open(disk.after_crash(), "data/t-0", SETTINGS, now_ms=1)) == [b"a", b"b"]


def test_a_sync_that_fails_on_a_file_that_was_given_up_stops_writes(disk):
    open_files = OpenFiles(2)
    log = opened(disk, "t-0", open_files)
    append(log, b"a")
    open_files.shrink_to(0)
    disk.failing.add("sync")
    with pytest.raises(StorageFailed):
        log.sync()
    assert "a sync failed" in log.writes_stopped
    assert log.durable_end == 0


def test_a_process_out_of_descriptors_closes_what_it_does_not_need_at_the_moment(disk):
    open_files = OpenFiles(10)
    logs = [opened(disk, f"t-{number}", open_files) for number in range(4)]
    disk.limit = 4
    open_files.shrink_to(3)
    strangers = [disk.open("data/t-0/format", read_only=True)]
    for log in logs * 2:
        append(log, b"a")
    for log in logs:
        log.sync()
    assert [values(log) for log in logs] == [[b"a", b"a"]] * 4
    assert strangers


def test_an_append_whose_file_cannot_be_opened_is_refused_and_the_next_one_works(disk):
    open_files = OpenFiles(2)
    log = opened(disk, "t-0", open_files)
    append(log, b"a")
    open_files.shrink_to(0)
    disk.limit = 0
    with pytest.raises(TooManyOpenFiles):
        append(log, b"b")
    assert log.writes_stopped is None
    disk.limit = None
    append(log, b"c")
    assert values(log) == [b"a", b"c"]


@pytest.mark.parametrize("content", [b"", b"x" * 500])
def test_a_file_that_somebody_else_changed_while_it_was_closed_is_not_written_to(disk, content):
    open_files = OpenFiles(2)
    log = opened(disk, "t-0", open_files)
    append(log, b"a")
    open_files.shrink_to(0)
    stranger = disk.open(log.segments[-1].path)
    stranger.truncate(0)
    stranger.append(content)
    with pytest.raises(StorageFailed, match=f"it has {len(content)} bytes"):
        append(log, b"b")
    assert "could not be opened again" in log.writes_stopped
    assert stranger.size() == len(content)


def test_segments_that_retention_removes_under_a_sync_do_not_fail_it(disk):
    open_files = OpenFiles(2)
    keep_little = LogSettings(segment_bytes=1, retention_bytes=1, retention_ms=-1)
    log = opened(disk, "t-0", open_files, keep_little)
    for number in range(6):
        append(log, b"%d" % number)
    open_files.shrink_to(0)
    pending = log.begin_sync()
    assert log.retain(1) > 3
    pending.run()
    log.finish_sync(pending)
    assert log.durable_end == 6


def test_a_file_that_is_gone_before_its_sync_fails_the_sync(disk):
    open_files = OpenFiles(2)
    log = opened(disk, "t-0", open_files)
    append(log, b"a")
    open_files.shrink_to(0)
    disk.remove(log.segments[-1].path)
    with pytest.raises(MissingFile):
        log.sync()
    assert log.writes_stopped


def test_a_sync_in_place_makes_the_names_durable_that_an_earlier_one_is_still_busy_with(disk):
    log = opened(disk, "t-0", OpenFiles(2), TINY)
    append(log, b"a")
    append(log, b"b")
    assert log.begin_sync() is not None
    log.sync()
    assert log.durable_end == 2
    for seed in range(20):
        disk.rng.seed(seed)
        assert values(Log.open(disk.after_crash(), "data/t-0", TINY, now_ms=1)) == [b"a", b"b"]
