"""The client's peers: Apache Kafka, the embedded broker, and peers that misbehave on purpose.

``kafka_like`` is each broker in turn, so one suite says the same of all. Topics and groups are named anew by each test:
the brokers are shared by the whole run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from seamark.client import Admin


@dataclass(frozen=True)
class KafkaLike:
    """A running broker; ``broker`` is the object behind it."""

    name: str
    bootstrap: str
    broker: Any

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("seamark")


def _start(name: str, request: pytest.FixtureRequest) -> Iterator[KafkaLike]:
    if name.startswith("apache"):
        version = {"apache-4.1": "4.1.0", "apache-3.9": "3.9.1"}[name]
        broker = request.getfixturevalue("apache_kafka_with")(version=version)
        yield KafkaLike(name, broker.bootstrap, broker)
        return
    from seamark import Broker

    # The newest versions, or those of the oldest release that the client speaks to.
    # As with the Apache brokers of the tests, a new group does not wait for more members.
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Broker(settings=settings, max_versions="2.4" if name == "seamark-2.4" else None) as broker:
        yield KafkaLike(name, broker.bootstrap, broker)


# The older ones take as long again; the suite has a time limit, so they are for SEAMARK_SOAK=1. What differs between
# releases (negotiation, the forms of requests) is tested on all of them by the unit tests and the conformance suites.
_NEWEST = ("apache-4.1", "seamark")
_OLDER = ("apache-3.9", "seamark-2.4") if os.environ.get("SEAMARK_SOAK") else ()
_BROKERS = [
    pytest.param(name, marks=[pytest.mark.kafka] if name.startswith("apache") else []) for name in (*_NEWEST, *_OLDER)
]


@pytest.fixture(scope="session", params=_BROKERS)
def kafka_like(request: pytest.FixtureRequest) -> Iterator[KafkaLike]:
    """Each broker in turn."""
    yield from _start(request.param, request)


@pytest.fixture
def admin(kafka_like: KafkaLike) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka_like.bootstrap, default_api_timeout_ms=30_000) as made:
        yield made


_numbers = itertools.count(1)


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Names that nothing else in the run uses."""
    return lambda what: f"{what}-{os.getpid()}-{next(_numbers)}"


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
