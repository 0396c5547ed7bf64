"""The operating system's answers, translated: short writes and reads go on, errors become ours."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from seamark.storage import DiskFull, MissingFile, RealFilesystem, StorageFailed, TooManyOpenFiles

# F28: what an append failure is made of


@pytest.fixture
def file(tmp_path):
    file = RealFilesystem().open(f"{tmp_path}/a", create=True)
    yield file
    file.close()


def failing(code: int):
    def fail(*_arguments):
        raise OSError(code, os.strerror(code))

    return fail


def test_a_write_that_was_cut_short_goes_on(file, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:3]))
    file.append(b"0123456789")
    assert file.read(0, 100) == b"0123456789"


def test_a_disk_that_takes_no_more_is_not_tried_for_ever(file, monkeypatch):
    monkeypatch.setattr(os, "write", lambda _descriptor, _content: 0)
    with pytest.raises(StorageFailed):
        file.append(b"0123456789")


def test_a_read_that_was_cut_short_goes_on(file, monkeypatch):
    file.append(b"0123456789")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, length, position: pread(descriptor, min(length, 3), position))
    assert file.read(1, 8) == b"12345678"
    assert file.read(5, 100) == b"56789"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_is_a_full_disk(file, monkeypatch, code):
    monkeypatch.setattr(os, "write", failing(code))
    with pytest.raises(DiskFull) as caught:
        file.append(b"x")
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("call", "use"),
    [
        ("write", lambda file: file.append(b"x")),
        ("pread", lambda file: file.read(0, 1)),
        ("ftruncate", lambda file: file.truncate(0)),
    ],
)
def test_other_failures_name_the_file(file, tmp_path, monkeypatch, call, use):
    monkeypatch.setattr(os, call, failing(errno.EIO))
    with pytest.raises(StorageFailed) as caught:
        use(file)
    assert not isinstance(caught.value, DiskFull | MissingFile)
    assert caught.value.file == f"{tmp_path}/a"


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS syncs by another call")
def test_syncs_reach_the_disk_and_their_failures_the_caller(file, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    inode = (tmp_path / "a").stat().st_ino
    file.sync()
    detached = file.detached_sync()
    detached()
    RealFilesystem().sync_directory(str(tmp_path))
    assert synced == [inode, inode, tmp_path.stat().st_ino]
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    for sync in (file.sync, file.detached_sync(), lambda: RealFilesystem().sync_directory(str(tmp_path))):
        with pytest.raises(StorageFailed):
            sync()


def test_a_new_directory_is_durable_up_to_the_first_that_was_there(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    RealFilesystem().mkdir(f"{tmp_path}/a/b")
    assert synced == [tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino]


def test_a_file_in_the_way_of_a_directory_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageFailed):
        RealFilesystem().mkdir(f"{tmp_path}/a")
    with pytest.raises(StorageFailed):
        RealFilesystem().list(f"{tmp_path}/a")


def test_descriptors_are_given_back(tmp_path):
    filesystem = RealFilesystem()
    lowest = os.dup(0)
    os.close(lowest)
    for _ in range(50):
        file = filesystem.open(f"{tmp_path}/a", create=True)
        file.detached_sync()()
        file.close()
        filesystem.sync_directory(str(tmp_path))
    again = os.dup(0)
    os.close(again)
    assert again == lowest


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_told_from_a_failing_disk(tmp_path, monkeypatch, code):
    monkeypatch.setattr(os, "open", failing(code))
    with pytest.raises(TooManyOpenFiles):
        RealFilesystem().open(f"{tmp_path}/a", create=True)
    with pytest.raises(TooManyOpenFiles):
        RealFilesystem().sync_directory(str(tmp_path))


def test_a_sync_needs_no_descriptor_of_its_own(file, monkeypatch):
    for call in ("dup", "open"):
        monkeypatch.setattr(os, call, failing(errno.EMFILE))
    file.append(b"x")
    file.detached_sync()()


def test_a_sync_that_runs_keeps_the_descriptor_of_a_closed_file(tmp_path):
    filesystem = RealFilesystem()
    file = filesystem.open(f"{tmp_path}/a", create=True)
    sync = file.detached_sync()
    file.close()
    # Opened meanwhile: without the share in the handle it would have the number that the sync is about to use.
    other = filesystem.open(f"{tmp_path}/b", create=True)
    inode = (tmp_path / "a").stat().st_ino
    assert os.fstat(sync.__closure__[0].cell_contents.descriptor).st_ino == inode
    sync()
    other.close()
