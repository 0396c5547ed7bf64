"""Raw exchanges never hang and never take unbounded memory, whatever the other side sends."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.capture import CaptureError, Wire, exchange, framed

REQUEST = framed(struct.pack(">hhih", 18, 0, 7, -1))


@contextmanager
def peer(act: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that takes one connection and does as told; the address to connect to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(10)
                act(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join(10)


def answers(raw: bytes) -> Callable[[socket.socket], None]:
    def act(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(raw)

    return act


def test_a_whole_frame_comes_back_however_it_was_cut():
    reply = framed(struct.pack(">i", 7) + bytes(range(256)))

    def act(connection: socket.socket) -> None:
        assert connection.recv(1 << 16) == REQUEST
        for start in range(0, len(reply), 37):
            connection.sendall(reply[start : start + 37])
            time.sleep(0.001)

    with peer(act) as bootstrap:
        assert exchange(bootstrap, REQUEST) == reply


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "closed after 0 of 4 bytes of a frame's size"),
        (b"\0\0", "closed after 2 of 4 bytes of a frame's size"),
        (framed(bytes(10))[:-3], "closed after 7 of 10 bytes of a frame"),
        (b"HTTP/1.1 400 Bad Request", "announced a frame of 1213486160 bytes"),
        (struct.pack(">i", -1), "announced a frame of -1 bytes"),
        (framed(struct.pack(">i", 8)), "answered correlation id 00000008 to request 00000007"),
        (framed(b""), "answered correlation id  to request 00000007"),
    ],
)
def test_an_answer_that_is_none_is_told_in_a_sentence(raw, sentence):
    with peer(answers(raw)) as bootstrap, pytest.raises(CaptureError, match=sentence):
        exchange(bootstrap, REQUEST)


def test_a_silent_peer_and_a_dripping_peer_both_meet_the_deadline():
    for drip in (b"", b"\0"):
        over = threading.Event()

        def act(connection: socket.socket, drip: bytes = drip, over: threading.Event = over) -> None:
            connection.recv(1 << 16)
            connection.sendall(struct.pack(">i", 1000))
            while not over.wait(0.05):
                connection.sendall(drip)

        with peer(act) as bootstrap:
            begun = time.monotonic()
            try:
                with pytest.raises(CaptureError, match="of 1000 bytes of a frame in time"):
                    exchange(bootstrap, REQUEST, timeout=0.5)
            finally:
                over.set()
            assert 0.4 < time.monotonic() - begun < 5


def test_a_frame_over_the_limit_is_refused_before_it_is_read():
    with (
        peer(answers(struct.pack(">i", 1001) + bytes(10))) as bootstrap,
        Wire(bootstrap, largest_response_bytes=1000) as wire,
        pytest.raises(CaptureError, match="a frame of 1001 bytes; at most 1000"),
    ):
        wire.exchange(REQUEST)


def test_a_request_that_is_not_one_frame_is_refused_before_it_is_sent():
    def act(connection: socket.socket) -> None:
        assert connection.recv(1 << 16) == b""

    with peer(act) as bootstrap, Wire(bootstrap) as wire:
        for wrong in (b"", REQUEST[:-1], REQUEST + b"\0", framed(b"short")):
            with pytest.raises(ValueError, match="a request frame is its four-byte size"):
                wire.exchange(wrong)


def test_nobody_listening_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        bootstrap = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(CaptureError, match=f"no connection to {bootstrap}"):
        exchange(bootstrap, REQUEST)


def test_a_peer_that_closes_is_noticed_and_one_that_waits_is_not_closed():
    gate = threading.Event()
    with peer(lambda _: gate.wait(10)) as bootstrap, Wire(bootstrap) as wire:
        assert not wire.is_closed_by_peer(timeout=0.05)
        gate.set()
        assert wire.is_closed_by_peer(timeout=5)
