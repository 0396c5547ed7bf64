"""Peers that misbehave on purpose, and what the producer's tests share."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from seamark.client import Consumer, TopicPartition


@pytest.fixture
def peer() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Start a TCP server that does to each connection what the given function does; the answer is its address."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def start(behave: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def handle(connection: socket.socket) -> None:
            try:
                behave(connection)
            except OSError:
                pass
            finally:
                connection.close()

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                thread = threading.Thread(target=handle, args=(connection,), daemon=True)
                threads.append(thread)
                thread.start()

        thread = threading.Thread(target=accept, daemon=True)
        threads.append(thread)
        thread.start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for each in listeners + connections:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
    for each_thread in threads:
        each_thread.join(5)


@pytest.fixture
def options(kafka_like) -> dict[str, str]:
    return {"bootstrap_servers": kafka_like.bootstrap}


@pytest.fixture
def end_of(kafka_like) -> Callable[[str], int]:
    """How many records a topic holds."""

    def ask(topic: str) -> int:
        with Consumer(bootstrap_servers=kafka_like.bootstrap) as consumer:
            return sum(consumer.end_offsets([TopicPartition(topic, 0)]).values())

    return ask
