from __future__ import annotations

import pytest

from seamark.storage import Log, LogSettings, MemoryFilesystem
from tests.unit.storage.crashing_disk import CrashingDisk

DIRECTORY = "data/topic-0"


@pytest.fixture
def disk():
    return CrashingDisk()


@pytest.fixture
def memory():
    return MemoryFilesystem()


@pytest.fixture
def open_log(disk):
    """Open the log of this test, with settings by name."""

    def open_on(filesystem=disk, *, now_ms: int = 1000, **settings) -> Log:
        return Log.open(filesystem, DIRECTORY, LogSettings(**{"retention_ms": -1} | settings), now_ms=now_ms)

    return open_on
