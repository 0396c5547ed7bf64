"""Options of the Spark source: what is taken, what is refused, and with which sentence."""

from __future__ import annotations

import pickle

import pytest

from seamark.errors import ConfigError
from seamark.spark.option_names import REFUSED, REFUSED_KAFKA, TAKEN
from seamark.spark.read.options import AtOffsets, AtTimes, AtWord, ReadOptions
from seamark.topic_partition import TopicPartition

KAFKA = {"kafka.bootstrap.servers": "broker:9092"}


def options(*, is_stream=True, **given):
    given = {name.replace("__", "."): value for name, value in given.items()}
    given = given if {"subscribe", "assign", "subscribePattern"} & set(given) else {"subscribe": "orders", **given}
    return ReadOptions.of({**KAFKA, **given}, is_stream=is_stream)


def refusal(*, is_stream=True, **given):
    with pytest.raises(ConfigError) as caught:
        options(is_stream=is_stream, **given)
    return str(caught.value)


def test_defaults_are_those_of_sparks_source():
    stream, batch = options(), options(is_stream=False)

    assert (stream.starting, batch.starting, batch.ending) == (AtWord("latest"), AtWord("earliest"), AtWord("latest"))
    assert stream.fail_on_loss
    assert not stream.include_headers
    assert (stream.max_per_trigger, stream.min_partitions, stream.group) == (None, None, None)
    assert stream.max_trigger_delay_ms == 15 * 60 * 1000
    assert not stream.client.allow_auto_create_topics
    assert not stream.is_read_committed


def test_names_are_taken_in_any_case_as_spark_hands_them_over():
    given = {"SUBSCRIBE": "a, b,a", "startingoffsets": "EARLIEST", "FailOnDataLoss": "False", "groupid": "g"}

    read = ReadOptions.of({**KAFKA, **given}, is_stream=True)

    assert read.subscription.topics == ("a", "b")
    assert read.starting == AtWord("earliest")
    assert not read.fail_on_loss
    assert read.group == "g"


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind in TAKEN.items() if kind != "both"])
def test_an_option_for_the_other_kind_of_query_is_refused(name, kind):
    assert name in refusal(is_stream=kind == "batch", **{name: "1"})


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_of_sparks_that_is_not_supported_is_refused_by_name(name):
    told = refusal(**{name.lower(): "1"})

    assert told == f"{name}: not supported: {REFUSED[name]}"


@pytest.mark.parametrize("key", REFUSED_KAFKA)
def test_a_consumer_setting_that_the_query_decides_is_refused_by_name(key):
    assert f"kafka.{key}: not supported" in refusal(**{f"kafka.{key}": "x"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean 'maxOffsetsPerTrigger'?"),
        ({"bootstrap.servers": "x"}, "did you mean 'kafka.bootstrap.servers'?"),
        ({"zzz": "x"}, "zzz: is not an option of this source"),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest_known(given, sentence):
    assert sentence in refusal(**given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "both subscribe and assign are given"),
        ({"subscribe": " , "}, "contains no topic"),
        ({"subscribePattern": "("}, "is not a regular expression"),
        ({"assign": '{"a": "0"}'}, "needs a list of partition numbers"),
        ({"assign": "[1]"}, "is not a JSON object of topics"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss='maybe': must be true or false"),
        ({"minPartitions": "0"}, "must be an integer > 0"),
        ({"maxOffsetsPerTrigger": "many"}, "must be an integer > 0"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is above maxOffsetsPerTrigger=8"),
        ({"maxTriggerDelay": "soon"}, "must be a number with one of the units"),
        ({"fetchBytes": "10"}, "must be a number of bytes from 1024"),
        ({"startingOffsets": "group"}, "needs a groupId whose offsets to start from"),
        ({"groupId": "g", "groupFallback": "latest"}, "needs startingOffsets=group"),
        ({"onActiveGroup": "warn"}, "needs a groupId to commit to"),
        ({"groupId": " "}, "groupId=' ': is empty"),
        ({"onTopicRecreated": "ignore"}, "must be one of fail, restart"),
        ({"startingOffsets": '{"a": {"x": 1}}'}, "'x' of 'a' is not a partition number"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "must have a number, got -3"),
        ({"startingOffsets": '{"a": {"0": 1.5}}'}, "must have a number, got 1.5"),
        ({"startingOffsets": '{"a": 5}'}, "needs an object of partitions"),
        ({"startingTimestamp": "yesterday"}, "must be a number of milliseconds since 1970"),
        ({"kafka.bootstrap.servers": ""}, "is required: host:port of at least one broker"),
        ({"kafka.bootstrap.servers": "nowhere"}, "kafka.bootstrap.servers='nowhere': must be host:port"),
        ({"kafka.fetch.min.byte": "1"}, "did you mean 'fetch.min.bytes'?"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_a_sentence(given, sentence):
    assert sentence in refusal(**given)


def test_a_batch_query_cannot_end_at_the_earliest_or_start_at_the_latest_offset():
    assert "cannot be at earliest (-2) here" in refusal(is_stream=False, endingOffsets='{"orders": {"0": -2}}')
    assert "cannot be at latest (-1) here" in refusal(is_stream=False, startingOffsets='{"orders": {"0": -1}}')
    assert isinstance(options(startingOffsets='{"orders": {"0": -1}}').starting, AtOffsets)


def test_the_more_general_time_wins_as_in_sparks_source():
    read = options(startingTimestamp="5", startingOffsetsByTimestamp='{"a": {"0": 1}}', startingOffsets="earliest")
    assert read.starting == AtTimes({}, 5, "startingTimestamp", False)
    read = options(startingOffsetsByTimestamp='{"a": {"0": 1}}', startingOffsetsByTimestampStrategy="latest")
    assert read.starting == AtTimes({TopicPartition("a", 0): 1}, None, "startingOffsetsByTimestamp", True)


def test_secrets_do_not_show():
    secret = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": "hunter2",
    }
    read = options(**secret)

    assert "hunter2" not in repr(read)
    assert "hunter2" not in refusal(**{"kafka.sasl.pasword": "hunter2"})
    assert "hunter2" not in refusal(**secret, **{"kafka.sasl.jaas.config": "hunter2"})


def test_options_travel_to_tasks():
    read = options(subscribe="a", groupId="g", startingOffsets='{"a": {"0": 1}}')

    assert pickle.loads(pickle.dumps(read)) == read


def test_kafka_group_id_is_taken_and_never_committed_to():
    assert options(kafka__group__id="g").group is None
