"""A group of our consumers and one of our producers that work on while the world around them breaks, and the books.

Each member processes what it polls, then commits, in its own way: with a blocking call, without waiting, by itself, or
awaited in a loop of its own. The books know which records were acknowledged to the producer and which were processed,
by whom matters not. Two things are checked. Every commit, at the moment it is sent, covers only records that were
processed before (``watched_commits`` looks at each request that a consumer of this process makes). And after the
trouble everything that was acknowledged is processed: at least once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from seamark.client import AsyncConsumer, Consumer, Offset, Producer, Record, TopicPartition
from seamark.client.core.commits import commits
from seamark.client.errors import (
    CommitFailed,
    CommitTimedOut,
    RebalanceInProgress,
    RetriableCommitFailed,
)
from seamark.errors import SeamarkError

TOPIC = "orders"
PARTITIONS = 6
WAYS = ("blocking", "unwaited", "automatic", "awaited")
# What a commit may meet while brokers and members come and go; the records are then read again by somebody.
EXPECTED_OF_COMMITS = (CommitFailed, CommitTimedOut, RebalanceInProgress, RetriableCommitFailed)
SETTLE_SECONDS = 90.0


class Books:
    """Written by the members' threads and the producer's; ``lock`` guards the contiguous ends."""

    def __init__(self) -> None:
        self.acknowledged: set[tuple[int, int]] = set()
        self.processed: set[tuple[int, int]] = set()
        self.processed_twice = 0
        # Per partition: everything below was processed.
        self._done_to = dict.fromkeys(range(PARTITIONS), 0)
        self.failures: list[str] = []
        self.commits_checked = 0
        self.commits_refused = 0
        self._lock = threading.Lock()

    def process(self, partition: int, offset: int) -> None:
        if (partition, offset) in self.processed:
            self.processed_twice += 1
        self.processed.add((partition, offset))
        with self._lock:
            end = self._done_to[partition]
            while (partition, end) in self.processed:
                end += 1
            self._done_to[partition] = end

    def done_to(self, partition: int) -> int:
        return self._done_to[partition]

    def check_commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        self.commits_checked += 1
        for partition, offset in offsets.items():
            if partition.topic == TOPIC and offset.offset > self._done_to[partition.partition]:
                self.failures.append(
                    f"{partition}: a commit of {offset.offset}, and only {self._done_to[partition.partition]} is done"
                )

    @property
    def missing(self) -> set[tuple[int, int]]:
        return self.acknowledged - self.processed


@contextmanager
def watched_commits(books: Books) -> Iterator[None]:
    """Show the books every commit that a consumer of this process is about to send."""
    original = commits.offset_commit_request

    def watched(group_id: str, identity: Any, offsets: Mapping[TopicPartition, Offset]) -> Any:
        books.check_commit(offsets)
        return original(group_id, identity, offsets)

    commits.offset_commit_request = watched
    try:
        yield
    finally:
        commits.offset_commit_request = original


class Member:
    """A consumer on a thread of its own, which commits in one of the WAYS."""

    def __init__(self, books: Books, way: str, config: Mapping[str, object]) -> None:
        self._books = books
        self._way = way
        self._config: dict[str, Any] = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "request.timeout.ms": 5000,
            "default.api.timeout.ms": 60_000,
            "retry.backoff.max.ms": 500,
            "reconnect.backoff.max.ms": 500,
            "enable.auto.commit": way == "automatic",
            "auto.commit.interval.ms": 100,
            **config,
        }
        # As of its last poll; only its own thread may ask the consumer.
        self.owned: list[int] = []
        self._is_stopping = threading.Event()
        self._is_abrupt = False
        self._thread = threading.Thread(target=self._run, name=f"member {way}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            if self._way == "awaited":
                asyncio.run(self._consume_awaiting())
            else:
                self._consume()
        except SeamarkError as error:
            self._books.failures.append(f"a member that commits {self._way} ended with {type(error).__name__}: {error}")

    def _consume(self) -> None:
        consumer = Consumer(self._config)

        def commit(_: object = None) -> None:
            try:
                if self._way == "blocking":
                    consumer.commit(timeout=10.0)
                elif self._way == "unwaited":
                    consumer.commit_async(callback=self._committed)
            except EXPECTED_OF_COMMITS:
                self._books.commits_refused += 1

        consumer.subscribe([TOPIC], on_revoked=commit if self._way == "blocking" else None)
        while not self._is_stopping.is_set():
            if self._process(consumer.poll(0.1, max_records=20), consumer.assignment()):
                commit()
        if self._is_abrupt:
            consumer.close(0.0, leave=False)
        else:
            consumer.close(20.0)

    async def _consume_awaiting(self) -> None:
        consumer = AsyncConsumer(self._config)

        async def commit(_: object = None) -> None:
            try:
                await consumer.commit(timeout=10.0)
            except EXPECTED_OF_COMMITS:
                self._books.commits_refused += 1

        await consumer.subscribe([TOPIC], on_revoked=commit)
        while not self._is_stopping.is_set():
            if self._process(await consumer.poll(0.1, max_records=20), consumer.assignment()):
                await commit()
        if self._is_abrupt:
            await consumer.close(0.0, leave=False)
        else:
            await consumer.close(20.0)

    def _process(self, records: Sequence[Record], owned: Iterable[TopicPartition]) -> bool:
        for record in records:
            self._books.process(record.partition, record.offset)
        self.owned = sorted(each.partition for each in owned)
        return bool(records)

    def _committed(self, _offsets: object, error: Exception | None) -> None:
        if isinstance(error, EXPECTED_OF_COMMITS):
            self._books.commits_refused += 1
        elif error is not None:
            self._books.failures.append(f"a callback was given {type(error).__name__}: {error}")

    def stop(self, *, abruptly: bool = False) -> None:
        """Leave in good order, or be gone without a word to the group."""
        self._is_abrupt = abruptly
        self._is_stopping.set()
        self._thread.join(90)
        if self._thread.is_alive():
            self._books.failures.append(f"a member that commits {self._way} does not end")


class Writer:
    """An idempotent producer that sends a record every few milliseconds, to each partition in turn."""

    def __init__(self, books: Books, config: Mapping[str, object]) -> None:
        self._books = books
        self._producer = Producer(
            {
                "linger.ms": 2,
                "request.timeout.ms": 5000,
                "delivery.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.max.ms": 500,
                **config,
            }
        )
        self.sent = 0
        self._is_paused = threading.Event()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                if not self._is_paused.is_set():
                    partition = self.sent % PARTITIONS
                    self._producer.send(TOPIC, b"%d" % self.sent, partition=partition, on_delivery=self._delivered)
                    self.sent += 1
                time.sleep(0.004)
        except SeamarkError as error:
            self._books.failures.append(f"the producer ended with {type(error).__name__}: {error}")

    def _delivered(self, delivered: Any, error: Exception | None) -> None:
        if error is not None:
            self._books.failures.append(f"the producer: {type(error).__name__}: {error}")
        else:
            self._books.acknowledged.add((delivered.partition, delivered.offset))

    def pause(self) -> None:
        """Send nothing more for now, and wait until everything is acknowledged."""
        self._is_paused.set()
        self._producer.flush(100.0)

    def go_on(self) -> None:
        self._is_paused.clear()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(30)
        self._producer.close(100.0)


class Group:
    """Members, one of each way to commit, and a writer; used as a context."""

    def __init__(self, bootstrap: str, group: str, strategy: str = "cooperative-sticky") -> None:
        self.books = Books()
        self._config = {"bootstrap.servers": bootstrap}
        self._member_config = {**self._config, "group.id": group, "partition.assignment.strategy": strategy}
        self.members: list[Member] = []

    def __enter__(self) -> Group:
        self._watching = watched_commits(self.books)
        self._watching.__enter__()
        self.members = [Member(self.books, way, self._member_config) for way in WAYS]
        self.writer = Writer(self.books, self._config)
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.stop()
        for member in self.members:
            member.stop()
        self._watching.__exit__(None, None, None)

    def replace_member(self, number: int, *, abruptly: bool) -> None:
        """One goes and another of its kind comes."""
        self.members[number].stop(abruptly=abruptly)
        self.members[number] = Member(self.books, WAYS[number], self._member_config)

    def catch_up(self) -> bool:
        """Wait until all that was acknowledged is processed; False, with a failure in the books, if it never is."""
        self.writer.pause()
        end = time.monotonic() + SETTLE_SECONDS
        while self.books.missing and time.monotonic() < end and not self.books.failures:
            time.sleep(0.02)
        if missing := self.books.missing:
            owned = [member.owned for member in self.members]
            self.books.failures.append(
                f"{len(missing)} acknowledged records are not processed: {sorted(missing)[:5]}; owned are {owned}"
            )
        self.writer.go_on()
        return not self.books.failures
