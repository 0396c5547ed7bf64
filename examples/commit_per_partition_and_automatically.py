"""Read topics, and commit each partition by hand while automatic commits go on beside it. Do not copy this one.

    python examples/commit_per_partition_and_automatically.py --bootstrap localhost:9092 --topic quickstart-events

The example as it is often published: ``enable.auto.commit`` stays on, every second, so a poll also commits the
positions of all partitions, whether or not their records were processed. Nothing is lost here only because each batch
is finished before the next poll; a record handed to another thread would be committed unprocessed. The twin
``commit_per_partition.py`` turns it off.
"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby

import program

from seamark.client import Consumer, TopicPartition


def ignore(partitions: list[TopicPartition]) -> None:
    """A listener that does nothing."""


def read(arguments: argparse.Namespace, end: program.End) -> None:
    with Consumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        enable_auto_commit=True,
        auto_commit_interval_ms=1000,
        auto_offset_reset="earliest",
        key=str,
        value=str,
    ) as consumer:
        consumer.subscribe(arguments.topics, on_assigned=ignore, on_revoked=ignore)
        while not end.is_here:
            records = consumer.poll(0.1)
            for partition, some in groupby(records, key=lambda record: record.topic_partition):
                for record in some:
                    print(f"{partition} offset={record.offset} key={record.key} value={record.value}")
                consumer.commit({partition: record.offset + 1})
                print(f"{partition} committed={record.offset + 1}")
            end.count(len(records))


if __name__ == "__main__":
    sys.exit(program.run(program.parser(__doc__, "aaa", ["quickstart-events", "bar"]), read))
