"""The well-behaved client: it commits a hundred times a second, whatever others do, and notes how long that takes.

A commit's time counts from the moment it was due: if one is kept waiting for a second, the hundred behind it are late
too, and that is what a user sees. A new client also connects and logs in once a second.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field

from benchmarks.hostile_parts.login import Address
from seamark.wire.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_driver import Client
from tests.support.capture import CaptureError

TOPIC = "honest"
GROUP = "honest"
PARTITIONS = 4
COMMITS_PER_SECOND = 100
_PATIENCE_SECONDS = 10.0
_RETRIABLE = {14, 15, 16, 56}


@dataclass
class Latencies:
    """What the well-behaved client saw."""

    commits_s: list[float] = field(default_factory=list)
    connects_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def p99_ms(self) -> float:
        return 1000 * percentile(self.commits_s, 99)

    def facts(self) -> dict[str, object]:
        return {
            "commits": len(self.commits_s),
            "p50_ms": round(1000 * statistics.median(self.commits_s), 3),
            "p99_ms": round(self.p99_ms(), 3),
            "longest_ms": round(1000 * max(self.commits_s), 1),
            "connect_p50_ms": round(1000 * statistics.median(self.connects_s), 2) if self.connects_s else None,
            "connect_longest_ms": round(1000 * max(self.connects_s), 1) if self.connects_s else None,
            "new_connections": len(self.connects_s),
            "failures": len(self.failures),
            "first_failures": self.failures[:3],
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


def watch(address: Address, seconds: float) -> Latencies:
    """Commit for so long. What fails is written down and made again; its time goes on.

    After three times as long it ends anyhow, and what is not done by then has taken until then.
    """
    found = Latencies()
    committer = _Committer(address, found)
    begin = time.monotonic()
    end = begin + 3 * seconds
    for number in range(int(seconds * COMMITS_PER_SECOND)):
        due = begin + number / COMMITS_PER_SECOND
        time.sleep(max(0.0, due - time.monotonic()))
        while time.monotonic() < end and not committer.commit(number):
            time.sleep(0.01)
        found.commits_s.append(time.monotonic() - due)
        if number % COMMITS_PER_SECOND == COMMITS_PER_SECOND // 2 and time.monotonic() < end:
            _connect_anew(address, found)
    committer.close()
    return found


class _Committer:
    """One connection, made again when it breaks."""

    def __init__(self, address: Address, found: Latencies) -> None:
        self._address = address
        self._found = found
        self._client: Client | None = None

    def commit(self, number: int) -> bool:
        try:
            if self._client is None:
                self._client = self._address.connect(_PATIENCE_SECONDS)
            return _commit(self._client, number)
        except (CaptureError, RuntimeError) as error:
            self._found.failures.append(f"commit {number}: {error}")
            self.close()
            return False

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _connect_anew(address: Address, found: Latencies) -> None:
    begin = time.monotonic()
    try:
        address.connect(_PATIENCE_SECONDS).close()
    except (CaptureError, RuntimeError) as error:
        found.failures.append(f"a new connection: {error}")
    else:
        found.connects_s.append(time.monotonic() - begin)


def _commit(client: Client, offset: int) -> bool:
    partitions = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=offset, committed_metadata="")
        for each in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
    answer = client.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
    codes = {each.error_code for each in answer.topics[0].partitions}
    if codes - _RETRIABLE - {0}:
        raise RuntimeError(f"the commit was refused: {codes}")
    return codes == {0}
