"""Handlers in processes that raise and die, back to back in one list, while other processes are killed from outside.

Each record runs once and then goes to the dead-letter topic if it failed. In the end what was committed as done is
compared with what handlers noted: no failure may have been counted as done, and every record must be accounted for.
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import threading
import time
from pathlib import Path

from seamark import Broker
from seamark.client import Admin, Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.parallel import Commit, ConsumerStopped, DeadLetter, Order, ParallelConsumer, Retry
from seamark.parallel.observe.status import State
from tests.soak.parallel_parts.process_handler import BAD, FINE, LATE, handle

TOPIC, LETTERS, GROUP = "jobs", "jobs.dead-letters", "processes"
PARTITIONS = 2
# A death costs the start of a process.
SECONDS_PER_RECORD = 0.5


def drawn(count: int, rng: random.Random) -> list[str]:
    """What each record makes its handler do: mostly its work, and now and then some bad things in a row."""
    found: list[str] = []
    while len(found) < count:
        found += [FINE] * int(rng.random() ** 2 * 60)
        found += rng.choices([*BAD, LATE], [6, 1, 2, 1, 1], k=1 + int(rng.random() * 5))
    return found[:count]


class Killer:
    """Kills a handler process now and then, whatever it is doing; but not one that is only just starting."""

    def __init__(self, rng: random.Random, notes: Path) -> None:
        self._rng, self._notes = rng, notes
        self._is_over = threading.Event()
        self.killed = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(self._rng.random() * 2.0):
            at_work = {process for _, process in _entries(self._notes)}
            children = [child for child in multiprocessing.active_children() if child.pid in at_work]
            if children:
                self._rng.choice(children).kill()
                self.killed += 1

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()


def run(records: int, seed: int = 0) -> dict[str, object]:
    begin = time.monotonic()
    rng = random.Random(seed)
    wanted = drawn(records, rng)
    reason = None
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker, tempfile.TemporaryDirectory() as directory:
        notes = Path(directory) / "notes"
        notes.touch()
        _write(broker.bootstrap, wanted, notes)
        config = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
        consumer = ParallelConsumer(
            config,
            [TOPIC],
            handle,
            run_in="processes",
            concurrency=2,
            order=Order.NONE,
            retry=Retry(attempts=1),
            then=DeadLetter(max_ratio=None),
            commit=Commit(interval=0.2),
        )
        consumer.start()
        killer = Killer(rng, notes)
        try:
            left = _wait_for_the_rest(consumer, broker.bootstrap, 60.0 + records * SECONDS_PER_RECORD)
        finally:
            killer.end()
            consumer.stop()
        try:
            consumer.wait()
        except ConsumerStopped as stopped:
            reason = stopped.reason
        tally = consumer.status().tally
        noted = {number for number, _ in _entries(notes)}
        letters = _dead_letters(broker.bootstrap, tally["dead_lettered"])
    bad = {number for number, what in enumerate(wanted) if what in BAD}
    taken_for_done = bad - letters
    lost = set(range(records)) - noted - letters
    return {
        "ok": not (taken_for_done or lost or left or reason) and tally["done"] == records - len(letters),
        "records": records,
        "bad": len(bad),
        "dead_lettered": len(letters),
        "failures_taken_for_done": len(taken_for_done),
        "lost": len(lost),
        "left_uncommitted": left,
        "done": tally["done"],
        "killed_from_outside": killer.killed,
        "stopped": reason,
        "seconds": round(time.monotonic() - begin, 1),
    }


def _write(bootstrap: str, wanted: list[str], notes: Path) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS), NewTopic(LETTERS, 1)]).raise_if_failed()
    headers = [("notes", str(notes).encode())]
    with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        sent = [
            producer.send(TOPIC, f"{number} {what}".encode(), partition=number % PARTITIONS, headers=headers)
            for number, what in enumerate(wanted)
        ]
        for delivery in sent:
            delivery.result(30)


def _entries(notes: Path) -> list[tuple[int, int]]:
    """Numbers of records, and the processes that have handled them."""
    found = (line.split() for line in notes.read_text().splitlines())
    return [(int(number), int(process)) for number, process in found]


def _wait_for_the_rest(running: ParallelConsumer, bootstrap: str, seconds: float) -> int:
    """How many offsets are not committed when the time is up, or the consumer stopped by itself; 0 is the end."""
    names = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    deadline = time.monotonic() + seconds
    with Consumer(bootstrap_servers=bootstrap, group_id=GROUP) as consumer:
        ends = consumer.end_offsets(names)
        while True:
            committed = consumer.committed(names)
            left = sum(ends[name] - (found.offset if (found := committed[name]) is not None else 0) for name in names)
            if left <= 0 or time.monotonic() > deadline or running.status().state is not State.RUNNING:
                return max(left, 0)
            time.sleep(0.1)


def _dead_letters(bootstrap: str, count: int) -> set[int]:
    found: set[int] = set()
    deadline = time.monotonic() + 60.0
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(LETTERS, 0)])
        while len(found) < count and time.monotonic() < deadline:
            found |= {int(record.value.split()[0]) for record in consumer.poll(0.2)}
    return found
