"""Batches of a few bytes that unfold to much: what a reader has in memory is bounded by what it hands out."""

from __future__ import annotations

import tracemalloc
from collections import deque
from collections.abc import Callable

import pytest

from seamark.client.admin.record_times import _first_time
from seamark.client.core.assignment_state import Position
from seamark.client.core.fetch_port import FailureKind, Taken
from seamark.client.errors import CorruptRecords, RecordsTooLarge
from seamark.client.fetch import arrow as arrow_poll
from seamark.client.fetch.arrow import columns_of
from seamark.client.fetch.chunks import AbortedBatches, Chunk
from seamark.client.fetch.metrics import FetchMetrics
from seamark.client.fetch.planning import PartitionFetch
from seamark.client.fetch.records import SLICE_HEADERS, SLICE_RECORDS, ReadLimits
from seamark.client.fetch.taking import RecordTaking
from seamark.errors import DecodeError, OverLimit
from seamark.topic_partition import TopicPartition
from seamark.wire.records.compression import Codec
from seamark.wire.records.record_batch import CONTROL, TRANSACTIONAL
from tests.support.costly_batches import header_bomb, record, record_bomb, sealed, value_bomb

PARTITION = TopicPartition("t", 0)
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def taking(*chunks: Chunk, limits: ReadLimits | None = None) -> RecordTaking:
    """Over one partition per chunk."""
    states = []
    for number, chunk in enumerate(chunks):
        state = PartitionFetch(TopicPartition("t", number), Position(chunk.offset), 1)
        state.chunks.append(chunk)
        states.append(state)
    metrics = FetchMetrics(0, read_committed=False)
    return RecordTaking(deque(states), metrics, lambda: None, key=None, value=None, limits=limits or ReadLimits())


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def offsets_of(chunk: Chunk, most: int = 1_000_000) -> list[int]:
    found: list[int] = []
    while not chunk.is_empty:
        some = chunk.take(most)
        assert len(some) <= SLICE_RECORDS
        found += [each.offset for each in some]
        chunk.took(len(some))
    return found


def test_a_batch_of_many_records_is_decoded_in_slices_and_given_whole() -> None:
    count = 2 * SLICE_RECORDS + 5
    assert offsets_of(Chunk(PARTITION, 0, record_bomb(count))) == list(range(count))
    assert offsets_of(Chunk(PARTITION, count - 2, record_bomb(count))) == [count - 2, count - 1], "from the position on"
    assert offsets_of(Chunk(PARTITION, 0, record_bomb(count)), most=1000) == list(range(count))


def test_memory_does_not_grow_with_the_records_of_a_batch() -> None:
    def first_of(count: int) -> int:
        batch = record_bomb(count)
        return peak_of(lambda: Chunk(PARTITION, 0, batch).take(500)) - 20 * count

    few, many = first_of(SLICE_RECORDS), first_of(4 * SLICE_RECORDS)
    # Beside the unfolded bytes, some ten for each record and twice for a moment.
    assert many < 1.5 * few


def test_a_slice_ends_at_a_number_of_headers_too() -> None:
    chunk = Chunk(PARTITION, 0, header_bomb(5_000, records=20))
    sizes = []
    while not chunk.is_empty:
        some = chunk.take(1_000)
        sizes.append(sum(len(each.headers) for each in some))
        chunk.took(len(some))
    assert sum(sizes) == 100_000
    assert max(sizes) < SLICE_HEADERS + 5_000


def test_a_record_with_too_many_headers_is_told_with_its_place_the_bound_and_the_remedy() -> None:
    batch = header_bomb(3_000_000, base_offset=7)
    assert len(batch) < 1_000
    made = taking(Chunk(TopicPartition("t", 0), 7, batch), Chunk(TopicPartition("t", 1), 0, record_bomb(3)))
    given: list[Taken] = []
    assert peak_of(lambda: given.append(made.take(10))) < 40 << 20, "no more than the bytes, unfolded"
    [failure_kind] = given[0].failures
    assert failure_kind.kind is FailureKind.ERROR
    assert isinstance(failure_kind.error, RecordsTooLarge)
    assert str(failure_kind.error).startswith(
        "the records of t-0 at offset 7 cannot be read: their batch exceeds record.max.headers"
    )
    for part in ("the record has 3000000 headers", "at most 10000", "seek to 8, the end of the batch"):
        assert part in str(failure_kind.error)
    assert [each.partition for each in made.take(10).records] == [1, 1, 1], "the other partition goes on"
    assert isinstance(made.take(10).failures[0].error, CorruptRecords), "and it is told again"


@pytest.mark.parametrize("position", [3, 5, 8])
def test_the_remedy_is_behind_the_batch_wherever_in_it_the_reader_stands(position: int) -> None:
    content = b"".join(record(delta, headers=10_001 if delta == 4 else 0) for delta in range(10))
    batch = sealed(content, base_offset=3, count=10) + record_bomb(2, base_offset=13)
    made = taking(Chunk(TopicPartition("t", 0), position, batch))
    [failure_kind] = made.take(10).failures
    assert isinstance(failure_kind.error, RecordsTooLarge)
    assert (failure_kind.error.offset, failure_kind.error.next_offset) == (position, 13)


def test_what_stands_before_an_unreadable_record_of_a_large_batch_is_given_first() -> None:
    content = b"".join(map(record, range(SLICE_RECORDS))) + record(SLICE_RECORDS, headers=10_001)
    made = taking(Chunk(PARTITION, 0, sealed(content, count=SLICE_RECORDS + 1)))
    assert len(made.take(SLICE_RECORDS).records) == SLICE_RECORDS
    [failure_kind] = made.take(1).failures
    assert isinstance(failure_kind.error, RecordsTooLarge)
    assert failure_kind.error.offset == failure_kind.position.offset == SLICE_RECORDS


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_batch_unfolds_to_is_bounded_before_memory_is_taken(codec: Codec) -> None:
    batch = value_bomb(16 << 20, codec=codec)
    made = taking(Chunk(PARTITION, 0, batch, limits=ReadLimits(batch_bytes=2 << 20)))
    given: list[Taken] = []
    assert peak_of(lambda: given.append(made.take(10))) < 8 << 20
    error = given[0].failures[0].error
    assert isinstance(error, RecordsTooLarge)
    assert "decoded.batch.max.bytes" in str(error)


def test_a_poll_ends_when_its_records_have_so_many_bytes() -> None:
    log = b"".join(value_bomb(1 << 20, base_offset=offset) for offset in range(20))
    made = taking(Chunk(PARTITION, 0, log), limits=ReadLimits(poll_bytes=4 << 20))
    assert [len(made.take(500).records) for _ in range(5)] == [4, 4, 4, 4, 4]
    heavy = taking(Chunk(PARTITION, 0, header_bomb(9_000, records=40)), limits=ReadLimits(poll_bytes=2 << 20))
    assert len(heavy.take(500).records) < 10, "headers count as what they cost in memory"


def columns(chunk: Chunk, limits: ReadLimits | None = None) -> list[list[int]]:
    found = []
    while not chunk.is_empty:
        batch = columns_of(chunk, PARTITION, 1 << 20, limits or ReadLimits())
        if batch is not None:
            found.append(batch.column("offset").to_pylist())
    return found


def test_columns_of_a_large_batch_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_poll, "MOST_ROWS", 1_000)
    log = record_bomb(2_500) + record_bomb(10, base_offset=2_500)
    parts = columns(Chunk(PARTITION, 0, log))
    assert max(map(len, parts)) == 1_000
    assert [offset for part in parts for offset in part] == list(range(2_510))
    assert max(map(len, columns(Chunk(PARTITION, 0, header_bomb(400, records=40))))) < 5, "headers count as rows do"


def test_columns_of_a_poll_end_at_a_number_of_bytes() -> None:
    log = b"".join(value_bomb(1 << 20, base_offset=offset) for offset in range(10))
    parts = columns(Chunk(PARTITION, 0, log), ReadLimits(poll_bytes=3 << 20))
    assert max(map(len, parts)) <= 4
    assert [offset for part in parts for offset in part] == list(range(10))


def test_columns_refuse_what_objects_refuse_and_give_what_stands_before_it() -> None:
    chunk = Chunk(PARTITION, 0, record_bomb(3) + header_bomb(10_001, base_offset=3) + record_bomb(2, base_offset=4))
    batch = columns_of(chunk, PARTITION, 1 << 20, ReadLimits())
    assert batch is not None
    assert batch.num_rows == 3
    with pytest.raises(OverLimit, match="10001 headers, at most 10000"):
        columns_of(chunk, PARTITION, 1 << 20, ReadLimits())
    assert chunk.offset == 3


def test_of_a_control_batch_with_many_records_only_the_marker_is_read() -> None:
    count = 50_000
    batch = sealed(record_bomb(count)[61:], count=count, attributes=Codec.ZSTD | CONTROL | TRANSACTIONAL)
    of_producer = batch[:43] + (9).to_bytes(8) + batch[51:]
    chunk = Chunk(PARTITION, 0, of_producer, aborted=AbortedBatches([(9, 0)]), limits=ReadLimits(verify=False))

    def read() -> None:
        with pytest.raises(DecodeError, match="key"):
            chunk.take(10)

    assert peak_of(read) < 40 * count, "the unfolded bytes, and not a record of each"


def test_the_largest_offset_is_refused_because_none_can_follow() -> None:
    chunk = Chunk(PARTITION, 5, sealed(record(), base_offset=2**63 - 1))
    with pytest.raises(DecodeError, match="after which no offset is left"):
        chunk.take(1)


def test_the_time_of_a_record_is_looked_for_in_slices_and_not_in_millions() -> None:
    found, _ = _first_time(record_bomb(5_000), 4_321)
    assert found == 1000
    with pytest.raises(OverLimit, match="1000001 records"):
        _first_time(sealed(b"", count=1_000_001, attributes=Codec.ZSTD), 4)
