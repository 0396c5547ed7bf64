"""A topic that was made is asked for at every broker until all know it; nothing seen there is an error."""

from __future__ import annotations

import asyncio

import pytest

from seamark.client.admin.topics import wait_for_propagation
from seamark.client.cluster_view import ClusterView, Node
from seamark.client.errors import ConnectionFailed
from seamark.client.timing import Deadline
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


def _unknown(name):
    return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _hidden(name):
    return MetadataResponseTopic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _led(name, partitions=1):
    return MetadataResponseTopic(
        name=name, partitions=[MetadataResponsePartition(partition_index=i, leader_id=1) for i in range(partitions)]
    )


def _leaderless(name):
    partition = MetadataResponsePartition(error_code=ErrorCode.LEADER_NOT_AVAILABLE, leader_id=-1)
    return MetadataResponseTopic(name=name, partitions=[partition])


class ScriptedBrokers:
    """Answers each broker's questions from its own list, the last one over and over; an error is raised."""

    def __init__(self, **answers):
        self.answers = {int(name[1:]): list(each) for name, each in answers.items()}
        self.view = ClusterView(brokers={number: Node(number, "h", 1) for number in self.answers})
        self.asked = {number: [] for number in self.answers}

    async def send(self, node_id, request, response, *, deadline, min_version):
        names = [topic.name for topic in request.topics]
        self.asked[node_id].append(names)
        assert not request.allow_auto_topic_creation
        answers = self.answers[node_id]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return MetadataResponse(topics=[answer[name] if isinstance(answer, dict) else answer(name) for name in names])


def _wait(brokers, topics, seconds=5.0):
    asyncio.run(wait_for_propagation(brokers, topics, Deadline(seconds)))
    return brokers.asked


def test_each_broker_is_asked_until_it_knows_the_topic_and_its_leaders():
    brokers = ScriptedBrokers(b1=[_led], b2=[_unknown, _leaderless, _led])
    assert _wait(brokers, {"t": 1}) == {1: [["t"]], 2: [["t"]] * 3}


def test_only_what_is_still_missing_is_asked_for_again():
    brokers = ScriptedBrokers(b1=[{"a": _led("a"), "b": _unknown("b")}, _led])
    assert _wait(brokers, {"a": 1, "b": 1}) == {1: [["a", "b"], ["b"]]}


def test_a_topic_that_grows_is_known_with_all_its_partitions():
    brokers = ScriptedBrokers(b1=[{"t": _led("t", 2)}, {"t": _led("t", 5)}])
    assert _wait(brokers, {"t": 5}) == {1: [["t"]] * 2}


@pytest.mark.parametrize("answer", [ConnectionFailed("h:1", "refused"), _hidden], ids=["gone", "hidden"])
def test_a_broker_that_does_not_answer_or_hides_the_topic_is_not_waited_for(answer):
    assert _wait(ScriptedBrokers(b1=[answer]), {"t": 1}) == {1: [["t"]]}


def test_a_topic_that_never_shows_ends_the_wait_without_an_error():
    assert len(_wait(ScriptedBrokers(b1=[_unknown]), {"t": 1}, 0.1)[1]) > 1


def test_nothing_is_asked_for_nothing():
    assert _wait(ScriptedBrokers(b1=[_led]), {}) == {1: []}
