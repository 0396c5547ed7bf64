"""Handshakes of strangers: a few at a time, and none that hold others up."""

from __future__ import annotations

import logging
import socket
import ssl
import struct

import pytest

from seamark import Broker
from seamark.broker.net import connections as connections_module
from seamark.broker.net import tls_gate
from seamark.broker.net.tls_gate import Handshakes
from seamark.broker.security.security import Security, Tls
from tests.support.capture import Wire
from tests.support.certificates import Authority
from tests.support.waiting import eventually

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def trusting(authority):
    return ssl.create_default_context(cafile=str(authority.certificate))


@pytest.fixture(scope="module")
def broker(authority):
    made = authority.sign("/CN=broker")
    with Broker(security=Security(tls=Tls(made.certificate, made.key))) as running:
        yield running


@pytest.fixture
def opened():
    wires = []
    yield wires
    for wire in wires:
        wire.close()


def hello(context):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


def connections_of(broker):
    return broker._server.nodes[0].connections


def is_served(broker, context):
    host, port = broker.bootstrap.split(":")
    with socket.create_connection((host, int(port)), 10) as raw, context.wrap_socket(raw, server_hostname=host) as tls:
        tls.sendall(API_VERSIONS)
        return tls.recv(8)[4:] == b"\0\0\0\1"


def test_a_client_that_says_nothing_costs_no_handshake(broker, trusting, opened):
    opened += [Wire(broker.bootstrap) for _ in range(5)]
    eventually(lambda: len(connections_of(broker)) == 5, "all are connected")
    assert len(broker._server.nodes[0].handshakes) == 0
    assert is_served(broker, trusting)


def test_a_handshake_that_does_not_go_on_makes_way_for_others(broker, trusting, opened, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "seamark.broker")
    monkeypatch.setattr(tls_gate, "MAX_HANDSHAKES", 3)
    first = hello(trusting)
    for _ in range(6):
        opened.append(Wire(broker.bootstrap))
        opened[-1].send(first)
        assert opened[-1]._socket.recv(1), "the server has said its hello"
    assert len(broker._server.nodes[0].handshakes) == 3
    assert caplog.text.count("while many other clients started one") == 3
    assert is_served(broker, trusting)
    eventually(lambda: len(broker._server.nodes[0].handshakes) == 2, "who was served is no longer counted")


def test_what_comes_instead_of_a_hello_is_not_kept(broker, trusting, opened, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "seamark.broker")
    with monkeypatch.context() as never:
        never.setattr(Handshakes, "ask_for", lambda *_: None)
        opened += [Wire(broker.bootstrap) for _ in range(3)]
        for wire in opened:
            wire.send(b"x" * 10_000)
        held = connections_of(broker)._held_of_unknown
        eventually(lambda: held.total == 30_000, "what was sent is counted")
        opened[0].send(b"x" * 10_000)
        assert opened[0].is_closed_by_peer(5)
        assert "sent too much data" in caplog.text
        monkeypatch.setattr(connections_module, "MAX_UNKNOWN_BYTES", 20_000)
        opened[1].send(b"x")
        eventually(lambda: held.total <= 20_000, "one has to go")
    assert is_served(broker, trusting)


def test_only_some_handshakes_begin_in_a_turn_of_the_loop(monkeypatch):
    monkeypatch.setattr(tls_gate, "HANDSHAKES_PER_TURN", 8)

    class Loop:
        def __init__(self):
            self.soon = []

        def call_soon(self, callback):
            self.soon.append(callback)

    class Gate:
        is_there = True
        begun = 0

        def shake_hands(self):
            Gate.begun += 1

    loop = Loop()
    handshakes = Handshakes(loop)
    gates = [Gate() for _ in range(tls_gate.HANDSHAKES_PER_TURN * 2 + 1)]
    gates[0].is_there = False
    for gate in gates:
        handshakes.ask_for(gate)
    turns = []
    while loop.soon:
        (turn,) = loop.soon
        loop.soon = []
        turn()
        turns.append(Gate.begun)
    assert turns == [7, 15, 16]
    assert len(handshakes) == 16
