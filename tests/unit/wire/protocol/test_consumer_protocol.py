import contextlib
import io
import warnings
from importlib import import_module

import aiokafka.coordinator.protocol as aiokafka_protocol
import pytest
from kio.serial import entity_reader, entity_writer

from seamark.errors import DecodeError, EncodeError, NotNullable, OutOfRange, Truncated, UnknownVersion
from seamark.wire.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

with warnings.catch_warnings():
    # kafka-python loads its schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.consumer.metadata as kafka_python

FULL = Subscription(
    topics=["bar", "quickstart-events"],
    user_data=b"\x00\xff",
    owned_partitions=[
        TopicPartitions(topic="bar", partitions=[0, 2]),
        TopicPartitions(topic="foo", partitions=[1]),
    ],
    generation_id=7,
    rack_id="a",
)
TWO = Assignment(
    assigned_partitions=[
        TopicPartitions(topic="foo", partitions=[3, 1]),
        TopicPartitions(topic="bar", partitions=[0]),
    ],
    user_data=b"u",
)


# A37
def test_the_simplest_subscription_has_kafkas_bytes():
    wanted = "00000000000200036261720011717569636b73746172742d6576656e7473ffffffff"
    assert encode_subscription(Subscription(topics=["quickstart-events", "bar"]), 0).hex() == wanted
    assert decode_subscription(bytes.fromhex(wanted)) == Subscription(topics=["bar", "quickstart-events"])


# A37
def test_the_simplest_assignment_has_kafkas_bytes():
    wanted = "0000000000010003626172000000020000000000000001ffffffff"
    assignment = Assignment(assigned_partitions=[TopicPartitions(topic="bar", partitions=[0, 1])])
    assert encode_assignment(assignment, 0).hex() == wanted
    assert decode_assignment(bytes.fromhex(wanted)) == assignment


# A37, E3
@pytest.mark.parametrize(
    ("version", "known"),
    [
        (0, {"owned_partitions": [], "generation_id": -1, "rack_id": None}),
        (1, {"generation_id": -1, "rack_id": None}),
        (2, {"rack_id": None}),
        (3, {}),
    ],
)
def test_a_version_carries_the_fields_it_has_and_leaves_out_the_others(version, known):
    fields = {
        name: getattr(FULL, name) for name in ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    }
    assert decode_subscription(encode_subscription(FULL, version)) == Subscription(**fields | known)


# The coordinator starts a rebalance when a member joins again with other bytes.
def test_equal_wishes_in_another_order_give_equal_bytes():
    shuffled = Subscription(
        topics=["quickstart-events", "bar"],
        user_data=b"\x00\xff",
        owned_partitions=[
            TopicPartitions(topic="foo", partitions=[1]),
            TopicPartitions(topic="bar", partitions=[2]),
            TopicPartitions(topic="bar", partitions=[0]),
        ],
        generation_id=7,
        rack_id="a",
    )
    assert encode_subscription(shuffled) == encode_subscription(FULL)
    assert shuffled.topics == ["quickstart-events", "bar"], "the caller's object is left alone"


def test_an_assignment_keeps_the_order_of_its_partitions():
    assert decode_assignment(encode_assignment(TWO)) == TWO


@pytest.mark.parametrize("newer", [4, 5, 32767])
def test_a_newer_version_is_read_as_the_newest_known_and_the_rest_is_ignored(newer):
    version = newer.to_bytes(2, "big")
    assert decode_subscription(version + encode_subscription(FULL)[2:] + b"later") == FULL
    assert decode_assignment(version + encode_assignment(TWO)[2:] + b"later") == TWO


def test_an_empty_rack_means_none():
    assert decode_subscription(encode_subscription(Subscription(rack_id=""))).rack_id is None


def test_empty_user_data_is_not_null():
    assert decode_subscription(encode_subscription(Subscription(user_data=b""))).user_data == b""
    assert decode_subscription(encode_subscription(Subscription(user_data=None))).user_data is None


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
def test_a_negative_version_is_refused(decode):
    with pytest.raises(UnknownVersion) as caught:
        decode(b"\xff\xff" + encode_subscription(FULL)[2:])
    assert caught.value.position == 0
    assert "-1" in str(caught.value)


@pytest.mark.parametrize(
    ("decode", "whole"), [(decode_subscription, encode_subscription(FULL)), (decode_assignment, encode_assignment(TWO))]
)
def test_every_beginning_of_the_bytes_is_reported_as_truncated(decode, whole):
    for size in range(len(whole)):
        with pytest.raises(Truncated) as caught:
            decode(whole[:size])
        assert caught.value.position <= size


@pytest.mark.parametrize(
    ("decode", "whole"), [(decode_subscription, encode_subscription(FULL)), (decode_assignment, encode_assignment(TWO))]
)
def test_a_changed_byte_gives_a_value_or_a_decode_error(decode, whole):
    for position in range(len(whole)):
        for byte in (0x00, 0x7F, 0x80, 0xFF):
            with contextlib.suppress(DecodeError):
                decode(whole[:position] + bytes((byte,)) + whole[position + 1 :])


@pytest.mark.parametrize(
    ("subscription", "error", "field"),
    [
        (Subscription(topics=None), NotNullable, "Subscription.topics"),
        (Subscription(topics=["a", 1]), OutOfRange, "Subscription.topics[1]"),
        (Subscription(owned_partitions=[3]), OutOfRange, "Subscription.owned_partitions[0]"),
        (Subscription(generation_id=1 << 31), OutOfRange, "Subscription.generation_id"),
    ],
)
def test_a_value_that_cannot_be_written_is_named(subscription, error, field):
    with pytest.raises(error) as caught:
        encode_subscription(subscription)
    assert caught.value.field == field


@pytest.mark.parametrize("version", [-1, 4])
def test_only_known_versions_are_written(version):
    with pytest.raises(EncodeError, match="is not one of 0-3"):
        encode_subscription(FULL, version)
    with pytest.raises(EncodeError, match="is not one of 0-3"):
        encode_assignment(TWO, version)


def _kio(name, version):
    return getattr(
        import_module(f"kio.schema.consumer_protocol_{name.lower()}.v{version}.data"), f"ConsumerProtocol{name}"
    )


# A37
@pytest.mark.parametrize("version", range(4))
def test_kio_reads_our_bytes_and_writes_the_same(version):
    for name, blob in (
        ("Subscription", encode_subscription(FULL, version)),
        ("Assignment", encode_assignment(TWO, version)),
    ):
        entity = _kio(name, version)
        found, size = entity_reader(entity)(blob, 2)
        assert 2 + size == len(blob)
        written = io.BytesIO()
        entity_writer(entity)(written, found)
        assert written.getvalue() == blob[2:]
        if name == "Subscription":
            assert list(found.topics) == FULL.topics
            assert found.user_data == FULL.user_data
        if name == "Subscription" and version == 3:
            owned = [(entry.topic, list(entry.partitions)) for entry in found.owned_partitions]
            assert owned == [("bar", [0, 2]), ("foo", [1])]
            assert (found.generation_id, found.rack_id) == (7, "a")
        if name == "Assignment":
            assert [(e.topic, list(e.partitions)) for e in found.assigned_partitions] == [("foo", [3, 1]), ("bar", [0])]


# A37
@pytest.mark.parametrize("version", range(4))
def test_kafka_python_reads_our_bytes(version):
    found = kafka_python.ConsumerProtocolSubscription.decode(encode_subscription(FULL, version))
    assert (found.topics, bytes(found.user_data)) == (FULL.topics, FULL.user_data)
    if version >= 1:
        assert [(entry.topic, entry.partitions) for entry in found.owned_partitions] == [("bar", [0, 2]), ("foo", [1])]
    found = kafka_python.ConsumerProtocolAssignment.decode(encode_assignment(TWO, version))
    assert [(entry.topic, entry.partitions) for entry in found.assigned_partitions] == [("foo", [3, 1]), ("bar", [0])]
    assert bytes(found.user_data) == b"u"


# A37
def test_aiokafka_reads_our_bytes_and_we_read_its():
    theirs = aiokafka_protocol.ConsumerProtocolMemberMetadata(0, ["bar"], b"u")
    assert decode_subscription(theirs.encode()) == Subscription(topics=["bar"], user_data=b"u")
    found = aiokafka_protocol.ConsumerProtocolMemberAssignment.decode(encode_assignment(TWO))
    assert [(p.topic, p.partition) for p in found.partitions()] == [("foo", 3), ("foo", 1), ("bar", 0)]
