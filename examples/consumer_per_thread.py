"""Threads, the simple way: one consumer per thread. The group shares the partitions out among them.

    python examples/consumer_per_thread.py --bootstrap localhost:9092 --topic quickstart-events --threads 3

No locks, and the order within a partition is kept; there is work for as many threads as there are partitions.
"""

from __future__ import annotations

import argparse
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import program

from seamark.client import Consumer


def work(number: int, arguments: argparse.Namespace, end: program.End, lock: threading.Lock) -> int:
    count = 0
    with Consumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        client_id=f"thread-{number}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe(arguments.topics)
        while not end.is_here:
            records = consumer.poll(0.2)
            with lock:
                for record in records:
                    print(f"thread-{number} {record.topic_partition} offset={record.offset}")
                end.count(len(records))
            if records:
                consumer.commit()
            count += len(records)
    return count


def read(arguments: argparse.Namespace, end: program.End) -> None:
    lock = threading.Lock()
    with ThreadPoolExecutor(arguments.threads) as pool:
        counts = list(pool.map(lambda number: work(number, arguments, end, lock), range(arguments.threads)))
    print(f"{sum(counts)} records were read by {len(counts)} threads: {counts}")


if __name__ == "__main__":
    made = program.parser(__doc__, "consumer-per-thread", ["quickstart-events"])
    made.add_argument("--threads", type=int, choices=range(1, 65), default=3, metavar="1-64", help="how many")
    sys.exit(program.run(made, read))
