"""Programs that iterate over a consumer, killed with ``kill -9``: what they processed against what they committed.

A program is a process of its own: it reads one record at a time, writes it into a file of its own before it counts as
processed, and commits automatically or after each record, blocking or in asyncio. It is killed at a random moment and
started anew, many times. After each kill the group must not have committed anything that no file has, and at the end
every record is in a file.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from seamark import Broker
from seamark.client import Admin, Producer

TOPIC, PARTITIONS = "iterated", 2
WAYS = ("sync", "async")
STYLES = ("auto", "commit")
# How long a program may take to process what is left, once nobody kills it any more.
_SETTLE_S = 120.0
# A session that a killed member leaves behind is over soon.
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}

_PROGRAM = """
import asyncio, os, sys

from seamark.client import AsyncConsumer, Consumer

bootstrap, group, path, way, style = sys.argv[1:]
config = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    # The same identity each time: nobody waits for the end of the session of the one that was killed.
    "group.instance.id": "it",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": style == "auto",
    "auto.commit.interval.ms": 20,
    "max.poll.records": 7,
}
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def process(record):
    # One write: it is there whole, or not at all, whenever the process is killed.
    os.write(file, b"%d %d\\n" % (record.partition, record.offset))


def read():
    with Consumer(config) as consumer:
        consumer.subscribe(["iterated"])
        for record in consumer:
            process(record)
            if style == "commit":
                consumer.commit()


async def read_async():
    async with AsyncConsumer(config) as consumer:
        await consumer.subscribe(["iterated"])
        async for record in consumer:
            process(record)
            if style == "commit":
                await consumer.commit()


read() if way == "sync" else asyncio.run(read_async())
"""


def run(records: int, kills: int, seed: int) -> dict[str, object]:
    """Each way and each style: so many records of each partition, so many kills."""
    rng = random.Random(seed)
    failures: list[str] = []
    seen = {"processed": 0, "repeated": 0, "kills": 0}
    with Broker(settings=SETTINGS) as broker, TemporaryDirectory() as directory:
        broker.create_topic(TOPIC, PARTITIONS)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(records):
                for partition in range(PARTITIONS):
                    producer.send(TOPIC, b"%d" % number, partition=partition)
        for way in WAYS:
            for style in STYLES:
                group = f"{way}-{style}"
                path = Path(directory, group)
                failures += _lives(broker.bootstrap, group, path, way, style, records, kills, rng)
                processed = list(_processed(path))
                seen["processed"] += len(set(processed))
                seen["repeated"] += len(processed) - len(set(processed))
                seen["kills"] += kills
    return {"ok": not failures, **seen, "failures": failures}


def _lives(
    bootstrap: str, group: str, path: Path, way: str, style: str, records: int, kills: int, rng: random.Random
) -> list[str]:
    path.touch()
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(records)}
    step = max(1, len(everything) // (kills + 1))
    with Admin(bootstrap_servers=bootstrap) as admin:
        for number in range(kills + 1):
            is_last = number == kills
            # Not by the clock: a loaded machine would be killed before it has begun.
            wanted = len(everything) if is_last else step * number + rng.randrange(step)
            process = subprocess.Popen([sys.executable, "-c", _PROGRAM, bootstrap, group, str(path), way, style])
            try:
                if not _until(lambda wanted=wanted: len(set(_processed(path))) >= wanted):
                    return [f"{group}: {len(set(_processed(path)))} of {wanted} records within {_SETTLE_S:g} s"]
            finally:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            processed = set(_processed(path))
            for partition, offset in admin.list_group_offsets([group])[group].items():
                lost = [each for each in range(offset.offset) if (partition.partition, each) not in processed]
                if lost:
                    return [f"{group}: {partition} is committed to {offset.offset}, never processed: {lost[:10]}"]
    return []


def _until(is_so: object) -> bool:
    end = time.monotonic() + _SETTLE_S
    while not is_so():  # type: ignore[operator]
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _processed(path: Path) -> Iterator[tuple[int, int]]:
    for line in path.read_text().splitlines():
        partition, offset = line.split()
        yield int(partition), int(offset)
