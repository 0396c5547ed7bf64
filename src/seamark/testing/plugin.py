"""Broker fixtures for everybody's pytest, found by its entry point as soon as seamark is installed.

``seamark_broker``    one broker in memory for the whole run; faults, clock and settings are restored after each test
``seamark_topic``     a topic name that no other test has; the broker makes the topic on first use
``seamark_cluster``   three nodes, new for each test, because such a test stops some of them
``seamark_settings``  the broker settings of both; override it in a conftest.py to change them

This module is loaded in every run of pytest, with or without a test of Kafka: it imports nothing of Seamark before a
fixture is asked for.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from seamark.broker import Broker

_SHARED = pytest.StashKey["Broker | None"]()

# Kafka takes 249 characters; a shorter name leaves room for what tools append (-retry, .DLQ).
_NAME_CHARACTERS = 180


@pytest.fixture(scope="session")
def seamark_settings() -> Mapping[str, object]:
    """Kafka broker settings of the fixtures' brokers: a new group does not wait three seconds for more members."""
    return {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture(scope="session")
def seamark_broker(seamark_settings: Mapping[str, object], pytestconfig: pytest.Config) -> Iterator[Broker]:
    """The run's broker: give ``seamark_broker.bootstrap`` to any Kafka client."""
    from seamark.broker import Broker

    with Broker(settings=seamark_settings) as broker:
        pytestconfig.stash[_SHARED] = broker
        yield broker
        pytestconfig.stash[_SHARED] = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """After a test and its fixtures: the next one finds the shared broker as if nothing had been done to it."""
    result = yield
    broker = item.config.stash.get(_SHARED, None)
    if broker is not None:
        from seamark.errors import ClosedError

        try:
            broker.restore()
        except ClosedError:
            item.config.stash[_SHARED] = None
            pytest.fail("this test closed seamark_broker, which all tests share: start a separate Broker instead")
    return result


@pytest.fixture
def seamark_topic(request: pytest.FixtureRequest) -> str:
    """A topic name for this test only, readable in logs: the test's name and a random part."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-.")[:_NAME_CHARACTERS]
    return f"{readable}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def seamark_cluster(seamark_settings: Mapping[str, object]) -> Iterator[Broker]:
    """A broker of three nodes that this test may stop, slow down and restart as it likes."""
    from seamark.broker import Broker

    with Broker(nodes=3, settings=seamark_settings) as broker:
        yield broker
