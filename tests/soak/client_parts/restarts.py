"""Brokers that are killed with ``kill -9`` under a working group and come back on their data, on the same port.

What was acknowledged is on disk or with the operating system, so nothing may be missing: no record that the producer
heard of, no commit. Apache Kafka and the embedded broker take the same treatment.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Protocol

from benchmarks.broker_process import BrokerProcess
from seamark.client import Admin
from seamark.client.admin.types import NewTopic
from tests.soak.client_parts.at_least_once import PARTITIONS, TOPIC, Group
from tests.soak.client_parts.proxied import outcome
from tests.support.apache_kafka import ApacheKafka
from tests.support.proxy import free_ports_in_a_row


class Killable(Protocol):
    bootstrap: str

    def kill(self) -> None: ...

    def start(self) -> object: ...


def on_our_broker(kills: int, seed: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="seamark-restarts-") as place:
        broker = BrokerProcess(Path(place) / "broker", "-o", "group.initial.rebalance.delay.ms=0")
        # Not a port that the system gives to clients: one that reconnects to a dead broker could meet itself there.
        broker.bootstrap = f"127.0.0.1:{free_ports_in_a_row(1)}"
        with broker:
            return _kill_and_start(broker, kills, random.Random(seed))


def on_apache_kafka(kills: int, seed: int) -> dict[str, object]:
    with ApacheKafka(settings={"offsets.topic.num.partitions": 4}) as broker:
        return _kill_and_start(broker, kills, random.Random(seed))


def _kill_and_start(broker: Killable, kills: int, rng: random.Random) -> dict[str, object]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).raise_if_failed()
    with Group(broker.bootstrap, "restarted") as group:
        done = 0
        while group.catch_up() and done < kills:
            time.sleep(rng.uniform(0.2, 1.5))
            broker.kill()
            time.sleep(rng.uniform(0.0, 1.0))
            broker.start()
            done += 1
    return outcome(group, done, {"kill -9": done})
