"""Who may stay connected: strangers, slow senders and idlers go before they cost anybody else a place."""

from __future__ import annotations

import gc
import logging
import socket
import struct
import weakref

import pytest

from seamark import Broker, log_limits
from seamark.broker.net import connections as connections_module
from seamark.broker.net.connection import MAX_WAITING_FRAMES
from seamark.broker.security.security import Security
from seamark.broker.sharing import file_limits
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.metadata import MetadataRequest
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_driver import Client, fetch_request
from tests.support.capture import Wire
from tests.support.waiting import eventually

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def connections_of(broker):
    return broker._server.nodes[0].connections


def sweep(broker):
    """Time that a test adds only makes the broker look; what it measures is the machine's own."""
    broker.advance(6)


def is_served(broker):
    with Client(broker.bootstrap) as client:
        return client.metadata().controller_id == 0


@pytest.fixture
def silent():
    """Opens connections that say nothing, or only what they are told to."""
    opened = []

    def connect(broker, count=1, said=b""):
        made = [Wire(broker.nodes[0].bootstrap) for _ in range(count)]
        opened.extend(made)
        for wire in made:
            if said:
                wire.send(said)
        return made

    yield connect
    for wire in opened:
        wire.close()


def test_strangers_make_way_for_newcomers_the_oldest_first(silent, caplog):
    caplog.set_level(logging.INFO, "seamark.broker")
    with Broker(settings={"max.connections": 5}) as broker, Client(broker.bootstrap) as known:
        known.metadata()
        crowd = silent(broker, 4)
        eventually(lambda: len(connections_of(broker)) == 5, "all are connected")
        assert is_served(broker)
        assert crowd[0].is_closed_by_peer(5)
        assert known.metadata().controller_id == 0
        assert not crowd[3].is_closed_by_peer(0.01)
        assert "had not sent a request yet when other clients needed a connection" in caplog.text
        assert connections_of(broker).refused == 0


def test_a_client_that_has_been_idle_makes_way_when_there_are_no_strangers(silent, monkeypatch):
    with Broker(settings={"max.connections": 2}) as broker, Client(broker.bootstrap) as busy:
        busy.metadata()
        (idle,) = silent(broker, said=API_VERSIONS)
        idle.receive()
        with Wire(broker.bootstrap) as refused:
            assert refused.is_closed_by_peer(5)
        broker._call(lambda: setattr(max(connections_of(broker)._open, key=lambda c: c.opened_at), "last_active", -100))
        monkeypatch.setattr(connections_module, "_IDLE_SEARCH_SECONDS", 0.0)
        assert is_served(broker)
        assert idle.is_closed_by_peer(5)
        assert busy.metadata().controller_id == 0


def test_a_request_that_waits_keeps_no_place_for_ever(silent, monkeypatch):
    with Broker(settings={"max.connections": 3}) as broker, Client(broker.bootstrap) as busy:
        broker.create_topic("t")
        busy.metadata()
        frame = busy.frame(fetch_request({("t", 0): 0}, max_wait_ms=2**31 - 1), 12)
        (waiting,) = silent(broker, said=frame)
        (idle,) = silent(broker, said=API_VERSIONS)
        idle.receive()
        eventually(lambda: sum(c.is_waiting for c in connections_of(broker)._open) == 1, "the fetch waits")
        for connection in sorted(connections_of(broker)._open, key=lambda c: c.opened_at)[1:]:
            connection.last_active -= 40
        monkeypatch.setattr(connections_module, "_IDLE_SEARCH_SECONDS", 0.0)
        with Client(broker.bootstrap) as first:
            assert first.metadata().controller_id == 0
            assert idle.is_closed_by_peer(5)
            assert not waiting.is_closed_by_peer(0.01)
            with Client(broker.bootstrap) as second:
                assert second.metadata().controller_id == 0
                assert waiting.is_closed_by_peer(5)
                assert busy.metadata().controller_id == 0


def test_a_connection_whose_request_waits_is_idle_in_the_end_as_in_kafka(silent):
    with Broker() as broker, Client(broker.bootstrap) as other:
        broker.create_topic("t")
        (waiting,) = silent(broker, said=other.frame(fetch_request({("t", 0): 0}, max_wait_ms=2**31 - 1), 12))
        eventually(lambda: any(c.is_waiting for c in connections_of(broker)._open), "the fetch waits")
        for connection in connections_of(broker)._open:
            connection.last_active -= 601 if connection.is_waiting else 0
        sweep(broker)
        assert waiting.is_closed_by_peer(5)
        assert not broker._server.cluster.topics["t"].partitions[0].waiters
        assert other.metadata().controller_id == 0


def test_idle_ones_are_not_looked_for_by_every_newcomer(silent, monkeypatch):
    with Broker(settings={"max.connections": 3}) as broker:
        for wire in silent(broker, 3, API_VERSIONS):
            wire.receive()
        connections = connections_of(broker)
        looked = []
        monkeypatch.setattr(type(connections), "_is_idle", lambda *arguments: looked.append(arguments) or False)
        for _ in range(20):
            with Wire(broker.bootstrap) as refused:
                assert refused.is_closed_by_peer(5)
        assert len(looked) < 20


@pytest.mark.parametrize("said", [b"", API_VERSIONS[:7]], ids=["nothing", "half a request"])
def test_a_stranger_has_to_send_a_request_in_time(silent, monkeypatch, caplog, said):
    caplog.set_level(logging.INFO, "seamark.broker")
    with Broker() as broker, Client(broker.bootstrap) as known:
        known.metadata()
        (stranger,) = silent(broker, said=said)
        eventually(lambda: len(connections_of(broker)) == 2, "both are connected")
        sweep(broker)
        assert not stranger.is_closed_by_peer(0.01)
        monkeypatch.setattr(connections_module, "FIRST_REQUEST_SECONDS", 0.0)
        sweep(broker)
        assert stranger.is_closed_by_peer(5)
        assert "did not send a complete request within 0 seconds" in caplog.text
        assert known.metadata().controller_id == 0


def test_a_stranger_has_to_authenticate_in_time(silent, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "seamark.broker")
    with Broker(security=Security(users={"alice": "secret"})) as broker:
        (stranger,) = silent(broker)
        stranger.exchange(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "x"))
        monkeypatch.setattr(connections_module, "FIRST_REQUEST_SECONDS", 0.0)
        sweep(broker)
        assert stranger.is_closed_by_peer(5)
        assert "did not authenticate within 0 seconds" in caplog.text


def test_a_request_that_comes_drop_by_drop_is_given_up(silent, caplog):
    caplog.set_level(logging.INFO, "seamark.broker")
    with Broker() as broker:
        (slow,) = silent(broker, said=API_VERSIONS)
        slow.receive()
        slow.send(struct.pack(">i", 100_000_000))
        for number in range(1, 3):
            slow.send(b"x")
            (connection,) = connections_of(broker)._open
            eventually(lambda connection=connection, n=number: connection.partial_bytes == 4 + n, "the byte is there")
            sweep(broker)
        assert not slow.is_closed_by_peer(0.01)
        connection.partial_since -= 40
        slow.send(b"x")
        sweep(broker)
        assert slow.is_closed_by_peer(5)
        assert "which is too slow" in caplog.text


def test_a_large_request_may_take_its_time_if_it_comes_fast_enough(silent, monkeypatch):
    with Broker() as broker:
        (sender,) = silent(broker, said=API_VERSIONS)
        sender.receive()
        # A megabyte is worth a quarter of an hour at a kilobyte a second.
        monkeypatch.setattr(connections_module, "LEAST_BYTES_PER_SECOND", 1024)
        frame = struct.pack(">ihhih", 1 << 20, 18, 0, 7, -1) + bytes((1 << 20) - 10)
        for start in range(0, len(frame), 1 << 18):
            sender.send(frame[start : start + (1 << 18)])
            connections = connections_of(broker)
            for connection in list(connections._open):
                connection.partial_since -= 60
            sweep(broker)
        assert sender.receive()[4:8] == struct.pack(">i", 7)


def test_requests_behind_one_that_waits_are_bounded_in_sum_too(silent, caplog):
    caplog.set_level(logging.INFO, "seamark.broker")
    with Broker(settings={"queued.max.request.bytes": 3_000_000}) as broker, Client(broker.bootstrap) as other:
        broker.create_topic("t")
        waiting = fetch_request({("t", 0): 0}, max_wait_ms=60_000)
        behind = struct.pack(">ihhih", 1_500_000, 18, 0, 7, -1) + bytes(1_500_000 - 10)
        hoarders = silent(broker, 3, other.frame(waiting, 12) + behind)
        eventually(
            lambda: "bytes of unfinished requests when those of all clients reached" in caplog.text, "one has to go"
        )
        assert broker._call(lambda: connections_of(broker)._held.total) <= 3_000_000
        assert sum(wire.is_closed_by_peer(0.05) for wire in hoarders) in (1, 2)
        assert other.metadata().controller_id == 0
    assert connections_of(broker)._held.total == 0


@pytest.mark.parametrize("how", ["reset", "closed"])
def test_who_goes_away_while_its_requests_wait_is_noticed(silent, caplog, how):
    caplog.set_level(logging.WARNING, "seamark.broker")
    with Broker() as broker, Client(broker.bootstrap) as other:
        broker.create_topic("t")
        waiting = other.frame(fetch_request({("t", 0): 0}, min_bytes=1, max_wait_ms=600_000), 12)
        [wire] = silent(broker, 1, waiting + waiting * MAX_WAITING_FRAMES)
        eventually(lambda: any(not each.is_reading for each in connections_of(broker)._open), "no more is read")
        gone = wire.detach()
        if how == "reset":
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        for _ in range(2):
            sweep(broker)
        eventually(lambda: len(connections_of(broker)._open) == 1, "only the other one is left")
        assert other.metadata().controller_id == 0
    assert "it disconnected while its requests were waiting" in caplog.text


def test_a_request_that_is_never_answered_goes_with_its_connection_without_the_collector(silent):
    with Broker() as broker, Client(broker.bootstrap) as other:
        broker.create_topic("t")
        waiting = other.frame(fetch_request({("t", 0): 0}, min_bytes=1, max_wait_ms=600_000), 12)
        [wire] = silent(broker, 1, waiting)
        eventually(lambda: any(each.is_waiting for each in connections_of(broker)._open), "the fetch waits")
        [connection] = [weakref.ref(each) for each in connections_of(broker)._open if each.is_waiting]
        gc.disable()
        try:
            wire.close()
            eventually(lambda: connection() is None, "it is gone, and its request with it")
        finally:
            gc.enable()


def test_who_holds_little_stays_when_others_hold_too_much(silent):
    with Broker(settings={"queued.max.request.bytes": 1_000_000}) as broker, Client(broker.bootstrap) as patient:
        broker.create_topic("t")
        waiting = fetch_request({("t", 0): 0}, max_wait_ms=1500)
        patient.send(waiting, 12)
        patient.send(MetadataRequest(topics=None), 1)
        eventually(lambda: connections_of(broker)._held.total > 0, "a request waits behind the fetch")
        hoarders = silent(broker, 4, struct.pack(">i", 50_000_000) + bytes(300_000))
        eventually(lambda: any(wire.is_closed_by_peer(0.01) for wire in hoarders), "a hoarder has to go")
        patient.receive(waiting, 12)
        assert patient.receive(MetadataRequest(), 1).controller_id == 0


def test_a_closed_connection_that_takes_nothing_is_cut_off(silent, monkeypatch):
    monkeypatch.setattr(connections_module, "LINGER_SECONDS", 0.05)
    with Broker() as broker, Client(broker.bootstrap) as client:
        connections = connections_of(broker)
        aborted = []

        class Transport:
            def abort(self):
                aborted.append(self)

        lazy = Transport()
        broker._call(lambda: connections.let_linger(lazy))
        eventually(lambda: aborted == [lazy], "it is cut off")
        monkeypatch.setattr(connections_module, "MAX_LINGERING", 0)
        at_once = Transport()
        broker._call(lambda: connections.let_linger(at_once))
        assert aborted == [lazy, at_once]
        assert client.metadata().controller_id == 0


def test_the_last_descriptors_are_kept_for_logs(silent, monkeypatch, caplog):
    with Broker(nodes=2) as broker, Client(broker.bootstrap) as known:
        known.metadata()
        (stranger,) = silent(broker)
        eventually(lambda: len(connections_of(broker)) == 2, "both are connected")
        monkeypatch.setattr(connections_module, "connection_descriptors", lambda: 0)
        with Client(broker.nodes[1].bootstrap) as newcomer:
            # A stranger of any node makes way; all of them share the descriptors of the process.
            assert newcomer.metadata().controller_id == 0
            assert stranger.is_closed_by_peer(5)
            for _ in range(3):
                with Wire(broker.nodes[0].bootstrap) as refused:
                    assert refused.is_closed_by_peer(5)
        assert known.metadata().controller_id == 0
    assert caplog.text.count("running out of file descriptors") == 2  # one line a minute and node
    assert "ulimit -n" in caplog.text


def test_more_connections_than_there_are_descriptors_are_said_aloud(caplog):
    with Broker(settings={"max.connections": 5}):
        pass
    assert caplog.text == ""
    limit = file_limits.open_file_limit()
    with Broker(settings={"max.connections": limit}):
        pass
    assert f"max.connections={limit} is more than this process allows" in caplog.text


def test_lines_about_closed_connections_do_not_fill_the_log(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "seamark.broker")
    monkeypatch.setattr(log_limits, "LINES_OF_A_CAUSE", 3)
    with Broker() as broker:
        for _ in range(10):
            with Wire(broker.bootstrap) as wire:
                wire.send(b"\xff\xff\xff\xff")
                assert wire.is_closed_by_peer(5)
        assert caplog.text.count("closed connection") == 3
        monkeypatch.setattr(log_limits, "MINUTE_S", 0.0)
        with Wire(broker.bootstrap) as wire:
            wire.send(b"\xff\xff\xff\xff")
            assert wire.is_closed_by_peer(5)
    assert "7 lines like this were left out before" in caplog.text
