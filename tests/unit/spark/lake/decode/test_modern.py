"""Records of the newer consumer groups become rows; what cannot be read says why."""

import json

import pytest

from seamark.spark.lake.decode import modern
from seamark.spark.lake.decode.modern import ModernRecord, decode_modern
from seamark.wire.schema.codec import encode_versioned

ID = bytes(range(16))
SHOWN_ID = "00010203-0405-0607-0809-0a0b0c0d0e0f"


def stored(key, kind, value=None):
    return encode_versioned(key, kind), None if value is None else encode_versioned(value, 0)


def test_a_member_is_a_row_with_its_fields():
    key, value = stored(
        modern._MemberKey(group="g", member="m"),
        5,
        modern._MemberMetadata(
            instance_id=None, rack_id="r1", client_id="c", client_host="/h", subscribed_topic_names=["a", "b"],
            subscribed_topic_regex=None, rebalance_timeout_ms=5, server_assignor="uniform",
        ),
    )  # fmt: skip

    found = decode_modern(key, value)

    assert isinstance(found, ModernRecord)
    assert (found.group, found.member, found.version) == ("g", "m", 0)
    assert json.loads(found.fields) == {
        "instance_id": None, "rack_id": "r1", "client_id": "c", "client_host": "/h", "rebalance_timeout_ms": 5,
        "subscribed_topic_names": ["a", "b"], "subscribed_topic_regex": None, "server_assignor": "uniform",
        "classic_member_metadata": None,
    }  # fmt: skip


def test_an_assignment_names_topics_by_their_id():
    given = [modern._Partitions(topic_id=ID, partitions=[0, 3])]
    key, value = stored(
        modern._MemberKey(group="g", member="m"),
        8,
        modern._Current(member_epoch=4, previous_member_epoch=3, state=1, assigned_partitions=given),
    )

    found = decode_modern(key, value)

    assert isinstance(found, ModernRecord)
    assert json.loads(found.fields)["assigned_partitions"] == [{"topic_id": SHOWN_ID, "partitions": [0, 3]}]


@pytest.mark.parametrize("kind", sorted(modern._RECORDS))
def test_a_tombstone_of_every_kind_is_a_row_without_a_version(kind):
    key_class, _ = modern._RECORDS[kind]

    found = decode_modern(encode_versioned(key_class(group="g"), kind), None)

    assert isinstance(found, ModernRecord)
    assert (found.group, found.version) == ("g", None)


def test_a_classic_member_of_a_newer_group_is_told_as_one():
    classic = modern._ClassicMember(
        session_timeout_ms=7, supported_protocols=[modern._Protocol(name="range", metadata=b"\1")]
    )
    key, value = stored(
        modern._MemberKey(group="g", member="m"), 5, modern._MemberMetadata(classic_member_metadata=classic)
    )

    found = decode_modern(key, value)

    assert isinstance(found, ModernRecord)
    shown = json.loads(found.fields)["classic_member_metadata"]
    assert shown == {"session_timeout_ms": 7, "supported_protocols": [{"name": "range", "metadata": "01"}]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x00\x09\x00", "version 9"),
        (b"\x00\x00", "epoch"),
        (b"\x00\x00\x00\x00\x00\x01\x00!", "1 extra bytes after the message"),
        (b"", "2 bytes"),
    ],
)
def test_a_damaged_or_unknown_value_is_refused_with_the_reason(value, reason):
    found = decode_modern(encode_versioned(modern._GroupKey(group="g"), 3), value)

    assert isinstance(found, str)
    assert reason in found
