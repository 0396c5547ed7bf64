"""One suite for every implementation of the filesystem port."""

from __future__ import annotations

import pytest

from seamark.storage import MemoryFilesystem, MissingFile, RealFilesystem, StorageFailed
from tests.unit.storage.crashing_disk import CrashingDisk

# F4, F32: what the log of offsets stands on


@pytest.fixture(params=["memory", "real", "crashing"])
def filesystem(request):
    return {"memory": MemoryFilesystem, "real": RealFilesystem, "crashing": CrashingDisk}[request.param]()


@pytest.fixture
def directory(filesystem, tmp_path):
    path = f"{tmp_path}/logs/topic-0"
    filesystem.mkdir(path)
    return path


def write(filesystem, path, content):
    file = filesystem.open(path, create=True)
    file.append(content)
    file.close()


def content_of(filesystem, path):
    file = filesystem.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def test_a_new_directory_is_there_and_empty(filesystem, directory):
    assert filesystem.exists(directory)
    assert filesystem.list(directory) == []


def test_making_a_directory_twice_is_fine(filesystem, directory):
    write(filesystem, f"{directory}/a", b"1")
    filesystem.mkdir(directory)
    assert filesystem.list(directory) == ["a"]


def test_a_directory_lists_its_files_and_directories_in_order(filesystem, directory):
    for name in ("b", "a", "c"):
        write(filesystem, f"{directory}/{name}", b"")
    filesystem.mkdir(f"{directory}/d/e")
    assert filesystem.list(directory) == ["a", "b", "c", "d"]


def test_listing_a_directory_that_is_not_there_is_refused(filesystem, directory):
    with pytest.raises(MissingFile):
        filesystem.list(f"{directory}/nothing")


def test_appends_follow_each_other_whoever_makes_them(filesystem, directory):
    first = filesystem.open(f"{directory}/a", create=True)
    second = filesystem.open(f"{directory}/a")
    first.append(b"one")
    second.append(memoryview(b"two"))
    first.append(bytearray(b"three"))
    assert second.size() == 11
    assert second.read(0, 100) == b"onetwothree"
    first.close()
    second.close()


def test_a_read_ends_where_the_file_does(filesystem, directory):
    file = filesystem.open(f"{directory}/a", create=True)
    file.append(b"0123456789")
    assert file.read(3, 4) == b"3456"
    assert file.read(8, 4) == b"89"
    assert file.read(10, 4) == b""
    assert file.read(50, 4) == b""
    assert file.read(2, 0) == b""
    assert isinstance(file.read(0, 2), bytes)
    file.close()


def test_what_was_read_does_not_change_with_the_file(filesystem, directory):
    file = filesystem.open(f"{directory}/a", create=True)
    file.append(b"before")
    seen = file.read(0, 6)
    file.truncate(0)
    file.append(b"behind")
    assert seen == b"before"
    file.close()


def test_truncation_cuts_and_the_next_append_goes_on_there(filesystem, directory):
    file = filesystem.open(f"{directory}/a", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size() == 4
    file.append(b"x")
    assert file.read(0, 10) == b"0123x"
    assert filesystem.size(f"{directory}/a") == 5
    file.close()


def test_opening_a_file_that_is_not_there_is_refused(filesystem, directory):
    with pytest.raises(MissingFile) as caught:
        filesystem.open(f"{directory}/nothing")
    assert caught.value.file == f"{directory}/nothing"
    assert not filesystem.exists(f"{directory}/nothing")


def test_creating_a_file_in_a_directory_that_is_not_there_is_refused(filesystem, directory):
    with pytest.raises(MissingFile):
        filesystem.open(f"{directory}/nothing/a", create=True)


def test_opening_with_create_keeps_what_is_there(filesystem, directory):
    write(filesystem, f"{directory}/a", b"kept")
    filesystem.open(f"{directory}/a", create=True).close()
    assert content_of(filesystem, f"{directory}/a") == b"kept"


def test_a_rename_takes_the_place_of_another_file(filesystem, directory):
    write(filesystem, f"{directory}/a", b"new")
    write(filesystem, f"{directory}/b", b"old")
    filesystem.rename(f"{directory}/a", f"{directory}/b")
    assert filesystem.list(directory) == ["b"]
    assert content_of(filesystem, f"{directory}/b") == b"new"


def test_renaming_what_is_not_there_is_refused(filesystem, directory):
    write(filesystem, f"{directory}/b", b"old")
    with pytest.raises(MissingFile):
        filesystem.rename(f"{directory}/a", f"{directory}/b")
    assert content_of(filesystem, f"{directory}/b") == b"old"


def test_an_open_file_survives_the_loss_of_its_name(filesystem, directory):
    write(filesystem, f"{directory}/a", b"first")
    write(filesystem, f"{directory}/b", b"second")
    removed = filesystem.open(f"{directory}/a")
    replaced = filesystem.open(f"{directory}/b")
    filesystem.remove(f"{directory}/a")
    write(filesystem, f"{directory}/c", b"third")
    filesystem.rename(f"{directory}/c", f"{directory}/b")
    assert removed.read(0, 10) == b"first"
    assert replaced.read(0, 10) == b"second"
    assert not filesystem.exists(f"{directory}/a")
    removed.close()
    replaced.close()


def test_removing_what_is_not_there_is_refused(filesystem, directory):
    with pytest.raises(MissingFile):
        filesystem.remove(f"{directory}/nothing")


def test_sizes_are_those_of_the_bytes(filesystem, directory):
    write(filesystem, f"{directory}/a", b"12345")
    assert filesystem.size(f"{directory}/a") == 5
    with pytest.raises(MissingFile):
        filesystem.size(f"{directory}/nothing")


def test_a_directory_with_files_is_not_removed(filesystem, directory):
    write(filesystem, f"{directory}/a", b"1")
    with pytest.raises(StorageFailed):
        filesystem.remove_directory(directory)
    filesystem.remove(f"{directory}/a")
    filesystem.remove_directory(directory)
    assert not filesystem.exists(directory)


def test_syncs_answer_and_change_nothing_to_be_seen(filesystem, directory):
    file = filesystem.open(f"{directory}/a", create=True)
    file.append(b"kept")
    file.sync()
    filesystem.sync_directory(directory)
    assert file.read(0, 10) == b"kept"
    file.close()
    with pytest.raises(MissingFile):
        filesystem.sync_directory(f"{directory}/nothing")


def test_a_detached_sync_runs_after_its_file_was_closed(filesystem, directory):
    file = filesystem.open(f"{directory}/a", create=True)
    file.append(b"kept")
    sync = file.detached_sync()
    file.close()
    filesystem.remove(f"{directory}/a")
    assert sync() is None


def test_a_closed_file_does_nothing_more(filesystem, directory):
    file = filesystem.open(f"{directory}/a", create=True)
    file.close()
    file.close()
    for call in (lambda: file.append(b"x"), lambda: file.read(0, 1), lambda: file.truncate(0), file.size, file.sync):
        with pytest.raises(StorageFailed):
            call()
    assert filesystem.size(f"{directory}/a") == 0


def test_a_directory_lists_the_directories_in_it_until_they_are_removed(filesystem, directory):
    filesystem.mkdir(f"{directory}/inner/innermost")
    filesystem.mkdir(f"{directory}/other")
    write(filesystem, f"{directory}/file", b"")
    assert filesystem.list(directory) == ["file", "inner", "other"]
    with pytest.raises(StorageFailed):
        filesystem.remove_directory(f"{directory}/inner")
    filesystem.remove_directory(f"{directory}/inner/innermost")
    filesystem.remove_directory(f"{directory}/inner")
    assert filesystem.list(directory) == ["file", "other"]
    filesystem.mkdir(f"{directory}/inner")
    assert filesystem.list(f"{directory}/inner") == []
    assert filesystem.list(directory) == ["file", "inner", "other"]


def test_memory_looks_at_one_directory_to_list_it(monkeypatch):
    class Directories(dict):
        def __iter__(self):
            raise AssertionError("all directories are looked at")

    filesystem = MemoryFilesystem()
    monkeypatch.setattr(filesystem, "_directories", Directories())
    filesystem.mkdir("logs/t-0")
    assert filesystem.list("logs") == ["t-0"]
