"""Loss of power with ``durability=commit``: the whole broker runs on a simulated disk that forgets what was not synced.

At a random moment in the middle of a sync the disk is copied as it is, and of the copy everything that was not synced
is lost, torn or kept as chance wants it. A second broker takes that up. What the first one had acknowledged before the
copy must be there.
"""

from __future__ import annotations

import copy
import logging
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from seamark import Broker
from seamark.simulation.world.disk import SimulatedDisk
from tests.soak.broker_parts.acknowledged import Ledger, Load


class WatchedDisk(SimulatedDisk):
    """Tells of each sync that the broker's own thread for it is about to make."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.on_sync: Callable[[], None] | None = None

    def watch(self, on_sync: Callable[[], None] | None) -> None:
        self.on_sync = on_sync
        self.is_faulty = on_sync is not None

    def before_sync(self, path: str) -> None:
        super().before_sync(path)
        on_sync = self.on_sync
        if on_sync is not None and threading.current_thread().name.startswith("seamark-sync"):
            time.sleep(0.001)
            on_sync()


@contextmanager
def quiet_storage() -> Iterator[None]:
    """Each torn tail is told in the log; here there are thousands."""
    logger = logging.getLogger("seamark.storage")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


@contextmanager
def broker_on(disk: SimulatedDisk, place: str, durability: str) -> Iterator[Broker]:
    """A broker whose logs and state lie on that disk; ``place`` is only where its lock is."""
    with (
        patch("seamark.broker.log.storage.RealFilesystem", lambda: disk),
        Broker(data=place, durability=durability, settings={"log.segment.bytes": 1 << 20}) as broker,
    ):
        yield broker


class Moment:
    """The disk in the middle of a sync, and what had been acknowledged by then."""

    def __init__(self, broker: Broker, disk: WatchedDisk, ledger: Ledger, after_seconds: float) -> None:
        self._broker = broker
        self._disk = disk
        self._ledger = ledger
        self._due = time.monotonic() + after_seconds
        self._has_come = threading.Event()
        self.promised = ledger
        self.disk = SimulatedDisk(random.Random(0))
        disk.watch(self._look)

    def _look(self) -> None:
        """Called by the thread that syncs, which waits here: nothing becomes durable meanwhile."""
        if time.monotonic() >= self._due and not self._has_come.is_set():
            promised = self._ledger.copy()
            # On the broker's own thread, so that no write is under way.
            self.disk = self._broker._call(self._copy)
            # What was sent until then may have reached the disk, answered or not.
            promised.commits_sent = dict(self._ledger.commits_sent)
            self.promised = promised
            self._has_come.set()

    def _copy(self) -> SimulatedDisk:
        twin = copy.copy(self._disk)
        twin.watch(None)
        return copy.deepcopy(twin)

    def wait(self) -> None:
        assert self._has_come.wait(30), "nothing was synced"
        self._disk.watch(None)


def run(losses: int, seed: int = 0, durability: str = "commit") -> dict[str, object]:
    rng = random.Random(seed)
    lost: list[str] = []
    refused: list[str] = []
    commits = records = torn = 0
    for number in range(losses):
        with tempfile.TemporaryDirectory(prefix="seamark-power-") as place:
            disk, ledger = WatchedDisk(rng), Ledger()
            with broker_on(disk, f"{place}/a", durability) as broker, Load(ledger, broker.bootstrap, 0) as load:
                moment = Moment(broker, disk, ledger, rng.uniform(0.1, 0.6))
                moment.wait()
            refused += load.refusals
            left, promised = moment.disk, moment.promised
            torn += has_unsynced(left)
            left.lose_power()
            with quiet_storage(), broker_on(left, f"{place}/a", durability) as survivor:
                lost += [f"loss {number}: {what}" for what in promised.check(survivor.bootstrap, whole=True)]
            commits += promised.commits
            records += promised.records
        if lost:
            break
    return {
        "ok": not lost and not refused and commits > losses and records > losses,
        "power_losses": number + 1,
        "with_unsynced_bytes": torn,
        "commits": commits,
        "records": records,
        "lost": lost[:10],
        "refused": refused[:10],
    }


def has_unsynced(disk: SimulatedDisk) -> bool:
    """Whether the loss has anything to take."""
    return any(
        directory.changes or any(node.content != node.synced for node in directory.names.values())
        for directory in disk._directories.values()
    )
