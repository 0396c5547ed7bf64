"""A member of the chaos group as a process of its own: it writes down each record it has processed, and when.

An entry reaches the file before the handler returns, so what a ``kill -9`` leaves behind is what really happened.
"""

import os
import struct
import sys
import time

from seamark.parallel import Commit, ConsumerStopped, ParallelConsumer

# The record's number, its partition, and the moment by the clock that all processes share.
ENTRY = struct.Struct("<IIQ")


def main(bootstrap: str, group: str, topic: str, file: str) -> int:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def handle(record):
        number = int.from_bytes(record.value, "big")
        if number % 5_000 == 0:
            time.sleep(0.2)
        os.write(descriptor, ENTRY.pack(number, record.partition, time.monotonic_ns()))

    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1_000,
        "metadata.max.age.ms": 5_000,
    }
    consumer = ParallelConsumer(config, [topic], handle, concurrency=16, commit=Commit(interval=1.0), drain=10.0)
    try:
        summary = consumer.run()
    except ConsumerStopped as stopped:
        print(stopped, file=sys.stderr)
        return 1
    print(summary, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
