"""How clients are made: configuration, topics, and how keys and values are read and written, by either name."""

import asyncio
import re

import pytest

from seamark.client import AsyncConsumer, AsyncProducer, ConfigError, Consumer, Producer, UsageError
from seamark.client.consumer.handle import read_arguments

CONFIG = {"bootstrap.servers": "localhost:1", "group.id": "billing"}
KEYWORDS = {"bootstrap_servers": "localhost:1", "group_id": "billing"}


def ended(client):
    """Close it: nothing was connected to."""
    if isinstance(client, AsyncConsumer | AsyncProducer):
        asyncio.run(client.close())
    else:
        client.close()


@pytest.mark.parametrize(
    ("given", "config", "topics"),
    [
        ((), None, None),
        ((None,), None, None),
        ((CONFIG,), CONFIG, None),
        (("orders",), None, "orders"),
        (("orders", "payments"), None, ("orders", "payments")),
        ((CONFIG, "orders"), CONFIG, "orders"),
        ((None, "orders", "payments"), None, ("orders", "payments")),
        ((["orders", "payments"],), None, ["orders", "payments"]),
        ((re.compile("orders-.*"),), None, re.compile("orders-.*")),
        (([],), None, None),
    ],
)
def test_a_mapping_is_the_configuration_and_all_behind_it_are_topics(given, config, topics):
    first, *others = given or (None,)
    assert read_arguments(first, tuple(others)) == (config, topics)


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
@pytest.mark.parametrize(
    ("topics", "subscribed"),
    [
        (("orders",), {"orders"}),
        (("payments", "orders"), {"orders", "payments"}),
        ((["orders"],), {"orders"}),
        # None matched yet.
        ((re.compile("orders-.*"),), set()),
    ],
)
def test_a_consumer_that_is_made_with_topics_is_subscribed_to_them(kind, topics, subscribed):
    # They are dropped: closing a consumer that is subscribed connects.
    for consumer in (kind(*topics, **KEYWORDS), kind(CONFIG, *topics)):
        assert consumer.subscription() == subscribed
        assert consumer.config.group_id == "billing"


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_topics_that_cannot_be_are_refused_when_the_consumer_is_made(kind):
    with pytest.raises(UsageError, match="'or ders' is not a valid topic name"):
        kind("orders", "or ders", **KEYWORDS)
    with pytest.raises(UsageError, match="topics must be a list of names, a name or a pattern, got 42"):
        kind(42, **KEYWORDS)
    with pytest.raises(UsageError, match=r"requires a group\.id"):
        kind("orders", bootstrap_servers="localhost:1")


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        (Consumer, "deserializer"),
        (AsyncConsumer, "deserializer"),
        (Producer, "serializer"),
        (AsyncProducer, "serializer"),
    ],
)
@pytest.mark.parametrize("part", ["key", "value"])
def test_an_argument_with_two_names_is_given_once(kind, argument, part):
    with pytest.raises(UsageError, match=f"{part}= and {part}_{argument}= are the same argument: pass only one"):
        kind(bootstrap_servers="localhost:1", **{part: str, f"{part}_{argument}": str})
    # None is as good as nothing.
    ended(kind(bootstrap_servers="localhost:1", **{part: str, f"{part}_{argument}": None}))


@pytest.mark.parametrize("part", ["key", "value"])
def test_what_cannot_serialize_or_deserialize_is_refused_by_either_name(part):
    for kind, argument in ((Consumer, "deserializer"), (Producer, "serializer")):
        for name in (part, f"{part}_{argument}"):
            with pytest.raises(UsageError, match=f"{part}=42: a {argument} must be bytes, str"):
                kind(bootstrap_servers="localhost:1", **{name: 42})


def test_a_deserializer_among_kafkas_keys_is_told_where_it_belongs():
    with pytest.raises(
        ConfigError, match=r"value\.deserializer.*is not a configuration key here: pass value= to Consumer"
    ):
        Consumer({**CONFIG, "value.deserializer": str})
