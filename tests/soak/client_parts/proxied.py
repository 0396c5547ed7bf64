"""A bad network and a restless cluster: connections cut, torn, delayed, stalled, half-closed and refused by a proxy in
front of each node; coordinators that move, nodes that stop and start, requests that fail.

One run is one fault of one kind, a moment of work under it, and the end of it; the group of members must then
catch up. The embedded broker has three nodes, each behind its proxy; Apache Kafka has one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from seamark import Broker
from seamark.client import Admin
from seamark.client.admin.types import NewTopic
from seamark.errors import UsageError
from tests.soak.client_parts.at_least_once import PARTITIONS, TOPIC, Group
from tests.support.apache_kafka import ApacheKafka
from tests.support.proxy import Proxy, free_ports_in_a_row

NODES = 3
GROUP = "through-proxies"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}


def run_network_fault(proxies: list[Proxy], rng: random.Random) -> str:
    """Do one thing to the network for a moment; says what it was."""
    chosen = proxies if rng.random() < 0.3 else [rng.choice(proxies)]
    kind = rng.choice(("cut", "cut often", "tear", "delay", "stall", "half close", "refuse"))
    towards_client = rng.random() < 0.5
    for _ in range(4 if kind == "cut often" else 1):
        for proxy in chosen:
            match kind:
                case "cut" | "cut often":
                    proxy.cut()
                case "tear":
                    proxy.tear()
                case "delay":
                    proxy.delay(rng.uniform(0.05, 0.5))
                case "stall":
                    proxy.stall()
                case "half close":
                    proxy.half_close(towards_client=towards_client)
                case "refuse":
                    proxy.refuse()
                    proxy.cut()
        time.sleep(rng.uniform(0.1, 0.5))
    time.sleep(rng.uniform(0.0, 7.0) if kind == "stall" else rng.uniform(0.0, 1.5))
    for proxy in proxies:
        proxy.heal()
    return kind


class ClusterFaults:
    """What the embedded broker can be told to do wrong."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        self._kinds: dict[str, Callable[[], None]] = {
            "move coordinator": self._move, "stop node": self._stop_node, "fail requests": self._fail,
            "drop answers": self._drop,
        }  # fmt: skip

    def run(self) -> str:
        kind = self._rng.choice(list(self._kinds))
        # The group may just be between two coordinators.
        with suppress(UsageError):
            self._kinds[kind]()
        time.sleep(self._rng.uniform(0.1, 1.0))
        for node in self._broker.nodes:
            if not node.is_running:
                node.start()
        self._broker.faults.clear()
        return kind

    def _move(self) -> None:
        for _ in range(self._rng.randint(1, 3)):
            self._broker.faults.move_coordinator(GROUP, self._rng.randrange(NODES))
            time.sleep(self._rng.uniform(0.0, 0.3))

    def _stop_node(self) -> None:
        self._rng.choice(self._broker.nodes).stop()
        time.sleep(self._rng.uniform(0.2, 1.5))

    def _fail(self) -> None:
        for api, error in (
            ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"), ("Heartbeat", "COORDINATOR_NOT_AVAILABLE"),
            ("JoinGroup", "COORDINATOR_NOT_AVAILABLE"), ("SyncGroup", "NOT_COORDINATOR"),
            ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"), ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
            ("Produce", "NOT_LEADER_OR_FOLLOWER"),
        ):  # fmt: skip
            self._broker.faults.fail(api, error, times=self._rng.randint(1, 4))

    def _drop(self) -> None:
        for api in ("OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "Fetch", "Produce", "Metadata"):
            self._broker.faults.drop(api, when=self._rng.choice(("before", "after")), times=1)


def _both_at_once(proxies: list[Proxy], faults: ClusterFaults, rng: random.Random) -> str:
    # Two threads must not share one source of chance: what it gives would depend on their timing.
    network = threading.Thread(target=run_network_fault, args=(proxies, random.Random(rng.random())))
    network.start()
    for _ in range(rng.randint(1, 3)):
        faults.run()
    network.join()
    return "network and cluster"


def outcome(group: Group, runs: int, kinds: dict[str, int]) -> dict[str, object]:
    """What the books say, as a part of the soak's result."""
    books = group.books
    return {
        "ok": not books.failures and not books.missing and bool(books.acknowledged) and books.commits_checked > runs,
        "runs": runs,
        "kinds": kinds,
        "records": len(books.acknowledged),
        "processed_twice": books.processed_twice,
        "commits": books.commits_checked,
        "commits_refused": books.commits_refused,
        "failures": books.failures[:5],
    }


def on_our_broker(runs: int, seed: int, strategy: str = "cooperative-sticky") -> dict[str, object]:
    rng = random.Random(seed)
    first, advertised = free_ports_in_a_row(NODES), free_ports_in_a_row(NODES)
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{advertised}"}
    kinds: dict[str, int] = {}
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(first + n, advertised + n)) for n in range(NODES)]
        broker = stack.enter_context(Broker(nodes=NODES, listen=f"127.0.0.1:{first}", settings=settings))
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        bootstrap = ",".join(proxy.address for proxy in proxies)
        faults = ClusterFaults(broker, rng)
        with Group(bootstrap, GROUP, strategy) as group:
            done = 0
            while group.catch_up() and done < runs:
                chance = rng.random()
                if chance < 0.2:
                    kind = _both_at_once(proxies, faults, rng)
                else:
                    kind = faults.run() if chance < 0.5 else run_network_fault(proxies, rng)
                kinds[kind] = kinds.get(kind, 0) + 1
                if rng.random() < 0.15:
                    group.replace_member(rng.randrange(len(group.members)), abruptly=rng.random() < 0.4)
                done += 1
        return outcome(group, done, kinds)


def on_apache_kafka(runs: int, seed: int, strategy: str = "cooperative-sticky") -> dict[str, object]:
    rng = random.Random(seed)
    advertised = free_ports_in_a_row(1)
    kinds: dict[str, int] = {}
    settings = {"advertised.listeners": f"CLIENT://127.0.0.1:{advertised}"}
    with ApacheKafka(settings=settings) as broker, Proxy(broker.port, advertised) as proxy:
        with Admin(bootstrap_servers=proxy.address) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).raise_if_failed()
        with Group(proxy.address, GROUP, strategy) as group:
            done = 0
            while group.catch_up() and done < runs:
                kind = run_network_fault([proxy], rng)
                kinds[kind] = kinds.get(kind, 0) + 1
                if rng.random() < 0.15:
                    group.replace_member(rng.randrange(len(group.members)), abruptly=rng.random() < 0.4)
                done += 1
        return outcome(group, done, kinds)
