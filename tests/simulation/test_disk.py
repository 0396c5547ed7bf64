"""The simulated disk: a sound filesystem while nothing goes wrong, no kinder than its contract when it does."""

import random

import pytest

import tests.contracts.test_filesystem_contract as contract
from seamark.simulation.world.disk import Crashed, SimulatedDisk
from seamark.storage import DiskFull, StorageFailed

# The port's own suite, with this implementation in the place of the others.
globals().update({name: value for name, value in vars(contract).items() if name.startswith("test_")})
directory = contract.directory


@pytest.fixture
def filesystem():
    return SimulatedDisk(random.Random(1))


def a_disk(seed=1):
    disk = SimulatedDisk(random.Random(seed))
    disk.mkdir("d")
    return disk


def written(disk, name, *, synced, unsynced=b"", durable_name=True):
    file = disk.open(f"d/{name}", create=True)
    file.append(synced)
    file.sync()
    if durable_name:
        disk.sync_directory("d")
    file.append(unsynced)
    return file


def content(disk, name):
    file = disk.open(f"d/{name}")
    return file.read(0, file.size())


def outcomes(prepare, look, seeds=200):
    found = set()
    for seed in range(seeds):
        disk = a_disk(seed)
        prepare(disk)
        disk.lose_power()
        found.add(look(disk))
    return found


def test_a_kill_keeps_every_byte_and_name():
    disk = a_disk()
    written(disk, "a", synced=b"one", unsynced=b"two", durable_name=False)
    disk.kill()
    assert content(disk, "a") == b"onetwo"


def test_a_power_loss_keeps_synced_bytes_and_any_part_of_the_others():
    found = outcomes(lambda disk: written(disk, "a", synced=b"one", unsynced=b"two"), lambda disk: content(disk, "a"))
    assert all(each.startswith(b"one") and len(each) <= 6 for each in found)
    assert {b"one", b"onet", b"onetw", b"onetwo"} <= found
    assert any(len(each) == 6 and each != b"onetwo" for each in found), "a later page may survive an earlier one"


def test_a_name_without_a_directory_sync_may_go_and_a_synced_one_may_not():
    found = outcomes(
        lambda disk: (written(disk, "a", synced=b"1"), written(disk, "b", synced=b"2", durable_name=False)),
        lambda disk: tuple(disk.list("d")),
    )
    assert found == {("a",), ("a", "b")}


def test_a_rename_leaves_the_old_file_or_the_new_one():
    def prepare(disk):
        written(disk, "a", synced=b"old")
        written(disk, "b", synced=b"new")
        disk.rename("d/b", "d/a")

    assert outcomes(prepare, lambda disk: content(disk, "a")) == {b"old", b"new"}


def test_a_removal_that_was_not_synced_may_come_back():
    def prepare(disk):
        written(disk, "a", synced=b"1")
        disk.remove("d/a")

    assert outcomes(prepare, lambda disk: disk.exists("d/a")) == {True, False}


def test_a_truncation_that_was_not_synced_never_takes_more_than_it_cut():
    found = outcomes(lambda disk: written(disk, "a", synced=b"123456").truncate(4), lambda disk: content(disk, "a"))
    assert found == {b"1234", b"123456"}


def test_a_full_disk_takes_a_part_and_refuses():
    disk = a_disk()
    file = written(disk, "a", synced=b"")
    disk.arm(free_bytes=4)
    file.append(b"123")
    with pytest.raises(DiskFull):
        file.append(b"456")
    assert content(disk, "a") == b"1234"
    disk.arm(free_bytes=0)
    with pytest.raises(DiskFull):
        disk.open("d/new", create=True)
    disk.arm()
    file.append(b"7")


@pytest.mark.parametrize(
    ("chance", "operation"),
    [
        ("append_errors", lambda disk, file: file.append(b"1")),
        ("sync_errors", lambda disk, file: file.sync()),
        ("sync_errors", lambda disk, file: file.detached_sync()()),
        ("sync_errors", lambda disk, file: disk.sync_directory("d")),
        ("truncate_errors", lambda disk, file: file.truncate(0)),
    ],
)
def test_errors_come_where_they_are_wanted(chance, operation):
    disk = a_disk()
    file = written(disk, "a", synced=b"1")
    disk.arm(**{chance: 1.0})
    with pytest.raises(StorageFailed):
        operation(disk, file)
    assert disk.faults.injected == 1
    disk.arm()
    operation(disk, file)


def test_a_crash_comes_at_the_chosen_operation_and_nothing_works_until_the_process_is_gone():
    disk = a_disk()
    file = written(disk, "a", synced=b"")
    disk.arm(crash_countdown=2)
    file.append(b"1")
    file.sync()
    with pytest.raises(Crashed):
        file.append(b"23")
    with pytest.raises(Crashed):
        disk.remove("d/a")
    disk.kill()
    assert content(disk, "a") in (b"1", b"12", b"123")
    file.append(b"4")


def test_a_copy_has_a_life_of_its_own():
    disk = a_disk()
    file = written(disk, "a", synced=b"1", unsynced=b"2")
    copy = disk.copy()
    file.append(b"3")
    copy.lose_power()
    assert content(copy, "a") == b"12"
    assert content(disk, "a") == b"123"
