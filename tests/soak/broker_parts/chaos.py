"""Clients over real sockets while everything around them goes wrong: confluent-kafka members come, leave and die, nodes
stop, requests fail, connections drop, coordinators move.

A producer with idempotence writes numbered values all the time. When the chaos is over, every value that was
acknowledged must have been read by a member that committed behind it, the log must hold each of them once, and the
group must have become stable with exactly the members that live.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress

from confluent_kafka import Consumer, Producer, TopicPartition

from seamark import Broker
from seamark.errors import UsageError
from tests.conformance.clients.program import ClientProgram, ProgramFailed

TOPIC = "orders"
GROUP = "chaos"
PARTITIONS = 6
MOST_MEMBERS = 4
SETTLE_SECONDS = 90.0
RETRIABLE = {
    "OffsetCommit": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
    "JoinGroup": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
    "SyncGroup": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
    "Heartbeat": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
    "OffsetFetch": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
    "Fetch": ("NOT_LEADER_OR_FOLLOWER",),
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"),
    "Metadata": (),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
}


class Writer:
    """Produces a numbered value every few milliseconds and keeps those that were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        )
        self.acknowledged: set[str] = set()
        self.failures: list[str] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_stopping.is_set():
            self._producer.produce(TOPIC, str(number), partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0.005)
            number += 1
        if self._producer.flush(120):
            self.failures.append("the producer did not get everything out")

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failures.append(f"produce: {error}")
        else:
            self.acknowledged.add(message.value().decode())  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(150)


class Chaos:
    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        self.members: list[ClientProgram] = []
        self.read: set[str] = set()
        self.events = 0
        self._actions = (self._fail, self._drop, self._delay, self._move, self._toggle_node, self._churn, self._kill)

    def step(self) -> None:
        self.events += 1
        # A node or a group may just not be there for what chance has picked.
        with suppress(UsageError):
            self._rng.choice(self._actions)()
        if self._rng.random() < 0.5 and self.members:
            self.commit(self._rng.choice(self.members))

    def _fail(self) -> None:
        api = self._rng.choice([api for api, errors in RETRIABLE.items() if errors])
        self._broker.faults.fail(api, self._rng.choice(RETRIABLE[api]), times=self._rng.randint(1, 3))

    def _drop(self) -> None:
        when = self._rng.choice(("before", "after"))
        self._broker.faults.drop(self._rng.choice(list(RETRIABLE)), when=when, times=self._rng.randint(1, 2))

    def _delay(self) -> None:
        self._broker.faults.delay(self._rng.choice(list(RETRIABLE)), self._rng.uniform(0.01, 0.4), times=3)

    def _move(self) -> None:
        running = [number for number, node in enumerate(self._broker.nodes) if node.is_running]
        self._broker.faults.move_coordinator(GROUP, self._rng.choice(running))

    def _toggle_node(self) -> None:
        node = self._rng.choice(self._broker.nodes)
        if not node.is_running:
            node.start()
        elif sum(each.is_running for each in self._broker.nodes) > 1:
            node.stop()

    def _churn(self) -> None:
        if len(self.members) < MOST_MEMBERS and (len(self.members) < 2 or self._rng.random() < 0.6):
            self.add_member()
        else:
            member = self.members.pop(self._rng.randrange(len(self.members)))
            self.take(member)
            with suppress(ProgramFailed):
                member.ask("leave")
            member.kill()

    def _kill(self) -> None:
        if len(self.members) > 1:
            member = self.members.pop(self._rng.randrange(len(self.members)))
            self.take(member)
            member.kill()

    def add_member(self) -> None:
        member = ClientProgram("confluent", self._broker.bootstrap)
        member.ask("join", group=GROUP, topic=TOPIC, assignor="cooperative-sticky", instance=None, session_ms=6_000)
        self.members.append(member)

    def take(self, member: ClientProgram) -> None:
        """Write down what the member has read; nothing that it commits from then on is missing here."""
        self.read |= set(member.ask("status")["read"])

    def commit(self, member: ClientProgram) -> None:
        with suppress(ProgramFailed):
            # Refused when the group rebalances: then nothing was committed.
            member.ask("commit")
        self.take(member)

    def end(self) -> None:
        for node in self._broker.nodes:
            if not node.is_running:
                node.start()
        self._broker.faults.clear()
        if not self.members:
            self.add_member()


def run(seconds: float, seed: int = 0) -> dict[str, object]:
    rng = random.Random(seed)
    failures: list[str] = []
    with Broker(nodes=3, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        writer, chaos = Writer(broker.bootstrap), Chaos(broker, rng)
        try:
            for _ in range(2):
                chaos.add_member()
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                chaos.step()
                time.sleep(rng.uniform(0, 0.3))
            chaos.end()
            writer.stop()
            failures += writer.failures
            failures += unsettled(chaos, writer)
        finally:
            for member in chaos.members:
                member.kill()
        stored = values_in_the_log(broker)
    if not set(stored) >= writer.acknowledged:
        failures.append(f"{len(writer.acknowledged - set(stored))} acknowledged values are not in the log")
    if len(stored) != len(set(stored)):
        failures.append(f"{len(stored) - len(set(stored))} values are in the log twice")
    return {
        "ok": not failures and len(writer.acknowledged) > seconds,
        "seconds": seconds,
        "events": chaos.events,
        "acknowledged": len(writer.acknowledged),
        "read": len(chaos.read),
        "failures": failures[:10],
    }


def unsettled(chaos: Chaos, writer: Writer) -> list[str]:
    """What is still wrong some time after the chaos has ended."""
    deadline = time.monotonic() + SETTLE_SECONDS
    owned: list[int] = []
    state: dict[str, object] = {}
    while time.monotonic() < deadline:
        for member in chaos.members:
            chaos.take(member)
        owned = sorted(number for member in chaos.members for number in member.ask("status")["owned"])
        with suppress(ProgramFailed):
            state = chaos.members[0].ask("describe", group=GROUP)
        is_stable = owned == list(range(PARTITIONS)) and state == {"state": "Stable", "members": len(chaos.members)}
        if is_stable and chaos.read >= writer.acknowledged:
            return []
        time.sleep(0.2)
    missing = len(writer.acknowledged - chaos.read)
    return [f"{len(chaos.members)} members own {owned}, the group is {state}, {missing} values were not read"]


def values_in_the_log(broker: Broker) -> list[str]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "check", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    values, ended = [], 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        if message is None:
            break
        if message.error() is None:
            values.append(message.value().decode())
        else:
            ended += 1
    consumer.close()
    return values
