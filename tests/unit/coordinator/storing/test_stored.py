"""Records to and from the bytes of the offsets topic."""

import pytest

from seamark.coordinator.storing.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    OffsetRemoved,
    StoredMember,
    is_tombstone,
    record_key,
)
from seamark.coordinator.storing.stored import LastValues, from_bytes, last_records, to_bytes
from seamark.wire.records import Record as LogRecord

MEMBER = StoredMember("m", "i", "c", "/h", 30_000, 10_000, b"sub", b"ass")
RECORDS = [
    OffsetCommitted("g", "t", 3, 42, 7, "note", 1_700_000_000_000),
    OffsetCommitted("", "t", 0, -1, -1, "", 0),
    OffsetCommitted("g", "t", 1, 5, -1, "x", 10, 2010),
    OffsetRemoved("g", "t", 3),
    GroupStored("g", "consumer", 4, "range", "m", 99, (MEMBER, MEMBER._replace(member_id="n", instance_id=None))),
    GroupStored("g", "consumer", 5, None, None, 100),
    GroupRemoved("g"),
]


def values_of(entries) -> LastValues:
    values = LastValues()
    for number, (key, value) in enumerate(entries):
        values.add([LogRecord(number, timestamp_ms=0, key=key, value=value)])
    return values


# covers: F5, F6
def test_an_offset_is_stored_in_the_bytes_that_kafka_writes():
    record = OffsetCommitted("demoGroup", "demoTopic", 0, 100, -1, "associated metadata", 1_700_000_000_000)
    key, value = to_bytes(record)
    assert key.hex() == "0001000964656d6f47726f7570000964656d6f546f70696300000000"
    assert value.hex() == "00040000000000000064ffffffff146173736f636961746564206d657461646174610000018bcfe5680000"


# covers: F6
def test_an_offset_with_a_retention_time_is_stored_as_value_version_1():
    _, value = to_bytes(RECORDS[2])
    assert value[:2] == b"\x00\x01"
    assert value[2:10] == (5).to_bytes(8, "big")
    assert value[-8:] == (2010).to_bytes(8, "big")


# covers: F5, F6, F32
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_every_record_comes_back_as_it_was(record):
    key, value = to_bytes(record)
    assert (value is None) is is_tombstone(record)
    assert from_bytes(key, value) == record


# covers: F5
def test_tombstones_have_the_key_of_what_they_remove():
    assert to_bytes(RECORDS[0])[0] == to_bytes(RECORDS[3])[0]
    assert to_bytes(RECORDS[4])[0] == to_bytes(RECORDS[6])[0]
    assert record_key(RECORDS[0]) == record_key(RECORDS[3]) == ("g", "t", 3)
    assert record_key(RECORDS[4]) == record_key(RECORDS[6]) == ("g",)


# covers: F15
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\x00\x03\x00\x01g", b"\x00\x00"),
        (b"\x7f\xff", b""),
        (to_bytes(RECORDS[0])[0], b"\x00"),
        (to_bytes(RECORDS[4])[0], b"\x00\x63"),
        (to_bytes(RECORDS[0])[0][:-1], None),
    ],
)
def test_foreign_and_damaged_records_are_none(key, value):
    assert from_bytes(key, value) is None


# covers: F7, F15
def test_of_a_log_only_the_last_value_of_each_key_is_read():
    log = [RECORDS[0], RECORDS[4], RECORDS[3], RECORDS[1], RECORDS[5]]
    entries = [to_bytes(record) for record in log]
    entries.insert(2, (b"\x00\x63", b"?"))
    found = {record_key(record): record for record in values_of(entries).take()}
    assert found == {("", "t", 0): RECORDS[1], ("g",): RECORDS[5]}
    assert {record_key(record): record for record in last_records(entries)} == found


# covers: F31
def test_names_are_shared_between_the_records_of_a_load():
    entries = [to_bytes(OffsetCommitted("group", "topic", each, 1, -1, "note", 0)) for each in range(3)]
    first, second, third = values_of(entries).take()
    assert first.group_id is second.group_id is third.group_id
    assert first.topic is second.topic
    assert first.metadata is third.metadata
