import struct

import pytest

from seamark.errors import EncodeError, NotNullable, OutOfRange
from seamark.wire.offsets.offsets_topic import (
    NEWER_RECORDS,
    GroupEntry,
    GroupMetadataValue,
    MemberMetadata,
    NewerEntry,
    OffsetCommitEntry,
    OffsetCommitValue,
    UnreadableEntry,
    decode_entry,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)

KEY = bytes.fromhex("0001000964656d6f47726f7570000964656d6f546f70696300000000")
TIME = 1700000000000
TEXT = "associated metadata"
TOPIC_ID = bytes(range(1, 17))

# Written by Apache Kafka 4.1.0's own classes.
OFFSET_VALUES = {
    0: "0000000000000000006400136173736f636961746564206d657461646174610000018bcfe56800",
    1: "0001000000000000006400136173736f636961746564206d657461646174610000018bcfe568000000018bcfe65260",
    2: "0002000000000000006400136173736f636961746564206d657461646174610000018bcfe56800",
    3: "000300000000000000640000000700136173736f636961746564206d657461646174610000018bcfe56800",
    4: "0004000000000000006400000007146173736f636961746564206d657461646174610000018bcfe5680000",
}
GROUP_VALUES = {
    0: "00000008636f6e73756d657200000003000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e30"
    "2e310000afc800000002010200000000",
    1: "00010008636f6e73756d657200000003000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e30"
    "2e31000493e00000afc800000002010200000000",
    2: "00020008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000100036d2d31000163000a"
    "2f3132372e302e302e31000493e00000afc800000002010200000000",
    3: "00030008636f6e73756d657200000003000572616e676500036d2d310000018bcfe568000000000100036d2d310003692d31"
    "000163000a2f3132372e302e302e31000493e00000afc800000002010200000000",
    4: "000409636f6e73756d6572000000030672616e6765046d2d310000018bcfe5680002046d2d3104692d3102630b2f3132372e"
    "302e302e31000493e00000afc8030102010000",
}
EMPTY_GROUP = "00030008636f6e73756d657200000004ffffffff000000000000000500000000"


def member(version=4):
    known = {}
    if version >= 1:
        known["rebalance_timeout"] = 300000
    if version >= 3:
        known["group_instance_id"] = "i-1"
    return MemberMetadata(
        member_id="m-1",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout=45000,
        subscription=b"\x01\x02",
        assignment=b"",
        **known,
    )


# F5
def test_an_offset_commit_key_has_kafkas_bytes():
    assert offset_commit_key("demoGroup", "demoTopic", 0) == KEY


# F6
def test_an_offset_commit_value_has_the_bytes_that_kafka_4_1_stores():
    wanted = "00040000000000000064ffffffff146173736f636961746564206d657461646174610000018bcfe5680000"
    assert offset_commit_value(100, TEXT, TIME).hex() == wanted


# F6
def test_a_commit_with_an_expiry_time_is_stored_as_version_1():
    stored = offset_commit_value(100, TEXT, TIME, leader_epoch=7, expire_timestamp=TIME + 60000)
    assert stored.hex() == OFFSET_VALUES[1]


# F6
@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_commit_value_is_written_and_read_as_by_kafka(version):
    expiry = TIME + 60000 if version == 1 else -1
    epoch = 7 if version >= 3 else -1
    stored = bytes.fromhex(OFFSET_VALUES[version])
    written = offset_commit_value(100, TEXT, TIME, leader_epoch=7, expire_timestamp=expiry, version=version)
    assert written == stored
    assert decode_entry(KEY, stored) == OffsetCommitEntry(
        "demoGroup",
        "demoTopic",
        0,
        OffsetCommitValue(
            offset=100, leader_epoch=epoch, metadata=TEXT, commit_timestamp=TIME, expire_timestamp=expiry
        ),
        version,
    )


def test_a_topic_id_is_a_tagged_field_of_version_4():
    stored = offset_commit_value(100, "m" * 130, TIME, topic_id=TOPIC_ID)
    assert stored.hex() == (
        "00040000000000000064ffffffff8301" + "6d" * 130 + "0000018bcfe56800010010" + "0102030405060708090a0b0c0d0e0f10"
    )
    entry = decode_entry(KEY, stored)
    assert entry.value.topic_id == TOPIC_ID
    assert entry.value.commit_timestamp == TIME


# Other tools read the length of the text as one byte and then take garbage for the time.
@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 2045, 2046, 2047, 2048, 4096, 16383, 32767])
def test_text_of_any_length_survives(length):
    entry = decode_entry(KEY, offset_commit_value(5, "x" * length, TIME))
    assert (entry.value.metadata, entry.value.commit_timestamp) == ("x" * length, TIME)


def test_text_outside_ascii_is_counted_in_bytes():
    entry = decode_entry(offset_commit_key("grüße", "t", 3), offset_commit_value(5, "€" * 60, TIME))
    assert (entry.group, entry.value.metadata) == ("grüße", "€" * 60)


def test_an_unknown_tagged_field_of_a_later_release_is_kept():
    stored = offset_commit_value(100, TEXT, TIME)[:-1] + bytes.fromhex("01" + "05" + "02" + "abcd")
    assert decode_entry(KEY, stored).value.unknown_tags == ((5, b"\xab\xcd"),)


def test_keys_of_version_0_and_1_are_offset_commits():
    entry = decode_entry(b"\x00\x00" + KEY[2:], bytes.fromhex(OFFSET_VALUES[0]))
    assert (entry.group, entry.topic, entry.partition, entry.value_version) == ("demoGroup", "demoTopic", 0, 0)


# F15
def test_a_record_without_a_value_is_a_deletion():
    assert decode_entry(KEY, None) == OffsetCommitEntry("demoGroup", "demoTopic", 0, None, None)
    assert decode_entry(group_metadata_key("g"), None) == GroupEntry("g", None, None)
    assert decode_entry(b"\x00\x03\x00\x01g", None) == NewerEntry(
        "ConsumerGroupMetadata", 3, "g", b"\x00\x03\x00\x01g", None
    )


def test_a_group_key_has_kafkas_bytes():
    assert group_metadata_key("demoGroup").hex() == "0002000964656d6f47726f7570"


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_value_is_written_and_read_as_by_kafka(version):
    stored = bytes.fromhex(GROUP_VALUES[version])
    written = group_metadata_value(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m-1",
        current_state_timestamp=TIME,
        members=[member()],
        version=version,
    )
    assert written == stored
    assert decode_entry(group_metadata_key("g"), stored) == GroupEntry(
        "g",
        GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader="m-1",
            current_state_timestamp=TIME if version >= 2 else -1,
            members=[member(version)],
        ),
        version,
    )


def test_a_group_without_members_is_written_as_kafka_4_1_does():
    written = group_metadata_value(
        protocol_type="consumer", generation=4, protocol=None, leader=None, current_state_timestamp=5, members=[]
    )
    assert written.hex() == EMPTY_GROUP


@pytest.mark.parametrize(("number", "name"), sorted(NEWER_RECORDS.items()))
def test_records_of_newer_groups_are_named_and_kept(number, name):
    key = struct.pack(">hh", number, 5) + b"group" + b"\x00\x06member"
    assert decode_entry(key, b"\x00\x00 anything") == NewerEntry(name, number, "group", key, b"\x00\x00 anything")


def test_a_newer_record_whose_key_is_damaged_is_kept_without_a_group():
    assert decode_entry(b"\x00\x05\x00\x09abc", b"v") == NewerEntry(
        "ConsumerGroupMemberMetadata", 5, None, b"\x00\x05\x00\x09abc", b"v"
    )


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"v", "the record has no key"),
        (b"", b"v", "key.version at byte 0: needs 2 bytes, 0 are left"),
        (b"\x00", b"v", "key.version at byte 0: needs 2 bytes, 1 are left"),
        (b"\x00\x18\x00\x01g", b"v", "24 is not a known record type"),
        (b"\xff\xff\x00\x01g", b"v", "-1 is not a known record type"),
        (KEY[:-1], b"v", "OffsetCommitKey.partition at byte 24: needs 4 bytes, 3 are left"),
        (offset_commit_key("g", "t", -5), None, "partition number -5 is invalid"),
        (offset_commit_key("g", "t", 2**31 - 1), b"v", "partition number 2147483647 is invalid"),
        (KEY + b"!", b"v", "OffsetCommitKey at byte 28: 1 extra bytes after the message"),
        (KEY, b"", "OffsetCommitValue.version at byte 0: needs 2 bytes, 0 are left"),
        (KEY, b"\x00\x05abc", "OffsetCommitValue.version at byte 0: version 5 is not one of 0-4"),
        (KEY, b"\xff\xff", "OffsetCommitValue.version at byte 0: version -1 is not one of 0-4"),
        (b"\x00\x02\x00\x01g", b"\x00\x07", "GroupMetadataValue.version at byte 0: version 7 is not one of 0-4"),
        (b"\x00\x02\x00\x01g", b"\x00\x03\xff\xff", "GroupMetadataValue.protocol_type at byte 4: must not be null"),
        (b"\x00\x02\x00\x01\xff", b"", "GroupMetadataKey.group at byte 4: is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_kept_with_the_reason(key, value, reason):
    entry = decode_entry(key, value)
    assert isinstance(entry, UnreadableEntry)
    assert entry.reason.startswith(reason)
    assert (entry.raw_key, entry.raw_value) == (key, value)


@pytest.mark.parametrize(
    ("write", "error", "field"),
    [
        (lambda: offset_commit_key(None, "t", 0), NotNullable, "OffsetCommitKey.group"),
        (lambda: offset_commit_key("g" * 32768, "t", 0), OutOfRange, "OffsetCommitKey.group"),
        (lambda: offset_commit_key("g", "t" * 32768, 0), OutOfRange, "OffsetCommitKey.topic"),
        (lambda: offset_commit_key("g", "t", 1 << 31), OutOfRange, "OffsetCommitKey.partition"),
        (lambda: offset_commit_key("\ud800", "t", 0), OutOfRange, "OffsetCommitKey.group"),
        (lambda: offset_commit_value(1 << 63, "", 0), OutOfRange, "OffsetCommitValue.offset"),
        (lambda: offset_commit_value(1.5, "", 0), OutOfRange, "OffsetCommitValue.offset"),
        (lambda: offset_commit_value(1, None, 0), NotNullable, "OffsetCommitValue.metadata"),
        (lambda: offset_commit_value(1, "x" * 32768, 0), OutOfRange, "OffsetCommitValue.metadata"),
        (lambda: offset_commit_value(1, "", 0, topic_id=b"short"), OutOfRange, "OffsetCommitValue.topic_id"),
        (lambda: offset_commit_value(1, "", 0, version=5), OutOfRange, "OffsetCommitValue.version"),
        (lambda: group_metadata_key(None), NotNullable, "GroupMetadataKey.group"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named(write, error, field):
    with pytest.raises(EncodeError) as caught:
        write()
    assert type(caught.value) is error
    assert caught.value.field == field
