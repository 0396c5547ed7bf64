"""Brokers that go away and come back, or move: the client finds its way without being told."""

import asyncio
import time

import pytest

from seamark.client import Admin
from seamark.client.admin.types import NewTopic
from seamark.client.config.config import AdminConfig
from seamark.client.errors import ClientError, NetworkError
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

Broker = pytest.importorskip("seamark").Broker


def test_a_broker_that_restarts_is_found_again():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1)]).raise_if_failed()
        broker.nodes[0].stop()
        with pytest.raises(ClientError):
            admin.list_topics(timeout=0.5)
        broker.nodes[0].start()
        assert "t" in admin.list_topics(timeout=20)


def test_a_node_that_goes_away_is_replaced_by_another_for_questions_any_can_answer():
    with Broker(nodes=3) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert len(admin.describe_cluster().brokers) == 3
        for number in range(3):
            broker.nodes[number].stop()
            started = time.monotonic()
            admin.list_topics(timeout=10)
            assert time.monotonic() - started < 5
            broker.nodes[number].start()


def test_a_leader_that_moves_is_found_by_the_metadata():
    with Broker(nodes=3) as broker:
        broker.create_topic("t", partitions=3)
        client = NetworkClient(AdminConfig.from_options({"bootstrap.servers": broker.bootstrap}))

        async def leaders():
            await client.ensure_topics(["t"], Deadline(10))
            view = await client.refresh_metadata(Deadline(10))
            return {partition: view.leader(partition) for partition in view.partitions_of("t")}

        async def until_moved(gone):
            deadline = Deadline(15)
            while True:
                found = await leaders()
                if all(node is not None and node.id != gone for node in found.values()):
                    return found
                deadline.check("waiting for leaders to move")
                await asyncio.sleep(0.05)

        io = IoThread.get()
        try:
            before = io.run(leaders())
            gone = before[TopicPartition("t", 0)].id
            broker.nodes[gone].stop()
            after = io.run(until_moved(gone))
            assert set(after) == set(before)
        finally:
            io.run(client.close())


def test_a_request_in_flight_when_the_broker_dies_fails_with_its_address():
    with Broker() as broker:
        client = NetworkClient(AdminConfig.from_options({"bootstrap.servers": broker.bootstrap}))
        broker.faults.delay("ListGroups", 5)

        async def ask():
            view = await client.refresh_metadata(Deadline(10))
            return await client.send(next(iter(view.brokers)), ListGroupsRequest(), ListGroupsResponse)

        io = IoThread.get()
        try:
            future = io.submit(ask())
            time.sleep(0.5)
            broker.nodes[0].stop()
            with pytest.raises(NetworkError, match=r"127\.0\.0\.1"):
                future.result(10)
        finally:
            io.run(client.close())
