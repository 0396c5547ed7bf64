"""The well-behaved program beside the attack: it produces, reads back, commits, reads the commit back, and keeps books.

``python -m tests.soak.hostile_parts.checker BOOTSTRAP`` works with our own client until its standard input ends, and
prints what was acknowledged to it. A call that fails is written down with its error and made again: while the broker
is short of descriptors it may refuse for a while, but what it acknowledged must be there.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from benchmarks.hostile_parts.login import Address
from seamark.client import Consumer, Producer, TopicPartition
from seamark.errors import SeamarkError

TOPIC = "checked"
PARTITIONS = 2
GROUP = "checker"
_PATIENCE_SECONDS = 20.0


@dataclass
class Books:
    """What was acknowledged: values by partition and offset, and the committed offsets."""

    records: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: {str(n): [] for n in range(PARTITIONS)})
    committed: dict[str, int] = field(default_factory=dict)
    commits: int = 0
    lost: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    # What was still refused when the attack was over.
    refused_at_the_end: list[str] = field(default_factory=list)

    def said(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def heard(cls, said: str) -> Books:
        return cls(**json.loads(said))


class Checker:
    def __init__(self, settings: dict[str, str]) -> None:
        # A refusal must show in the books within the time of one round.
        patience = {"request.timeout.ms": 10_000, "delivery.timeout.ms": 20_000, "linger.ms": 0}
        self._producer = Producer({**settings, **patience})
        reading = {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, **reading})
        self._partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        self._consumer.assign(self._partitions)
        self._sent: set[tuple[int, str]] = set()
        self.books = Books()

    def round(self, number: int) -> None:
        begin = time.monotonic()
        partition = self._partitions[number % PARTITIONS]
        value = f"record {number}"
        try:
            # What is not acknowledged may be there all the same.
            self._sent.add((partition.partition, value))
            delivered = self._producer.send(TOPIC, value.encode(), partition=partition.partition)
            offset = delivered.result(timeout=_PATIENCE_SECONDS).offset
            self.books.records[str(partition.partition)].append((offset, value))
            self._read_back(partition, offset, value)
            self._consumer.commit({partition: offset + 1}, timeout=_PATIENCE_SECONDS)
            self.books.committed[str(partition.partition)] = offset + 1
            self.books.commits += 1
            self._read_commit_back(partition, offset + 1)
        except (SeamarkError, TimeoutError) as error:
            self.books.refused.append(f"round {number}: {type(error).__name__}: {error}"[:300])
        self.books.longest_s = max(self.books.longest_s, time.monotonic() - begin)

    def _read_back(self, partition: TopicPartition, offset: int, value: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for record in self._consumer.poll(timeout=1.0):
                if (record.partition, record.value.decode()) not in self._sent:
                    self.books.lost.append(f"{record.topic_partition} {record.offset}: nobody sent {record.value!r}")
                if record.partition == partition.partition and record.offset == offset:
                    if record.value != value.encode():
                        self.books.lost.append(f"{partition} {offset}: {record.value!r} is there, not {value!r}")
                    return
        raise TimeoutError(f"{partition} {offset} was acknowledged and could not be read in time")

    def _read_commit_back(self, partition: TopicPartition, offset: int) -> None:
        found = self._consumer.committed([partition], timeout=_PATIENCE_SECONDS)[partition]
        if found is None or found.offset != offset:
            self.books.lost.append(f"{partition}: {offset} was committed, {found} is there")

    def end(self, number: int) -> None:
        """Every partition must take records and commits now, whatever was before."""
        before = len(self.books.refused)
        for more in range(PARTITIONS):
            self.round(number + more)
        self.books.refused_at_the_end = self.books.refused[before:]

    def close(self) -> None:
        self._consumer.close()
        # What could not be delivered is in the books.
        with suppress(SeamarkError):
            self._producer.close()


def missing(address: Address, books: Books) -> list[str]:
    """What was acknowledged and is not there."""
    found: list[str] = []
    settings = address.settings()
    with Consumer({**settings, "group.id": GROUP, "enable.auto.commit": False}) as consumer:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        committed = consumer.committed(partitions, timeout=30)
        starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        there: dict[tuple[int, int], bytes] = {}
        deadline = time.monotonic() + 60
        unread = {each.partition for each in partitions if starts[each] < ends[each]}
        while unread and time.monotonic() < deadline:
            for record in consumer.poll(timeout=1.0):
                there[record.partition, record.offset] = record.value
                if record.offset + 1 >= ends[record.topic_partition]:
                    unread.discard(record.partition)
        for partition in partitions:
            number = str(partition.partition)
            for offset, value in books.records[number]:
                if there.get((partition.partition, offset)) != value.encode():
                    found.append(f"{partition} {offset}: {value!r} is not there")
            kept = committed[partition]
            # A later commit whose answer did not come may have been kept.
            if number in books.committed and (kept is None or kept.offset < books.committed[number]):
                found.append(f"{partition}: {books.committed[number]} was committed, {kept} is there")
    return found


def main() -> None:
    checker = Checker(Address(sys.argv[1], sys.argv[2]).settings())
    is_over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    number = 0
    checker.round(number)
    print("ready", flush=True)
    while not is_over.is_set():
        number += 1
        checker.round(number)
        time.sleep(0.02)
    checker.end(number + 1)
    print(checker.books.said(), flush=True)
    checker.close()


if __name__ == "__main__":
    main()
