"""Commit without waiting while records come, and once more, waiting, at the end.

    python examples/async_commits.py --bootstrap localhost:9092 --topic quickstart-events

A commit that waits would hold up every batch, and one that is lost is made good by the next; but there is none behind
the last, so that one is waited for. The consumer is closed even if it fails.
"""

from __future__ import annotations

import argparse
import sys

import program

from seamark.client import Consumer, Record


def process(record: Record) -> None:
    print(f"{record.topic_partition} offset={record.offset} value={record.value}")


def read(arguments: argparse.Namespace, end: program.End) -> None:
    consumer = Consumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        value=str,
    )
    consume(consumer, arguments.topics, end)


def consume(consumer: Consumer, topics: list[str], end: program.End) -> None:
    try:
        consumer.subscribe(topics)
        while not end.is_here:
            records = consumer.poll(1.0)
            for record in records:
                process(record)
            if records:
                consumer.commit_async()
            end.count(len(records))
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes to the handler
        handle(error)
    finally:
        try:
            consumer.commit()
            print("the last commit was acknowledged")
        finally:
            consumer.close()
            print("closed")


def handle(error: Exception) -> None:
    print(f"reading ended: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(program.run(program.parser(__doc__, "async-commits", ["quickstart-events"]), read))
