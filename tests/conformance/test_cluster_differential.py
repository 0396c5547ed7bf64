"""Requests about topics and records against Apache Kafka and against ours, answers compared field by field."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from seamark.broker import Broker
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.conformance.differential import admin_scripts, data_scripts
from tests.conformance.differential.cluster_script import ClusterRecorder
from tests.conformance.differential.known import MOST, is_forbidden, known_differences, unexplained
from tests.conformance.differential.script import Difference, Entry, differences
from tests.support.apache_kafka import ApacheKafka
from tests.support.capture import exchange

Script = Callable[[ClusterRecorder], None]
SCRIPTS: tuple[Script, ...] = (*data_scripts.SCRIPTS, *admin_scripts.SCRIPTS)
# What each API of topics and records is asked in; Produce 0 to 2 are asked too, and end the connection.
SERVED = {
    "Produce": range(13),
    "Fetch": range(4, 18),
    "ListOffsets": range(1, 11),
    "Metadata": range(14),
    "CreateTopics": range(2, 8),
    "DeleteTopics": range(1, 7),
    "DeleteRecords": range(3),
    "InitProducerId": range(6),
    "OffsetForLeaderEpoch": range(2, 5),
    "DescribeConfigs": range(1, 5),
    "CreatePartitions": range(4),
    "IncrementalAlterConfigs": range(2),
    "DescribeCluster": range(3),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture(scope="module")
def seen() -> list[Difference]:
    """What the scripts of this module found so far."""
    return []


@pytest.fixture(scope="module", autouse=True)
def offsets_topics(apache_kafka: ApacheKafka, broker: Broker) -> None:
    """Both have their internal topic before the first script: it is made when a group is first looked for."""
    request = encode_request(FindCoordinatorRequest(coordinator_keys=["any group"]), 4, 1, "differential")
    for bootstrap in (apache_kafka.bootstrap, broker.bootstrap):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            _, answer = decode_response(FindCoordinatorResponse, exchange(bootstrap, request)[4:], 4)
            if answer.coordinators[0].error_code == 0:
                break
            time.sleep(0.1)


def transcript(script: Script, bootstrap: str) -> list[Entry]:
    recorder = ClusterRecorder(bootstrap)
    try:
        script(recorder)
        return recorder.transcript()
    finally:
        recorder.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_script_gets_the_answers_that_kafka_gives(
    script: Script, apache_kafka: ApacheKafka, broker: Broker, seen: list[Difference]
) -> None:
    theirs = transcript(script, apache_kafka.bootstrap)
    ours = transcript(script, broker.bootstrap)
    found = differences(theirs, ours)
    seen += found
    assert unexplained(found, known_differences()) == []


def test_the_scripts_ask_every_api_of_topics_and_records_in_every_version(broker: Broker) -> None:
    asked = {(entry.api, entry.version) for script in SCRIPTS for entry in transcript(script, broker.bootstrap)}
    missing = {(api, version) for api, versions in SERVED.items() for version in versions} - asked
    assert missing == set()


def test_the_list_of_differences_is_short_and_excuses_no_code_state_or_offset() -> None:
    known = known_differences()
    assert len(known) <= MOST
    assert [line for line in known if is_forbidden(line)] == []


@pytest.mark.kafka
def test_every_listed_difference_still_exists(seen: list[Difference]) -> None:
    if not seen:
        pytest.skip("needs the scripts to have run before")
    asked = {*SERVED, "*"}
    stale = [line for line in known_differences() if line.api in asked and not any(map(line.covers, seen))]
    assert stale == []
