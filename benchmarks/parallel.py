"""parallel.*: the parallel consumer beside Confluent's, and beside the bare handlers without Kafka.

One Apache Kafka 4.3.1 with default settings on the same machine, one topic of 4 partitions with 1 million records,
10,000 keys and 100-byte values. Each run is a new group that reads all of it; its rate is counted from the first
handler call to the last, as in the Java program. Confluent's consumer handles records one by one. A bare peer runs the
same handler as often, in as many workers, over a list in memory.

parallel.memory: a process of its own reads 1 million records with a key each while its handlers are slow enough for the
budget to fill; the figure is the largest resident size above that of the same process with an idle consumer.

SEAMARK_BENCH_QUICK=1 uses a tenth of the records.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.claims import compare
from seamark.client.admin import Admin
from seamark.client.admin_types import NewTopic
from seamark.client.producer import Producer
from seamark.parallel import Batch, Order, ParallelConsumer
from tests.support.apache_kafka import ApacheKafka
from tests.support.java import compiled_java_command
from tests.support.maven import maven_jars

QUICK = os.environ.get("SEAMARK_BENCH_QUICK", "") not in ("", "0")
SCALE = 10 if QUICK else 1
RECORDS = 1_000_000 // SCALE
KEYS = 10_000
SLOW_RECORDS = 100_000 // SCALE
BUSY_RECORDS = 12_000 // SCALE
PARTITIONS = 4
TOPIC, KEYS_TOPIC, EMPTY_TOPIC = "bench-parallel", "bench-parallel-keys", "bench-parallel-empty"
VALUE = b"v" * 100
RUNS = 5
YARDSTICK = Path(__file__).parent / "yardsticks" / "parallel_consumer_java" / "ParallelConsumerLoad.java"
JARS = (
    "io.confluent.parallelconsumer:parallel-consumer-core:0.5.3.2",
    "org.slf4j:slf4j-nop:2.0.16",
)
_groups = count(1)


def measure() -> Iterator[dict[str, object]]:
    with ApacheKafka(java_options=["-Xmx1g"]) as kafka:
        bootstrap = kafka.bootstrap
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS) for name in (TOPIC, KEYS_TOPIC, EMPTY_TOPIC)])
        fill(bootstrap, TOPIC, KEYS)
        yield from beside_confluent(bootstrap)
        yield from beside_bare_handlers(bootstrap)
        fill(bootstrap, KEYS_TOPIC, RECORDS)
        yield compare("parallel.memory", "MB", "lower", lambda: memory(bootstrap), None, 3)


def fill(bootstrap: str, topic: str, keys: int) -> None:
    """A key is always written to the same partition."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=50, batch_size=65_536) as producer:
        for number in range(RECORDS):
            key = number % keys
            producer.send(topic, VALUE, key=b"key-%07d" % key, partition=key % PARTITIONS)


# -- beside Confluent's


def beside_confluent(bootstrap: str) -> Iterator[dict[str, object]]:
    """One run of the peer stands beside one of each of ours, because it is the slowest of them by far."""
    confluent: list[float] = []

    def peer_first() -> float:
        confluent.append(confluent_parallel(bootstrap, "KEY", 64, 0, RECORDS))
        return confluent[-1]

    figures: dict[str, list[float]] = {"empty": [], "batch": [], "arrow": []}
    for _ in range(RUNS + 1):
        figures["empty"].append(empty(bootstrap))
        figures["batch"].append(batches(bootstrap))
        figures["arrow"].append(arrow_batches(bootstrap))
        peer_first()
    for claim_id, ours in (("empty_key", "empty"), ("batch_key", "batch"), ("batch_arrow", "arrow")):
        mine, theirs = iter(figures[ours]), iter(confluent)
        yield compare(
            f"parallel.{claim_id}",
            "records/s",
            "higher",
            lambda mine=mine: next(mine),
            lambda theirs=theirs: next(theirs),
            RUNS,
        )


def confluent_parallel(bootstrap: str, order: str, concurrency: int, handler_ms: int, target: int) -> float:
    command = compiled_java_command(YARDSTICK, maven_jars("confluent-parallel-consumer", JARS))
    # The tests' options for programs that live for a second would hold it back.
    command = [part for part in command if not part.startswith(("-XX:", "-Xmx", "-Xshare"))]
    arguments = [bootstrap, TOPIC, order, str(concurrency), str(handler_ms), str(target)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["records_per_s"])


class Counted:
    """Counts what handlers did, from any thread; the clock starts with the first call."""

    def __init__(self) -> None:
        self._calls = count()
        self.first = 0.0
        self.rows = 0

    def one(self, _record: object) -> None:
        if not next(self._calls):
            self.first = time.perf_counter()

    @property
    def calls(self) -> int:
        return int(self._calls.__reduce__()[1][0])


def rate(bootstrap: str, handler: Callable, done: Callable[[], int], counted: Counted, target: int, **options) -> float:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{os.getpid()}-{next(_groups)}",
        "auto.offset.reset": "earliest",
    }
    consumer = ParallelConsumer(config, [TOPIC], handler, **options)
    with consumer:
        while done() < target:
            # Raises if it ended by itself.
            consumer.wait(0.002)
        elapsed = time.perf_counter() - counted.first
        if consumer.status().last_error:
            raise AssertionError(consumer.status().last_error)
    return target / elapsed


def empty(bootstrap: str) -> float:
    counted = Counted()
    return rate(bootstrap, counted.one, lambda: counted.calls, counted, RECORDS, order=Order.KEY, concurrency=64)


def batches(bootstrap: str, **options) -> float:
    counted = Counted()
    lengths: list[int] = []

    def handle(records: list) -> None:
        counted.one(None)
        lengths.append(len(records))

    options = {"order": Order.KEY, "concurrency": 64, "batch": Batch(500), **options}
    return rate(bootstrap, handle, lambda: sum(lengths), counted, RECORDS, **options)


def arrow_batches(bootstrap: str) -> float:
    return batches(bootstrap, order=Order.NONE, batch=Batch(10_000, arrow=True))


# -- beside the bare handlers


def beside_bare_handlers(bootstrap: str) -> Iterator[dict[str, object]]:
    slow = SLOW_RECORDS
    yield compare(
        "parallel.async_5ms",
        "records/s",
        "higher",
        lambda: async_handler(bootstrap, 0.005, 100, slow),
        lambda: bare_loop(0.005, 100, slow),
        RUNS,
    )
    yield compare(
        "parallel.async_5ms.confluent",
        "records/s",
        "higher",
        lambda: async_handler(bootstrap, 0.005, 100, slow),
        lambda: confluent_parallel(bootstrap, "KEY", 100, 5, slow),
        RUNS,
    )
    yield compare(
        "parallel.async_10ms_1000",
        "records/s",
        "higher",
        lambda: async_handler(bootstrap, 0.01, 1000, 2 * slow),
        lambda: bare_loop(0.01, 1000, 2 * slow),
        RUNS,
    )
    yield compare(
        "parallel.threads_5ms",
        "records/s",
        "higher",
        lambda: thread_handler(bootstrap, 0.005, 100, slow),
        lambda: bare_threads(0.005, 100, slow),
        RUNS,
    )
    yield compare(
        "parallel.processes",
        "records/s",
        "higher",
        lambda: process_handler(bootstrap, BUSY_RECORDS),
        lambda: bare_processes(BUSY_RECORDS),
        RUNS,
    )


def async_handler(bootstrap: str, seconds: float, concurrency: int, target: int) -> float:
    counted, ended = Counted(), count()

    async def handle(record: object) -> None:
        counted.one(record)
        await asyncio.sleep(seconds)
        next(ended)

    done = lambda: ended.__reduce__()[1][0]  # noqa: E731 - a name for a look at the counter
    return rate(bootstrap, handle, done, counted, target, order=Order.KEY, concurrency=concurrency)


def bare_loop(seconds: float, workers: int, target: int) -> float:
    import uvloop

    async def handle(_record: object) -> None:
        await asyncio.sleep(seconds)

    async def work(records: Iterator[int]) -> None:
        for record in records:
            await handle(record)

    async def main() -> float:
        records = iter(range(target))
        started = time.perf_counter()
        await asyncio.gather(*(work(records) for _ in range(workers)))
        return target / (time.perf_counter() - started)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def thread_handler(bootstrap: str, seconds: float, concurrency: int, target: int) -> float:
    counted, ended = Counted(), count()

    def handle(record: object) -> None:
        counted.one(record)
        time.sleep(seconds)
        next(ended)

    done = lambda: ended.__reduce__()[1][0]  # noqa: E731 - a name for a look at the counter
    return rate(bootstrap, handle, done, counted, target, order=Order.KEY, concurrency=concurrency)


def bare_threads(seconds: float, workers: int, target: int) -> float:
    records = iter(range(target))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if next(records, None) is None:
                    return
            time.sleep(seconds)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return target / (time.perf_counter() - started)


def keep_busy(_record: object) -> None:
    """About half a millisecond of a processor."""
    total = 0
    for number in range(8_000):
        total += number * number


def process_handler(bootstrap: str, target: int) -> float:
    """From the first record done to the last, as told by the consumer; the processes are there before."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{os.getpid()}-{next(_groups)}",
        "auto.offset.reset": "earliest",
    }
    with ParallelConsumer(config, [TOPIC], keep_busy, concurrency=2, run_in="processes") as consumer:
        while not (begin := consumer.status().tally.get("done", 0)):
            time.sleep(0.01)
        started = time.perf_counter()
        while (done := consumer.status().tally["done"]) < begin + target:
            time.sleep(0.02)
        return (done - begin) / (time.perf_counter() - started)


def _keep_busy_often(times: int, told: object, begin: object) -> None:
    told.release()
    begin.wait()
    for number in range(times):
        keep_busy(number)
    told.release()


def bare_processes(target: int) -> float:
    context = multiprocessing.get_context("spawn")
    told, begin = context.Semaphore(0), context.Event()
    processes = [context.Process(target=_keep_busy_often, args=(target // 2, told, begin)) for _ in range(2)]
    for process in processes:
        process.start()
    for _ in processes:
        told.acquire()
    started = time.perf_counter()
    begin.set()
    for _ in processes:
        told.acquire()
    elapsed = time.perf_counter() - started
    for process in processes:
        process.join()
    return target / elapsed


# -- memory

_MEMORY = """
import sys, threading, time, psutil
from itertools import count
from seamark.parallel import ParallelConsumer
bootstrap, group, topic, idle_topic, target = *sys.argv[1:5], int(sys.argv[5])
me = psutil.Process()
release, calls = threading.Event(), count()
def handle(record):
    release.wait()
    next(calls)
def consumer(name):
    config = {"bootstrap.servers": bootstrap, "group.id": group + name, "auto.offset.reset": "earliest"}
    return ParallelConsumer(config, [name], handle, buffer_bytes=64 << 20)
with consumer(idle_topic) as idle:
    while not idle.status().partitions:
        time.sleep(0.05)
    time.sleep(1.0)
    before = me.memory_info().rss
most = 0
with consumer(topic) as busy:
    began = time.monotonic()
    while calls.__reduce__()[1][0] < target:
        time.sleep(0.02)
        most = max(most, me.memory_info().rss)
        if time.monotonic() - began > 5:
            release.set()
print((most - before) / 1e6)
"""


def memory(bootstrap: str) -> float:
    group = f"bench-memory-{os.getpid()}-{next(_groups)}-"
    command = [sys.executable, "-c", _MEMORY, bootstrap, group, KEYS_TOPIC, EMPTY_TOPIC, str(RECORDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return float(done.stdout)
