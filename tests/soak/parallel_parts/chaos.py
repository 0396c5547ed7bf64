"""Parallel consumers against Apache Kafka while everything goes wrong: members are killed, stopped and added,
partitions are added, the broker is restarted and killed.

Numbered records are written all the while. In the end every one must have been processed, and within a partition the
first runs of a key's records must have been in their order. Repeats are what at-least-once allows; they are counted.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from seamark.client import Admin, Consumer, Producer
from seamark.client.admin.types import NewTopic
from tests.soak.parallel_parts.chaos_member import ENTRY
from tests.support.apache_kafka import ApacheKafka

TOPIC = "orders"
GROUP = "chaos"
PARTITIONS = 6
KEYS = 10_000
MOST_MEMBERS = 4
SETTLE_SECONDS = 240.0


class Writer:
    """Writes ``count`` numbered records, spread evenly over ``seconds``; one that cannot be written fails the run."""

    def __init__(self, bootstrap: str, count: int, seconds: float) -> None:
        self._bootstrap, self._count, self._seconds = bootstrap, count, seconds
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def _run(self) -> None:
        begin = time.monotonic()
        config = {
            "bootstrap.servers": self._bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "delivery.timeout.ms": 180_000,
            "max.block.ms": 180_000,
        }
        try:
            with Producer(config) as producer:
                deliveries = []
                for number in range(self._count):
                    key = b"%d" % (number * 7 % KEYS)
                    deliveries.append(producer.send(TOPIC, number.to_bytes(4, "big"), key=key))
                    if number % 200 == 0:
                        wanted = begin + self._seconds * number / self._count
                        time.sleep(max(0.0, wanted - time.monotonic()))
                producer.flush(240)
                for delivery in deliveries:
                    delivery.result(1)
        except Exception as error:  # noqa: BLE001 - reported with the result
            self.failure = f"{type(error).__name__}: {error}"

    def wait(self) -> None:
        self._thread.join()


class Members:
    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap, self._directory = bootstrap, directory
        self._made = 0
        self.running: list[subprocess.Popen[str]] = []
        self.ended_by_themselves: list[str] = []

    def add(self) -> None:
        self._made += 1
        file = self._directory / f"member-{self._made}"
        command = [sys.executable, "-m", "tests.soak.parallel_parts.chaos_member"]
        process = subprocess.Popen(
            [*command, self._bootstrap, GROUP, TOPIC, str(file)],
            stderr=(self._directory / f"errors-{self._made}").open("w"),
            text=True,
        )
        self.running.append(process)

    def end(self, process: subprocess.Popen[str], how: signal.Signals) -> None:
        self.running.remove(process)
        process.send_signal(how)
        process.wait(60)

    def replace_ended(self) -> None:
        for process in [each for each in self.running if each.poll() is not None]:
            self.running.remove(process)
            self.ended_by_themselves.append(self.final_report())
            self.add()

    def final_report(self) -> str:
        newest = max(self._directory.glob("errors-*"), key=lambda path: path.stat().st_mtime)
        return newest.read_text(errors="replace")[-600:]

    def entries(self) -> Iterable[tuple[int, int, int]]:
        for path in sorted(self._directory.glob("member-*")):
            content = path.read_bytes()
            yield from ENTRY.iter_unpack(content[: len(content) - len(content) % ENTRY.size])


def run(seconds: float, records: int, seed: int = 1) -> dict[str, object]:
    rng = random.Random(seed)
    happened: dict[str, int] = {}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, ApacheKafka() as kafka:
        with Admin(bootstrap_servers=kafka.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).raise_if_failed()
        members = Members(kafka.bootstrap, Path(directory))
        try:
            for _ in range(2):
                members.add()
            begin = time.monotonic()
            writer = Writer(kafka.bootstrap, records, seconds * 0.9)
            partitions = PARTITIONS
            while time.monotonic() - begin < seconds:
                time.sleep(min(seconds / 25, 4 + rng.random() * 16))
                members.replace_ended()
                kind = rng.choice(("kill", "kill", "kill", "stop", "add", "add", "partitions", "restart", "crash"))
                if kind in ("restart", "crash") and happened.get(kind, 0) >= 2:
                    kind = "kill"
                if kind == "partitions" and partitions >= PARTITIONS + 3:
                    kind = "stop"
                if kind == "add" and len(members.running) >= MOST_MEMBERS:
                    kind = "kill"
                happened[kind] = happened.get(kind, 0) + 1
                if kind in ("kill", "stop"):
                    how = signal.SIGKILL if kind == "kill" else signal.SIGTERM
                    members.end(rng.choice(members.running), how)
                    if len(members.running) < 2 or rng.random() < 0.5:
                        members.add()
                elif kind == "add":
                    members.add()
                elif kind == "partitions":
                    partitions += 1
                    with Admin(bootstrap_servers=kafka.bootstrap) as admin:
                        admin.create_partitions({TOPIC: partitions}).raise_if_failed()
                elif kind == "restart":
                    kafka.restart()
                else:
                    kafka.kill()
                    kafka.start()
            writer.wait()
            left = _wait_for_the_rest(kafka.bootstrap, members, partitions)
            members.replace_ended()
            for process in list(members.running):
                members.end(process, signal.SIGTERM)
            result = _judge(members.entries(), records)
        finally:
            for process in members.running:
                process.kill()
                process.wait()
    return {
        "ok": result["missing"] == 0
        and result["out_of_order"] == 0
        and writer.failure is None
        and left == 0
        and not members.ended_by_themselves,
        "records": records,
        **result,
        "left_uncommitted": left,
        "writer": writer.failure,
        "ended_by_themselves": members.ended_by_themselves,
        "happened": happened,
        "seconds": round(time.monotonic() - begin, 1),
    }


def _wait_for_the_rest(bootstrap: str, members: Members, partitions: int) -> int:
    """How many offsets are still not committed when nothing more happens; 0 is the end."""
    from seamark.topic_partition import TopicPartition

    names = [TopicPartition(TOPIC, number) for number in range(partitions)]
    deadline = time.monotonic() + SETTLE_SECONDS
    with Consumer(bootstrap_servers=bootstrap, group_id=GROUP) as consumer:
        while True:
            members.replace_ended()
            ends, committed = consumer.end_offsets(names), consumer.committed(names)
            left = sum(ends[name] - (found.offset if (found := committed[name]) is not None else 0) for name in names)
            if left <= 0 or time.monotonic() > deadline:
                return max(left, 0)
            time.sleep(1.0)


def _judge(entries: Iterable[tuple[int, int, int]], records: int) -> dict[str, int]:
    first: dict[int, tuple[int, int]] = {}
    runs = 0
    for number, partition, moment in entries:
        runs += 1
        if number not in first or moment < first[number][0]:
            first[number] = moment, partition
    latest: dict[tuple[int, int], int] = {}
    out_of_order = 0
    for number in sorted(first):
        moment, partition = first[number]
        lane = number * 7 % KEYS, partition
        if latest.get(lane, 0) > moment:
            out_of_order += 1
        latest[lane] = max(latest.get(lane, 0), moment)
    return {
        "processed": len(first),
        "missing": records - len(first),
        "repeats": runs - len(first),
        "out_of_order": out_of_order,
    }
