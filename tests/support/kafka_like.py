"""A running broker of either make, for suites that say the same of both: Apache Kafka and the embedded broker.

Each is shared by the whole run, so topics and groups are named anew by each test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.maven import NEWEST_KAFKA, OLDER_KAFKA


@dataclass(frozen=True)
class KafkaLike:
    """A running broker; ``broker`` is the object behind it."""

    name: str
    bootstrap: str
    broker: Any

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("seamark")


def start(name: str, request: pytest.FixtureRequest) -> Iterator[KafkaLike]:
    if name.startswith("apache"):
        version = {"apache-4.3": NEWEST_KAFKA, "apache-3.9": OLDER_KAFKA}[name]
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
_NEWEST = ("apache-4.3", "seamark")
_OLDER = ("apache-3.9", "seamark-2.4") if os.environ.get("SEAMARK_SOAK") else ()
BROKERS = [
    pytest.param(name, marks=[pytest.mark.kafka] if name.startswith("apache") else []) for name in (*_NEWEST, *_OLDER)
]
