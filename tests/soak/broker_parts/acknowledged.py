"""Clients that write down what a broker has acknowledged, and the check that it is still there.

Threads commit offsets and produce records in a closed loop over plain connections, without retries. What was sent and
not answered may or may not be there afterwards; what was answered must be, at its offset and with its value.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from seamark.wire.records import read_records
from tests.support.broker_driver import Client, batch_of
from tests.support.capture import CaptureError

TOPIC = "kept"
PARTITIONS = 3
COMMITTERS = 6
PRODUCERS = 2
COORDINATOR_LOADING = (14, 15, 16)


class Ledger:
    """What was sent and what was acknowledged, over all lives of one broker. Each entry has one writing thread."""

    def __init__(self) -> None:
        # By group: all its partitions are committed with the same offset.
        self.commits_sent: dict[str, int] = {}
        self.commits_acknowledged: dict[str, int] = {}
        # By partition: first offset of a batch and its values, in the order of the answers.
        self.records_acknowledged: dict[int, list[tuple[int, list[bytes]]]] = {n: [] for n in range(PARTITIONS)}
        self.records_checked: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    @property
    def commits(self) -> int:
        return sum(self.commits_acknowledged.values())

    @property
    def records(self) -> int:
        return sum(len(values) for batches in self.records_acknowledged.values() for _, values in batches)

    def copy(self) -> Ledger:
        """The ledger as it is now, while threads go on writing it."""
        other = Ledger()
        other.commits_acknowledged = dict(self.commits_acknowledged)
        other.records_acknowledged = {
            partition: list(batches) for partition, batches in self.records_acknowledged.items()
        }
        other.commits_sent = dict(self.commits_sent)
        return other

    def check(self, bootstrap: str, *, whole: bool = False) -> list[str]:
        """What is missing; records that an earlier check has seen are looked at again only with ``whole``."""
        with Client(bootstrap, timeout=30) as client:
            return [*self._check_commits(client), *self._check_records(client, whole=whole)]

    def _check_commits(self, client: Client) -> list[str]:
        missing = []
        for group, acknowledged in self.commits_acknowledged.items():
            found = _committed(client, group)
            if not all(acknowledged <= offset <= self.commits_sent[group] for offset in found):
                sent = self.commits_sent[group]
                missing.append(f"{group}: acknowledged {acknowledged}, sent {sent}, found {found}")
        return missing

    def _check_records(self, client: Client, *, whole: bool) -> list[str]:
        missing = []
        for partition, batches in self.records_acknowledged.items():
            expected = batches if whole else batches[self.records_checked[partition] :]
            self.records_checked[partition] = len(batches)
            if not expected:
                continue
            found = _values_by_offset(client, partition, min(first for first, _ in expected))
            for first, values in expected:
                for number, value in enumerate(values):
                    if found.get(first + number) != value:
                        missing.append(f"{TOPIC}-{partition} offset {first + number}: {value!r} is not there")
        return missing


def _committed(client: Client, group: str) -> list[int]:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(range(PARTITIONS)))]
    deadline = time.monotonic() + 30
    while True:
        answer = client.ask(OffsetFetchRequest(group_id=group, topics=topics), 7)
        if answer.error_code not in COORDINATOR_LOADING or time.monotonic() > deadline:
            return [each.committed_offset for each in answer.topics[0].partitions] if not answer.error_code else [-2]
        time.sleep(0.01)


def _values_by_offset(client: Client, partition: int, offset: int) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    while True:
        records = read_records(client.fetch(TOPIC, offset, partition=partition).records)
        if not records:
            return found
        found |= {record.offset: record.value for record in records}
        offset = records[-1].offset + 1


class Load:
    """The clients; they work from ``start`` until the broker is gone or the context ends."""

    def __init__(self, ledger: Ledger, bootstrap: str, life: int) -> None:
        self._ledger = ledger
        self._bootstrap = bootstrap
        self._life = life
        self._is_stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.refusals: list[str] = []

    def start(self) -> Self:
        with Client(self._bootstrap, timeout=30) as client:
            if self._life == 0:
                assert client.create_topic(TOPIC, PARTITIONS).error_code == 0
            deadline = time.monotonic() + 30
            while client.ask(FindCoordinatorRequest(key="g"), 1).error_code:
                assert time.monotonic() < deadline, "no coordinator was found"
                time.sleep(0.02)
        work = [(self._commit, f"group-{number}") for number in range(COMMITTERS)]
        work += [(self._produce, f"{self._life}-{number}") for number in range(PRODUCERS)]
        self._threads = [threading.Thread(target=self._run, args=each, daemon=True) for each in work]
        for thread in self._threads:
            thread.start()
        return self

    def _run(self, step: Any, name: str) -> None:
        try:
            with ExitStack() as open_connection:
                client = open_connection.enter_context(Client(self._bootstrap, timeout=10))
                number = 0
                while not self._is_stopping.is_set():
                    step(client, name, number)
                    number += 1
        except CaptureError:
            # The broker is gone; what it did not answer, it did not promise.
            pass

    def _commit(self, client: Client, group: str, _number: int) -> None:
        ledger = self._ledger
        offset = ledger.commits_sent[group] = ledger.commits_sent.get(group, 0) + 1
        partitions = [
            OffsetCommitRequestPartition(partition_index=each, committed_offset=offset, committed_metadata="")
            for each in range(PARTITIONS)
        ]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        answer = client.ask(OffsetCommitRequest(group_id=group, topics=topics), 7)
        codes = {each.error_code for each in answer.topics[0].partitions}
        if codes == {0}:
            ledger.commits_acknowledged[group] = offset
        elif codes <= set(COORDINATOR_LOADING):
            time.sleep(0.01)
        else:
            self.refusals.append(f"commit of {group}: {codes}")

    def _produce(self, client: Client, name: str, number: int) -> None:
        partition = number % PARTITIONS
        values = [b"%s %d %d" % (name.encode(), number, each) for each in range(1 + number % 5)]
        answer = client.produce(TOPIC, batch_of(*values), partition=partition)
        if answer.error_code:
            self.refusals.append(f"produce by {name}: {answer.error_code}")
        else:
            self._ledger.records_acknowledged[partition].append((answer.base_offset, values))

    def join(self) -> None:
        """Return when every client has noticed the end."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a client hangs"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.join()
