"""Connecting: every broker from 2.4 on is understood, and every bad peer is one sentence within the timeout."""

import asyncio
import struct
import threading
import time
from itertools import pairwise

import pytest

from seamark.client import Admin
from seamark.client.cluster_view import Node
from seamark.client.config.config import AdminConfig, ConsumerConfig
from seamark.client.errors import ClientError, ConnectionFailed, NoBrokerAvailable, OperationTimedOut, RequestTimedOut
from seamark.client.net.client import NetworkClient
from seamark.client.net.discovery import coordinator_connection_id
from seamark.client.net.handshake import ConnectionRecipe, open_connection
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline
from seamark.errors import ClosedError, SeamarkError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def network(bootstrap, **keywords):
    return NetworkClient(AdminConfig.from_options({"bootstrap.servers": bootstrap}, keywords))


def on_io(scenario, *clients):
    async def whole():
        try:
            return await scenario()
        finally:
            for client in clients:
                await client.close()

    return IoThread.get().run(whole())


def failure(bootstrap, seconds=1.0, **keywords):
    """What an operation raises, having checked that it did so in time."""
    started = time.monotonic()
    with (
        Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=int(seconds * 1000), **keywords) as admin,
        pytest.raises(ClientError) as caught,
    ):
        admin.describe_cluster()
    assert time.monotonic() - started < seconds + 5
    assert "\n" not in str(caught.value)
    return caught.value


# Every broker


def test_a_cluster_is_found_from_any_address_of_the_bootstrap_list(kafka_like):
    bootstrap = ["127.0.0.1:1", "no-such-host.invalid:9092", kafka_like.bootstrap]
    with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=20_000) as admin:
        assert kafka_like.bootstrap in {node.address for node in admin.describe_cluster().brokers}


def test_the_coordinator_is_found_and_has_a_connection_of_its_own(kafka_like, fresh_name):  # B1, B6, B8, B25
    client = network(kafka_like.bootstrap)
    group = fresh_name("group")

    async def scenario():
        node = await client.coordinators.find(group, Deadline(30))
        assert client.coordinators.known(group) == node
        lookups = client.request_counts["FindCoordinator"]
        assert await client.coordinators.find(group, Deadline(1)) == node
        assert client.request_counts["FindCoordinator"] == lookups
        beat = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        await client.send_to_coordinator(group, beat, HeartbeatResponse, deadline=Deadline(10))
        await client.send(node.id, ListGroupsRequest(), ListGroupsResponse)
        return {each.connection_id for each in client._connections.values() if each.is_ready}, node.id

    connections, node_id = on_io(scenario, client)
    assert {node_id, coordinator_connection_id(node_id)} <= connections


def test_wishes_made_while_a_lookup_is_out_share_it_and_are_answered_in_order(kafka_like, fresh_name):  # B24
    client = network(kafka_like.bootstrap)
    group = fresh_name("group")
    order = []

    async def one(number):
        node = await client.coordinators.find(group, Deadline(30))
        order.append(number)
        return node

    async def scenario():
        await client.refresh_metadata(Deadline(10))
        await client.coordinators.find(fresh_name("warm"), Deadline(30))
        before = client.request_counts.get("FindCoordinator", 0)
        await asyncio.gather(*(one(number) for number in range(20)))
        return client.request_counts["FindCoordinator"] - before

    assert on_io(scenario, client) == 1
    assert order == list(range(20))


def test_a_coordinator_marked_unknown_is_disconnected_and_found_again(kafka_like, fresh_name):  # B7, B11
    client = network(kafka_like.bootstrap)
    group = fresh_name("group")

    async def scenario():
        node = await client.coordinators.find(group, Deadline(30))
        beat = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        await client.send_to_coordinator(group, beat, HeartbeatResponse, deadline=Deadline(10))
        client.coordinators.moved(group, node)
        assert client.coordinators.known(group) is None
        assert not client.connection_to(node.id, "coordinator").is_ready
        with pytest.raises(ClientError, match="COORDINATOR_NOT_AVAILABLE"):  # B23
            client.coordinators.require(group)
        assert (await client.coordinators.find(group, Deadline(10))).id == node.id

    on_io(scenario, client)


def test_leaders_are_found_and_a_missing_topic_says_so_at_the_deadline(kafka_like, admin, fresh_name):
    from seamark.client.admin.types import NewTopic

    topic = fresh_name("topic")
    admin.create_topics([NewTopic(topic, 2)]).raise_if_failed()
    client = network(kafka_like.bootstrap)

    async def scenario():
        leader = await client.leader_of(TopicPartition(topic, 1), Deadline(20))
        assert leader.address == kafka_like.bootstrap
        with pytest.raises(OperationTimedOut, match="UNKNOWN_TOPIC_OR_PARTITION") as caught:
            await client.leader_of(TopicPartition("no-such-topic", 0), Deadline(0.7))
        assert "no-such-topic-0" in str(caught.value)

    on_io(scenario, client)


def test_metadata_is_refreshed_when_it_reaches_its_age(kafka_like):
    client = network(kafka_like.bootstrap, metadata_max_age_ms=200, retry_backoff_ms=10)

    async def scenario():
        await client.refresh_metadata(Deadline(10))
        before = client.request_counts["Metadata"]
        await asyncio.sleep(0.9)
        return client.request_counts["Metadata"] - before

    assert 2 <= on_io(scenario, client) <= 6


def test_idle_connections_are_closed_and_made_again_when_needed(kafka_like):
    client = network(kafka_like.bootstrap, connections_max_idle_ms=150)

    async def scenario():
        view = await client.refresh_metadata(Deadline(10))
        node_id = next(iter(view.brokers))
        await client.send(node_id, ListGroupsRequest(), ListGroupsResponse)
        assert client.connection_to(node_id).is_ready
        await asyncio.sleep(0.6)
        assert not client.connection_to(node_id).is_ready
        await client.send(node_id, ListGroupsRequest(), ListGroupsResponse)
        assert client.connection_to(node_id).is_ready

    on_io(scenario, client)


def test_requests_behind_a_deadline_are_abandoned_without_disturbing_the_connection(kafka_like):
    client = network(kafka_like.bootstrap)

    async def scenario():
        view = await client.refresh_metadata(Deadline(10))
        node_id = next(iter(view.brokers))
        await client.send(node_id, ListGroupsRequest(), ListGroupsResponse)
        before = client.connection_to(node_id).connection
        with pytest.raises((RequestTimedOut, ConnectionFailed)):
            await client.send(node_id, ListGroupsRequest(), ListGroupsResponse, deadline=Deadline(0))
        await client.send(node_id, ListGroupsRequest(), ListGroupsResponse)
        assert client.connection_to(node_id).connection is before

    on_io(scenario, client)


def test_a_closed_client_refuses_further_use(kafka_like):
    admin = Admin(bootstrap_servers=kafka_like.bootstrap)
    admin.describe_cluster()
    admin.close()
    admin.close()
    with pytest.raises(ClosedError):
        admin.describe_cluster()


def test_closing_ends_what_is_waiting_in_another_thread(peer):
    silent = peer(lambda connection: connection.recv(1 << 20) and connection.recv(1))
    client = network(silent)
    io = IoThread.get()
    waiting = [
        io.submit(client.refresh_metadata(Deadline(30))),
        io.submit(client.coordinators.find("g", Deadline(30))),
        io.submit(client.send_to_any(ListGroupsRequest(), ListGroupsResponse, deadline=Deadline(30))),
    ]
    time.sleep(0.3)
    io.run(client.close())
    for each in waiting:
        with pytest.raises((ClosedError, ConnectionFailed)):
            each.result(5)


def test_a_name_that_cannot_be_written_is_refused_and_the_client_goes_on(admin):
    with pytest.raises(SeamarkError):
        admin.describe_topics(["x" * 40_000])
    assert admin.describe_cluster().brokers


def test_threads_may_share_one_admin_client(admin):
    failures = []

    def work():
        try:
            for _ in range(5):
                assert admin.describe_cluster().brokers
        except Exception as error:  # noqa: BLE001 - carried to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures


# Bad peers


def test_no_broker_at_the_address_is_said_with_the_address_and_the_reason():
    error = failure("127.0.0.1:1")
    assert isinstance(error, NoBrokerAvailable)
    assert "127.0.0.1:1: cannot connect (connection refused)" in str(error)
    assert "within 1 s" in str(error)


def test_a_name_that_does_not_resolve_is_said():
    assert "no-such-host.invalid:9092: the host name cannot be resolved" in str(failure("no-such-host.invalid:9092"))


def test_every_address_is_named_with_its_own_reason(peer):
    silent = peer(lambda connection: connection.recv(1 << 20) and connection.recv(1))
    error = failure(f"127.0.0.1:1,{silent}", 1.5)
    assert set(error.causes) == {"127.0.0.1:1", silent}
    assert "refused" in error.causes["127.0.0.1:1"]
    assert "waiting for the ApiVersions response" in error.causes[silent]


def test_a_broker_that_never_answers_is_given_up_at_the_deadline(peer):
    address = peer(lambda connection: connection.recv(1 << 20) and connection.recv(1))
    error = failure(address, 1.0)
    assert address in str(error)
    assert "ApiVersions" in str(error)


def test_a_broker_that_never_answers_is_disconnected_after_the_request_timeout(peer):
    address = peer(lambda connection: connection.recv(1 << 20) and connection.recv(1))
    error = failure(address, 1.5, request_timeout_ms=200)
    assert "no response to ApiVersions within 0.2 s" in str(error)


def test_a_peer_that_answers_garbage_is_named(peer):
    def garbage(connection):
        connection.recv(1 << 20)
        connection.sendall(b"\xde\xad\xbe\xef" * 100)

    error = failure(peer(garbage))
    assert "does not speak Kafka's protocol" in str(error)


def test_a_web_server_is_recognised(peer):
    def web(connection):
        connection.recv(1 << 20)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    assert "speaks HTTP" in str(failure(peer(web)))


def test_a_broker_that_closes_at_once_hints_at_security_protocol(peer):
    error = failure(peer(lambda connection: connection.recv(1 << 20) and None))
    assert "set security.protocol to SSL or SASL_SSL (it is PLAINTEXT)" in str(error)


def test_a_peer_that_answers_the_first_request_with_rubbish_of_the_right_length_is_named(peer):
    def rubbish(connection):
        request = connection.recv(1 << 20)
        body = request[8:12] + b"\x00\x00\x7f\xff\xff\xff\xff\xff"
        connection.sendall(struct.pack(">i", len(body)) + body)

    assert "the response to the first request is not valid Kafka protocol" in str(failure(peer(rubbish)))


def test_a_tls_connection_to_a_plain_broker_hints_at_tls(kafka_like):
    error = failure(kafka_like.bootstrap, 1.0, security_protocol="SSL")
    assert "a port without TLS" in str(error)
    assert "set security.protocol to PLAINTEXT or SASL_PLAINTEXT (it is SSL)" in str(error)
    assert kafka_like.bootstrap in str(error)


def test_a_stuck_address_does_not_hold_up_the_next_one(kafka_like, peer):
    stuck = peer(lambda connection: connection.recv(1 << 20) and connection.recv(1))
    started = time.monotonic()
    with Admin(bootstrap_servers=f"{stuck},{kafka_like.bootstrap}", default_api_timeout_ms=10_000) as admin:
        admin.describe_cluster()
    assert time.monotonic() - started < 5


def test_attempts_to_connect_back_off(peer):
    attempts = []

    def count(connection):
        attempts.append(time.monotonic())

    failure(peer(count), 1.5, reconnect_backoff_ms=100, reconnect_backoff_max_ms=400)
    gaps = [later - earlier for earlier, later in pairwise(attempts)]
    # 100, 200, 400, 400 ms, each with up to a fifth of jitter.
    assert 4 <= len(attempts) <= 7
    assert gaps[0] >= 0.07
    assert gaps[2] >= 0.3


def test_a_consumers_configuration_makes_a_network_client_too(kafka_like):
    client = NetworkClient(ConsumerConfig.from_options({"bootstrap.servers": kafka_like.bootstrap}, {"group_id": "g"}))

    async def scenario():
        return await client.refresh_metadata(Deadline(10))

    assert on_io(scenario, client).brokers


@pytest.mark.parametrize("host", ["..", "a" * 300, "a\x1b[31m." + "b" * 80])
def test_a_host_that_cannot_be_looked_up_is_a_failed_connection_of_its_node(host):
    recipe = ConnectionRecipe(client_id="tests", request_timeout_s=5)
    work = open_connection(Node(1, host, 9092), recipe, 5)
    with pytest.raises(ConnectionFailed, match="the host name is invalid"):
        asyncio.run_coroutine_threadsafe(work, IoThread.get().loop).result(30)
