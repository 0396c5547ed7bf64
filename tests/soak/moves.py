"""Moves in full: killed 50 times on the way out of ZooKeeper, and 1,000 groups from Apache Kafka to us and back.

``seamark migrate`` moves the offsets of many groups from a real ZooKeeper into a broker. Again and again the process is
killed with SIGKILL, at any moment from its start on: while it plans, writes, reads back, or goes back. After each kill
every offset of the target is either what it was or what it should become. Resumed, the move and its rollback end as if
nothing had happened, and then the next round begins.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seamark import Broker
from seamark.client import Admin, Offset, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.stores import StoredOffset, ZookeeperStore
from tests.support.apache_kafka import ApacheKafka
from tests.support.produced import produce
from tests.support.zookeeper import Zookeeper

KILLS = 50
GROUPS = 1_000
PARTITIONS = 10
RECORDS = 200
TOPIC = "soak"
SEAMARK = str(Path(sys.executable).with_name("seamark"))
LONGEST_S = 300.0

Offsets = dict[str, dict[int, int]]


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    seed = int(os.environ.get("SEAMARK_SEED") or random.SystemRandom().randrange(2**32))
    kills = max(3, round(KILLS * scale))
    groups = max(20, round(GROUPS * scale))
    failures: list[str] = []
    killed = rounds = 0
    with tempfile.TemporaryDirectory(prefix="seamark-soak-") as name, Broker() as broker:
        with Zookeeper() as zookeeper:
            chance = random.Random(seed)
            wanted = fill(zookeeper.connect, broker, groups)
            while killed < kills and not failures:
                directory = Path(name) / str(rounds)
                directory.mkdir()
                killed += one_round(zookeeper.connect, broker, directory, wanted, chance, failures)
                rounds += 1
        compared = there_and_back(broker, Path(name), groups, failures)
    return {
        "ok": not failures and killed >= kills,
        "kills": killed,
        "rounds": rounds,
        "groups": groups,
        "offsets": groups * PARTITIONS,
        "offsets_compared_there_and_back": compared,
        "seed": seed,
        "failures": failures[:10],
        "seconds": round(time.monotonic() - begin, 1),
    }


def fill(connect: str, broker: Broker, groups: int) -> Offsets:
    broker.create_topic(TOPIC, partitions=PARTITIONS)
    for index in range(PARTITIONS):
        produce(broker.bootstrap, TopicPartition(TOPIC, index), [b"x"] * RECORDS)
    wanted = {
        f"group-{number:05}": {index: (number * 7 + index) % RECORDS for index in range(PARTITIONS)}
        for number in range(groups)
    }
    items = (
        (group, {TopicPartition(TOPIC, index): StoredOffset(offset) for index, offset in offsets.items()})
        for group, offsets in wanted.items()
    )
    with ZookeeperStore(connect) as store:
        for _, outcomes in store.write_many(items):
            assert not any(outcomes.values())
    return wanted


def one_round(
    connect: str, broker: Broker, directory: Path, wanted: Offsets, chance: random.Random, failures: list[str]
) -> int:
    """Move until it is done and go back until that is done, killed on the way; how often it was."""
    forward = [
        "zookeeper-to-kafka", "--all", "--zookeeper", connect, "--bootstrap", broker.bootstrap,
        "--plan", "plan.jsonl", "--apply", "--resume", "--json",
    ]  # fmt: skip
    killed = attempts(forward, directory, broker, wanted, chance, failures)
    if not failures and committed(broker, wanted) != wanted:
        failures.append("the move ended with other offsets than the source has")
    if failures:
        return killed
    ran = subprocess.run([SEAMARK, "migrate", "verify", "plan.jsonl"], cwd=directory, capture_output=True, text=True)
    if ran.returncode:
        failures.append(f"verify said: {ran.stderr.strip()}")
    killed += attempts(["rollback", "plan.jsonl", "--apply", "--json"], directory, broker, wanted, chance, failures)
    if not failures and any(committed(broker, wanted).values()):
        failures.append("the rollback left offsets behind")
    return killed


def attempts(
    arguments: list[str], directory: Path, broker: Broker, wanted: Offsets, chance: random.Random, failures: list[str]
) -> int:
    """Run the command until it ends by itself, killing it meanwhile; it is given more time after each kill."""
    killed, patience = 0, 1.5
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        process = subprocess.Popen(
            [SEAMARK, "migrate", *arguments],
            cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            _, errors = process.communicate(timeout=chance.uniform(0.3, patience))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
            patience *= 1.25
            failures += wrong_offsets(committed(broker, wanted), wanted)
            if failures:
                return killed
            continue
        if process.returncode:
            failures.append(f"{arguments[0]} ended with {process.returncode}: {errors.strip()}")
        return killed
    failures.append(f"{arguments[0]} did not end within {LONGEST_S:g} s")
    return killed


def committed(broker: Broker, wanted: Offsets) -> Offsets:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        found = admin.list_group_offsets(list(wanted)).raise_if_failed()
    return {group: {each.partition: offset.offset for each, offset in found[group].items()} for group in wanted}


def wrong_offsets(found: Offsets, wanted: Offsets) -> list[str]:
    return [
        f"after a kill {group} has {offset} in partition {index}, {wanted[group][index]} is right"
        for group, offsets in found.items()
        for index, offset in offsets.items()
        if offset != wanted[group][index]
    ]


def there_and_back(broker: Broker, directory: Path, groups: int, failures: list[str]) -> int:
    """Apache Kafka to our broker and back to other names: how many offsets were compared with the first."""
    topic = "soak-there-and-back"
    with ApacheKafka() as kafka:
        with Admin(bootstrap_servers=kafka.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).raise_if_failed()
            broker.create_topic(topic, partitions=PARTITIONS)
            values = [f"record {number}".encode() for number in range(RECORDS)]
            began_ms = int(time.time() * 1000) - 86_400_000
            for bootstrap in (kafka.bootstrap, broker.bootstrap):
                for index in range(PARTITIONS):
                    produce(bootstrap, TopicPartition(topic, index), values, began_ms)
            wanted = {
                f"both-{number:05}": {
                    TopicPartition(topic, index): Offset((number * 3 + index) % (RECORDS + 1), f"note {number}")
                    for index in range(PARTITIONS)
                }
                for number in range(groups)
            }
            for group, offsets in wanted.items():
                admin.alter_group_offsets(group, offsets, look_first=False).raise_if_failed()
        failures += moved(directory, kafka.bootstrap, broker.bootstrap, "there.jsonl", "{group}")
        failures += moved(directory, broker.bootstrap, kafka.bootstrap, "back.jsonl", "{group}-back")
        with Admin(bootstrap_servers=kafka.bootstrap) as admin, Admin(bootstrap_servers=broker.bootstrap) as ours:
            there = ours.list_group_offsets(list(wanted))
            back = admin.list_group_offsets([f"{group}-back" for group in wanted])
            failures += [
                f"{group} is not the same there, or not back"
                for group, offsets in wanted.items()
                if not there.get(group) == back.get(f"{group}-back") == offsets
            ]
    return groups * PARTITIONS


def moved(directory: Path, source: str, target: str, plan: str, to_group: str) -> list[str]:
    ran = subprocess.run(
        [
            SEAMARK, "migrate", "cluster-to-cluster", "--pattern", "both-[0-9]+", "--to-group", to_group,
            "--bootstrap", source, "--to-bootstrap", target, "--plan", plan, "--apply",
        ],
        cwd=directory, capture_output=True, text=True,
    )  # fmt: skip
    return [f"{plan}: {ran.stderr.strip()}"] if ran.returncode else []
