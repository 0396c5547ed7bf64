"""Group requests against Apache Kafka and against ours, answers compared field by field.

A30 to A32, B12 to B20, D1 to D35, F17 to F27, L6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from seamark.broker import Broker
from tests.conformance.differential.group_scripts import SCRIPTS
from tests.conformance.differential.known import known_differences, unexplained
from tests.conformance.differential.random_groups import random_life
from tests.conformance.differential.script import Difference, Entry, Recorder, differences
from tests.support.apache_kafka import ApacheKafka

Script = Callable[[Recorder], None]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


SERVED = {
    "OffsetCommit": range(2, 10),
    "OffsetFetch": range(1, 10),
    "FindCoordinator": range(7),
    "JoinGroup": range(10),
    "Heartbeat": range(5),
    "LeaveGroup": range(6),
    "SyncGroup": range(6),
    "DescribeGroups": range(7),
    "ListGroups": range(6),
    "DeleteGroups": range(3),
    "OffsetDelete": range(1),
    "ConsumerGroupDescribe": range(2),
}


@pytest.fixture(scope="module")
def seen() -> dict[str, list[Difference]]:
    """What each script of this module that has run found; mostly nothing."""
    return {}


def transcript(script: Script, bootstrap: str) -> list[Entry]:
    recorder = Recorder(bootstrap)
    try:
        script(recorder)
        return recorder.transcript()
    finally:
        recorder.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_random_life_gets_the_answers_that_kafka_gives(seed: int, apache_kafka: ApacheKafka, broker: Broker) -> None:
    script = partial(random_life, seed=seed)
    found = differences(transcript(script, apache_kafka.bootstrap), transcript(script, broker.bootstrap))
    assert unexplained(found, known_differences()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_script_gets_the_answers_that_kafka_gives(
    script: Script, apache_kafka: ApacheKafka, broker: Broker, seen: dict[str, list[Difference]]
) -> None:
    theirs = transcript(script, apache_kafka.bootstrap)
    ours = transcript(script, broker.bootstrap)
    assert len(ours) >= 20, "the script hardly asked anything"
    found = differences(theirs, ours)
    seen[script.__name__] = found
    assert unexplained(found, known_differences()) == []


def test_the_scripts_ask_every_group_api_in_every_version_that_kafka_serves(broker: Broker) -> None:
    asked = {(entry.api, entry.version) for script in SCRIPTS for entry in transcript(script, broker.bootstrap)}
    missing = {(api, version) for api, versions in SERVED.items() for version in versions} - asked
    assert missing == set()


@pytest.mark.kafka
def test_every_listed_difference_of_a_group_api_still_exists(seen: dict[str, list[Difference]]) -> None:
    if not seen:
        pytest.skip("needs the scripts to have run before")
    found = [each for differences_of_one in seen.values() for each in differences_of_one]
    stale = [line for line in known_differences() if line.api in SERVED and not any(map(line.covers, found))]
    assert stale == []
