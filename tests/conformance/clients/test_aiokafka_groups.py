"""aiokafka runs a group's whole story against our broker: three members, one leaves, one dies, commit and resume."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from seamark.broker import Broker

PARTITIONS = 6
RECORDS = 60


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with Broker(settings=settings) as running:
        running.create_topic("orders", PARTITIONS)
        yield running


async def fill(broker: Broker) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    for number in range(RECORDS):
        await producer.send_and_wait("orders", b"%d" % number, partition=number % PARTITIONS)
    await producer.stop()


async def eventually(is_so: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(0.05)


class Member:
    """A consumer with a task that reads for it."""

    def __init__(self, broker: Broker, group: str, **more: Any) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 200,
        }
        self.consumer = AIOKafkaConsumer("orders", **(options | more))
        self.values: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Member:
        await self.consumer.start()
        self._task = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        async for record in self.consumer:
            self.values.append(record.value)

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()} if self._task is not None else set()

    @property
    def member_id(self) -> str:
        return str(self.consumer._coordinator.member_id)

    async def leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.consumer.stop()


def is_shared_out(*members: Member) -> bool:
    owned = [member.owned for member in members]
    return all(owned) and sum(map(len, owned)) == PARTITIONS and len(set().union(*owned)) == PARTITIONS


def test_partitions_move_as_members_come_leave_and_expire(broker: Broker) -> None:
    async def story() -> None:
        await fill(broker)
        members = [await Member(broker, "story").start() for _ in range(3)]
        try:
            await eventually(lambda: is_shared_out(*members), "three members")
            await members[1].leave()
            await eventually(lambda: is_shared_out(members[0], members[2]), "one has left")
            old_id = members[2].member_id
            # What a broker does to a member that was silent; the client finds out by its next heartbeat and joins anew.
            await asyncio.to_thread(broker.faults.expire_member, "story", old_id)
            await eventually(
                lambda: members[2].member_id != old_id and is_shared_out(members[0], members[2]), "back with a new id"
            )
            everything = {b"%d" % number for number in range(RECORDS)}
            await eventually(
                lambda: {value for member in members for value in member.values} >= everything, "everything was read"
            )
        finally:
            for member in members:
                await member.leave()

    asyncio.run(story())


def test_a_consumer_goes_on_where_the_group_committed(broker: Broker) -> None:
    async def story() -> None:
        await fill(broker)
        partition = TopicPartition("orders", 0)
        first = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="resume", enable_auto_commit=False)
        await first.start()
        first.assign([partition])
        assert await first.committed(partition) is None
        await first.commit({partition: (4, "so far")})
        await first.stop()
        second = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="resume", enable_auto_commit=False)
        await second.start()
        second.assign([partition])
        assert await second.committed(partition) == 4
        record = await asyncio.wait_for(second.getone(), 20)
        assert record.offset == 4
        await second.stop()

    asyncio.run(story())


def test_a_static_member_takes_up_its_place_again(broker: Broker) -> None:
    async def story() -> None:
        one = await Member(broker, "static", group_instance_id="one").start()
        two = await Member(broker, "static", group_instance_id="two").start()
        try:
            await eventually(lambda: is_shared_out(one, two), "two static members")
            before = set(two.owned)
            await two.leave()
            two = await Member(broker, "static", group_instance_id="two").start()
            await eventually(lambda: two.owned == before, "the place is taken up again")
        finally:
            await one.leave()
            await two.leave()

    asyncio.run(story())


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=lambda each: each.name,
)
def test_each_assignor_of_the_client_shares_the_partitions_out(broker: Broker, assignor: type) -> None:
    async def story() -> None:
        members = [await Member(broker, "g", partition_assignment_strategy=[assignor]).start() for _ in range(2)]
        try:
            await eventually(lambda: is_shared_out(*members), "two members")
        finally:
            for member in members:
                await member.leave()

    asyncio.run(story())


def test_commits_follow_a_coordinator_that_moves() -> None:
    async def story(broker: Broker) -> None:
        member = await Member(broker, "moving").start()
        try:
            await eventually(lambda: is_shared_out(member), "one member")
            partition = TopicPartition("orders", 3)
            for node in (1, 2, 0):
                await asyncio.to_thread(broker.faults.move_coordinator, "moving", node)
                await asyncio.wait_for(member.consumer.commit({partition: node + 5}), 20)
                assert await asyncio.wait_for(member.consumer.committed(partition), 20) == node + 5
        finally:
            await member.leave()

    with Broker(nodes=3, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", PARTITIONS)
        asyncio.run(story(broker))


def test_an_administrator_sees_groups(broker: Broker) -> None:
    async def story() -> None:
        member = await Member(broker, "seen").start()
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            await eventually(lambda: is_shared_out(member), "one member")
            await member.consumer.commit({TopicPartition("orders", 2): 3})
            assert "seen" in {name for name, *_ in await admin.list_consumer_groups()}
            offsets = await admin.list_consumer_group_offsets("seen")
            assert offsets[TopicPartition("orders", 2)].offset == 3
        finally:
            await admin.close()
            await member.leave()

    asyncio.run(story())
