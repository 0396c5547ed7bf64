"""Records as bytes: by columns as one by one, and never more than was counted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client.producer.batches import ProducerBatch
from seamark.topic_partition import TopicPartition
from seamark.wire.records import decode_batch
from seamark.wire.records.column_writer import (
    MAX_RECORD_OVERHEAD,
    SMALL_CONTENT,
    SMALL_OVERHEAD,
    Values,
    encode_columns,
    encode_each,
    record_bound,
)
from seamark.wire.records.compression import Codec

PARTITION = TopicPartition("t", 0)
contents = st.binary(max_size=90) | st.integers(0, 9000).map(bytes)
times = st.lists(st.sampled_from([0, 0, 0, 1, 63, 64, 5000, 10**7]), min_size=1, max_size=150)


@given(st.data(), times, st.booleans())
@settings(max_examples=150, deadline=None)
def test_columns_are_written_as_one_by_one(data, steps, has_keys):
    count = len(steps)
    stamps = [1000 + sum(steps[: index + 1]) - steps[0] for index in range(count)]
    values = data.draw(st.lists(contents, min_size=count, max_size=count))
    keys = data.draw(st.lists(contents, min_size=count, max_size=count)) if has_keys else None
    expected = b"".join(encode_each(keys, values, {}, stamps, stamps[0]))
    assert b"".join(encode_columns(keys, values, None, stamps, stamps[0])) == expected


@given(st.sampled_from([0, 1, 63, 64, 100, 8191, 9000]), st.integers(1, 400), st.integers(1, 3000))
@settings(max_examples=25, deadline=None)
def test_values_of_one_length_are_written_as_one_by_one(size, first, second):
    """Both with and without the table that is made for what comes again and again."""
    values = [bytes(size)] * (first + second)
    stamps = [7] * first + [9] * second
    expected = b"".join(encode_each(None, values, {}, stamps, 7))
    for _ in range(20):
        assert b"".join(encode_columns(None, values, size, stamps, 7)) == expected


@given(st.integers(0, 40_000), st.integers(0, 40_000), st.integers(-(2**40), 2**40))
@settings(max_examples=200, deadline=None)
def test_a_record_takes_no_more_than_was_counted(key_bytes, value_bytes, elapsed_ms):
    batch = ProducerBatch(PARTITION, 0)
    batch.append(None, b"", (), 2**41)
    before = batch.byte_count
    batch.append(bytes(key_bytes), bytes(value_bytes), [("h", b"x")], 2**41 + elapsed_ms)
    assert len(batch.sealed(Codec.NONE)) <= batch.byte_count
    assert batch.byte_count - before <= key_bytes + value_bytes + 5 + MAX_RECORD_OVERHEAD


def test_the_places_of_records_take_no_more_than_was_counted():
    for count in (100, 8193, 9000):
        batch = ProducerBatch(PARTITION, 0)
        for _ in range(count):
            batch.append(None, b"xy", (), 0)
        assert len(batch.sealed(Codec.NONE)) <= batch.byte_count <= 61 + count * (2 + SMALL_OVERHEAD + 1)


def plain(batch, value, stamp, most=10**6):
    before = batch.byte_count, batch.reserved_bytes, batch.count
    size = batch.append_plain(value, stamp, most)
    assert (batch.byte_count, batch.reserved_bytes, batch.count) == (
        before[0] + size,
        before[1] + size,
        before[2] + (size > 0),
    )
    return size


def test_a_plain_value_is_added_only_where_nothing_else_has_to_be_known():
    batch = ProducerBatch(PARTITION, 0)
    batch.append(None, b"first", (), 100)
    assert plain(batch, b"second", 105) == 6 + SMALL_OVERHEAD
    assert not plain(batch, b"earlier", 104)
    assert not plain(batch, b"much later", 100 + 8192)
    assert not plain(batch, bytes(SMALL_CONTENT), 105)
    assert not plain(batch, b"no room", 105, most=batch.byte_count + 7 + SMALL_OVERHEAD - 1)
    assert plain(batch, b"no room", 105, most=batch.byte_count + 7 + SMALL_OVERHEAD)
    keyed = ProducerBatch(PARTITION, 0)
    keyed.append(b"k", b"v", (), 100)
    assert not plain(keyed, b"no key", 100)
    batch.is_closed = True
    assert not plain(batch, b"closed", 105)
    assert [record.value for record in decode_batch(batch.sealed(Codec.NONE))] == [b"first", b"second", b"no room"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["plain", "one", "keyed", "null", "headers", "many"]), st.integers(0, 200)),
        min_size=1,
        max_size=60,
    )
)
@settings(max_examples=150, deadline=None)
def test_whatever_ways_of_adding_are_mixed_the_batch_holds_it_in_order(steps):
    batch = ProducerBatch(PARTITION, 0)
    expected: list[tuple[bytes | None, bytes | None, int]] = []
    stamp = 1000
    for way, number in steps:
        stamp += number % 3
        value = b"%d" % number
        if way == "plain":
            if batch.count and batch.append_plain(value, stamp, 10**6):
                expected.append((None, value, stamp))
        elif way == "many":
            assert batch.append_many(Values([value] * 3), 0, stamp, 10**6) == (len(expected), 3)
            expected += [(None, value, stamp)] * 3
        else:
            key = b"k" if way == "keyed" else None
            content = None if way == "null" else value
            batch.append(key, content, [("h", b"")] if way == "headers" else (), stamp)
            expected.append((key, content, stamp))
    if expected:
        found = decode_batch(batch.sealed(Codec.NONE))
        assert [(each.key, each.value, each.timestamp_ms) for each in found] == expected
        assert len(batch.sealed(Codec.NONE)) <= batch.byte_count
        assert list(batch.outcome.timestamps) == [each.timestamp_ms for each in found]


@given(
    st.lists(st.integers(0, 300) | st.integers(8000, 9000), min_size=1, max_size=200),
    st.integers(0, 40_000),
    st.integers(0, 9000),
    st.sampled_from([0, 8191, 8192]),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_as_many_values_fit_as_are_counted_and_no_more(sizes, room, place, elapsed_ms, data):
    if data.draw(st.booleans()):
        sizes = [sizes[0]] * len(sizes)
    start = data.draw(st.integers(0, len(sizes) - 1))
    count, bound = Values([bytes(size) for size in sizes]).fitting(start, room, place, elapsed_ms)
    taken = sizes[start : start + count]
    assert len(taken) == count >= 1
    assert bound >= sum(record_bound(size, place + index, elapsed_ms) for index, size in enumerate(taken))
    assert count == 1 or bound <= room
    if start + count < len(sizes):
        more = sizes[start + count]
        assert bound + more + MAX_RECORD_OVERHEAD > room, "another one would not have fitted for certain"
