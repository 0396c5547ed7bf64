"""The lock that keeps commits of several processes to one group apart."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading

import pytest

from seamark.spark.errors import GroupLocked
from seamark.spark.read import group_lock as module
from seamark.spark.read.group_lock import group_lock

HOLD = """
import sys
from seamark.spark.read.group_lock import group_lock
with group_lock(sys.argv[1], 30):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_another_process_has_to_wait_and_gets_the_lock_when_its_holder_dies():
    holder = subprocess.Popen([sys.executable, "-c", HOLD, "g"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(GroupLocked, match="another query of this host has been committing to group 'g' for 0 s"):
            group_lock("g", 0).__enter__()
        with group_lock("other", 0):
            pass
    finally:
        holder.kill()
        holder.communicate()

    with group_lock("g", 30):
        pass


def test_threads_of_one_process_are_kept_apart_too():
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        for _ in range(50):
            with group_lock("g", 60):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1


def test_without_a_place_for_lock_files_commits_go_on_and_a_warning_says_so_once(directory, caplog, monkeypatch):
    monkeypatch.setattr(module, "_warned", set())
    (directory / f"seamark-group-locks-{os.getuid()}").write_text("in the way")
    with caplog.at_level(logging.WARNING, "seamark.spark"):
        for _ in range(2):
            with group_lock("g", 0):
                pass

    (record,) = caplog.records
    assert "queries on this host that commit to one group cannot be coordinated" in record.getMessage()
