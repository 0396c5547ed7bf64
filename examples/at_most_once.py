"""At most once: commit before processing. What a crash interrupts is not read again.

    python examples/at_most_once.py --bootstrap localhost:9092 --topic quickstart-events --crash-after 7

The only difference to ``at_least_once.py`` is where the commit stands. ``--crash-after`` ends the process in the middle
of a batch; run it again to see what was lost.
"""

from __future__ import annotations

import argparse
import os
import sys

import program

from seamark.client import Consumer, Record


def process(record: Record, arguments: argparse.Namespace, end: program.End) -> None:
    print(f"processed {record.topic_partition} offset={record.offset}", flush=True)
    end.count(1)
    if end.seen == arguments.crash_after:
        os._exit(70)


def read(arguments: argparse.Namespace, end: program.End) -> None:
    with Consumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        # A program that is started again takes its own place: nobody waits for the end of its old session.
        group_instance_id="example",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe(arguments.topics)
        while not end.is_here:
            records = consumer.poll(1.0, max_records=arguments.batch)
            if records:
                consumer.commit()
            for record in records:
                process(record, arguments, end)


if __name__ == "__main__":
    made = program.parser(__doc__, "at-most-once", ["quickstart-events"])
    made.add_argument("--batch", type=int, default=10, help="records per poll")
    made.add_argument("--crash-after", type=int, default=None, help="end the process after so many records")
    sys.exit(program.run(made, read))
