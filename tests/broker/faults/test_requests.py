"""Faults that tests ask for: errors, delays, lost connections, a full disk, a topic made anew."""

import time

import pytest

from seamark import Broker
from seamark.errors import ConfigError, UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.broker_driver import Client, batch_of, fresh_name, produce_request


@pytest.fixture(scope="module")
def running():
    with Broker(nodes=2) as broker:
        yield broker


@pytest.fixture
def broker(running):
    yield running
    running.faults.clear()


@pytest.fixture
def client(broker):
    with Client(broker.nodes[0].bootstrap) as connected:
        yield connected


@pytest.fixture
def topic(broker):
    name = fresh_name()
    broker.create_topic(name)
    broker._call(lambda: broker._server.cluster.move_leader(broker._server.cluster.partition(name, 0), 0))
    return name


def test_an_api_fails_as_often_as_asked_and_then_works(broker, client, topic):
    fault = broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    codes = [client.produce(topic, batch_of(b"a")).error_code for _ in range(3)]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2 + [0]
    assert fault.hits == 2
    assert client.list_offset(topic, -1).offset == 1
    assert not broker.faults.is_active


def test_a_fault_of_one_node_leaves_the_others_alone(broker, client, topic):
    broker.faults.fail("ListOffsets", ErrorCode.UNKNOWN_SERVER_ERROR, times=None, node=1)
    assert client.list_offset(topic, -1).error_code == 0
    with Client(broker.nodes[1].bootstrap) as other:
        for _ in range(3):
            assert other.list_offset(topic, -1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_delay_holds_up_one_api_until_it_is_removed(broker, client):
    fault = broker.faults.delay("Metadata", 1.5)
    started = time.monotonic()
    client.metadata()
    assert time.monotonic() - started > 1.4
    fault.remove()
    started = time.monotonic()
    client.metadata()
    assert time.monotonic() - started < 1.4


def test_a_delay_is_on_the_brokers_clock(broker, client):
    broker.faults.delay("Metadata", 3600, times=1)
    client.send(*_metadata())
    time.sleep(0.1)
    broker.advance(3600)
    assert client.receive(*_metadata()).controller_id == 0


def _metadata():
    from seamark.wire.protocol.messages.metadata import MetadataRequest

    return MetadataRequest(topics=None), 1


@pytest.mark.parametrize(("when", "stored"), [("before", []), ("after", [b"a"])])
def test_a_lost_connection_leaves_open_whether_the_request_took_effect(broker, client, topic, when, stored):
    broker.faults.drop("Produce", when=when)
    client.send(produce_request(topic, batch_of(b"a")), 9)
    assert client.wire.is_closed_by_peer()
    with Client(broker.nodes[0].bootstrap) as again:
        assert again.values(topic) == stored


def test_a_failure_of_a_request_without_answer_closes_the_connection(broker, client, topic):
    broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    client.send(produce_request(topic, batch_of(b"a"), acks=0), 9)
    assert client.wire.is_closed_by_peer()


@pytest.mark.parametrize("api", ["Produce", "Fetch", "ListOffsets", "Metadata", "CreateTopics", "DeleteTopics"])
def test_every_api_can_be_made_to_fail(broker, client, topic, api):
    broker.faults.fail(api, "REQUEST_TIMED_OUT", times=None)
    asked = {
        "Produce": lambda: client.produce(topic, batch_of(b"a")).error_code,
        "Fetch": lambda: client.fetch(topic).error_code,
        "ListOffsets": lambda: client.list_offset(topic, -1).error_code,
        "Metadata": lambda: client.metadata(topic).topics[0].error_code,
        "CreateTopics": lambda: client.create_topic("x").error_code,
        "DeleteTopics": lambda: _delete(client, topic),
    }
    assert asked[api]() == ErrorCode.REQUEST_TIMED_OUT


def _delete(client, topic):
    from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic

    return client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=topic)])).responses[0].error_code


def test_a_topic_made_anew_has_another_id_and_no_records(broker, client, topic):
    client.produce(topic, batch_of(b"a"))
    before = client.topic_id(topic)
    broker.faults.recreate_topic(topic)
    assert client.topic_id(topic) != before
    assert broker._server.cluster.partition(topic, 0).log_end == 0
    with pytest.raises(UsageError, match="no topic"):
        broker.faults.recreate_topic("missing")


@pytest.mark.parametrize(
    "make",
    [
        lambda faults: faults.fail("Nonsense", "NOT_COORDINATOR"),
        lambda faults: faults.fail("Fetch", "NOT_AN_ERROR"),
        lambda faults: faults.fail("Fetch", "NOT_COORDINATOR", times=0),
        lambda faults: faults.fail("Fetch", "NOT_COORDINATOR", node=2),
        lambda faults: faults.delay("Fetch", -1),
        lambda faults: faults.drop("Fetch", when="never"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(broker, make):
    with pytest.raises(ConfigError):
        make(broker.faults)
    assert not broker.faults.is_active
