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
            "p50_ms": round(1000 * statistics.median(self.commits_s), 3) if self.commits_s else None,
            "p99_ms": round(self.p99_ms(), 3),
            "longest_ms": round(1000 * max(self.commits_s, default=math.inf), 1),
            "connect_p50_ms": round(1000 * statistics.median(self.connects_s), 2) if self.connects_s else None,
            "connect_longest_ms": round(1000 * max(self.connects_s, default=math.inf), 1),
            "failures": len(self.failures),
            "first_failures": self.failures[:3],
        }


def percentile(figures: list[float], percent: int) -> float:
    if not figures:
        return math.inf
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
    """Commit for so long; what could not be committed is a failure and counts as infinitely late."""
    found = Latencies()
    client = address.connect()
    begin = time.monotonic()
    number = 0
    try:
        while (due := begin + number / COMMITS_PER_SECOND) < begin + seconds:
            number += 1
            time.sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() > begin + 3 * seconds:
                found.failures.append(f"only {number} of the commits were made in three times their time")
                found.commits_s += [math.inf] * (int(seconds * COMMITS_PER_SECOND) - number)
                break
            try:
                is_done = _commit(client, number)
            except CaptureError as error:
                found.failures.append(f"commit {number}: {error}")
                is_done = False
                client.close()
                client = address.connect()
            found.commits_s.append(time.monotonic() - due if is_done else math.inf)
            if number % COMMITS_PER_SECOND == 0:
                _connect_anew(address, found)
    finally:
        client.close()
    return found


def _connect_anew(address: Address, found: Latencies) -> None:
    begin = time.monotonic()
    try:
        address.connect(timeout=10).close()
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
