"""What a request costs grows with its size and not with its square, for every API that is served (issue 16).

Each API is asked with each of its arrays at some size and at four times that, full of names that do not exist, that
exist, and of one name again and again; once by somebody who may do everything and once by somebody who may do so with
half of what exists. Lines of Python are counted for all of that. What a built-in function does, such as looking a name
up in a list, only shows in processor time: that is measured at larger sizes; a case that looks bad is measured again,
and the least of its times count.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from seamark import Broker
from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.net.endpoint import Endpoint
from seamark.wire.schema.schema import Message
from tests.support.growth_stage import Stage, rights_to_half_of_it
from tests.support.request_shapes import UNKNOWN_TAGS, Naming, array_paths

FACTOR = 4
# Linear growth is FACTOR, quadratic FACTOR squared.
COUNTED_SIZE = 50
MOST_COUNTED = 6
TIMED_SIZE = 1000
MOST_TIMED = 6
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


EVERYTHING = "everything is allowed"
HALF = "half of it is allowed"

CASES = [(rights, endpoint) for rights in (EVERYTHING, HALF) for endpoint in ENDPOINTS.values()]
# Where all elements of a request do their work. There are no access rules to be changed where everything is allowed.
WORKING_CASES = [
    (HALF if endpoint.api.name.endswith("Acls") else EVERYTHING, endpoint) for endpoint in ENDPOINTS.values()
]


def for_all(cases: list[tuple[str, Endpoint]]) -> pytest.MarkDecorator:
    ids = [f"{rights}-{endpoint.api.name}" for rights, endpoint in cases]
    return pytest.mark.parametrize(("stage", "endpoint"), cases, indirect=["stage"], ids=ids)


@pytest.fixture
def stage(request: pytest.FixtureRequest, stages: dict[str, Stage]) -> Stage:
    return stages[request.param]


@pytest.fixture(scope="module")
def stages() -> Iterator[dict[str, Stage]]:
    most = TIMED_SIZE * FACTOR
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": False,
        # All groups in one place.
        "offsets.topic.num.partitions": 1,
    }
    with (
        Broker(settings=settings) as free,
        Broker(settings=settings, security=rights_to_half_of_it(most)) as guarded,
        pytest.MonkeyPatch.context() as patch,
    ):
        # Short requests are answered in the way of long ones: the two are to differ in their size alone.
        patch.setattr("seamark.broker.net.context.LONG_REQUEST_BYTES", 0)
        patch.setattr("seamark.broker.net.dispatch.READ_AT_ONCE_BYTES", 0)
        # In one turn of the loop: what more turns cost is not the request's.
        for name in ("FIRST_SECONDS", "TURN_SECONDS", "LONE_TURN_SECONDS", "LONG_STEP_SECONDS"):
            patch.setattr(f"seamark.broker.sharing.turns.{name}", 100.0)
        stages = {EVERYTHING: Stage(free, most), HALF: Stage(guarded, most)}
        gc.collect()
        gc.disable()
        try:
            yield stages
        finally:
            gc.enable()
            for stage in stages.values():
                stage.close()


def test_every_api_has_arrays_to_be_tried_or_is_known_to_have_none() -> None:
    without = {endpoint.api.name for endpoint in ENDPOINTS.values() if not list(shapes_of(endpoint))}
    assert without == WITHOUT_ARRAYS


# Of these no request can have many that are right: there is one node, there are a few dozen keys, and a member has few
# protocols.
REFUSED = {"broker_ids", "configs", "protocols"}
NOT_SERVED = {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe"}


@for_all(WORKING_CASES)
def test_the_requests_that_are_measured_do_their_work(stage: Stage, endpoint: Endpoint) -> None:
    naming = Naming.MISSING if endpoint.api.name == "CreateTopics" else Naming.EXISTING
    for version, path, named in shapes_of(endpoint):
        if named is naming and path != UNKNOWN_TAGS:
            request = stage.request(endpoint.api.request, version, path, COUNTED_SIZE, naming)
            codes = stage.codes(request, version)
            is_known = path[-1] in REFUSED or endpoint.api.name in NOT_SERVED
            # The topic with many partitions already has more than the request wants.
            wrong = codes.total() - codes["NONE"] - codes["INVALID_PARTITIONS"]
            assert not wrong or is_known, (version, path, codes)


def growth(
    stage: Stage,
    endpoint: Endpoint,
    shape: tuple[int, tuple[str, ...], Naming],
    size: int,
    most: float,
    cost: Callable[[Message, int], float],
) -> float:
    """How many times as much four times the size costs."""
    version, path, naming = shape
    least = {size: float("inf"), size * FACTOR: float("inf")}
    for _ in range(ROUNDS):
        for each in least:
            request = stage.request(endpoint.api.request, version, path, each, naming)
            least[each] = min(least[each], cost(request, version))
        if least[size * FACTOR] <= most * least[size]:
            break
    return least[size * FACTOR] / least[size]


def told(shape: tuple[int, tuple[str, ...], Naming]) -> str:
    version, path, naming = shape
    return f"version {version}, {'/'.join(path)}, {naming.value}"


@for_all(CASES)
def test_four_times_the_elements_take_about_four_times_as_many_lines(stage: Stage, endpoint: Endpoint) -> None:
    found = {
        told(shape): round(growth(stage, endpoint, shape, COUNTED_SIZE, MOST_COUNTED, stage.lines), 1)
        for shape in shapes_of(endpoint)
    }
    assert {shape: times for shape, times in found.items() if times > MOST_COUNTED} == {}


@for_all(WORKING_CASES)
def test_four_times_the_elements_take_about_four_times_as_long(stage: Stage, endpoint: Endpoint) -> None:
    newest = [shape for shape in shapes_of(endpoint) if shape[0] == versions_of(endpoint)[-1]]
    found = {
        told(shape): round(growth(stage, endpoint, shape, TIMED_SIZE, MOST_TIMED, stage.seconds), 1)
        for shape in newest
        if shape[2] is not Naming.MISSING or endpoint.api.name == "CreateTopics"
    }
    assert {shape: times for shape, times in found.items() if times > MOST_TIMED} == {}
