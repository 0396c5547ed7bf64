"""The hand-written code for offset commits does what the compiled codecs do; nothing in a record stops a reader."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.errors import DecodeError
from seamark.wire.offsets import records
from seamark.wire.offsets.offsets_topic import UnreadableEntry, decode_entry
from seamark.wire.schema.codec import decode_versioned, encode_versioned

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
long_text = text | st.builds(str.__mul__, text, st.integers(0, 60))
values = st.builds(
    records.OffsetCommitValue,
    offset=int64,
    leader_epoch=int32,
    metadata=long_text,
    commit_timestamp=int64,
    expire_timestamp=st.just(-1),
    topic_id=st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
)


def outcome(decode, stored):
    try:
        return decode(stored)
    except DecodeError as error:
        return type(error), error.field, error.position, error.reason


def compiled_key(stored):
    key, _ = decode_versioned(records.OffsetCommitKey, stored)
    return key.group, key.topic, key.partition


def compiled_value(stored):
    return decode_versioned(records.OffsetCommitValue, stored)


# F5
@settings(max_examples=300, deadline=None)
@given(text, text, int32)
def test_keys_are_written_and_read_as_by_the_compiled_codec(group, topic, partition):
    written = records.offset_commit_key(group, topic, partition)
    assert written == encode_versioned(records.OffsetCommitKey(group=group, topic=topic, partition=partition), 1)
    assert records.decode_offset_commit_key(written) == (group, topic, partition)


# F6
@settings(max_examples=300, deadline=None)
@given(values)
def test_values_are_written_and_read_as_by_the_compiled_codec(value):
    written = records.offset_commit_value(
        value.offset,
        value.metadata,
        value.commit_timestamp,
        leader_epoch=value.leader_epoch,
        topic_id=value.topic_id,
    )
    assert written == encode_versioned(value, 4)
    assert records.decode_offset_commit_value(written) == (value, 4) == compiled_value(written)


@settings(max_examples=500, deadline=None)
@given(values, st.data())
def test_damaged_keys_and_values_give_the_result_of_the_compiled_codec(value, data):
    key = records.offset_commit_key(value.metadata[:20], "topic", 1)
    for stored, plain, compiled in (
        (key, records.decode_offset_commit_key, compiled_key),
        (encode_versioned(value, 4), records.decode_offset_commit_value, compiled_value),
    ):
        position = data.draw(st.integers(0, len(stored) - 1))
        piece = data.draw(st.binary(max_size=3))
        dropped = data.draw(st.integers(0, 3))
        damaged = stored[:position] + piece + stored[position + dropped :]
        assert outcome(plain, damaged) == outcome(compiled, damaged)


@settings(max_examples=500, deadline=None)
@given(
    st.none()
    | st.binary(max_size=60)
    | st.builds(lambda n, rest: bytes((0, n)) + rest, st.integers(0, 30), st.binary()),
    st.none()
    | st.binary(max_size=80)
    | st.builds(lambda n, rest: bytes((0, n)) + rest, st.integers(0, 6), st.binary()),
)
def test_no_record_stops_a_reader(key, value):
    entry = decode_entry(key, value)
    if isinstance(entry, UnreadableEntry):
        assert entry.reason
        assert (entry.raw_key, entry.raw_value) == (key, value)
