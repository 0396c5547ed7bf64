"""The well-behaved client: it commits, produces and reads what it produced, whatever others do, and notes the times.

It commits a hundred times a second and produces ten records a second. A commit's or a record's time counts from the
moment it was due: if one is kept waiting for a second, those behind it are late too, and that is what a user sees. A
record is due to be read when it was acknowledged. A new client also connects and logs in once a second. Each of these
has a thread of its own, so that none of them waits for another one here.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

from benchmarks.hostile_parts.login import Address
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.records import read_records
from tests.support.broker_driver import Client, batch_of
from tests.support.capture import CaptureError

T = TypeVar("T")

TOPIC = "honest"
GROUP = "honest"
PARTITIONS = 4
COMMITS_PER_SECOND = 100
RECORDS_PER_SECOND = 10
CONNECTIONS_PER_SECOND = 1
_PATIENCE_SECONDS = 10.0
_RETRIABLE = {14, 15, 16, 56}


@dataclass
class Latencies:
    """What the well-behaved client saw."""

    commits_s: list[float] = field(default_factory=list)
    produces_s: list[float] = field(default_factory=list)
    fetches_s: list[float] = field(default_factory=list)
    connects_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    # Records that were acknowledged and are not there, or are others.
    lost: list[str] = field(default_factory=list)

    def p99_ms(self) -> float:
        """Of commits, which is what the claim is about."""
        return 1000 * percentile(self.commits_s, 99)

    def add(self, more: Latencies) -> None:
        for name, figures in vars(more).items():
            getattr(self, name).extend(figures)

    def facts(self) -> dict[str, object]:
        return {
            "commits": _figures(self.commits_s),
            "produces": _figures(self.produces_s),
            "fetches": _figures(self.fetches_s),
            "new_connections": _figures(self.connects_s),
            "failures": len(self.failures),
            "first_failures": self.failures[:3],
            "lost": self.lost[:3],
        }


def _figures(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {"count": 0}
    return {
        "count": len(seconds),
        "p50_ms": round(1000 * statistics.median(seconds), 3),
        "p99_ms": round(1000 * percentile(seconds, 99), 3),
        "longest_ms": round(1000 * max(seconds), 1),
    }


def percentile(figures: list[float], percent: int) -> float:
    return sorted(figures)[min(len(figures) - 1, math.ceil(len(figures) * percent / 100) - 1)]


def prepare(address: Address) -> None:
    """Make the topic, and wait for the group's coordinator."""
    with address.connect() as client:
        client.create_topic(TOPIC, PARTITIONS)
        deadline = time.monotonic() + 30
        while client.ask(FindCoordinatorRequest(key=GROUP), 1).error_code or not _commit(client, 0):
            if time.monotonic() > deadline:
                raise RuntimeError("no coordinator was found")
            time.sleep(0.05)


@dataclass(frozen=True)
class _Acknowledged:
    """A record that must be there, and since when."""

    partition: int
    offset: int
    value: bytes
    since: float


class Bystander:
    """Its connections are there before anybody attacks; they are made again when they break."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._committer, self._producer, self._reader = (_Repeating(address) for _ in range(3))

    def watch(self, seconds: float) -> Latencies:
        """Work for so long. What fails is written down and made again; its time goes on.

        After three times as long it ends anyhow, and what is not done by then has taken until then.
        """
        watch = _Watch(Latencies(), time.monotonic(), seconds)
        acknowledged: SimpleQueue[_Acknowledged | None] = SimpleQueue()
        threads = [
            threading.Thread(target=work, args=(watch, *more))
            for work, more in (
                (self._commit_all, ()),
                (self._produce_all, (acknowledged,)),
                (self._fetch_all, (acknowledged,)),
                (self._connect_all, ()),
            )
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return watch.found

    def _commit_all(self, watch: _Watch) -> None:
        for number, due in watch.dues(COMMITS_PER_SECOND):
            self._committer.do(watch, f"commit {number}", partial(_commit, offset=number))
            watch.found.commits_s.append(time.monotonic() - due)

    def _produce_all(self, watch: _Watch, acknowledged: SimpleQueue[_Acknowledged | None]) -> None:
        for number, due in watch.dues(RECORDS_PER_SECOND):
            partition, value = number % PARTITIONS, f"record {number} of {watch.begin}".encode()
            work = partial(_produce, partition=partition, value=value)
            offset = self._producer.do(watch, f"record {number}", work)
            now = time.monotonic()
            watch.found.produces_s.append(now - due)
            if offset is not None:
                acknowledged.put(_Acknowledged(partition, offset, value, now))
        acknowledged.put(None)

    def _fetch_all(self, watch: _Watch, acknowledged: SimpleQueue[_Acknowledged | None]) -> None:
        while (record := acknowledged.get()) is not None:
            there = self._reader.do(watch, f"fetch of {record.value.decode()}", partial(_fetch, record=record))
            watch.found.fetches_s.append(time.monotonic() - record.since)
            if there is not None and there != [record.value]:
                watch.found.lost.append(f"{record.value!r} was acknowledged at {record.offset}, {there} is there")

    def _connect_all(self, watch: _Watch) -> None:
        for number, due in watch.dues(CONNECTIONS_PER_SECOND):
            connection = _Repeating(self._address)
            connection.do(watch, f"connection {number}", lambda _: True)
            watch.found.connects_s.append(time.monotonic() - due)
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._committer, self._producer, self._reader):
            each.close()


class _Watch:
    """When what is due, and what was found."""

    def __init__(self, found: Latencies, begin: float, seconds: float) -> None:
        self.found = found
        self.begin = begin
        self._seconds = seconds

    def dues(self, per_second: float) -> Iterator[tuple[int, float]]:
        """Wait for each moment; its number and time."""
        for number in range(int(self._seconds * per_second)):
            due = self.begin + number / per_second
            time.sleep(max(0.0, due - time.monotonic()))
            yield number, due

    def left(self) -> float:
        return self.begin + 3 * self._seconds - time.monotonic()


class _Repeating:
    """One connection, made again when it breaks, and what is done on it until it works."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: Client | None = None

    def do(self, watch: _Watch, what: str, work: Callable[[Client], T | None]) -> T | None:
        """The work's result; None when the time ends first. Work that returns None is done again."""
        while (left := watch.left()) > 0:
            patience = min(left, _PATIENCE_SECONDS)
            try:
                if self._client is None:
                    self._client = self._address.connect(patience)
                self._client.wire.timeout = patience
                result = work(self._client)
            except (CaptureError, RuntimeError) as error:
                watch.found.failures.append(f"{what}: {error}")
                self.close()
                result = None
            if result is not None:
                return result
            time.sleep(0.01)
        return None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _commit(client: Client, offset: int) -> bool | None:
    """True, or None when it is to be made again."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=offset, committed_metadata="")
        for each in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
    answer = client.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
    codes = {each.error_code for each in answer.topics[0].partitions}
    if codes - _RETRIABLE - {0}:
        raise RuntimeError(f"the commit was refused: {codes}")
    return True if codes == {0} else None


def _produce(client: Client, partition: int, value: bytes) -> int | None:
    answer = client.produce(TOPIC, batch_of(value), partition=partition)
    if answer.error_code not in _RETRIABLE | {0}:
        raise RuntimeError(f"the record was refused: {answer.error_code}")
    return None if answer.error_code else int(answer.base_offset)


def _fetch(client: Client, record: _Acknowledged) -> list[bytes | None] | None:
    """The values at that offset: one, if all is well."""
    answer = client.fetch(TOPIC, record.offset, partition=record.partition)
    if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return []
    if answer.error_code not in _RETRIABLE | {0}:
        raise RuntimeError(f"the fetch was refused: {answer.error_code}")
    if answer.error_code:
        return None
    return [each.value for each in read_records(answer.records) if each.offset == record.offset]
