"""A first look: a broker, a topic, a consumer that works in parallel, and the command line beside them.

Run it without arguments; it needs nothing else, ends by itself in a few seconds and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

from seamark import Broker
from seamark.client import Producer, Record
from seamark.parallel import ParallelConsumer

RECORDS = 20_000


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", partitions=4)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"order %d" % number, key=b"customer %d" % (number % 500))
        print(f"{RECORDS} records are in topic orders of a broker at {broker.bootstrap}")
        process_in_parallel(broker.bootstrap)
        seamark("groups", "describe", "billing", bootstrap=broker.bootstrap)
        seamark("groups", "reset", "billing", "--to", "shift:-100", bootstrap=broker.bootstrap)


def process_in_parallel(bootstrap: str) -> None:
    """One consumer, 64 handlers at once, the records of a customer in order."""
    done = set()
    everything = threading.Event()

    def charge(record: Record) -> None:
        done.add(record.value)
        if len(done) == RECORDS:
            everything.set()

    config = {"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    started = time.monotonic()
    with ParallelConsumer(config, ["orders"], charge, concurrency=64):
        if not everything.wait(120):
            sys.exit("first look: not all records were processed within two minutes")
        seconds = time.monotonic() - started
    print(f"{len(done)} records were processed by key on 64 threads in {seconds:.1f} s and committed")


def seamark(*words: str, bootstrap: str) -> None:
    print("\n$ seamark", *words, flush=True)
    command = Path(sys.executable).with_name("seamark")
    subprocess.run([command, *words, "--bootstrap", bootstrap], check=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    main()
