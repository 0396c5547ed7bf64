"""Several nodes: how partitions are spread, and what clients see when a node stops, starts or is slow (B3 to B5)."""

import time

import pytest

from seamark import Broker
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.broker_driver import Client, batch_of, fetch_request, fresh_name, produce_request
from tests.support.capture import CaptureError


@pytest.fixture
def broker():
    with Broker(nodes=3) as running:
        yield running


def on(broker, number):
    return Client(broker.nodes[number].bootstrap)


def leaders(broker, topic, asked=0):
    with on(broker, asked) as client:
        return [partition.leader_id for partition in client.metadata(topic).topics[0].partitions]


def test_every_node_has_its_own_address_and_all_are_told(broker):
    addresses = broker.bootstrap.split(",")
    assert len(set(addresses)) == 3
    for number in range(3):
        with on(broker, number) as client:
            found = client.metadata()
            assert [f"{node.host}:{node.port}" for node in found.brokers] == addresses
            assert [node.node_id for node in found.brokers] == [0, 1, 2]


def test_leaders_go_round_the_nodes(broker):
    broker.create_topic("spread", 6)
    found = leaders(broker, "spread")
    assert sorted(found) == [0, 0, 1, 1, 2, 2]
    assert found[:3] == found[3:]


def test_only_the_leader_serves_a_partition_and_others_say_who_does(broker):
    broker.create_topic("led")
    leader = leaders(broker, "led")[0]
    other = (leader + 1) % 3
    with on(broker, other) as client:
        refused = client.ask(produce_request("led", batch_of(b"a")), 10)
        partition = refused.responses[0].partition_responses[0]
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (leader, 0)
        hint = refused.node_endpoints[0]
        assert f"{hint.host}:{hint.port}" == broker.nodes[leader].bootstrap
        fetched = client.ask(fetch_request({(client.topic_id("led"), 0): 0}), 16)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetched.responses[0].partitions[0].current_leader.leader_id == leader
        assert [node.node_id for node in fetched.node_endpoints] == [leader]
        assert client.list_offset("led", -1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with on(broker, leader) as client:
        assert client.produce("led", batch_of(b"a")).error_code == 0


def test_when_a_node_stops_its_partitions_move_with_their_records(broker):
    broker.create_topic("moving")
    old = leaders(broker, "moving")[0]
    with on(broker, old) as client:
        client.produce("moving", batch_of(b"a"))
        broker.nodes[old].stop()
        assert client.wire.is_closed_by_peer()
    assert not broker.nodes[old].is_running
    asked = (old + 1) % 3
    with on(broker, asked) as client:
        response = client.metadata("moving")
        partition = response.topics[0].partitions[0]
        assert (partition.error_code, partition.leader_epoch) == (0, 1)
        assert partition.leader_id != old
        assert partition.offline_replicas == [old]
        assert old not in [node.node_id for node in response.brokers]
    with on(broker, partition.leader_id) as client:
        assert client.values("moving") == [b"a"]
        fenced = client.fetch("moving", leader_epoch=0)
        assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(CaptureError):
        on(broker, old)


def test_a_node_that_is_back_has_its_address_and_later_its_partitions(broker):
    broker.create_topic("home")
    old = leaders(broker, "home")[0]
    address = broker.nodes[old].bootstrap
    broker.nodes[old].stop()
    assert leaders(broker, "home", (old + 1) % 3)[0] != old
    broker.nodes[old].start()
    assert broker.nodes[old].bootstrap == address
    assert leaders(broker, "home", old)[0] != old
    broker.advance(301)
    assert leaders(broker, "home", old)[0] == old


def test_without_any_node_there_is_no_leader_and_the_first_one_back_leads(broker):
    broker.create_topic("alone")
    with on(broker, leaders(broker, "alone")[0]) as client:
        client.produce("alone", batch_of(b"a"))
    for node in broker.nodes:
        node.stop()
    partition = broker._server.cluster.partition("alone", 0)
    assert partition.leader == -1
    broker.nodes[2].start()
    assert leaders(broker, "alone", 2) == [2]
    with on(broker, 2) as client:
        assert client.values("alone") == [b"a"]


def test_a_topic_with_one_replica_is_served_by_a_stand_in(broker):
    broker.create_topic("single", replication_factor=1)
    old = leaders(broker, "single")[0]
    broker.nodes[old].stop()
    new = leaders(broker, "single", (old + 1) % 3)[0]
    assert new != old
    with on(broker, new) as client:
        assert client.produce("single", batch_of(b"a")).error_code == 0


def test_a_waiting_fetch_is_answered_when_its_partition_moves(broker):
    broker.create_topic("waited")
    old = leaders(broker, "waited")[0]
    partition = broker._server.cluster.partition("waited", 0)
    with on(broker, old) as client:
        request = fetch_request({("waited", 0): 0}, max_wait_ms=20_000)
        client.send(request, 12)
        deadline = time.monotonic() + 5
        while not partition.waiters and time.monotonic() < deadline:
            time.sleep(0.01)
        broker._call(lambda: broker._server.cluster.move_leader(partition, (old + 1) % 3))
        found = client.receive(request, 12, 5).responses[0].partitions[0]
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_slow_node_answers_late_and_the_others_do_not(broker):
    broker.nodes[1].slow(1.5)
    with on(broker, 1) as slow, on(broker, 0) as quick:
        started = time.monotonic()
        quick.metadata()
        assert time.monotonic() - started < 1.4
        started = time.monotonic()
        slow.metadata()
        assert time.monotonic() - started > 1.4
        broker.nodes[1].slow(0)
        started = time.monotonic()
        slow.metadata()
        assert time.monotonic() - started < 1.4


def test_idempotent_producers_are_known_to_the_next_leader(broker):
    broker.create_topic("known")
    old = leaders(broker, "known")[0]
    batch = batch_of(b"a", producer_id=9, producer_epoch=0, base_sequence=0)
    with on(broker, old) as client:
        assert client.produce("known", batch).base_offset == 0
    broker.nodes[old].stop()
    with on(broker, leaders(broker, "known", (old + 1) % 3)[0]) as client:
        assert client.produce("known", batch).base_offset == 0
        assert client.list_offset("known", -1).offset == 1


def test_ports_of_nodes_follow_the_first_one():
    for _ in range(20):
        with Broker(nodes=1) as probe:
            port = int(probe.bootstrap.rpartition(":")[2])
        try:
            broker = Broker(nodes=2, listen=f"127.0.0.1:{port}")
        except UsageError:
            # The port behind the one that was free is somebody else's; so is the broker's failure to start.
            continue
        with broker:
            assert broker.bootstrap == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
            broker.create_topic(fresh_name())
        return
    pytest.fail("no two free ports in a row were found")
