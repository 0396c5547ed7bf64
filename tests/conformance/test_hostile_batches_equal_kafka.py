"""Batches that are false inside, judged by Apache Kafka and by ours: the same error, and the same bytes stored.

Kafka takes some batches that consumers cannot read, or that mislead them; those we refuse, and here they are named. The
table goes to both brokers; mutated batches go to Kafka's own validator, which answers thousands in a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from seamark import Broker
from seamark.errors import DecodeError
from seamark.wire.error_codes import ErrorCode
from seamark.wire.records import decode_batch, read_header
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_driver import Client, fresh_name
from tests.support.hostile_batches import NOW_MS, batch, mutated, record, records, sampled_cases
from tests.support.java import JavaOracle
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

SEEDS = 100_000 if os.environ.get("SEAMARK_SOAK") else 1500

# What Kafka stores, by the start of the case's name, and why we do not.
STRICTER = {
    "record length": "in compressed batches Kafka does not compare a record's length with what it holds; consumers do",
    "offset delta": "consumers would skip offsets or go back",
    "key length below null": "Kafka takes any negative length for null; other clients refuse the batch",
    "value length below null": "as for keys",
    "header value below null": "as for keys",
    "header key not UTF-8": "clients that read text fail on the whole batch",
    "snappy damaged": "a record's length changed, as above",
    "gzip with bytes behind": "most decoders stop at the end of the stream and call this damage",
    "gzip in two parts": "as above",
    "snappy in two parts": "as above",
    "lz4 with bytes behind": "as above",
    "lz4 twice": "as above",
}


@pytest.fixture(scope="module")
def ours() -> Iterator[Client]:
    with Broker() as broker, Client(broker.bootstrap) as client:
        yield client


@pytest.fixture(scope="module")
def theirs(apache_kafka: ApacheKafka) -> Iterator[Client]:
    with Client(apache_kafka.bootstrap, timeout=30) as client:
        yield client


def topic_on_both(ours: Client, theirs: Client, **configs: str) -> str:
    name = f"hostile-{fresh_name()}"
    for client in (ours, theirs):
        assert client.create_topic(name, **configs).error_code == 0
        eventually(lambda client=client: client.list_offset(name, -1).error_code == 0, "the topic is led")
    return name


def stored(client: Client, topic: str, offset: int, size: int) -> bytes:
    """The batch as it is stored, without what the broker gives it: base offset and leader epoch."""
    found = bytes(client.fetch(topic, offset).records)[:size]
    return found[8:12] + found[16:]


def compare(ours: Client, theirs: Client, topic: str, cases: dict[str, bytes]) -> list[str]:
    """Send every case to both; return how their answers differ."""
    differences = []
    for name, made in cases.items():
        here, there = ours.produce(topic, made), theirs.produce(topic, made)
        is_stricter = any(name.startswith(start) for start in STRICTER)
        if is_stricter and not there.error_code and here.error_code:
            continue
        told = [
            (each.error_code, [bad.batch_index for bad in each.record_errors], each.log_start_offset >= 0)
            for each in (here, there)
        ]
        if told[0] != told[1]:
            differences.append(f"{name}: {told[1]} there, {told[0]} here")
        elif not here.error_code:
            kept = [
                stored(ours, topic, here.base_offset, len(made)),
                stored(theirs, topic, there.base_offset, len(made)),
            ]
            if kept[0] != kept[1]:
                differences.append(f"{name}: {kept[1].hex()} is stored there, {kept[0].hex()} here")
    return differences


def test_every_named_case_has_the_answer_of_kafka_and_is_stored_alike(ours, theirs):
    topic = topic_on_both(ours, theirs)
    assert compare(ours, theirs, topic, sampled_cases()) == []


def test_what_is_refused_more_strictly_is_really_taken_by_kafka(ours, theirs):
    """A line of the table that Kafka no longer shows has to go."""
    topic = topic_on_both(ours, theirs)
    for start in STRICTER:
        named = {name: made for name, made in sampled_cases().items() if name.startswith(start)}
        taken = [name for name, made in named.items() if not theirs.produce(topic, made).error_code]
        assert taken, start
        assert all(ours.produce(topic, named[name]).error_code for name in taken)


def test_topics_with_rules_for_records_refuse_as_kafka_does(ours, theirs):
    keyless = {
        "all without keys": batch(records(3, key=None), 3),
        "one without key": batch(record(0) + record(1, key=None) + record(2), 3),
        "keys and times": batch(record(0, key=None) + record(1, time_delta=2**61), 2),
        "empty keys": batch(records(2, key=b""), 2),
        "claims append time": batch(records(2), 2, attributes=0x08),
    }
    compacted = topic_on_both(ours, theirs, cleanup_policy="compact")
    assert compare(ours, theirs, compacted, keyless) == []
    times = {
        "claims append time": batch(records(2), 2, attributes=0x08),
        "claims append time without one": batch(records(2), 2, attributes=0x08, max_ms=-1),
        "false lengths": batch(record(0, length=99), 1),
    }
    stamped = topic_on_both(ours, theirs, message_timestamp_type="LogAppendTime")
    assert compare(ours, theirs, stamped, times) == []
    early = {
        "too early": batch(records(2), 2),
        "one too early": batch(record(0) + record(1, time_delta=-(2**40)), 2, base_ms=NOW_MS * 2),
        "no times": batch(records(2), 2, base_ms=-1),
    }
    limited = topic_on_both(ours, theirs, message_timestamp_before_max_ms="3600000")
    assert compare(ours, theirs, limited, early) == []


@pytest.fixture(scope="module")
def validator() -> Iterator[JavaOracle]:
    with JavaOracle(Path(__file__).parent / "java" / "BatchValidator.java") as oracle:
        yield oracle


@pytest.mark.parametrize(("policy", "stamps"), [("delete", "create"), ("compact", "create"), ("delete", "append")])
def test_mutated_batches_are_judged_as_by_kafkas_own_validator(ours, validator, policy, stamps):
    """A batch that Kafka takes is taken, or is one that no consumer of ours could read."""
    topic = fresh_name()
    kind = {"create": "CreateTime", "append": "LogAppendTime"}[stamps]
    ours.create_topic(topic, cleanup_policy=policy, message_timestamp_type=kind)
    counts = {"taken": 0, "refused": 0, "stricter": 0}
    for seed in range(SEEDS // 3):
        made = mutated(seed)
        code, _, kept = validator.ask(f"{policy} {stamps} {made.hex()}").partition(" ")
        answer = ours.produce(topic, made)
        if int(code) == 0 and answer.error_code:
            assert not is_readable(made), seed
            assert answer.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR), seed
            counts["stricter"] += 1
            continue
        assert answer.error_code == int(code), f"seed {seed}: {kept if int(code) else ''}"
        counts["refused" if answer.error_code else "taken"] += 1
        if not answer.error_code and stamps == "create":
            theirs = bytes.fromhex(kept)
            assert stored(ours, topic, answer.base_offset, len(theirs)) == theirs[8:12] + theirs[16:], seed
    assert min(counts["taken"], counts["refused"]) > 0, counts


def is_readable(made: bytes) -> bool:
    try:
        offsets = [each.offset for each in decode_batch(made)]
    except DecodeError:
        return False
    return offsets == list(range(read_header(made).record_count))
