"""Threads, the other way: one thread consumes, a pool processes. There may be more workers than partitions.

    python examples/decoupled_processing.py --bootstrap localhost:9092 --topic quickstart-events --threads 8

A partition is paused while its batch is being processed, so the order within it is kept and nothing piles up; polling
goes on, which keeps the membership. Only when the whole batch is done is the offset behind its last record committed.
(``seamark.parallel`` does this without pausing, also by key, and commits as far as everything before is done.)
"""

from __future__ import annotations

import argparse
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait

import program

from seamark.client import Consumer, Record, TopicPartition

Batches = dict[TopicPartition, tuple[list[Future[None]], int]]


def process(record: Record) -> None:
    # One write per line: the workers print at the same time.
    sys.stdout.write(f"{threading.current_thread().name} {record.topic_partition} offset={record.offset}\n")


def settle(consumer: Consumer, batches: Batches) -> None:
    """Commit the batches that are done, and go on reading their partitions."""
    owned = consumer.assignment()
    for partition, (futures, behind) in list(batches.items()):
        if all(future.done() for future in futures):
            del batches[partition]
            for future in futures:
                future.result()
            if partition in owned:
                consumer.commit({partition: behind})
                sys.stdout.write(f"{partition} committed={behind}\n")
                consumer.resume([partition])


def read(arguments: argparse.Namespace, end: program.End) -> None:
    batches: Batches = {}

    def finish(partitions: list[TopicPartition]) -> None:
        """Partitions that go to another member: finish and commit what is under way, so that it is not repeated."""
        for partition in partitions:
            wait(batches[partition][0] if partition in batches else [])
        settle(consumer, batches)

    with (
        ThreadPoolExecutor(arguments.threads, thread_name_prefix="worker") as pool,
        Consumer(
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        consumer.subscribe(arguments.topics, on_revoked=finish)
        while not end.is_here or batches:
            records = consumer.poll(0.05)
            polled: dict[TopicPartition, list[Record]] = {}
            for record in records:
                polled.setdefault(record.topic_partition, []).append(record)
            consumer.pause(polled)
            for partition, batch in polled.items():
                batches[partition] = ([pool.submit(process, record) for record in batch], batch[-1].offset + 1)
            end.count(len(records))
            settle(consumer, batches)
    print(f"{end.seen} records were processed")


if __name__ == "__main__":
    made = program.parser(__doc__, "decoupled", ["quickstart-events"])
    made.add_argument("--threads", type=int, choices=range(1, 65), default=8, metavar="1-64", help="how many")
    sys.exit(program.run(made, read))
