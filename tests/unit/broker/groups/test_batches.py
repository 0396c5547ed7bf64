"""The coordinator's batches are those that the general writer makes of the same records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.broker.groups.batches import GroupBatch
from seamark.coordinator.commands import CommitOffsets
from seamark.coordinator.offsets.commit_patterns import CommitPattern
from seamark.coordinator.storing.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    OffsetRemoved,
    Record,
    StoredMember,
)
from seamark.coordinator.storing.stored import to_bytes
from seamark.wire import records as wire
from seamark.wire.records.compression import Codec

names = st.one_of(st.sampled_from(["g", "orders", ""]), st.text(st.characters(codec="utf-8"), max_size=300))
metadata = st.one_of(st.just(""), st.text(st.characters(codec="utf-8"), max_size=60))
numbers = st.integers(-(2**63), 2**63 - 1)
partitions = st.integers(-(2**31), 2**31 - 1)
committed = st.builds(
    OffsetCommitted,
    names,
    names,
    partitions,
    numbers,
    partitions,
    metadata,
    st.one_of(st.just(5), numbers),
    st.one_of(st.just(-1), st.integers(0, 2**63 - 1)),
)
others = st.one_of(
    st.builds(OffsetRemoved, names, names, partitions),
    st.builds(GroupRemoved, names),
    st.builds(
        GroupStored,
        names,
        st.just("consumer"),
        st.integers(0, 9),
        st.just("range"),
        st.none(),
        numbers,
        st.tuples(
            st.builds(StoredMember, names, st.none(), names, names, partitions, partitions, st.binary(), st.binary())
        ),
    ),
)


def general(records: list[Record], timestamp_ms: int) -> bytes:
    """The long way: keys and values, then record objects, then the batch."""
    return wire.encode_batch(
        [
            wire.Record(offset, timestamp_ms, key=key, value=value)
            for offset, (key, value) in enumerate(map(to_bytes, records))
        ]
    )


@given(
    st.lists(st.lists(st.one_of(committed, committed, others), min_size=1, max_size=6), min_size=1, max_size=4),
    st.integers(0, 2**62),
)
def test_the_bytes_are_those_of_the_general_writer(appends: list[list[Record]], timestamp_ms: int) -> None:
    batch = GroupBatch(1 << 30)
    for records in appends:
        assert batch.add(records)
    encoded = batch.encode(timestamp_ms)
    assert encoded == general([record for records in appends for record in records], timestamp_ms)
    assert batch.size == len(encoded)


patterns = st.builds(
    CommitOffsets,
    names,
    st.lists(
        st.tuples(
            names,
            st.lists(
                st.tuples(st.integers(0, 2**31 - 1), numbers, partitions, metadata | st.just("m" * 200)),
                min_size=1,
                max_size=4,
            ),
        ),
        min_size=1,
        max_size=3,
    ),
)


@given(st.lists(st.tuples(patterns, numbers, numbers), min_size=1, max_size=8), st.integers(0, 2**62))
def test_repeated_commits_are_written_as_the_general_writer_does(commits: list, timestamp_ms: int) -> None:
    batch = GroupBatch(1 << 30)
    written: list[Record] = []
    for command, offset, commit_ms in commits:
        pattern = CommitPattern.of(command)
        assert pattern is not None
        # Twice, because the second time takes up what the first one left behind.
        for number in (0, 1):
            records = pattern.records_of([offset ^ number] * len(pattern.keys), commit_ms)
            assert batch.add(records)
            written += records
    encoded = batch.encode(timestamp_ms, base_offset=0)
    assert encoded == general(written, timestamp_ms)
    assert batch.size == len(encoded)


def test_a_batch_carries_the_offset_and_the_epoch_it_is_given() -> None:
    batch = GroupBatch(1 << 20)
    batch.add([OffsetCommitted("g", "t", 0, 1, -1, "", 5), OffsetRemoved("g", "t", 1)])
    encoded = batch.encode(9, base_offset=100, leader_epoch=3)
    header = wire.read_header(encoded)
    assert (header.base_offset, header.partition_leader_epoch, header.next_offset) == (100, 3, 102)
    wire.check_crc(encoded, 0, header)


def test_a_repeated_commit_that_does_not_fit_is_not_added() -> None:
    pattern = CommitPattern.of(CommitOffsets("g", [("t", [(0, 1, -1, ""), (1, 1, -1, "")])]))
    assert pattern is not None
    batch = GroupBatch(300)
    sizes = []
    while batch.add(pattern.records_of((1, 2), 5)):
        sizes.append(batch.size)
    assert sizes
    assert sizes[-1] <= 300 < sizes[-1] + (sizes[0] - 61)
    assert len(batch.encode(1)) == batch.size == sizes[-1]


@pytest.mark.parametrize("text", ["", "m" * 39, "m" * 40, "é" * 19, "é" * 20, "😀" * 9, "😀" * 10, "m" * 4096])
def test_metadata_of_every_length_is_written_as_the_general_writer_does(text: str) -> None:
    records: list[Record] = [OffsetCommitted("g", "t", each, 7, 3, text, 1_700_000_000_000) for each in (0, 1)]
    batch = GroupBatch(1 << 30)
    assert batch.add(records)
    assert batch.encode(9) == general(records, 9)


def test_long_batches_are_written_too() -> None:
    records: list[Record] = [OffsetCommitted(f"g{each % 7}", "t", each, each, -1, "", 5) for each in range(5000)]
    batch = GroupBatch(1 << 30)
    for start in range(0, 5000, 9):
        assert batch.add(records[start : start + 9])
    assert batch.encode(9) == general(records, 9)


def test_what_does_not_fit_is_not_added() -> None:
    small: list[Record] = [OffsetCommitted("g", "t", 0, 1, -1, "", 5)]
    batch = GroupBatch(200)
    assert batch.add(small)
    size = batch.size
    while batch.add(small):
        assert batch.size <= 200
    assert batch.size + (size - 61) > 200
    assert len(batch.encode(1)) == batch.size


def test_the_first_records_are_added_however_large_they_are() -> None:
    batch = GroupBatch(100)
    assert batch.add([OffsetCommitted("g" * 400, "t", 0, 1, -1, "", 5)])
    assert batch.size > batch.limit


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_of_the_offsets_topic_can_be_read_back(codec: Codec) -> None:
    batch = GroupBatch(1 << 20)
    records: list[Record] = [OffsetCommitted("g", "t", 0, 1, -1, "", 5), OffsetRemoved("g", "t", 1)]
    batch.add(records)
    found = [(record.key, record.value) for record in wire.decode_batch(batch.encode(7, codec))]
    assert found == [to_bytes(record) for record in records]
