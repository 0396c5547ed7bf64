"""Fetched bytes handed out as records and as columns: positions, gaps, transactions, and what cannot be read."""

from __future__ import annotations

import contextlib
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.client.core.assignment_state import Position
from seamark.client.core.fetch_port import FailureKind
from seamark.client.errors import CorruptRecords, DeserializationFailed
from seamark.client.fetch.arrow import columns_of
from seamark.client.fetch.chunks import AbortedBatches, Chunk, end_of
from seamark.client.fetch.metrics import KAFKA_NAMES, FetchMetrics
from seamark.client.fetch.planning import PartitionFetch
from seamark.client.fetch.records import BatchReader, ReadLimits
from seamark.client.fetch.taking import RecordTaking
from seamark.client.records import Record
from seamark.client.serde.deserializers import load_deserializer
from seamark.errors import DecodeError
from seamark.topic_partition import TopicPartition
from seamark.wire.records import Record as WireRecord
from seamark.wire.records import decode_records, encode_batch, encode_control_marker, read_header
from seamark.wire.records.compression import Codec

PARTITION = TopicPartition("t", 3)


def read_batch(data: bytes, *, verify: bool = True) -> list[Record]:
    reader = BatchReader(data, 0, read_header(data), PARTITION, ReadLimits(verify=verify))
    found: list[Record] = []
    while not reader.is_done:
        found += reader.next_slice(0)
    return found


def batch(first: int, count: int = 3, **options) -> bytes:
    records = [WireRecord(first + n, 1000 + n, 0, b"k%d" % (first + n), b"v%d" % (first + n)) for n in range(count)]
    return encode_batch(records, **{"partition_leader_epoch": 5, **options})


def marker(offset: int, producer: int, kind: str = "abort") -> bytes:
    return encode_control_marker(kind, offset=offset, timestamp_ms=9, producer_id=producer, producer_epoch=0)


def offsets(chunk: Chunk, most: int = 100) -> list[int]:
    found: list[int] = []
    while not chunk.is_empty:
        before = chunk.offset
        records = chunk.take(most)
        found += [record.offset for record in records]
        chunk.took(len(records))
        assert chunk.offset >= before, "a position never goes back"
    return found


def column_offsets(chunk: Chunk, max_bytes: int = 1 << 20) -> list[int]:
    found: list[int] = []
    while not chunk.is_empty:
        decoded = columns_of(chunk, PARTITION, max_bytes, ReadLimits())
        found += [] if decoded is None else decoded.column("offset").to_pylist()
    return found


# -- chunks


def test_a_record_has_everything_a_consumer_shows() -> None:
    records = [WireRecord(7, 1234, 0, b"k", None, [("h", b"1"), ("n", None)])]
    chunk = Chunk(PARTITION, 7, encode_batch(records, partition_leader_epoch=6))
    [record] = chunk.take(10)
    assert (record.topic, record.partition, record.offset, record.key, record.value) == ("t", 3, 7, b"k", None)
    assert (record.headers, record.timestamp_ms, record.timestamp_type) == ((("h", b"1"), ("n", None)), 1234, 0)
    assert record.leader_epoch == 6


def test_records_below_the_position_are_skipped() -> None:
    assert offsets(Chunk(PARTITION, 5, batch(3, 4))) == [5, 6]
    assert column_offsets(Chunk(PARTITION, 5, batch(3, 4))) == [5, 6]


def test_the_position_moves_over_offsets_that_compaction_removed() -> None:
    chunk = Chunk(PARTITION, 0, batch(0, 2, last_offset=9) + batch(20, 1))
    chunk.took(len(chunk.take(2)))
    assert chunk.offset == 10
    assert offsets(chunk) == [20]
    assert (chunk.offset, chunk.leader_epoch) == (21, 5)


def test_a_batch_is_handed_out_in_parts() -> None:
    chunk = Chunk(PARTITION, 0, batch(0, 5))
    for expected in ([0, 1], [2, 3], [4]):
        records = chunk.take(2)
        chunk.took(len(records))
        assert [record.offset for record in records] == expected
    assert chunk.is_empty


def test_control_batches_give_no_records_and_move_the_position() -> None:
    chunk = Chunk(PARTITION, 0, batch(0) + marker(3, 9) + batch(4))
    assert offsets(chunk) == [0, 1, 2, 4, 5, 6]
    assert column_offsets(Chunk(PARTITION, 0, batch(0) + marker(3, 9) + batch(4))) == [0, 1, 2, 4, 5, 6]


def test_the_position_ends_behind_the_last_batch_whatever_it_holds() -> None:
    for data in (batch(0) + marker(3, 9), batch(0) + batch(3, 1, last_offset=3), marker(3, 9)):
        for read in (offsets, column_offsets):
            chunk = Chunk(PARTITION, 0, data)
            read(chunk)
            assert chunk.offset == 4


def test_objects_and_columns_may_take_turns() -> None:
    chunk = Chunk(PARTITION, 0, batch(0) + batch(3))
    chunk.took(len(chunk.take(1)))
    decoded = columns_of(chunk, PARTITION, 1, ReadLimits())
    assert decoded is not None
    assert decoded.column("offset").to_pylist() == [1, 2]
    assert offsets(chunk) == [3, 4, 5]


def test_columns_are_cut_between_batches() -> None:
    chunk = Chunk(PARTITION, 0, batch(0) + batch(3) + batch(6))
    size = len(batch(0))
    decoded = columns_of(chunk, PARTITION, 2 * size + 1, ReadLimits())
    assert decoded is not None
    assert decoded.column("offset").to_pylist() == [0, 1, 2, 3, 4, 5]
    assert chunk.offset == 6
    assert not chunk.is_empty


def column_runs(chunk: Chunk) -> list[tuple[list[int], int]]:
    """The offsets of each record batch, with the leader epoch of the position behind it."""
    found = []
    while not chunk.is_empty:
        decoded = columns_of(chunk, PARTITION, 1 << 20, ReadLimits())
        if decoded is not None:
            found.append((decoded.column("offset").to_pylist(), chunk.leader_epoch))
    return found


def test_columns_are_cut_where_the_leader_epoch_changes() -> None:
    log = batch(0) + batch(3) + batch(6, partition_leader_epoch=7) + batch(9, partition_leader_epoch=7)
    assert column_runs(Chunk(PARTITION, 0, log)) == [([0, 1, 2, 3, 4, 5], 5), ([6, 7, 8, 9, 10, 11], 7)]


def test_a_marker_of_another_epoch_is_not_taken_for_the_epoch_of_the_rows_before_it() -> None:
    log = batch(0) + marker(3, 7) + batch(4, partition_leader_epoch=7)
    assert column_runs(Chunk(PARTITION, 0, log)) == [([0, 1, 2], 5), ([4, 5, 6], 7)]


def test_before_a_corrupt_batch_columns_are_cut_where_the_leader_epoch_changes() -> None:
    later = {"partition_leader_epoch": 7}
    chunk = Chunk(PARTITION, 0, batch(0) + batch(3, **later) + batch(6, **later) + spoiled(batch(9, **later)))
    for expected, epoch in [([0, 1, 2], 5), ([3, 4, 5, 6, 7, 8], 7)]:
        decoded = columns_of(chunk, PARTITION, 1 << 20, ReadLimits())
        assert decoded is not None
        assert (decoded.column("offset").to_pylist(), chunk.leader_epoch) == (expected, epoch)
    with pytest.raises(DecodeError):
        columns_of(chunk, PARTITION, 1 << 20, ReadLimits())


def test_columns_say_where_their_rows_come_from() -> None:
    decoded = columns_of(Chunk(PARTITION, 0, batch(0, 2)), PARTITION, 1 << 20, ReadLimits())
    assert decoded is not None
    assert decoded.schema.names == [
        "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
    ]  # fmt: skip
    first = decoded.to_pylist()[0]
    assert (first["topic"], first["partition"], first["key"], first["value"]) == ("t", 3, b"k0", b"v0")
    assert first["headers"] is None


def test_the_next_fetch_starts_behind_the_last_whole_batch() -> None:
    whole = batch(0) + batch(3, 2, last_offset=8)
    assert end_of(whole + batch(9)[:-1], 0) == (9, len(whole))
    assert end_of(batch(9)[:40], 4) == (4, 0)
    assert end_of(b"", 4) == (4, 0)


# -- read_committed


def transaction(first: int, producer: int, count: int = 2) -> bytes:
    return batch(first, count, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)


def committed_log() -> tuple[bytes, list[tuple[int, int]], list[int]]:
    """Two producers: 1 aborts at 4 and commits later, 2 commits; a plain batch between."""
    log = (
        transaction(0, 1) + transaction(2, 2) + marker(4, 1, "abort") + batch(5, 1) + transaction(6, 1)
        + marker(8, 2, "commit") + marker(9, 1, "commit")
    )  # fmt: skip
    return log, [(1, 0)], [2, 3, 5, 6, 7]


def test_aborted_transactions_are_left_out() -> None:
    log, aborted, expected = committed_log()
    assert offsets(Chunk(PARTITION, 0, log, aborted=AbortedBatches(aborted))) == expected
    assert column_offsets(Chunk(PARTITION, 0, log, aborted=AbortedBatches(aborted))) == expected
    assert column_offsets(Chunk(PARTITION, 0, log, aborted=AbortedBatches(aborted)), max_bytes=1) == expected


def test_the_filter_keeps_its_place_when_objects_and_columns_take_turns() -> None:
    log, aborted, expected = committed_log()
    chunk = Chunk(PARTITION, 0, log, aborted=AbortedBatches(aborted))
    found = []
    while not chunk.is_empty:
        records = chunk.take(1)
        chunk.took(len(records))
        found += [record.offset for record in records]
        decoded = columns_of(chunk, PARTITION, 1, ReadLimits())
        found += [] if decoded is None else decoded.column("offset").to_pylist()
    assert found == expected


def test_a_transaction_that_began_before_the_fetch_is_left_out() -> None:
    log = transaction(10, 7) + marker(12, 7) + transaction(13, 7)
    assert offsets(Chunk(PARTITION, 10, log, aborted=AbortedBatches([(7, 2)]))) == [13, 14]


# -- what cannot be read


def spoiled(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_everything_before_a_corrupt_batch_is_given_as_columns() -> None:
    chunk = Chunk(PARTITION, 0, batch(0) + batch(3) + spoiled(batch(6)) + batch(9))
    decoded = columns_of(chunk, PARTITION, 1 << 20, ReadLimits())
    assert decoded is not None
    assert decoded.column("offset").to_pylist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(DecodeError):
        columns_of(chunk, PARTITION, 1 << 20, ReadLimits())
    assert chunk.offset == 6


def test_checksums_are_checked_unless_told_otherwise() -> None:
    data = bytearray(batch(0))
    data[17] ^= 1
    with pytest.raises(DecodeError, match="crc"):
        Chunk(PARTITION, 0, bytes(data)).take(1)
    assert offsets(Chunk(PARTITION, 0, bytes(data), limits=ReadLimits(verify=False))) == [0, 1, 2]


def taking(*chunks: Chunk, key=None, value=None) -> tuple[RecordTaking, PartitionFetch, list[str]]:
    state = PartitionFetch(PARTITION, Position(chunks[0].offset), 2)
    state.chunks.extend(chunks)
    state.arrived_bytes = sum(chunk.byte_count for chunk in chunks)
    asked: list[str] = []
    ready = deque([state] * len(chunks))
    metrics = FetchMetrics(0, read_committed=False)
    made = RecordTaking(
        ready, metrics, lambda: asked.append("more"),
        key=load_deserializer("key", key), value=load_deserializer("value", value), limits=ReadLimits(),
    )  # fmt: skip
    return made, state, asked


def test_records_of_several_chunks_are_taken_up_to_the_limit() -> None:
    made, state, asked = taking(Chunk(PARTITION, 0, batch(0)), Chunk(PARTITION, 3, batch(3)))
    taken = made.take(4)
    assert [record.offset for record in taken.records] == [0, 1, 2, 3]
    assert taken.positions == {PARTITION: (2, Position(4, 5))}
    assert asked == ["more"], "a chunk that was taken whole makes room"
    assert [record.offset for record in made.take(4).records] == [4, 5]
    assert state.queued_bytes == 0
    assert made.take(4) == ([], {}, [])


def test_a_poison_record_is_told_after_those_before_it_and_stays() -> None:
    records = [WireRecord(n, 0, 0, None, value) for n, value in enumerate((b"1", b"2", b"poison", b"4"))]
    made, state, _ = taking(Chunk(PARTITION, 0, encode_batch(records)), value=int_of_text)
    assert [record.value for record in made.take(10).records] == [1, 2]
    for _ in range(2):
        taken = made.take(10)
        assert not taken.records
        [failure_kind] = taken.failures
        assert (failure_kind.kind, failure_kind.position.offset) == (FailureKind.ERROR, 2)
        error = failure_kind.error
        assert isinstance(error, DeserializationFailed)
        assert (error.partition, error.offset, error.part, error.record.value) == (PARTITION, 2, "value", b"poison")
        assert "value of t-3 at offset 2" in str(error)
    assert state.position.offset == 2


def int_of_text(content: bytes) -> int:
    return int(content)


def test_a_corrupt_batch_is_told_with_its_place() -> None:
    made, state, _ = taking(Chunk(PARTITION, 0, batch(0) + spoiled(batch(3))))
    assert [record.offset for record in made.take(10).records] == [0, 1, 2]
    [failure_kind] = made.take(10).failures
    assert isinstance(failure_kind.error, CorruptRecords)
    assert "t-3 at offset 3" in str(failure_kind.error)
    assert state.position.offset == 3


def test_a_trouble_of_the_node_is_told_once_and_fetching_goes_on() -> None:
    made, state, asked = taking(Chunk(PARTITION, 0, failure_kind=FailureKind.OUT_OF_RANGE))
    state.has_failed = True
    [failure_kind] = made.take(10).failures
    assert failure_kind == (PARTITION, 2, FailureKind.OUT_OF_RANGE, Position(0), None)
    assert not state.has_failed
    assert asked
    assert made.take(10) == ([], {}, [])


def test_paused_and_stopped_partitions_are_passed_over() -> None:
    made, state, _ = taking(Chunk(PARTITION, 0, batch(0)))
    state.is_paused = True
    assert made.take(10) == ([], {}, [])
    made, state, _ = taking(Chunk(PARTITION, 0, batch(0)))
    state.is_alive = False
    state.chunks.clear()
    assert made.take(10) == ([], {}, [])


# -- decoding


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec: Codec) -> None:
    assert offsets(Chunk(PARTITION, 0, batch(0, 50, codec=codec))) == list(range(50))


contents = st.none() | st.binary(max_size=20) | st.sampled_from([60, 70, 8190, 8200, 20_000]).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=40), st.none() | st.binary(max_size=70)), max_size=3)


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(-(10**7), 10**7), contents, contents, headers),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([0, 1]),
)
def test_the_quick_reader_agrees_with_the_general_one(drawn, timestamp_type: int) -> None:
    offset, records = 0, []
    for gap, timestamp, key, value, some in drawn:
        records.append(WireRecord(offset + gap, 10**8 + timestamp, 0, key, value, some))
        offset += gap + 1
    data = encode_batch(records, timestamp_type=timestamp_type, partition_leader_epoch=4)
    header = read_header(data)
    ours = read_batch(data)
    theirs = decode_records(data, 0, header)
    assert [(r.offset, r.timestamp_ms, r.timestamp_type, r.key, r.value, list(r.headers)) for r in ours] == [
        (r.offset, r.timestamp_ms, r.timestamp_type, r.key, r.value, r.headers) for r in theirs
    ]


shapes = st.tuples(
    st.integers(1, 200),
    st.sampled_from([None, 0, 3, 63, 64]),
    st.sampled_from([None, 0, 5, 63, 64, 100, 9000]),
    st.sampled_from([0, 1, 63, 64, 5000, 10**6, -1]),
    st.booleans(),
)


@given(st.lists(shapes, min_size=1, max_size=3), st.sampled_from([0, 1]), st.booleans())
def test_records_of_one_size_are_read_as_any_others(runs, timestamp_type: int, has_gap: bool) -> None:
    records: list[WireRecord] = []
    for count, key, value, elapsed, has_headers in runs:
        for number in range(count):
            fill = bytes([len(records) % 256])
            records.append(
                WireRecord(
                    len(records) + (has_gap and len(records) > 30),
                    10**8 + elapsed + (number % 3 if elapsed > 100 else 0),
                    0,
                    None if key is None else fill * key,
                    None if value is None else fill * value,
                    [("h", bytes(2))] if has_headers else [],
                )
            )
    data = encode_batch(records, timestamp_type=timestamp_type)
    header = read_header(data)
    ours = read_batch(data)
    assert [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in ours] == [
        (r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in decode_records(data, 0, header)
    ]


@given(st.lists(st.tuples(st.integers(61, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
def test_unsound_records_of_one_size_are_read_as_the_general_reader_does(changes) -> None:
    data = bytearray(batch(10, 90))
    for place, byte in changes:
        data[61 + (place - 61) % (len(data) - 61)] = byte
    header = read_header(data)
    try:
        general = decode_records(data, 0, header, verify=False)
    except DecodeError as error:
        with pytest.raises(type(error)):
            read_batch(data, verify=False)
    else:
        found = read_batch(data, verify=False)
        assert [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in found] == [
            (r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in general
        ]


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_unsound_bytes_raise_nothing_but_decode_errors(place: int, byte: int) -> None:
    data = bytearray(batch(0, 20))
    data[place % len(data)] = byte
    chunk = Chunk(PARTITION, 0, bytes(data), limits=ReadLimits(verify=False))
    with contextlib.suppress(DecodeError):
        offsets(chunk)


def test_fetch_metrics_are_kafkas() -> None:  # covers: M4
    metrics = FetchMetrics(0, read_committed=False)
    state = PartitionFetch(PARTITION, Position(40), 1)
    state.high_watermark, state.log_start = 100, 10
    metrics.fetches.add(30)
    metrics.fetches.add(10)
    metrics.bytes_consumed, metrics.records_consumed = 500, 50
    found = metrics.snapshot([state], 7, 2000)
    assert found['seamark_consumer_records_lag{topic="t",partition="3"}'] == 60, "against the position"
    assert found['seamark_consumer_records_lead{topic="t",partition="3"}'] == 30
    assert (found["seamark_consumer_fetch_latency_avg_ms"], found["seamark_consumer_fetch_latency_max_ms"]) == (20, 30)
    assert (found["seamark_consumer_fetch_rate"], found["seamark_consumer_bytes_consumed_rate"]) == (1, 250)
    plain = {name.partition("{")[0] for name in found}
    assert plain >= KAFKA_NAMES.keys()
