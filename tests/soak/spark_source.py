"""The Spark source's full counts: a driver killed 30 times at random moments, streaming into Parquet.

A topic grows while a driver streams it into Parquet, committing to a group. Again and again the driver and everything
it has started is killed with SIGKILL, at any moment from its first second on. After each kill the group's offsets are
compared with the checkpoint: they are never ahead of the last finished batch. At the end a last run reads the rest:
every record is in the output exactly once, and the group stands at the end of every log.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from seamark import Broker
from seamark.client import Admin, Producer
from tests.support.spark_session import spark_environment

KILLS = 30
TOPIC = "soak"
GROUP = "soak"
PARTITIONS = 3

DRIVER = """
import sys
from pathlib import Path
import seamark.spark
from tests.support.spark_session import local_session

bootstrap, directory, mode = sys.argv[1:4]
with local_session() as spark:
    commit_with = {"kafka.bootstrap.servers": bootstrap} if mode == "prompt" else None
    seamark.spark.register(spark, commit_with=commit_with)
    limit = {} if mode == "last" else {"maxOffsetsPerTrigger": "1000"}
    frame = spark.readStream.format("seamark").options(
        subscribe="soak", startingOffsets="earliest", groupId="soak", **{"kafka.bootstrap.servers": bootstrap}, **limit
    ).load()
    writer = frame.selectExpr("cast(value as string) value", "partition", "offset").writeStream.format("parquet")
    writer = writer.option("path", directory + "/out").option("checkpointLocation", directory + "/checkpoint")
    writer = writer.trigger(availableNow=True) if mode == "last" else writer
    query = writer.start()
    Path(directory, "started").write_text("")
    query.awaitTermination()
"""


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    kills = max(2, round(KILLS * scale))
    seed = int(os.environ.get("SEAMARK_SEED") or random.SystemRandom().randrange(2**32))
    chance = random.Random(seed)
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="seamark-soak-") as name, Broker() as broker:
        directory = Path(name)
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        with Writer(broker.bootstrap) as writer:
            for number in range(kills):
                failures += killed_driver(broker.bootstrap, directory, chance, number)
                failures += ahead_of_checkpoint(broker.bootstrap, directory)
        written = writer.count
        failures += last_run(broker.bootstrap, directory)
        rows, duplicates, missing = compare(directory, written)
        group = committed(broker.bootstrap)
        ends = log_ends(broker.bootstrap)
        batches = len(list((directory / "checkpoint" / "commits").glob("[0-9]*")))
    if group != ends:
        failures.append(f"the group is at {group}, the logs end at {ends}")
    if duplicates or missing:
        failures.append(f"{duplicates} records twice and {missing} not at all in the output")
    return {
        "ok": not failures and batches > 0,
        "kills": kills,
        "batches": batches,
        "records": written,
        "rows": rows,
        "seed": seed,
        "failures": failures[:10],
        "seconds": round(time.monotonic() - begin, 1),
    }


class Writer:
    """Appends records as long as it lives; ``count`` are acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.count = 0

    def _write(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            number = 0
            while not self._is_done.wait(0.1):
                for _ in range(30):
                    producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                    number += 1
                producer.flush(60)
                self.count = number

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()


def _driver(bootstrap: str, directory: Path, mode: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, bootstrap, str(directory), mode],
        env={**os.environ, **spark_environment()},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def killed_driver(bootstrap: str, directory: Path, chance: random.Random, number: int) -> list[str]:
    """Run a driver and kill it with all its processes at some moment after its query has started."""
    started = directory / "started"
    started.unlink(missing_ok=True)
    driver = _driver(bootstrap, directory, "prompt" if number % 2 else "plain")
    try:
        end = time.monotonic() + 180
        while not started.exists():
            if driver.poll() is not None:
                return [f"run {number} ended by itself with {driver.returncode}"]
            if time.monotonic() > end:
                return [f"run {number} did not start its query"]
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 12))
        return [] if driver.poll() is None else [f"run {number} ended by itself with {driver.returncode}"]
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def last_run(bootstrap: str, directory: Path) -> list[str]:
    """Read what is left."""
    driver = _driver(bootstrap, directory, "last")
    try:
        code = driver.wait(600)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        return ["the last run did not come to its end in ten minutes"]
    return [] if code == 0 else [f"the last run ended with {code}"]


def ahead_of_checkpoint(bootstrap: str, directory: Path) -> list[str]:
    """Where the group is ahead of the last finished batch."""
    commits = [int(file.name) for file in (directory / "checkpoint" / "commits").glob("[0-9]*") if file.name.isdigit()]
    durable: dict[str, int] = {}
    if commits:
        lines = (directory / "checkpoint" / "offsets" / str(max(commits))).read_text().splitlines()
        durable = json.loads(lines[2])["topics"][TOPIC]["next"]
    return [
        f"the group is at {offset} of partition {index}, the checkpoint at {durable.get(str(index), 0)}"
        for index, offset in committed(bootstrap).items()
        if offset > durable.get(str(index), 0)
    ]


def committed(bootstrap: str) -> dict[int, int]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_group_offsets([GROUP])
        return {each.partition: offset.offset for each, offset in sorted(found.get(GROUP, {}).items())}


def log_ends(bootstrap: str) -> dict[int, int]:
    from seamark.client import TopicPartition

    with Admin(bootstrap_servers=bootstrap) as admin:
        partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        found = admin.list_offsets(dict.fromkeys(partitions, "latest"))
        return {each.partition: found[each].offset for each in partitions}


def compare(directory: Path, written: int) -> tuple[int, int, int]:
    """Rows in the output as its own log of finished files has them; how many are there twice, or not at all."""
    import pyarrow.parquet as pq

    values: list[int] = []
    for file in finished_files(directory / "out"):
        values += [int(value) for value in pq.read_table(file, columns=["value"]).column("value").to_pylist()]
    return len(values), len(values) - len(set(values)), len(set(range(written)) - set(values))


def finished_files(out: Path) -> list[Path]:
    """Spark's file sink lists the files of finished batches; others were left by batches that were killed."""
    log = out / "_spark_metadata"
    files: list[Path] = []
    numbers = sorted((int(file.name.partition(".")[0]), file) for file in log.iterdir() if file.name[0].isdigit())
    compacted = [number for number, file in numbers if file.name.endswith(".compact")]
    first = max(compacted, default=-1)
    for number, file in numbers:
        if number < first or (number == first and not file.name.endswith(".compact")):
            continue
        files += [out / json.loads(line)["path"].rpartition("/")[2] for line in file.read_text().splitlines()[1:]]
    return files
