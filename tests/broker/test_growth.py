"""What a request costs grows with its size and not with its square, for every API that is served (issue 16).

Each API is asked in its oldest and newest version, with each of its arrays at some size and at four times that, full of
names that do not exist, that exist, and of one name again and again; once by somebody who may do everything and once
by somebody who may do so with half of what exists. What is measured is the processor time of the broker's thread,
which a busy machine does not change much; a case that looks bad is measured again, and the least of its times count.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from seamark import Broker
from seamark.broker.dispatch import Endpoint, load_endpoints
from seamark.broker.security import Acl, Security
from seamark.wire.frames import encode_request
from seamark.wire.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_driver import Client
from tests.support.request_shapes import UNKNOWN_TAGS, Naming, array_paths, name_of, shaped
from tests.support.waiting import eventually

SIZE = 250
FACTOR = 4
# Linear growth is FACTOR, quadratic FACTOR squared.
MOST = 6
# How often a case is measured that looks bad.
ROUNDS = 12

ENDPOINTS = load_endpoints()
# Requests without any array, in all their versions.
WITHOUT_ARRAYS = {"SaslHandshake"}


def versions_of(endpoint: Endpoint) -> list[int]:
    first = max(endpoint.versions.first, getattr(endpoint.handler, "OLDEST_SERVED", 0))
    return sorted({first, endpoint.versions.last})


def shapes_of(endpoint: Endpoint) -> Iterator[tuple[int, tuple[str, ...], Naming]]:
    request = endpoint.api.request
    for version in versions_of(endpoint):
        for path in array_paths(request, version, is_flexible=version in request.flexible):
            for naming in (Naming.MISSING,) if path == UNKNOWN_TAGS else Naming:
                yield version, path, naming


class Asked:
    """A broker with topics and groups, and the processor time that its requests take."""

    def __init__(self, broker: Broker) -> None:
        assert broker._thread is not None
        self._broker = broker
        self._clock = time.pthread_getcpuclockid(broker._thread.ident or 0)
        self._client = Client(broker.bootstrap, timeout=60)
        self.make_topics()

    def close(self) -> None:
        self._client.close()

    def make_topics(self) -> None:
        cluster = self._broker._server.cluster

        def make() -> dict[str, bytes]:
            for name in map(name_of, range(SIZE * FACTOR)):
                if name not in cluster.topics:
                    cluster.create_topic(name, [[0]], {})
            return {topic.name: topic.id for topic in cluster.topics.values()}

        self._topic_ids = self._broker._call(make)

    def seconds(self, endpoint: Endpoint, version: int, path: tuple[str, ...], size: int, naming: Naming) -> float:
        if endpoint.api.name == "DeleteTopics":
            self.make_topics()
        request = shaped(endpoint.api.request, version, path, size, naming, self._topic_ids)
        frame = encode_request(request, version, 1, "tests")
        before = time.clock_gettime(self._clock)
        self._client.wire.exchange(frame)
        return time.clock_gettime(self._clock) - before

    def growth(self, endpoint: Endpoint, version: int, path: tuple[str, ...], naming: Naming) -> float:
        """How many times the time four times the size takes."""
        least = {SIZE: float("inf"), SIZE * FACTOR: float("inf")}
        for _ in range(ROUNDS):
            for size in least:
                least[size] = min(least[size], self.seconds(endpoint, version, path, size, naming))
            if least[SIZE * FACTOR] <= MOST * least[SIZE]:
                break
        return least[SIZE * FACTOR] / least[SIZE]


def commit_as_groups(broker: Broker) -> None:
    """Give groups an offset each."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name=name_of(0), partitions=[partition])]
    with Client(broker.bootstrap) as client:
        eventually(
            lambda: not client.ask(FindCoordinatorRequest(coordinator_keys=["g"])).coordinators[0].error_code,
            "the offsets topic is there",
        )
        for number in range(0, SIZE * FACTOR, 10):
            request = OffsetCommitRequest(
                group_id=name_of(number), generation_id_or_member_epoch=-1, member_id="", topics=topics
            )
            client.ask(request, 9)


def rights_to_half_of_it() -> Security:
    prefixes = [name_of(number)[:4] for number in range(0, SIZE * FACTOR, 200)]
    return Security(
        acls=[
            Acl("User:*", "ALL", kind, prefix, pattern="PREFIXED") for prefix in prefixes for kind in ("TOPIC", "GROUP")
        ]
    )


@pytest.fixture(scope="module", params=["everything is allowed", "half of it is allowed"])
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    security = rights_to_half_of_it() if request.param.startswith("half") else None
    settings = {"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": False}
    with Broker(settings=settings, security=security) as broker, pytest.MonkeyPatch.context() as patch:
        # Short requests are answered in the way of long ones: the two are to differ in their size alone.
        patch.setattr("seamark.broker.context.LONG_REQUEST_BYTES", 0)
        patch.setattr("seamark.broker.dispatch._READ_AT_ONCE_BYTES", 0)
        # In one turn of the loop: what more turns cost is not the request's.
        for name in ("FIRST_SECONDS", "TURN_SECONDS", "LONE_TURN_SECONDS", "LONG_STEP_SECONDS"):
            patch.setattr(f"seamark.broker.turns.{name}", 100.0)
        asked = Asked(broker)
        if security is None:
            commit_as_groups(broker)
        gc.collect()
        gc.disable()
        try:
            yield asked
        finally:
            gc.enable()
            asked.close()


def test_every_api_has_arrays_to_be_tried_or_is_known_to_have_none() -> None:
    without = {endpoint.api.name for endpoint in ENDPOINTS.values() if not list(shapes_of(endpoint))}
    assert without == WITHOUT_ARRAYS


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda endpoint: endpoint.api.name)
def test_four_times_the_elements_take_about_four_times_as_long(asked: Asked, endpoint: Endpoint) -> None:
    bad = {}
    for version, path, naming in shapes_of(endpoint):
        growth = asked.growth(endpoint, version, path, naming)
        if growth > MOST:
            bad[f"version {version}, {'/'.join(path)}, {naming.value}"] = round(growth, 1)
    assert not bad
