"""One client remembers the coordinators of all its groups in one place, however it heard of them."""

import asyncio

import pytest

from seamark.client.cluster_view import Node
from seamark.client.config.config import AdminConfig
from seamark.client.errors import CoordinatorMoved, UnsupportedByBroker
from seamark.client.net.coordinators import Coordinators
from seamark.client.timing import Deadline
from seamark.wire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

NODE = Node(3, "broker", 9092)


class Network:
    """Answers each look-up at once: all groups are coordinated by one node, except those that it leaves out."""

    def __init__(self, *, newest=FindCoordinatorRequest.versions.last, left_out=(), also=()):
        self.config = AdminConfig.from_options({"bootstrap.servers": "broker:9092"})
        self.newest = newest
        self.left_out = left_out
        self.also = also
        self.asked = []

    async def send_to_any(self, message, response, *, deadline, min_version=0, max_version=None):
        version = self.newest if max_version is None else min(self.newest, max_version)
        if version < min_version:
            raise UnsupportedByBroker("broker:9092", "FindCoordinator", f"{min_version}-", f"0-{self.newest}")
        request = message.make(version)
        groups = list(request.coordinator_keys) or [request.key]
        self.asked.append(groups)
        if version < 4:
            return FindCoordinatorResponse(node_id=NODE.id, host=NODE.host, port=NODE.port)
        named = [group for group in groups if group not in self.left_out] + list(self.also)
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponseCoordinator(key=group, node_id=NODE.id, host=NODE.host, port=NODE.port)
                for group in named
            ]
        )

    def causes(self):
        return {}

    def learn_node(self, node):
        assert node == NODE

    def disconnect(self, connection_id, reason):
        pass


def found_by(network, groups, *more):
    async def scenario():
        coordinators = Coordinators(network)
        return coordinators, [await coordinators.find_each(some, Deadline(5)) for some in (groups, *more)]

    return asyncio.run(scenario())


def test_many_groups_are_looked_up_in_one_request_and_remembered():
    network = Network()
    coordinators, answers = found_by(network, ["a", "b"], ["b", "c", "a"])
    assert answers == [{"a": NODE, "b": NODE}, {"b": NODE, "c": NODE, "a": NODE}]
    assert network.asked == [["a", "b"], ["c"]]
    assert coordinators.known("b") == NODE


def test_a_broker_that_takes_one_key_is_asked_for_each_group():
    network = Network(newest=3)
    _, [answers] = found_by(network, ["a", "b"])
    assert answers == {"a": NODE, "b": NODE}
    assert network.asked == [["a"], ["b"]]


def test_a_group_that_is_left_out_has_an_error_and_one_that_nobody_asked_for_is_not_remembered():
    network = Network(left_out=["b"], also=["stranger"])
    coordinators, [answers] = found_by(network, ["a", "b"])
    assert answers["a"] == NODE
    assert isinstance(answers["b"], CoordinatorMoved)
    assert coordinators.known("b") is None
    assert coordinators.known("stranger") is None


def test_whoever_waits_for_a_coordinator_has_it_when_another_answer_names_it():
    async def scenario():
        network = Network(left_out=["a"])
        coordinators = Coordinators(network)
        waiting = asyncio.ensure_future(coordinators.find("a", Deadline(5)))
        while not network.asked:
            await asyncio.sleep(0)
        coordinators.learn("a", NODE)
        assert await waiting == NODE
        coordinators.moved("a", NODE)
        with pytest.raises(CoordinatorMoved):
            coordinators.require("a")
        coordinators.close()

    asyncio.run(scenario())
