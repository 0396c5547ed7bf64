"""The broker's time is shared by principal: who asks for much waits behind itself, and others are served (issue 16)."""

from __future__ import annotations

import logging
import time

import pytest

from benchmarks.hostile_parts.login import Address
from seamark import Broker, Security
from seamark.broker.net.connection import MAX_WAITING_FRAMES
from seamark.broker.sharing import turns
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest
from seamark.wire.protocol.messages.metadata import MetadataRequest
from tests.support.broker_driver import Client, batch_of, fetch_request
from tests.support.waiting import eventually

USERS = {"honest": "honest-secret", "mallory": "mallory-secret"}
EVERYTHING = MetadataRequest(topics=None)


@pytest.fixture(scope="module")
def broker():
    with Broker(security=Security(users=USERS, mechanisms=["PLAIN"])) as running:
        running.create_topic("many", partitions=200)
        yield running


@pytest.fixture
def heavy(broker, monkeypatch):
    """Mallory has used up all that is served at once, and every step of a line takes a turn of the loop."""
    share = broker._server.turns.share("User:mallory")
    monkeypatch.setattr(share, "credit", -1e9)
    for name in ("TURN_SECONDS", "LONE_TURN_SECONDS"):
        monkeypatch.setattr(turns, name, 1e-9)
    # However slow the machine is: mallory is not alone once the honest client has been served.
    monkeypatch.setattr(turns, "_COMPANY_SECONDS", 600.0)
    with Address(broker.bootstrap, "honest").connect() as honest:
        honest.metadata()
    return share


def shares_of(broker):
    return [connection.share for connection in broker._server.nodes[0].connections._open]


@pytest.fixture
def lines_stand_still(broker, monkeypatch):
    """Nobody's turn comes until ``lines_go_on`` is called: only who is served at once gets an answer."""
    monkeypatch.setattr(broker._server.turns, "_plan", lambda: None)
    # However slow the machine is: the honest client stays one that has used little.
    monkeypatch.setattr(broker._server.turns.share("User:honest"), "credit", 1e9)
    monkeypatch.setattr(turns, "FIRST_SECONDS", 60.0)


def lines_go_on(broker, monkeypatch):
    monkeypatch.undo()
    broker._call(broker._server.turns._plan)


def test_a_flood_waits_behind_itself_and_others_are_served_at_once(broker, heavy, lines_stand_still, monkeypatch):
    count = 200
    hostile = [Address(broker.bootstrap, "mallory").connect() for _ in range(4)]
    with Address(broker.bootstrap, "honest").connect() as honest:
        for client in hostile:
            client.wire.send(client.frame(EVERYTHING, 12) * (count // 4))
        eventually(lambda: len(broker._server.turns) >= 4, "the flood is in line")
        for _ in range(5):
            assert honest.metadata("many").topics[0].name == "many"
    lines_go_on(broker, monkeypatch)
    for client in hostile:
        for _ in range(count // 4):
            assert len(client.receive(EVERYTHING, 12, 60).topics[0].partitions) == 200
        client.close()


def test_a_flood_that_waits_in_line_is_not_read_any_further(broker, heavy, lines_stand_still, monkeypatch):
    earlier = set(broker._server.nodes[0].connections._open)
    with Address(broker.bootstrap, "mallory").connect() as hostile:
        (connection,) = set(broker._server.nodes[0].connections._open) - earlier
        hostile.wire.send(hostile.frame(EVERYTHING, 12) * 10)
        eventually(lambda: len(connection._waiting) == 10, "the first requests wait")
        hostile.wire.send(hostile.frame(EVERYTHING, 12) * MAX_WAITING_FRAMES)
        eventually(lambda: not connection.is_reading, "no more is read")
    lines_go_on(broker, monkeypatch)


def test_fetches_that_one_write_wakes_are_answered_in_the_share_of_their_client(broker, heavy, request, monkeypatch):
    wanted = fetch_request({("many", 0): 0}, min_bytes=1, max_wait_ms=60_000)
    parked = [Address(broker.bootstrap, "mallory").connect() for _ in range(5)]
    with Address(broker.bootstrap, "honest").connect() as honest:
        for client in parked:
            client.send(wanted, 12)
        waiters = broker._server.cluster.partition("many", 0).waiters
        eventually(lambda: len(waiters) == 5, "all wait for records")
        request.getfixturevalue("lines_stand_still")
        assert honest.produce("many", batch_of(b"x")).error_code == 0
        eventually(lambda: len(broker._server.turns) == 5, "they are woken and wait for their turn")
        assert honest.metadata("many").topics[0].name == "many"
    lines_go_on(broker, monkeypatch)
    for client in parked:
        assert client.receive(wanted, 12, 60).responses[0].partitions[0].records
        client.close()


def test_heartbeats_go_on_while_a_principal_rests(broker, heavy):
    with Address(broker.bootstrap, "mallory").connect() as client:
        client.metadata()
        heavy.is_resting, heavy.resting_api = True, 3
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert client.ask(heartbeat, 4).error_code != 0
        client.send(EVERYTHING, 12)
        eventually(lambda: len(heavy.held) == 1, "what made it rest waits")
        broker._call(lambda: broker._server.turns._rest_is_over(heavy))
        assert client.receive(EVERYTHING, 12, 60).topics


def test_connections_of_one_principal_have_one_share_and_strangers_of_an_address_another(broker):
    mallory = [Address(broker.bootstrap, "mallory").connect() for _ in range(2)]
    strangers = [Client(broker.bootstrap) for _ in range(2)]
    with Address(broker.bootstrap, "honest").connect():
        eventually(lambda: len(shares_of(broker)) == 5, "all are connected")
        names = [share.name for share in shares_of(broker)]
        assert sorted(names) == [
            "User:honest",
            "User:mallory",
            "User:mallory",
            *["unauthenticated clients at 127.0.0.1"] * 2,
        ]
        assert len(set(shares_of(broker))) == 3
    for client in (*mallory, *strangers):
        client.close()


def test_where_nobody_logs_in_every_connection_has_its_share():
    with Broker() as broker, Client(broker.bootstrap) as one, Client(broker.bootstrap) as other:
        one.metadata()
        other.metadata()
        assert len(set(shares_of(broker))) == 2


def test_who_keeps_others_waiting_at_one_go_rests_and_the_log_says_so(broker, monkeypatch, caplog):
    monkeypatch.setattr(turns, "LONG_STEP_SECONDS", 0.0)
    monkeypatch.setattr(turns, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(turns, "REST_FACTOR", 10)
    monkeypatch.setattr(turns, "ALLOWED_SECONDS", 0.0)
    caplog.set_level(logging.WARNING)
    told = "User:mallory: a request blocked all other clients for"
    deadline = time.monotonic() + 30
    with (
        Address(broker.bootstrap, "mallory").connect() as mallory,
        Address(broker.bootstrap, "honest").connect() as honest,
    ):
        while told not in caplog.text and time.monotonic() < deadline:
            honest.metadata()
            mallory.metadata()
        assert broker._server.turns.rests > 0
        assert mallory.metadata().brokers, "it is served again"
    assert told in caplog.text
    assert "(send smaller requests)" in caplog.text
