"""kafka-python runs a group's whole story against our broker: members come, leave and die, commit and resume."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from seamark.broker import Broker
from tests.support import waiting

with warnings.catch_warnings():
    # kafka-python loads its schemas through a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.structs import OffsetAndMetadata

# kafka-python leaves sockets to the garbage collector, which complains in whatever test comes next.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PARTITIONS = 6
RECORDS = 60

# A member that prints what it was assigned and then waits to be killed.
_DOOMED = """
import sys
from kafka import KafkaConsumer
consumer = KafkaConsumer("orders", bootstrap_servers=sys.argv[1], group_id=sys.argv[2], session_timeout_ms=2000,
                         heartbeat_interval_ms=300, enable_auto_commit=False)
while True:
    consumer.poll(timeout_ms=200)
    print(len(consumer.assignment()), flush=True)
"""


@pytest.fixture(autouse=True)
def sockets_are_collected() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with Broker(settings=settings) as running:
        running.create_topic("orders", PARTITIONS)
        producer = KafkaProducer(bootstrap_servers=running.bootstrap)
        for number in range(RECORDS):
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
        producer.flush()
        producer.close()
        yield running


eventually = partial(waiting.eventually, seconds=30.0)


class Member:
    """A consumer that polls in a thread of its own, for as long as it is in the group."""

    def __init__(self, broker: Broker, group: str, **more: Any) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 200,
        }
        self.consumer = KafkaConsumer("orders", **(options | more))
        self.values: list[bytes] = []
        self.owned: set[int] = set()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        # Before it joins, or it may hang for a session's time: kafka_python_program.py says why.
        self.consumer.partitions_for_topic("orders")
        while not self._is_stopping.is_set():
            for records in self.consumer.poll(timeout_ms=100).values():
                self.values += [record.value for record in records]
            self.owned = {each.partition for each in self.consumer.assignment()}
        self.consumer.close()

    def leave(self) -> None:
        self._is_stopping.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.owned = set()


def is_shared_out(*members: Member, of: int = PARTITIONS) -> bool:
    """Every partition is owned once and everybody has some."""
    owned = [member.owned for member in members]
    return all(owned) and sum(map(len, owned)) == of and len(set().union(*owned)) == of


def test_partitions_move_as_members_come_leave_and_die(broker: Broker) -> None:
    first, second = Member(broker, "story"), Member(broker, "story")
    third = None
    try:
        eventually(lambda: is_shared_out(first, second), "two members")
        third = Member(broker, "story")
        eventually(lambda: is_shared_out(first, second, third), "three members")
        second.leave()
        eventually(lambda: is_shared_out(first, third), "one has left")
        doomed = subprocess.Popen(
            [sys.executable, "-c", _DOOMED, broker.bootstrap, "story"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert doomed.stdout is not None
            eventually(lambda: doomed.stdout.readline().strip() not in ("", "0"), "another process has partitions")
            eventually(lambda: is_shared_out(first, third, of=4), "the others have given them up")
        finally:
            doomed.kill()
            doomed.wait(10)
            doomed.stdout.close()
        eventually(lambda: is_shared_out(first, third), "the dead one's partitions are taken over")
        eventually(lambda: set(first.values + second.values + third.values) >= _all_values(), "everything was read")
    finally:
        for member in (first, second, third):
            if member is not None:
                member.leave()


def _all_values() -> set[bytes]:
    return {b"%d" % number for number in range(RECORDS)}


def test_a_restarted_consumer_goes_on_where_it_committed(broker: Broker) -> None:
    def consumer() -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id="resume",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    partition = TopicPartition("orders", 0)
    first = consumer()
    first.assign([partition])
    assert first.committed(partition) is None
    first.commit({partition: OffsetAndMetadata(4, "so far", -1)})
    first.close()
    second = consumer()
    second.assign([partition])
    stored = second.committed(partition, metadata=True)
    assert (stored.offset, stored.metadata) == (4, "so far")
    offsets: list[int] = []

    def read() -> bool:
        offsets.extend(record.offset for record in second.poll(timeout_ms=200).get(partition, []))
        return len(offsets) >= 6

    eventually(read, "the rest")
    assert offsets == [4, 5, 6, 7, 8, 9]
    second.close()


def test_a_static_member_keeps_its_partitions_over_a_restart(broker: Broker) -> None:
    one = Member(broker, "static", group_instance_id="one")
    two = Member(broker, "static", group_instance_id="two")
    try:
        eventually(lambda: is_shared_out(one, two), "two static members")
        before, generation = set(two.owned), _generation(one)
        # A static member does not say goodbye; another process with its name takes its place.
        two.leave()
        two = Member(broker, "static", group_instance_id="two")
        eventually(lambda: two.owned == before, "the place is taken up again")
        assert _generation(one) == generation
    finally:
        one.leave()
        two.leave()


def _generation(member: Member) -> int:
    return int(member.consumer._coordinator._generation.generation_id)


def test_a_client_follows_a_coordinator_that_moves_and_waits_for_one_that_loads() -> None:  # B11, F14, F22
    partition = TopicPartition("orders", 0)
    with Broker(nodes=3) as cluster:
        cluster.create_topic("orders", 1)
        consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id="moving", enable_auto_commit=False)
        consumer.assign([partition])
        for node in (1, 2, 0):
            cluster.faults.move_coordinator("moving", node)
            consumer.commit({partition: OffsetAndMetadata(node + 1, "", -1)})
            assert consumer.committed(partition) == node + 1
        with cluster.faults.hold_loading("moving"):
            reader = threading.Timer(0, lambda: found.append(consumer.committed(partition)))
            found: list[int] = []
            reader.start()
            time.sleep(0.5)
            assert found == []
        reader.join(20)
        assert found == [1]
        consumer.close()


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=lambda each: str(each.name),
)
def test_each_assignor_of_the_client_shares_the_partitions_out(broker: Broker, assignor: type) -> None:
    members = [Member(broker, "g", partition_assignment_strategy=[assignor]) for _ in range(2)]
    try:
        eventually(lambda: is_shared_out(*members), "two members")
    finally:
        for member in members:
            member.leave()


def test_an_administrator_sees_resets_and_deletes_groups(broker: Broker) -> None:
    member = Member(broker, "seen")
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        eventually(lambda: is_shared_out(member), "one member")
        described = admin.describe_groups(["seen"])["seen"]
        assert described["group_state"] == "Stable"
        assert len(described["members"]) == 1
        member.leave()
        partition = TopicPartition("orders", 1)
        admin.alter_group_offsets("seen", {partition: OffsetAndMetadata(7, "", -1)})
        offsets = admin.list_group_offsets(["seen"])["seen"]
        assert offsets[partition].offset == 7
        assert "seen" in {group["group_id"] for group in admin.list_groups()}
        admin.delete_groups(["seen"])
        assert "seen" not in {group["group_id"] for group in admin.list_groups()}
    finally:
        member.leave()
        admin.close()
