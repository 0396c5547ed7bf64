"""The coordinator core without I/O: commits decided and applied, a partition loaded, and what the load keeps in memory.

The log of the load has 1,000,000 commit records over 100,000 keys: 1,000 groups with 10 partitions of 10 topics,
committed in random order, in batches of 20 records as a busy turn of the broker writes them (``batches_of_4`` tells the
same for a log with one four-partition commit per batch). It is read from raw batches: last value per raw key, then
replay. Seconds are processor seconds of the one thread at work, as there is nothing to wait for. Apache Kafka's load
of the same log is printed beside it, in records/s, as its coordinator reports it, without the wait in its scheduler.
"""

import mmap
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import psutil

from benchmarks.claims import compare
from seamark.coordinator import CommitOffsets, JoinGroup, Settings, Shard, SyncGroup
from seamark.coordinator.storing.records import OffsetCommitted
from seamark.coordinator.storing.stored import LastValues, to_bytes
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.records import Record, decode_records, encode_batch, scan_batches
from tests.support.capture import exchange

COMMITS = 50_000
RECORDS = 1_000_000
KEYS = 100_000
RUNS = 5


def measure() -> list[dict[str, object]]:
    log = make_log(batch_size=20)
    small_batches = make_log(batch_size=4)
    return [
        compare("coordinator.commits", "commits/s", "higher", commits_per_second, None, RUNS),
        compare(
            "coordinator.replay",
            "records/s",
            "higher",
            lambda: loaded_per_second(log),
            None,
            RUNS,
            batches_of_4=round(loaded_per_second(small_batches)),
            kafka_net_load=_kafka_net_load(log),
        ),
        _memory_claim(),
    ]


def commits_per_second() -> float:
    """Four-partition commits of members of 100 Stable groups: command, decision, acknowledgement, reply."""
    shard = Shard(0, Settings(), partition_count={"orders": 100}.get, make_id=iter(map(str, range(1000))).__next__)
    shard.load([], 0)
    members = [_stable_member(shard, f"service-{number}") for number in range(100)]
    start = time.process_time()
    for number in range(COMMITS):
        group_id, member_id = members[number % 100]
        partitions = [(0, number, -1, ""), (1, number, -1, ""), (2, number, -1, ""), (3, number, -1, "")]
        command = CommitOffsets(group_id, [("orders", partitions)], 1, member_id)
        for append in shard.handle(command, number, number).appends:
            [_reply] = shard.stored(append.ticket, number).replies
    seconds = time.process_time() - start
    assert shard.counters()["offset-commit-count"] == COMMITS * 4
    return COMMITS / seconds


def _stable_member(shard: Shard, group_id: str) -> tuple[str, str]:
    join = JoinGroup(group_id, "", 45_000, 300_000, "consumer", [("range", b"")], require_known_member_id=False)
    [timer] = [timer for timer in shard.handle(join, 1, 0).timers if timer.key[1] == "join"]
    [(_, reply)] = shard.fire(timer.key, timer.deadline_ms).replies
    sync = SyncGroup(group_id, reply.member_id, 1, [(reply.member_id, b"")])
    [append] = shard.handle(sync, 2, 0).appends
    shard.stored(append.ticket, 0)
    return group_id, reply.member_id


def make_log(batch_size: int, records: int = RECORDS, keys: int = KEYS) -> bytes:
    chance = random.Random(4)
    names = [(f"service-{key // 100}", f"topic-{key // 10 % 10}", key % 10) for key in range(keys)]
    batches = []
    batch: list[Record] = []
    for number in range(records):
        # Every key at least once, the rest at random.
        group_id, topic, partition = names[number if number < keys else chance.randrange(keys)]
        now_ms = 1_700_000_000_000 + number // 20
        key, value = to_bytes(OffsetCommitted(group_id, topic, partition, number, -1, "", now_ms))
        batch.append(Record(number, timestamp_ms=now_ms, key=key, value=value))
        if len(batch) == batch_size:
            batches.append(encode_batch(batch))
            batch = []
    return b"".join(batches)


def load(log: bytes) -> Shard:
    values = LastValues()
    for header, position in scan_batches(log):
        values.add(decode_records(log, position, header))
    shard = Shard(0, Settings(), partition_count={}.get, make_id=str)
    shard.load(values.take(), 0)
    return shard


def loaded_per_second(log: bytes) -> float:
    start = time.process_time()
    shard = load(log)
    seconds = time.process_time() - start
    assert shard.gauges()["NumOffsets"] == KEYS
    return RECORDS / seconds


def _kafka_net_load(log: bytes) -> float | str:
    """Records per second that Apache Kafka 4.3.1 loads of this log; a sentence where it cannot run."""
    from benchmarks.peer_kafka import peer_kafka
    from tests.support.external_tools import Unavailable

    try:
        with peer_kafka({"offsets.topic.num.partitions": 1}) as kafka:
            # Looking for a coordinator makes Kafka create the offsets topic; then its log is exchanged for ours.
            request = FindCoordinatorRequest(coordinator_keys=["service-1"])
            deadline = time.monotonic() + 30
            while not kafka.segment_files("__consumer_offsets", 0) and time.monotonic() < deadline:
                exchange(kafka.bootstrap, encode_request(request, 4, 1, "benchmark"))
                time.sleep(0.2)
            [segment] = kafka.segment_files("__consumer_offsets", 0)
            kafka.stop()
            for index in segment.parent.glob("*.*index"):
                index.unlink()
            segment.write_bytes(log)
            kafka.start()
            found: list[tuple[str, str]] = []
            while not found and time.monotonic() < deadline + 30:
                found = re.findall(r"__consumer_offsets-0 .* in (\d+)ms where (\d+)ms .*oaded [1-9]", kafka.server_log)
                time.sleep(0.2)
            [(all_ms, scheduler_ms)] = found
            return round(RECORDS / (int(all_ms) - int(scheduler_ms)) * 1000)
    except Unavailable as missing:
        return str(missing)


def _memory_claim() -> dict[str, object]:
    figures = []
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.coordinator"], check=True, capture_output=True, text=True
        )
        figures.append(float(done.stdout))
    return {
        "id": "coordinator.replay_memory",
        "unit": "MB",
        "better": "lower",
        "ours": round(statistics.median(figures), 1),
        "peer": None,
        "ratio": None,
        "runs": RUNS,
    }


def _memory_of_a_load() -> float:
    """Resident memory above idle, in MB, in a fresh process; the log itself lies in a file, as a broker's does."""
    with tempfile.TemporaryFile() as file:
        # A child writes the log, so that making it leaves no trace in this process.
        writer = "import sys; from benchmarks.coordinator import make_log; sys.stdout.buffer.write(make_log(20))"
        subprocess.run([sys.executable, "-c", writer], check=True, stdout=file)
        process = psutil.Process()
        idle = process.memory_info().rss
        chunk_bytes = 5_242_880  # offsets.load.buffer.size
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            values = LastValues()
            position = 0
            while position < len(mapped):
                chunk = mapped[position : position + chunk_bytes]
                end = 0
                for header, start in scan_batches(chunk):
                    values.add(decode_records(chunk, start, header))
                    end = start + header.size_bytes
                position += end
        shard = Shard(0, Settings(), partition_count={}.get, make_id=str)
        shard.load(values.take(), 0)
        resident = process.memory_info().rss
    assert shard.gauges()["NumOffsets"] == KEYS
    return (resident - idle) / 1e6


if __name__ == "__main__":
    print(_memory_of_a_load())
