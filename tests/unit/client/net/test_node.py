"""Commits to one coordinator are written in the order in which they were made, whatever each had to wait for."""

import asyncio
import time

import pytest

from seamark.client.cluster_view import Node
from seamark.client.config.config import ClientConfig
from seamark.client.errors import RequestTimedOut
from seamark.client.net import node as node_connection
from seamark.client.net.client import NetworkClient
from seamark.client.net.connection import BrokerVersions, Connection
from seamark.client.net.discovery import coordinator_connection_id
from seamark.client.net.node import NodeConnection, SendingOrder
from seamark.client.timing import Deadline
from seamark.wire.protocol.frames import FrameParser, decode_request
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

NODE = Node(1, "broker", 9092)


class Wire(asyncio.Transport):
    """A transport that keeps the groups of the commits that were written."""

    def __init__(self):
        super().__init__()
        self.parser = FrameParser()
        self.groups = []

    def write(self, data):
        for frame in self.parser.feed(bytes(data)):
            self.groups.append(decode_request(frame)[1].group_id)

    def abort(self):
        pass


class Coordinator:
    """A client whose connection to the coordinator writes into ``wire``; nothing is ever answered."""

    def __init__(self):
        self.network = NetworkClient(ClientConfig.from_options({"bootstrap.servers": "broker:9092"}))
        self.network.learn_node(NODE)
        self.connection = Connection("broker:9092", "tests", asyncio.get_running_loop())
        self.wire = Wire()
        self.connection.connection_made(self.wire)
        commits = ApiVersionsResponseApi(api_key=8, min_version=2, max_version=8)
        self.connection.versions = BrokerVersions("broker:9092", ApiVersionsResponse(api_keys=[commits]))
        self.node = NodeConnection(
            coordinator_connection_id(1),
            NODE,
            self.network._recipe,
            self.network._reconnect,
            self.network._setup_timeout,
        )
        self.node.connection = self.connection
        self.network._connections[self.node.connection_id] = self.node
        self.tasks = []

    def commit(self, group, deadline=None):
        request = OffsetCommitRequest(group_id=group)
        sent = self.network.send(1, request, OffsetCommitResponse, deadline=deadline, lane="coordinator")
        task = asyncio.ensure_future(sent)
        self.tasks.append(task)
        return task

    async def written(self, count):
        while len(self.wire.groups) < count:
            await asyncio.sleep(0.005)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        return self.wire.groups


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario(), 10))


# covers: I28
def test_a_commit_does_not_overtake_one_that_waits_for_the_end_of_a_throttle():
    async def scenario():
        coordinator = Coordinator()
        coordinator.connection.muted_until = time.monotonic() + 0.1
        coordinator.commit("first")
        await asyncio.sleep(0.01)
        # The throttle is over, but the one that waited for it is not awake yet.
        coordinator.connection.muted_until = 0.0
        coordinator.commit("second")
        assert await coordinator.written(2) == ["first", "second"]

    run(scenario)


# covers: I28
def test_a_commit_does_not_overtake_one_that_waits_for_the_connection(monkeypatch):
    async def scenario():
        coordinator = Coordinator()
        coordinator.node.connection = None

        here, really_open = asyncio.get_running_loop(), node_connection.open_connection

        async def open_connection(*arguments):
            if asyncio.get_running_loop() is not here:
                # A client that another test left behind.
                return await really_open(*arguments)
            await asyncio.sleep(0.01)
            # Served by the loop before those who have waited for this connection.
            here.call_soon(coordinator.commit, "second")
            return coordinator.connection

        monkeypatch.setattr(node_connection, "open_connection", open_connection)
        coordinator.commit("first")
        assert await coordinator.written(2) == ["first", "second"]

    run(scenario)


def test_what_is_sent_in_order_is_not_overtaken_while_it_waits_for_the_end_of_a_throttle():
    async def scenario():
        coordinator = Coordinator()
        coordinator.network._connections[NODE.id] = coordinator.node

        def send(group):
            sent = coordinator.network.send_in_order(NODE.id, OffsetCommitRequest(group_id=group), None)
            coordinator.tasks.append(asyncio.ensure_future(sent))

        coordinator.connection.muted_until = time.monotonic() + 0.1
        send("first")
        await asyncio.sleep(0.01)
        coordinator.connection.muted_until = 0.0
        send("second")
        assert await coordinator.written(2) == ["first", "second"]

    run(scenario)


def test_a_throttle_that_is_prolonged_while_a_request_waits_is_waited_for():
    async def scenario():
        coordinator = Coordinator()
        coordinator.connection.muted_until = time.monotonic() + 0.02
        coordinator.commit("only")
        await asyncio.sleep(0)
        until = coordinator.connection.muted_until = time.monotonic() + 0.1
        assert await coordinator.written(1) == ["only"]
        assert time.monotonic() >= until

    run(scenario)


def test_one_that_gives_up_does_not_hold_up_those_behind_it():
    async def scenario():
        coordinator = Coordinator()
        coordinator.connection.muted_until = time.monotonic() + 0.3
        hasty = coordinator.commit("hasty", Deadline(0.05))
        coordinator.commit("patient")
        with pytest.raises(RequestTimedOut):
            await hasty
        assert await coordinator.written(1) == ["patient"]

    run(scenario)


def test_places_are_reached_in_their_order_and_may_be_left_twice():
    async def scenario():
        order, served = SendingOrder(), []

        async def stand(name, place):
            await place.reached()
            served.append(name)
            place.leave()
            place.leave()

        places = [(name, order.take_place()) for name in "abcd"]
        # The first takes its time, the third gives up.
        tasks = [asyncio.ensure_future(stand(name, place)) for name, place in reversed(places) if name in "bd"]
        await asyncio.sleep(0)
        assert served == []
        places[2][1].leave()
        places[0][1].leave()
        await asyncio.gather(*tasks)
        assert served == ["b", "d"]

    run(scenario)
