"""A broker per file of tests and a raw connection to it; a file with other needs has fixtures of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seamark import Broker
from tests.support.broker_driver import Client


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.bootstrap) as connected:
        yield connected
