"""moves.*: 100,000 offsets out of a real ZooKeeper into Apache Kafka, with ``seamark migrate`` from start to exit.

1,000 groups have 100 partitions each. The move plans, writes, reads both sides back and keeps its journal; every run
moves to new group names, so there is everything to write. The first peer does what scripts do, one read and one commit
per offset, with confluent-kafka; its speed is taken from a sample of the groups. The second peer only reads the same
nodes, with kazoo alone and its requests pipelined. The broker has its default settings.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from benchmarks.claims import QUICK, compare
from benchmarks.peer_kafka import peer_kafka
from seamark.client import Admin, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.stores import StoredOffset, ZookeeperStore
from tests.support.zookeeper import Zookeeper

GROUPS = 50 if QUICK else 1_000
PARTITIONS = 100
RECORDS = 100
# At about a hundred commits a second all of them would take a quarter of an hour, each run.
SAMPLED_GROUPS = 3 if QUICK else 10
IN_FLIGHT = 512
TOPIC = "bench-moves"
SEAMARK = str(Path(sys.executable).with_name("seamark"))

_numbers = itertools.count(1)


def measure() -> list[dict[str, object]]:
    with Zookeeper() as zookeeper, peer_kafka() as kafka:
        fill(zookeeper.connect, kafka.bootstrap)
        return [
            compare(
                "moves.zookeeper",
                "offsets/s",
                "higher",
                lambda: GROUPS * PARTITIONS / moved(zookeeper.connect, kafka.bootstrap),
                lambda: one_by_one(zookeeper.connect, kafka.bootstrap),
                offsets=GROUPS * PARTITIONS,
                sampled=SAMPLED_GROUPS * PARTITIONS,
            ),
            compare(
                "moves.zookeeper_read",
                "s",
                "lower",
                lambda: moved(zookeeper.connect, kafka.bootstrap),
                lambda: read_with_kazoo(zookeeper.connect),
                offsets=GROUPS * PARTITIONS,
            ),
        ]


def name_of(number: int) -> str:
    return f"group-{number:04}"


def offset_of(group: int, partition: int) -> int:
    return (group + partition) % RECORDS


def fill(connect: str, bootstrap: str) -> None:
    """The topic's records, and the groups' offsets in ZooKeeper."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).raise_if_failed()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(PARTITIONS):
            producer.send_many(TOPIC, [b"record"] * RECORDS, partition=partition)
    groups = (
        (
            name_of(group),
            {TopicPartition(TOPIC, index): StoredOffset(offset_of(group, index)) for index in range(PARTITIONS)},
        )
        for group in range(GROUPS)
    )
    with ZookeeperStore(connect) as store:
        failed = [error for _, outcomes in store.write_many(groups) for error in outcomes.values() if error]
    if failed:
        raise failed[0]


def moved(connect: str, bootstrap: str) -> float:
    """Seconds of one whole move to new groups; what came of it is compared with what was wanted."""
    suffix = f"-{next(_numbers)}"
    with tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        subprocess.run(
            [
                SEAMARK, "migrate", "zookeeper-to-kafka", "--all", "--to-group", f"{{group}}{suffix}", "--apply",
                "--zookeeper", connect, "--bootstrap", bootstrap,
            ],
            cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=900,
        )  # fmt: skip
        seconds = time.perf_counter() - started
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_group_offsets([f"{name_of(group)}{suffix}" for group in range(GROUPS)]).raise_if_failed()
        for group in range(GROUPS):
            offsets = found[f"{name_of(group)}{suffix}"]
            wanted = [offset_of(group, index) for index in range(PARTITIONS)]
            assert [offsets[TopicPartition(TOPIC, index)].offset for index in range(PARTITIONS)] == wanted
        admin.delete_groups(list(found)).raise_if_failed()
    return seconds


def one_by_one(connect: str, bootstrap: str) -> float:
    """Offsets a second of a script that reads one node and commits one offset, again and again."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Committed
    from kazoo.client import KazooClient

    suffix = f"-{next(_numbers)}"
    client = KazooClient(hosts=connect)
    client.start()
    started = time.perf_counter()
    try:
        for group in range(SAMPLED_GROUPS):
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{name_of(group)}{suffix}"})
            for index in range(PARTITIONS):
                found, _ = client.get(f"/consumers/{name_of(group)}/offsets/{TOPIC}/{index}")
                [committed] = consumer.commit(offsets=[Committed(TOPIC, index, int(found))], asynchronous=False)
                if committed.error is not None or committed.offset != offset_of(group, index):
                    raise AssertionError(f"the script committed {committed}, not {offset_of(group, index)}")
            consumer.close()
        return SAMPLED_GROUPS * PARTITIONS / (time.perf_counter() - started)
    finally:
        client.stop()
        client.close()


def read_with_kazoo(connect: str) -> float:
    """Seconds to list and read every node, requests pipelined, from connecting to the last answer."""
    from kazoo.client import KazooClient

    started = time.perf_counter()
    client = KazooClient(hosts=connect)
    client.start()
    try:
        found: list[int] = []
        under_way: deque[Any] = deque()
        for group in client.get_children("/consumers"):
            for topic in client.get_children(f"/consumers/{group}/offsets"):
                for partition in client.get_children(f"/consumers/{group}/offsets/{topic}"):
                    under_way.append(client.get_async(f"/consumers/{group}/offsets/{topic}/{partition}"))
                    if len(under_way) >= IN_FLIGHT:
                        found.append(int(under_way.popleft().get()[0]))
        while under_way:
            found.append(int(under_way.popleft().get()[0]))
        seconds = time.perf_counter() - started
        wanted = sum(offset_of(group, index) for group in range(GROUPS) for index in range(PARTITIONS))
        assert (len(found), sum(found)) == (GROUPS * PARTITIONS, wanted)
        return seconds
    finally:
        client.stop()
        client.close()
