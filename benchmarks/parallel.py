"""parallel.*: the parallel consumer beside Confluent's, and beside the bare handlers without Kafka.

One Apache Kafka 4.3.1 with default settings on the same machine, one topic of 4 partitions with 1 million records,
10,000 keys and 100-byte values. Each run is a new group that reads all of it; its rate is counted from the first
handler call to the last, as in the Java program. Confluent's consumer handles records one by one, in one JVM that lives
as long as the benchmark and is given round after round until it gets no faster; ``peer_cold`` is the yardstick program,
a new JVM for one round. Before the clock runs, both sides add up offset and sizes of all records that their handlers
are given, and the sums must be right. A bare peer runs the same handler as often, in as many workers, over a list in
memory.

parallel.memory: a process of its own reads 1 million records with a key each while its handlers are slow enough for the
budget to fill; the figure is the largest resident size above that of the same process with an idle consumer.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow.compute as pc

from benchmarks.claims import QUICK, compare, compare_each
from benchmarks.parallel_confluent import ConfluentParallel
from benchmarks.peer_kafka import peer_kafka
from seamark.client.admin.admin import Admin
from seamark.client.admin.types import NewTopic
from seamark.client.producer.producer import Producer
from seamark.parallel import Batch, Order, ParallelConsumer

SCALE = 10 if QUICK else 1
RECORDS = 1_000_000 // SCALE
KEYS = 10_000
SLOW_RECORDS = 100_000 // SCALE
BUSY_RECORDS = 12_000 // SCALE
PARTITIONS = 4
TOPIC, KEYS_TOPIC, EMPTY_TOPIC = "bench-parallel", "bench-parallel-keys", "bench-parallel-empty"
VALUE = b"v" * 100
RUNS = 5
_groups = count(1)


def measure() -> Iterator[dict[str, object]]:
    with peer_kafka() as kafka:
        bootstrap = kafka.bootstrap
        with Admin(bootstrap_servers=bootstrap) as admin:
            topics = [NewTopic(name, PARTITIONS) for name in (TOPIC, KEYS_TOPIC, EMPTY_TOPIC)]
            admin.create_topics(topics).raise_if_failed()
        fill(bootstrap, TOPIC, KEYS)
        with ConfluentParallel(bootstrap, TOPIC, RECORDS) as confluent:
            yield from beside_confluent(bootstrap, confluent)
        yield from beside_bare_handlers(bootstrap)
        fill(bootstrap, KEYS_TOPIC, RECORDS)
        yield compare("parallel.memory", "MB", "lower", lambda: memory(bootstrap), None, 3, fresh_processes=True)


def fill(bootstrap: str, topic: str, keys: int) -> None:
    """A key is always written to the same partition."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=50, batch_size=65_536) as producer:
        for number in range(RECORDS):
            key = number % keys
            producer.send(topic, VALUE, key=key_of(key), partition=key % PARTITIONS)


def key_of(number: int) -> bytes:
    return b"key-%07d" % number


# -- beside Confluent's


def beside_confluent(bootstrap: str, confluent: ConfluentParallel) -> Iterator[dict[str, object]]:
    """One run of the peer stands beside one of each of ours, because it is the slowest of them by far."""
    check_content(bootstrap, confluent)
    claims = compare_each(
        {
            "parallel.empty_key": lambda: empty(bootstrap),
            "parallel.batch_key": lambda: batches(bootstrap),
            "parallel.batch_arrow": lambda: arrow_batches(bootstrap),
        },
        "records/s",
        "higher",
        lambda: confluent.rate(64, 0, RECORDS),
        RUNS,
    )
    cold = confluent.cold_rate(64, 0, RECORDS)
    yield from (claim | {"peer_cold": cold} for claim in claims)
    yield compare(
        "parallel.async_5ms.confluent",
        "records/s",
        "higher",
        lambda: async_handler(bootstrap, 0.005, 100, SLOW_RECORDS),
        lambda: confluent.rate(100, 5, SLOW_RECORDS),
        RUNS,
        peer_cold=confluent.cold_rate(100, 5, SLOW_RECORDS),
    )


def check_content(bootstrap: str, confluent: ConfluentParallel) -> None:
    """Every handler of the comparison is given every record: by the sum of offsets, keys' and values' sizes."""
    each = RECORDS // PARTITIONS
    expected = RECORDS * (len(key_of(0)) + len(VALUE)) + PARTITIONS * (each * (each - 1) // 2)
    sums = {
        "Confluent's consumer": confluent.sum(),
        "ours, one by one": sum_of_records(bootstrap),
        "ours, in batches": sum_of_records(bootstrap, batch=Batch(500)),
        "ours, in Arrow batches": sum_of_arrow(bootstrap),
    }
    for name, found in sums.items():
        if found != expected:
            raise AssertionError(f"{name}: the records add up to {found}, not to {expected}")


def sum_of_records(bootstrap: str, **options) -> int:
    sizes: list[tuple[int, int]] = []

    def handle(given) -> None:
        records = given if "batch" in options else [given]
        total = sum(record.offset + len(record.key) + len(record.value) for record in records)
        sizes.append((len(records), total))

    return handled_sum(bootstrap, handle, sizes, order=Order.KEY, **options)


def sum_of_arrow(bootstrap: str) -> int:
    sizes: list[tuple[int, int]] = []

    def handle(batch) -> None:
        lengths = sum(pc.sum(pc.binary_length(batch[name])).as_py() for name in ("key", "value"))
        sizes.append((batch.num_rows, lengths + pc.sum(batch["offset"]).as_py()))

    return handled_sum(bootstrap, handle, sizes, order=Order.NONE, batch=Batch(10_000, arrow=True))


def handled_sum(bootstrap: str, handler: Callable, sizes: list[tuple[int, int]], **options) -> int:
    with ParallelConsumer(config_of(bootstrap), [TOPIC], handler, concurrency=64, **options) as consumer:
        while sum(rows for rows, _ in sizes) < RECORDS:
            consumer.wait(0.1)
    return sum(total for _, total in sizes)


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


def config_of(bootstrap: str) -> dict[str, object]:
    """For a new group that reads from the beginning."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{os.getpid()}-{next(_groups)}",
        "auto.offset.reset": "earliest",
    }


def rate(bootstrap: str, handler: Callable, done: Callable[[], int], counted: Counted, target: int, **options) -> float:
    with ParallelConsumer(config_of(bootstrap), [TOPIC], handler, **options) as consumer:
        while done() < target:
            # Raises if it ended by itself.
            consumer.wait(0.002)
        handled = done()
        elapsed = time.perf_counter() - counted.first
        if consumer.status().last_error:
            raise AssertionError(consumer.status().last_error)
    if target == RECORDS and done() != RECORDS:
        raise AssertionError(f"{done()} records were handled, not {RECORDS}")
    return handled / elapsed


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
    with ParallelConsumer(config_of(bootstrap), [TOPIC], keep_busy, concurrency=2, run_in="processes") as consumer:
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
