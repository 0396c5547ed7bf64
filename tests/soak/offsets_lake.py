"""The offsets lake's full counts: the job killed 30 times at random moments, as a batch and as a stream.

Groups commit while a driver fills a lake. Again and again the driver and everything it has started is killed with
SIGKILL, at any moment from the call of the job on. After each kill the lake opens, and every file that its version
names is whole. At the end a last run adds the rest: the tables hold what an uninterrupted run into an empty lake holds,
order aside, and no file is left that no version names.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from pathlib import Path

from seamark import Broker
from seamark.client import Admin, Offset, TopicPartition
from seamark.errors import SeamarkError
from seamark.spark.lake.fill import job
from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.schemas import STATE_TABLES, TABLES
from tests.support.lake_driver import LakeDriver, contents
from tests.support.spark_session import local_session

KILLS = 30
TOPIC = "soak"
GROUPS = 40


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    kills = max(2, round(KILLS * scale))
    seed = int(os.environ.get("SEAMARK_SEED") or random.SystemRandom().randrange(2**32))
    chance = random.Random(seed)
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="seamark-soak-") as name, Broker() as broker:
        lake = Path(name) / "lake"
        broker.create_topic(TOPIC, partitions=4)
        with Committer(broker.bootstrap) as committer:
            for number in range(kills):
                failures += killed_driver(broker.bootstrap, lake, chance, number)
                failures += unsound(lake)
        versions = Lake.open(lake).version
        with local_session() as spark:
            config = {"bootstrap.servers": broker.bootstrap}
            # As many versions as are kept, and more: then nothing is there for the sake of a reader of an older one.
            for _ in range(8):
                job.run(spark, lake, config=config)
            left = leftovers(lake)
            job.run(spark, Path(name) / "whole", config=config)
            found, whole = contents(spark, lake), contents(spark, Path(name) / "whole")
    if left:
        failures.append(f"{left} files are left that no version names")
    rows = {table: len(told) for table, told in found.items()}
    for table in found:
        if found[table] != whole[table]:
            failures.append(f"{table}: {len(found[table])} rows, an uninterrupted run has {len(whole[table])}")
    return {
        "ok": not failures and rows["commits"] == committer.count,
        "kills": kills,
        "versions": versions,
        "rows": rows,
        "commits_made": committer.count,
        "seed": seed,
        "failures": failures[:10],
        "seconds": round(time.monotonic() - begin, 1),
    }


class Committer:
    """Commits for many groups as long as it lives; ``count`` are acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._commit)
        self.count = 0

    def _commit(self) -> None:
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            while not self._is_done.wait(0.02):
                place = {TopicPartition(TOPIC, self.count % 4): Offset(self.count)}
                admin.alter_group_offsets(f"group-{self.count % GROUPS}", place, look_first=False).raise_if_failed()
                self.count += 1

    def __enter__(self) -> Committer:
        self._thread.start()
        while not self.count and self._thread.is_alive():
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()


def killed_driver(bootstrap: str, lake: Path, chance: random.Random, number: int) -> list[str]:
    """Let a driver fill the lake and kill it with all its processes at some moment of a run."""
    driver = LakeDriver(bootstrap, lake)
    try:
        driver.wait_ready()
        # A worker's first task is slow; a kill in a later run meets the other moments.
        for _ in range(number % 3):
            driver.run()
            driver.wait_done()
        driver.run("stream" if number % 4 == 3 else "batch")
        time.sleep(chance.uniform(0, 8 if number % 3 == 0 or number % 4 == 3 else 1.5))
    except (AssertionError, OSError) as error:
        return [f"run {number}: {error}"]
    finally:
        driver.kill()
    return []


def leftovers(path: Path) -> int:
    """How many files of the two tables that only grow are not in the lake."""
    lake = Lake.open(path)
    named = {file for table in ("commits", "generations") for file in lake.files(table)}
    return len({file for table in ("commits", "generations") for file in (path / table).rglob("*.parquet")} - named)


def unsound(path: Path) -> list[str]:
    """What is wrong with the lake as it was left."""
    if not (path / "lake.json").exists():
        return []
    try:
        lake = Lake.open(path)
        for table in (*TABLES, *STATE_TABLES):
            lake.files(table)
    except SeamarkError as error:
        return [str(error)]
    return []
