"""A lock per consumer group among the queries that one user runs on one host with one temporary directory.

Every streaming query has its source in a process of its own, and the listener is in yet another. Each reads what the
group has before it commits; the lock keeps another process from committing in between. It is a file lock, so it ends
with its holder. Groups of the same name on different clusters share one: they wait for each other for milliseconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seamark.readable_log import readable_logger
from seamark.spark.errors import GroupLocked

log = readable_logger("seamark.spark")

_POLL_SECONDS = 0.005
_warned: set[str] = set()


@contextmanager
def group_lock(group: str, seconds: float) -> Iterator[None]:
    """Hold the lock of the group; GroupLocked if somebody else has it for so long.

    Where no lock file can be made, a warning says so once and nothing is locked: a commit matters more.
    """
    try:
        descriptor = os.open(_path(group), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        _warn_once(f"queries on this host that commit to one group cannot be coordinated: {error}")
        yield
        return
    try:
        _lock(descriptor, group, seconds)
        yield
    finally:
        # Closing it gives the lock back. The file stays: to delete it would leave two locks under one name.
        os.close(descriptor)


def _path(group: str) -> Path:
    directory = Path(tempfile.gettempdir()) / f"seamark-group-locks-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise PermissionError(f"{directory} belongs to another user")
    return directory / f"{hashlib.sha256(group.encode()).hexdigest()[:32]}.lock"


def _lock(descriptor: int, group: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise GroupLocked(
                    f"another query of this host has been committing to group {group!r} for {seconds:g} s; "
                    "give each query its own groupId"
                ) from None
            time.sleep(_POLL_SECONDS)
        else:
            return


def _warn_once(what: str) -> None:
    if what not in _warned:
        _warned.add(what)
        log.warning("%s", what)
