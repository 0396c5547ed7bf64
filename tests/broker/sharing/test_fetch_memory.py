"""Many clients that ask for much and take their time: what is held for all of them is bounded, and all are served."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from seamark import Broker
from seamark.broker.net import connections
from seamark.broker.sharing.fetch_budget import FetchBudget
from tests.support.broker_driver import Client, batch_of, fetch_request, read_records
from tests.support.waiting import eventually

LIMIT = 8_000_000
BATCH = 900_000
VALUES = [bytes([number]) * BATCH for number in range(12)]
CROWD = 12


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"fetch.max.bytes": str(LIMIT)}) as running, Client(running.bootstrap) as client:
        # Connections inherit it: what clients do not read shall lie with the broker, not with the system.
        for listening in running._server.nodes[0]._servers:
            listening.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        # More partitions than are read in one turn of the loop, and one.
        for topic, count in (("many", 30), ("one", 1)):
            running.create_topic(topic, count)
            for number, value in enumerate(VALUES):
                assert client.produce(topic, batch_of(value), partition=number % count).error_code == 0
        yield running


@pytest.fixture
def crowd(broker):
    """Clients whose system takes little of an answer before they read it."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(broker.bootstrap)) for _ in range(CROWD)]
        for client in clients:
            client.wire._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        yield clients
    eventually(lambda: held(broker) == (0, 0), "the room of closed connections is free again")


def held(broker):
    server = broker._server
    return broker._call(lambda: (server.fetch_budget.held_bytes, server.nodes[0].connections.unread_bytes))


def ask_for_all(topic, **fields):
    partitions = 30 if topic == "many" else 1
    return fetch_request({(topic, index): 0 for index in range(partitions)}, max_bytes=1 << 30, **fields)


def request_of(topic, **fields):
    request = ask_for_all(topic, **fields)
    for each in request.topics[0].partitions:
        each.partition_max_bytes = 1 << 30
    return request


def answer_begins(client):
    """Wait for the answer's first byte, and leave it where it is."""
    client.wire._socket.settimeout(30)
    assert client.wire._socket.recv(1, socket.MSG_PEEK)


def read_answer(client, request):
    """Read it after all."""
    return values_in(client.receive(request, 12, 30))


def values_in(answer):
    return [record.value for each in answer.responses[0].partitions for record in read_records(each.records)]


@pytest.mark.parametrize("topic", ["one", "many"])
def test_what_clients_do_not_read_is_bounded_in_sum_and_each_gets_a_batch_at_least(broker, crowd, topic, caplog):
    request = request_of(topic)
    for client in crowd:
        client.send(request, 12)
    for client in crowd:
        answer_begins(client)
    being_read, unread = held(broker)
    assert being_read == 0
    assert 0 < unread < LIMIT * 3 // 2 + CROWD * (BATCH + 1000)
    with Client(broker.bootstrap) as reader:
        assert reader.values("one") == VALUES, "who reads is served meanwhile"
    for client in crowd:
        found = read_answer(client, request)
        assert found
        assert set(found) <= set(VALUES)
    assert "did not read" not in caplog.text


def test_who_is_alone_gets_all_that_it_asks_for(broker):
    with Client(broker.bootstrap) as client:
        assert len(values_in(client.ask(request_of("one"), 12))) == LIMIT // BATCH


@pytest.mark.parametrize("topic", ["one", "many"])
def test_a_fetch_that_finds_no_room_does_not_wait_for_more_bytes_than_it_may_get(broker, crowd, topic):
    for client in crowd:
        client.send(request_of("one"), 12)
    for client in crowd:
        answer_begins(client)
    with Client(broker.bootstrap) as late:
        assert values_in(late.ask(request_of(topic, min_bytes=1 << 30, max_wait_ms=600_000), 12))


def test_a_fetch_that_finds_no_room_and_no_records_waits_for_them(broker, crowd):
    broker.create_topic("quiet")
    for client in crowd:
        client.send(request_of("one"), 12)
    for client in crowd:
        answer_begins(client)
    with Client(broker.bootstrap) as late, Client(broker.bootstrap) as producer:
        request = fetch_request({("quiet", 0): 0}, max_wait_ms=600_000)
        late.send(request, 12)
        partition = broker._server.cluster.topics["quiet"].partitions[0]
        eventually(lambda: bool(partition.waiters), "the fetch waits")
        producer.produce("quiet", batch_of(b"news"))
        assert values_in(late.receive(request, 12)) == [b"news"]


def test_one_answer_as_large_as_the_settings_allow_is_not_too_much_to_be_unread(broker, crowd, monkeypatch):
    monkeypatch.setattr(connections, "MAX_UNREAD_BYTES", 1 << 20)
    request = request_of("one")
    crowd[0].send(request, 12)
    answer_begins(crowd[0])
    assert len(read_answer(crowd[0], request)) == LIMIT // BATCH


class Holding:
    def __init__(self, unread_bytes):
        self.unread_bytes = unread_bytes


def test_the_rest_is_shared_so_that_something_is_left_for_the_next():
    nodes = [Holding(0), Holding(0)]
    budget = FetchBudget({"fetch.max.bytes": 600}, nodes)
    given = []
    for _ in range(6):
        given.append(budget.room(1000 if not given else 600))
        nodes[0].unread_bytes += min(given[-1], 600)
    assert given == [1000, 200, 66, 22, 8, 2]
    budget.held_bytes = 10_000
    assert budget.room(600) == 0
