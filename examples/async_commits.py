"""Commit without waiting while records come, and once more, waiting, at the end: the usual shape, and the right one.

    python examples/async_commits.py --bootstrap localhost:9092 --topic quickstart-events

A commit that waits would hold up every batch, and one that is lost is made good by the next; but there is none behind
the last, so that one is waited for. The consumer is closed even if it fails.

The shape as it is often published (``consume_and_lose``) makes the last commit in ``finally``. That LOSES RECORDS: when
``process`` fails in the middle of a batch, ``commit()`` still commits the whole batch, and nobody reads the rest of it
again. ``consume`` commits only what was processed. ``--shape lossy`` runs the first one.
"""

from __future__ import annotations

import argparse
import sys

import program

from seamark.client import Consumer, Record, TopicPartition


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
    shape = consume_and_lose if arguments.shape == "lossy" else consume
    shape(consumer, arguments.topics, end)


def consume(consumer: Consumer, topics: list[str], end: program.End) -> None:
    """The right one: what is committed is what was processed, record by record."""
    # The next offset to process of each partition: the last one that was processed, plus 1.
    done: dict[TopicPartition, int] = {}
    try:
        consumer.subscribe(topics, on_revoked=lambda partitions: give_up(consumer, partitions, done))
        while not end.is_here:
            records = consumer.poll(1.0)
            for record in records:
                process(record)
                done[record.topic_partition] = record.offset + 1
            if records:
                consumer.commit_async(done)
            end.count(len(records))
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes to the handler
        handle(error)
    finally:
        # From here on there is nothing left for the listener to commit, which closing calls too.
        last = dict(done)
        done.clear()
        try:
            consumer.commit(last)
            print("the last commit was acknowledged")
        finally:
            consumer.close()
            print("closed")


def give_up(consumer: Consumer, partitions: list[TopicPartition], done: dict[TopicPartition, int]) -> None:
    """These are another's soon: commit what was processed of them, then they are no longer ours to commit."""
    consumer.commit({partition: done.pop(partition) for partition in partitions if partition in done})


def consume_and_lose(consumer: Consumer, topics: list[str], end: program.End) -> None:
    """The usual one. Do not copy it: ``commit()`` in ``finally`` also commits what ``process`` never finished."""
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
            # Without offsets: everything that poll has given, processed or not.
            consumer.commit()
            print("the last commit was acknowledged")
        finally:
            consumer.close()
            print("closed")


def handle(error: Exception) -> None:
    print(f"reading ended: {error}", file=sys.stderr)


if __name__ == "__main__":
    made = program.parser(__doc__, "async-commits", ["quickstart-events"])
    made.add_argument("--shape", choices=("right", "lossy"), default="right", help="which of the two to run")
    sys.exit(program.run(made, read))
