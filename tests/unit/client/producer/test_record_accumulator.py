"""Batches that wait to be sent: encoding, readiness, order, memory and expiry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.client.producer.batches import ProducerBatch
from seamark.client.producer.record_accumulator import RecordAccumulator
from seamark.errors import EncodeError
from seamark.topic_partition import TopicPartition
from seamark.wire.records import decode_batch, read_header
from seamark.wire.records.column_writer import MAX_RECORD_OVERHEAD, Values
from seamark.wire.records.compression import Codec

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def accumulator(batch_bytes: int = 1000, linger_ms: int = 5, buffer_bytes: int = 10_000) -> RecordAccumulator:
    return RecordAccumulator(
        batch_bytes=batch_bytes, linger_ms=linger_ms, buffer_bytes=buffer_bytes, delivery_timeout_ms=1000
    )


def add(made: RecordAccumulator, partition: TopicPartition = A, value: bytes = b"x" * 100, now: int = 0):
    return made.append(partition, None, value, (), 0, made.record_bytes(None, value, ()), now)


# -- encoding

records = st.tuples(
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=3),
    st.integers(0, 2**42),
)


@given(st.lists(records, min_size=1, max_size=30), st.sampled_from(list(Codec)))
def test_a_sealed_batch_holds_what_was_added(drawn, codec: Codec) -> None:
    batch = ProducerBatch(A, 0)
    for place, record in enumerate(drawn):
        assert batch.append(*record) == place
    batch.set_sequence((77, 3), 42)
    sealed = batch.sealed(codec)
    header = read_header(sealed)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 42)
    assert (header.codec, header.record_count, header.last_offset) == (codec, len(drawn), len(drawn) - 1)
    assert header.max_timestamp_ms == max(record[3] for record in drawn)
    found = decode_batch(sealed)
    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == [
        (key, value, some, timestamp) for key, value, some, timestamp in drawn
    ]
    if codec is Codec.NONE:
        assert batch.byte_count >= len(sealed)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=200), st.integers(0, 150), st.sampled_from([0, 5, 70, 10**6]))
def test_many_values_are_encoded_as_one_by_one(sizes: list[int], already: int, elapsed: int) -> None:
    one, many = ProducerBatch(A, 0), ProducerBatch(A, 0)
    for batch in (one, many):
        for _ in range(already):
            batch.append(None, b"before", (), 1000)
    values = [bytes([size % 256]) * size for size in sizes]
    for value in values:
        one.append(None, value, (), 1000 + elapsed)
    assert many.append_many(Values(values), 0, 1000 + elapsed, 10**9) == (already, len(values))
    assert many.byte_count == one.byte_count
    assert many.sealed(Codec.NONE) == one.sealed(Codec.NONE)


def test_many_values_beyond_the_table_of_small_numbers_are_encoded_too() -> None:
    one, many = ProducerBatch(A, 0), ProducerBatch(A, 0)
    values = [b"v"] * 9000
    for value in values:
        one.append(None, value, (), 5)
    assert many.append_many(Values(values), 0, 5, 10**9) == (0, 9000)
    assert many.sealed(Codec.NONE) == one.sealed(Codec.NONE)


def test_a_retried_batch_is_the_same_bytes_and_a_new_sequence_only_changes_the_header() -> None:
    batch = ProducerBatch(A, 0)
    batch.append(b"k", b"v", (), 5)
    batch.set_sequence((1, 0), 7)
    first = batch.sealed(Codec.ZSTD)
    batch.set_sequence((1, 0), 7)
    assert batch.sealed(Codec.ZSTD) is first
    batch.set_sequence((1, 1), 0)
    again = batch.sealed(Codec.ZSTD)
    assert again[61:] == first[61:]
    assert (read_header(again).producer_epoch, read_header(again).base_sequence) == (1, 0)
    assert decode_batch(again)[0].value == b"v", "the checksum was made anew"


def test_a_batch_is_split_with_its_sequences_and_callbacks() -> None:
    batch = ProducerBatch(A, 3, (5,))
    seen: list[str] = []
    for number in range(5):
        batch.append(None, b"%d" % number, (), number)
        batch.callbacks.append((number, lambda *_, number=number: seen.append(str(number))))
    batch.reserved_bytes = 101
    batch.set_sequence((9, 0), 2**31 - 1)
    batch.sealed(Codec.NONE)
    first, second = batch.split(0)
    assert [each.value for each in decode_batch(first.sealed(Codec.NONE))] == [b"0", b"1"]
    assert [each.value for each in decode_batch(second.sealed(Codec.NONE))] == [b"2", b"3", b"4"]
    assert (first.base_sequence, second.base_sequence) == (2**31 - 1, 1)
    assert [place for place, _ in second.callbacks] == [0, 1, 2]
    assert first.reserved_bytes + second.reserved_bytes == 101
    assert (first.place, second.place) == ((5, 0), (5, 1))
    second.outcome.finish(70, -1, None)
    assert not batch.outcome.is_done
    first.outcome.finish(30, -1, None)
    assert batch.outcome.is_done
    assert [batch.outcome.settled(index).offset for index in range(5)] == [30, 31, 70, 71, 72]


def test_headers_that_are_no_headers_are_refused() -> None:
    with pytest.raises(EncodeError, match="header key"):
        ProducerBatch(A, 0).append(None, None, [(7, b"")], 0)  # type: ignore[list-item]
    with pytest.raises(EncodeError, match="header value"):
        ProducerBatch(A, 0).append(None, None, [("h", "text")], 0)  # type: ignore[list-item]


# -- batches and when they are ready


def test_a_batch_takes_records_until_it_is_full() -> None:
    made = accumulator(batch_bytes=500)
    batches = [add(made)[0] for _ in range(8)]
    assert len(set(map(id, batches))) > 1
    assert all(batch.byte_count <= 500 for batch in batches)
    assert [batch.is_closed for batch in batches][-1] is False


def test_a_record_larger_than_a_batch_has_a_batch_of_its_own() -> None:
    made = accumulator(batch_bytes=500)
    small, _, _ = add(made)
    large, place, look = add(made, value=b"x" * 2000)
    assert large is not small
    assert (place, look, large.is_closed) == (0, True, True)


def test_a_batch_waits_for_linger_or_until_it_is_full() -> None:
    made = accumulator(batch_bytes=500, linger_ms=5)
    add(made, now=100)
    assert made.ready_partitions(104) == []
    assert made.next_ready_ms(104) == 105
    assert made.ready_partitions(105) == [A]
    for _ in range(5):
        add(made, B, now=100)
    assert made.ready_partitions(100) == [B], "the first batch is full"


def test_nothing_lingers_while_somebody_waits_for_everything() -> None:
    made = accumulator(linger_ms=10_000)
    add(made)
    made.is_urgent += 1
    assert made.ready_partitions(0) == [A]


def test_a_batch_that_failed_goes_before_all_that_came_later() -> None:
    made = accumulator(batch_bytes=150)
    first, second, third = (add(made)[0] for _ in range(3))
    assert made.take(A) is first
    assert made.take(A) is second
    assert made.in_flight_count(A) == 2
    first.attempts = second.attempts = 1
    made.put_back(second, 50)
    made.put_back(first, 90)
    assert [made.take(A) for _ in range(3)] == [first, second, third]


def test_a_batch_that_backs_off_holds_up_its_partition() -> None:
    made = accumulator(batch_bytes=150)
    first, _ = (add(made)[0] for _ in range(2))
    made.take(A)
    first.attempts = 1
    made.put_back(first, 50)
    assert made.ready_partitions(49) == []
    assert made.next_ready_ms(49) == 50
    assert made.ready_partitions(50) == [A]


def test_the_halves_of_a_batch_take_its_place() -> None:
    made = accumulator(batch_bytes=10_000)
    for _ in range(4):
        batch, _, _ = add(made)
    batch.is_closed = True
    later, _, _ = add(made)
    made.take(A).sealed(Codec.NONE)
    halves = batch.split(0)
    made.replace(batch, halves)
    assert [made.take(A) for _ in range(3)] == [*halves, later]


# -- memory


def test_bytes_are_counted_from_acceptance_to_outcome() -> None:
    made = accumulator(buffer_bytes=1000)
    batch, _, _ = add(made, value=b"x" * 600)
    assert 600 < made.byte_count < 600 + MAX_RECORD_OVERHEAD
    assert not made.has_room(500)
    made.take(A)
    assert not made.has_room(500), "in flight is not delivered"
    made.finish(batch)
    assert made.byte_count == 0
    assert made.is_empty


@given(
    st.lists(st.tuples(st.sampled_from(["add", "many", "take", "back", "finish"]), st.integers(1, 400)), max_size=60)
)
def test_counted_bytes_are_those_of_the_unfinished_batches(steps) -> None:
    made = accumulator(batch_bytes=700, buffer_bytes=10**9)
    flying: list[ProducerBatch] = []
    for step, size in steps:
        if step == "add":
            add(made, value=bytes(size))
        elif step == "many":
            some, start = Values([bytes(size), bytes(size + size % 2)] * 5), 0
            while start < len(some):
                _, _, count = made.append_many(A, some, start, 0, 0)
                start += count
        elif step == "take" and made.first(A) is not None:
            flying.append(made.take(A))
        elif step == "back" and flying:
            made.put_back(flying.pop(), 0)
        elif step == "finish" and flying:
            made.finish(flying.pop(0))
        assert made.byte_count == sum(batch.reserved_bytes for batch in made.unfinished(close=False))
    places = []
    while made.first(A) is not None:
        places.append(made.take(A).place)
    assert places == sorted(places)


def test_those_who_wait_for_room_are_not_told_of_every_batch_but_before_all_are_done() -> None:
    made = accumulator(batch_bytes=150, buffer_bytes=1600)
    batches = [add(made)[0] for _ in range(14)]
    assert not made.has_room(100)
    made.take(A)
    assert not made.is_room_worth_telling
    made.finish(batches[0])
    assert made.is_room_worth_telling, "a sixteenth is free"
    stuck = accumulator(batch_bytes=10_000, buffer_bytes=1000)
    add(stuck, value=b"x" * 800)
    add(stuck, B, value=b"x" * 100)
    assert stuck.is_room_worth_telling, "nothing is in flight: there may never be more room"


def test_a_batch_that_is_given_up_takes_no_more_records() -> None:
    made = accumulator(linger_ms=10_000)
    batch, _, _ = add(made)
    assert made.take_all() == [batch]
    assert batch.is_closed
    late, _, _ = add(made, now=10)
    assert made.expired(5000) == [late]
    assert late.is_closed


# -- expiry


def test_batches_expire_wherever_they_are() -> None:
    made = accumulator(batch_bytes=150)
    first, second = (add(made, now=10)[0] for _ in range(2))
    later, _, _ = add(made, now=500)
    made.take(A)
    assert made.next_expiry_ms() == 1010
    assert made.expired(1009) == []
    assert set(made.expired(1010)) == {first, second}
    first.outcome.finish(-1, -1, None)
    assert made.expired(1011) == [], "one that is in flight is told once"
    assert made.is_in_flight(first)
    assert made.first(A) is later
    assert made.next_expiry_ms() == 1500
