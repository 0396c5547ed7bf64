"""``__consumer_offsets`` as Arrow columns says what the reader of single records says, of good and of damaged bytes."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.wire.columns.offsets_columns import decode_offsets
from seamark.wire.offsets import offsets_topic
from seamark.wire.offsets.offsets_topic import (
    NEWER_RECORDS,
    GroupEntry,
    MemberMetadata,
    NewerEntry,
    OffsetCommitEntry,
    UnreadableEntry,
    decode_entry,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from seamark.wire.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment

texts = st.text(max_size=12)
int32s = st.integers(-(2**31), 2**31 - 1)
partitions = st.integers(0, 2**31 - 2) | st.sampled_from([-1, -(2**31), 2**31 - 1])
int64s = st.integers(-(2**63), 2**63 - 1)


def assignment_of(topics):
    given = [TopicPartitions(topic=topic, partitions=partitions) for topic, partitions in topics.items()]
    return encode_assignment(Assignment(assigned_partitions=given))


@st.composite
def commits(draw):
    key = offset_commit_key(draw(texts), draw(texts), draw(partitions))
    if draw(st.booleans()) and draw(st.booleans()):
        return key, None
    value = offset_commit_value(
        draw(int64s), draw(st.text(max_size=200)), draw(int64s), leader_epoch=draw(int32s),
        topic_id=draw(st.sampled_from([bytes(16), b"0123456789abcdef"])), version=draw(st.integers(0, 4)),
    )  # fmt: skip
    return key, value


@st.composite
def members(draw, version):
    topics = draw(st.dictionaries(texts, st.lists(st.integers(0, 99), max_size=4), max_size=3))
    assignment = draw(st.sampled_from([b"", b"junk", None]))
    if assignment is None:
        assignment = assignment_of(topics)
    return MemberMetadata(
        member_id=draw(texts), group_instance_id=draw(st.none() | texts) if version >= 3 else None,
        client_id=draw(texts), client_host=draw(texts), rebalance_timeout=draw(int32s) if version else -1,
        session_timeout=draw(int32s), subscription=draw(st.binary(max_size=9)), assignment=assignment,
    )  # fmt: skip


@st.composite
def groups(draw):
    key = group_metadata_key(draw(texts))
    if draw(st.booleans()) and draw(st.booleans()):
        return key, None
    version = draw(st.integers(0, 4))
    value = group_metadata_value(
        protocol_type=draw(texts), generation=draw(int32s), protocol=draw(st.none() | texts),
        leader=draw(st.none() | texts), current_state_timestamp=draw(int64s) if version >= 2 else -1,
        members=draw(st.lists(members(version), max_size=3)), version=version,
    )  # fmt: skip
    return key, value


@st.composite
def damaged(draw):
    key, value = draw(commits() | groups())
    which = draw(st.booleans())
    found = bytearray((key if which else value) or b"")
    for _ in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(["flip", "cut", "add"]))
        if how == "flip" and found:
            found[draw(st.integers(0, len(found) - 1))] = draw(st.integers(0, 255))
        elif how == "cut":
            del found[draw(st.integers(0, len(found))) :]
        else:
            found += draw(st.binary(max_size=3))
    return (bytes(found), value) if which else (key, bytes(found))


newer = st.builds(
    lambda kind, rest, value: (kind.to_bytes(2, "big") + rest, value),
    st.sampled_from(sorted(NEWER_RECORDS)), st.binary(max_size=8), st.none() | st.binary(max_size=8),
)  # fmt: skip
anything = st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20))


def one_by_one(records):
    """What the columns must say, from the reader of single records."""
    found = ([], [], [], [])
    for row, (key, value) in enumerate(records):
        entry = decode_entry(key, value)
        if isinstance(entry, OffsetCommitEntry):
            each = entry.value
            found[0].append(
                (row, entry.group, entry.topic, entry.partition)
                + ((False,) + (None,) * 7 if each is None else (
                    True, each.offset, each.leader_epoch, each.metadata, each.commit_timestamp, each.expire_timestamp,
                    entry.value_version, bytes(each.topic_id) if any(each.topic_id) else None,
                ))
            )  # fmt: skip
        elif isinstance(entry, GroupEntry):
            each = entry.value
            found[1].append(
                (row, entry.group)
                + ((False,) + (None,) * 7 if each is None else (
                    True, each.protocol_type, each.generation, each.protocol, each.leader, each.current_state_timestamp,
                    entry.value_version, [
                        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.rebalance_timeout,
                         m.session_timeout, bytes(m.subscription), bytes(m.assignment)) for m in each.members
                    ],
                ))
            )  # fmt: skip
        elif isinstance(entry, NewerEntry):
            found[2].append((row, entry.name, entry.group, key, value))
        else:
            assert isinstance(entry, UnreadableEntry)
            found[3].append((row, entry.reason, key, value))
    return found


def by_columns(records, slices=False):
    keys = pa.array([key for key, _ in records], pa.binary())
    values = pa.array([value for _, value in records], pa.binary())
    if slices:
        keys = pa.array([b"before", *keys.to_pylist()], pa.binary()).slice(1)
        values = pa.array([None, *values.to_pylist()], pa.binary()).slice(1)
    decoded = decode_offsets(keys, values)
    for batch in decoded:
        batch.validate(full=True)
    commits, groups, newer, rejects = ([tuple(row.values()) for row in batch.to_pylist()] for batch in decoded)
    plain = [
        (*row[:-1], None if row[-1] is None else [tuple(member.values())[:-1] for member in row[-1]]) for row in groups
    ]
    return commits, plain, newer, rejects


# covers: F26, F27
@settings(max_examples=150)
@given(st.lists(commits() | groups() | damaged() | newer | anything, max_size=12), st.booleans())
def test_columns_and_single_records_say_the_same(records, slices):
    assert by_columns(records, slices) == one_by_one(records)


# Version 3 is read by the compiled loops, version 4 one by one.
@pytest.mark.parametrize("version", [3, 4])
def test_assigned_partitions_are_listed_per_member(version):
    assignment = assignment_of({"a": [2, 0], "b": [1]})
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="h", session_timeout=1, subscription=b"", assignment=assignment
    )
    value = group_metadata_value(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=5,
        members=[member],
    )
    for version_of_value in (value, value):
        decoded = decode_offsets(pa.array([group_metadata_key("g")]), pa.array([version_of_value]))
        (row,) = decoded.groups.to_pylist()
        assert row["members"][0]["assigned"] == [
            {"topic": "a", "partition": 2}, {"topic": "a", "partition": 0}, {"topic": "b", "partition": 1},
        ]  # fmt: skip


def test_no_records_make_four_empty_batches():
    assert [batch.num_rows for batch in decode_offsets(pa.array([], pa.binary()), pa.array([], pa.binary()))] == [0] * 4


@pytest.mark.parametrize("count", [1, 100_000])
def test_many_commits_are_decoded_without_a_look_at_single_ones(count, monkeypatch):
    monkeypatch.setattr(offsets_topic, "decode_entry", lambda *_: pytest.fail("a plain commit was decoded by itself"))
    keys = pa.array([offset_commit_key("group", "topic", number % 64) for number in range(count)])
    values = pa.array([offset_commit_value(number, "", 1) for number in range(count)])
    found = decode_offsets(keys, values).commits
    assert found["offset"].to_pylist() == list(range(count))
