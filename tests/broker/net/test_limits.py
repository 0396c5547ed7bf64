"""Hostile and careless clients: each is cut off by a limit of its own, and everybody else keeps being served."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time

import psutil
import pytest

from seamark.broker import Broker
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest
from seamark.wire.protocol.messages.metadata import MetadataRequest
from tests.support.capture import CaptureError, Wire

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
MEGABYTE = 1 << 20


def is_served(broker):
    with Wire(broker.bootstrap) as wire:
        return wire.exchange(API_VERSIONS)[4:8] == b"\0\0\0\1"


def open_connections(broker):
    return len(broker._server.nodes[0].connections)


def wait_until(is_so, what, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def resident_bytes():
    return psutil.Process().memory_info().rss


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


@pytest.mark.parametrize("announced", [2**31 - 1, 104_857_601, -1, -(2**31)])
def test_a_frame_that_is_too_large_or_negative_closes_with_one_line(broker, caplog, announced):
    caplog.set_level(logging.INFO, "seamark")
    with Wire(broker.bootstrap) as wire:
        wire.send(struct.pack(">i", announced))
        assert wire.is_closed_by_peer(5)
    assert caplog.text.count("closed connection") == 1
    assert str(announced) in caplog.text
    assert is_served(broker)


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), b"\0\0\0\0",
     b"\0\0\0\x03abc", b"\0\0\0\x0a" + b"\x7f\xff" * 5, b"\0\0\0\x08\0\x12\0\0\0\0\0\1"[:12] + b"",
     struct.pack(">ihhih", 12, 3, 4, 1, -1) + b"\x7f\xff"],
)  # fmt: skip
def test_garbage_closes_or_is_answered_and_hurts_nobody(broker, caplog, garbage):
    caplog.set_level(logging.INFO, "seamark")
    with Wire(broker.bootstrap) as wire:
        wire.send(garbage)
        assert wire.is_closed_by_peer(5)
    assert caplog.text.count("closed connection") == 1
    assert "Traceback" not in caplog.text
    assert is_served(broker)


def test_frames_that_never_end_cost_no_more_than_what_was_sent(broker, monkeypatch):
    before = resident_bytes()
    wires = [Wire(broker.bootstrap) for _ in range(100)]
    for wire in wires:
        wire.send(struct.pack(">i", 100_000_000) + b"x" * 100)
    wait_until(lambda: open_connections(broker) == 100, "all connect")
    assert is_served(broker)
    assert resident_bytes() - before < 20 * MEGABYTE
    # The clock that is moved only makes the broker look; what it measures is the machine's own time.
    monkeypatch.setattr("seamark.broker.net.connections.STANDSTILL_SECONDS", 0.0)
    broker.advance(6)
    broker.advance(6)
    wait_until(lambda: open_connections(broker) == 0, "who does not go on is closed")
    for wire in wires:
        wire.close()


def test_a_client_that_sends_byte_by_byte_is_served_in_the_end(broker):
    with Wire(broker.bootstrap) as wire:
        for byte in API_VERSIONS:
            wire.send(bytes([byte]))
        assert wire.receive()[4:8] == b"\0\0\0\1"


def test_a_client_that_never_reads_stops_being_read_and_is_closed_in_the_end(broker, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "seamark")
    for number in range(200):
        broker.create_topic(f"topic-{number:04}-{'x' * 200}")
    request = encode_request(MetadataRequest(topics=None), 4, 1, "hoarder")
    with Wire(broker.bootstrap) as hoarder:
        hoarder._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        hoarder._socket.settimeout(0.2)
        before = resident_bytes()
        sent = 0
        deadline = time.monotonic() + 20
        try:
            while time.monotonic() < deadline:
                hoarder._socket.sendall(request * 100)
                sent += 100
        except TimeoutError:
            pass
        else:
            pytest.fail("the broker went on reading from a client that does not read")
        grown = resident_bytes() - before
        # Every answer has about 50 kB: unlimited, they would be hundreds of megabytes by now.
        assert sent > 1000
        assert grown < 20 * MEGABYTE, f"{grown} bytes for {sent} requests"
        assert is_served(broker)
        wait_until(lambda: open_connections(broker) == 1, "only the hoarder is left")
        (connection,) = broker._server.nodes[0].connections._open
        wait_until(lambda: connection.stalled_since is not None, "its answers are not taken")
        monkeypatch.setattr("seamark.broker.net.connections.STANDSTILL_SECONDS", 0.0)
        broker.advance(6)
        wait_until(lambda: open_connections(broker) == 0, "the hoarder is closed")
        assert caplog.text.count("did not read its responses") == 1


def test_a_flood_of_requests_leaves_the_others_their_turn(broker):
    request = encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0, 1, "flood")
    with Wire(broker.bootstrap) as flood:
        is_over = threading.Event()

        def drain():
            try:
                while not is_over.is_set():
                    flood._socket.recv(MEGABYTE)
            except OSError:
                pass

        def pour():
            try:
                while not is_over.is_set():
                    flood._socket.sendall(request * 5000)
            except OSError:
                pass

        flood._socket.settimeout(5)
        threads = [threading.Thread(target=each) for each in (drain, pour)]
        for thread in threads:
            thread.start()
        slowest = 0.0
        try:
            with Wire(broker.bootstrap) as polite:
                for _ in range(40):
                    began = time.monotonic()
                    polite.exchange(API_VERSIONS)
                    slowest = max(slowest, time.monotonic() - began)
                    time.sleep(0.01)
        finally:
            is_over.set()
            flood._socket.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
        # Without a limit per turn the polite one had no answer in ten seconds; a busy machine needs some room.
        assert slowest < 5, f"the slowest answer took {slowest:.3f} s"


def test_one_connection_too_many_is_closed_and_counted(caplog):
    caplog.set_level(logging.INFO, "seamark")
    with Broker(settings={"max.connections": 5}) as broker:
        wires = [Wire(broker.bootstrap) for _ in range(5)]
        for wire in wires:
            wire.exchange(API_VERSIONS)
        with Wire(broker.bootstrap) as sixth:
            assert sixth.is_closed_by_peer(5)
        assert "max.connections=5" in caplog.text
        assert broker._server.nodes[0].connections.refused == 1
        wires.pop().close()
        wait_until(lambda: open_connections(broker) == 4, "one has left")
        assert is_served(broker)
        for wire in wires:
            wire.close()


def test_one_address_may_not_take_all_connections(caplog):
    caplog.set_level(logging.INFO, "seamark")
    with (
        Broker(settings={"max.connections.per.ip": 2}) as broker,
        Wire(broker.bootstrap) as one,
        Wire(broker.bootstrap) as two,
    ):
        one.exchange(API_VERSIONS)
        two.exchange(API_VERSIONS)
        with Wire(broker.bootstrap) as three:
            assert three.is_closed_by_peer(5)
        assert "max.connections.per.ip=2" in caplog.text
        one.exchange(API_VERSIONS)


def test_a_crowd_that_connects_and_leaves_leaves_nothing_behind(broker):
    for _ in range(10):
        crowd = [Wire(broker.bootstrap) for _ in range(50)]
        for wire in crowd[::2]:
            wire.send(API_VERSIONS[:7])
        for wire in crowd:
            wire.close()
    wait_until(lambda: open_connections(broker) == 0, "all have left")
    assert is_served(broker)


def test_an_idle_connection_is_closed(caplog):
    caplog.set_level(logging.INFO, "seamark")
    with Broker(settings={"connections.max.idle.ms": 1000}) as broker, Wire(broker.bootstrap) as wire:
        wire.exchange(API_VERSIONS)
        assert not wire.is_closed_by_peer(0.05)
        time.sleep(1)
        broker.advance(10)
        assert wire.is_closed_by_peer(5)
        assert "was idle for 1 seconds" in caplog.text


def test_a_smaller_limit_of_requests_is_kept():
    with Broker(settings={"socket.request.max.bytes": 1000}) as broker, Wire(broker.bootstrap) as wire:
        wire.send(struct.pack(">i", 1001))
        with pytest.raises(CaptureError, match="closed"):
            wire.receive(5)
        assert is_served(broker)
