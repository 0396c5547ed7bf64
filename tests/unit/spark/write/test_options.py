"""What a write is told: options and columns, checked before a row is looked at."""

import pickle

import pytest

from seamark.errors import ConfigError
from seamark.spark.write.options import HEADERS_TYPE, BadColumns, WriteOptions, check_columns

SERVERS = {"kafka.bootstrap.servers": "a:9092"}


def test_options_of_sparks_sink_keep_their_names():
    options = WriteOptions.of(
        SERVERS | {"topic": "t", "kafka.acks": "all", "kafka.compression.type": "lz4", "checkpointLocation": "/c"}
    )
    assert options.topic == "t"
    client = options.client()
    assert client.bootstrap_servers == ("a:9092",)
    assert (client.compression_type, client.enable_idempotence, client.client_id) == ("lz4", True, "seamark-spark")


def test_names_are_taken_in_any_case():
    options = WriteOptions.of({"KAFKA.Bootstrap.Servers": "a:9092", "Topic": "t"})
    assert options.client().bootstrap_servers == ("a:9092",)
    assert options.topic == "t"


@pytest.mark.parametrize("option", ["partitioner", "kafka.partitioner.class"])
def test_a_partitioner_can_be_chosen(option):
    assert WriteOptions.of(SERVERS | {option: "round_robin"}).client().partitioner_class == "round_robin"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"kafka\.bootstrap\.servers=.*is required"),
        (SERVERS | {"topic": " "}, "topic=' ': is empty"),
        (SERVERS | {"topc": "t"}, "is not an option of this sink; did you mean 'topic'"),
        (SERVERS | {"subscribe": "t"}, "subscribe: .*is an option for reading"),
        (SERVERS | {"includeheaders": "true"}, "includeHeaders: .*is an option for reading"),
        (SERVERS | {"path": "/x"}, "without a path"),
        (SERVERS | {"kafka.key.serializer": "x"}, "kafka.key.serializer: .*cast the column to string or binary"),
        (SERVERS | {"kafka.linger": "5"}, r"kafka\.linger: .*did you mean 'linger.ms'"),
        (SERVERS | {"kafka.acks": "some"}, r"kafka\.acks='some'"),
        (SERVERS | {"partitioner": "x", "kafka.partitioner.class": "y"}, "is given as well"),
        (SERVERS | {"kafka.transactional.id": "x"}, r"kafka\.transactional\.id"),
    ],
)
def test_an_option_that_cannot_be_is_named(given, words):
    with pytest.raises(ConfigError, match=words):
        WriteOptions.of(given)


def test_secrets_are_shown_nowhere():
    secret = "tops3cret"
    options = WriteOptions.of(
        SERVERS
        | {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "me",
            "kafka.sasl.password": secret,
        }
    )
    assert secret not in repr(options)
    # Tasks get the options by pickling, and do need it.
    assert pickle.loads(pickle.dumps(options)).client().sasl_password == secret
    with pytest.raises(ConfigError) as raised:
        WriteOptions.of(SERVERS | {"kafka.sasl.pasword": secret})
    assert secret not in str(raised.value)


GOOD = [("key", "string"), ("value", "binary"), ("headers", HEADERS_TYPE), ("partition", "int"), ("topic", "string")]


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        (GOOD, None),
        ([("value", "string")], "t"),
        ([("value", "string collate UNICODE_CI"), ("topic", "string")], None),
        # The option wins over the column, and whatever else the rows have is not written.
        ([("value", "binary"), ("topic", "int"), ("offset", "bigint"), ("timestamp", "timestamp")], "t"),
    ],
)
def test_columns_of_sparks_sink_are_taken(columns, topic):
    check_columns(columns, topic)


@pytest.mark.parametrize(
    ("columns", "topic", "words"),
    [
        ([("key", "string")], "t", "a column 'value' is required, the rows have 'key'"),
        ([], "t", "the rows have no columns"),
        ([("value", "string")], None, "set the option 'topic', or add a column 'topic'"),
        ([("value", "bigint")], "t", "'value' must be string or binary, got bigint: cast it"),
        ([("value", "string"), ("partition", "bigint")], "t", "'partition' must be int, got bigint"),
        ([("value", "string"), ("headers", "map<string,string>")], "t", "'headers' must be array<struct"),
        ([("value", "string"), ("Key", "string")], "t", "'Key' would not be written: rename it to 'key'"),
        ([("value", "string"), ("value", "string")], "t", "column 'value' appears twice"),
        ([("value", "string"), ("topic", "int")], None, "'topic' must be string, got int"),
    ],
)
def test_columns_that_cannot_be_records_are_named(columns, topic, words):
    with pytest.raises(BadColumns, match=words):
        check_columns(columns, topic)
