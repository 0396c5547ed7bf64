"""What the columns of good batches hold, and which records a call returns."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from seamark.errors import BadValue, ConfigError, UsageError
from seamark.wire.columns import batches as column_batches
from seamark.wire.columns.columns import COLUMN_NAMES, columns_schema, decode_columns
from seamark.wire.records import Codec, Record, encode_batch, encode_control_marker, rebase, restamp

NOW = 1_700_000_000_000


def batch(*offsets, value=b"v", **keywords):
    return encode_batch(
        [Record(offset, NOW + offset, key=b"k%d" % offset, value=value) for offset in offsets], **keywords
    )


def marker(kind, offset, producer_id):
    return encode_control_marker(kind, offset=offset, timestamp_ms=NOW, producer_id=producer_id, producer_epoch=0)


def transactional(producer_id, *offsets):
    return batch(*offsets, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def offsets_of(decoded):
    return decoded.batch["offset"].to_pylist()


def column(buffer, name, **keywords):
    return decode_columns(buffer, columns=[name], **keywords).batch[name]


def test_the_columns_come_in_the_order_asked_for_and_with_the_announced_schema():
    decoded = decode_columns(batch(1, 2), columns=["timestamp", "key"])
    assert decoded.batch.schema.names == ["timestamp", "key"]
    assert decoded.batch.schema == columns_schema(["timestamp", "key"])
    assert decode_columns(b"", columns=COLUMN_NAMES).batch.schema == columns_schema(COLUMN_NAMES)
    assert (
        str(columns_schema(COLUMN_NAMES))
        .replace("\n", " ")
        .startswith(
            "key: binary value: binary offset: int64 timestamp: timestamp[ms, tz=UTC] timestamp_type: int32 "
            "headers: list<element: struct<key: string, value: binary>>"
        )
    )


def test_a_null_and_an_empty_byte_string_are_told_apart():
    buffer = encode_batch(
        [Record(0, NOW, key=None, value=b""), Record(1, NOW, key=b"", value=None), Record(2, NOW, 0, b"k", b"v")]
    )
    decoded = decode_columns(buffer).batch
    decoded.validate(full=True)
    assert decoded["key"].to_pylist() == [None, b"", b"k"]
    assert decoded["value"].to_pylist() == [b"", None, b"v"]
    assert (decoded["key"].null_count, decoded["value"].null_count) == (1, 1)


def test_a_record_without_headers_has_a_null_list_as_in_sparks_source():
    buffer = encode_batch(
        [
            Record(0, NOW, headers=[("trace", b"1"), ("trace", None), ("é", b"")]),
            Record(1, NOW),
            Record(2, NOW, headers=[("", b"x")]),
        ]
    )
    headers = column(buffer, "headers")
    headers.validate(full=True)
    assert headers.to_pylist() == [
        [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}, {"key": "é", "value": b""}],
        None,
        [{"key": "", "value": b"x"}],
    ]
    assert column(batch(1), "headers").to_pylist() == [None]


def test_timestamps_are_the_producers_or_that_of_the_append():
    created = encode_batch([Record(0, NOW), Record(1, NOW - 5000), Record(2, -1)])
    decoded = decode_columns(
        [created, restamp(rebase(created, 10, 0), NOW + 77)], columns=["timestamp", "timestamp_type"]
    )
    plain = decoded.batch["timestamp"].view("int64").to_pylist()
    assert plain == [NOW, NOW - 5000, -1, NOW + 77, NOW + 77, NOW + 77]
    assert decoded.batch["timestamp_type"].to_pylist() == [0, 0, 0, 1, 1, 1]
    assert decoded.batch["timestamp"][0].as_py() == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_microseconds_are_the_same_times_and_refuse_what_does_not_fit():
    buffer = encode_batch([Record(0, NOW), Record(1, -1)])
    in_us = column(buffer, "timestamp", timestamp_unit="us")
    assert in_us.type == pa.timestamp("us", "UTC")
    assert in_us.view("int64").to_pylist() == [NOW * 1000, -1000]
    far = encode_batch([Record(0, NOW), Record(1, 2**63 // 1000 + 1)])
    assert column(far, "timestamp").view("int64").to_pylist() == [NOW, 2**63 // 1000 + 1]
    with pytest.raises(BadValue) as refused:
        column(far, "timestamp", timestamp_unit="us")
    assert refused.value.field == "records[1].timestamp_delta"
    assert column(far, "offset", timestamp_unit="us").to_pylist() == [0, 1]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read_and_codecs_may_change_from_batch_to_batch(codec):
    buffer = batch(1, 2, codec=codec) + batch(3) + batch(4, codec=codec) + batch(5, 6, codec=Codec.GZIP)
    decoded = decode_columns(buffer, columns=COLUMN_NAMES)
    assert offsets_of(decoded) == [1, 2, 3, 4, 5, 6]
    assert decoded.batch["key"].to_pylist() == [b"k%d" % offset for offset in range(1, 7)]


def test_batches_of_another_implementation_are_read():
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    expected = []
    for offset in range(500):
        key, value, headers = b"%d" % offset, b"x" * offset, [("h", b"%d" % offset)] * (offset % 3)
        builder.append(offset, NOW + offset * offset, key, value, headers)
        expected.append((key, value, offset, [{"key": name, "value": text} for name, text in headers] or None))
    decoded = decode_columns(bytes(builder.build()), columns=COLUMN_NAMES).batch
    assert (
        list(zip(*(decoded[name].to_pylist() for name in ("key", "value", "offset", "headers")), strict=True))
        == expected
    )
    assert decoded["timestamp"].view("int64").to_pylist() == [NOW + offset * offset for offset in range(500)]


def test_buffers_may_be_bytes_writable_or_views_but_must_be_contiguous():
    content = batch(1) + batch(2)
    spread = memoryview(np.repeat(np.frombuffer(content, np.uint8), 2))[::2]
    for buffer in (content, bytearray(content), memoryview(b"xx" + content)[2:], memoryview(content).cast("b")):
        assert offsets_of(decode_columns(buffer)) == [1, 2]
        assert offsets_of(decode_columns([buffer, batch(3)])) == [1, 2, 3]
    with pytest.raises(UsageError, match="contiguous"):
        decode_columns(spread)


def test_nothing_gives_no_rows_and_the_position_asked_from():
    assert decode_columns(b"")[1:] == (None, False, 0)
    assert decode_columns([], start=7)[1:] == (7, False, 0)
    assert decode_columns(batch(3), start=9, end=9)[1:] == (9, False, 0)
    assert decode_columns(b"").batch.num_rows == 0


def test_no_columns_still_count_the_rows():
    decoded = decode_columns(batch(1, 2, 3), columns=[], start=2)
    assert (decoded.batch.num_columns, decoded.row_count) == (0, 2)


def test_a_batch_that_is_cut_off_ends_the_buffer_quietly():
    whole, cut = batch(1, 2), batch(3, 4)
    for length in (1, 16, 17, 60, 61, len(cut) - 1):
        decoded = decode_columns(whole + cut[:length], start=0)
        assert (offsets_of(decoded), decoded.next_offset, decoded.cut_off) == ([1, 2], 3, True)
    # No progress and cut_off: the batch is larger than the fetch.
    assert decode_columns(cut[:-1], start=3)[1:] == (3, True, 0)


@pytest.mark.parametrize(
    ("start", "end", "offsets", "next_offset"),
    [
        (None, None, [10, 12, 14, 30, 31], 40),
        (11, None, [12, 14, 30, 31], 40),
        (12, 30, [12, 14], 30),
        (12, 13, [12], 13),
        (15, 30, [], 30),
        (15, 25, [], 25),
        (31, 32, [31], 32),
        (32, None, [], 40),
        (50, None, [], 50),
        (0, 5, [], 5),
    ],
)
def test_a_range_is_exact_and_next_offset_lies_behind_the_gaps(start, end, offsets, next_offset):
    buffer = batch(10, 12, 14, last_offset=19) + batch(30, 31, last_offset=39)
    decoded = decode_columns(buffer, start=start, end=end)
    assert (offsets_of(decoded), decoded.next_offset) == (offsets, next_offset)


def test_an_emptied_batch_and_a_control_batch_move_the_position_without_rows():
    emptied = encode_batch([], base_offset=10, last_offset=19)
    assert decode_columns(emptied, start=10)[1:] == (20, False, 0)
    control = marker("commit", 20, producer_id=1)
    assert decode_columns(emptied + control, start=10)[1:] == (21, False, 0)
    shown = decode_columns(emptied + control, start=10, skip_control=False)
    assert (offsets_of(shown), shown.batch["key"].to_pylist()) == ([20], [b"\0\0\0\1"])


def test_records_of_an_aborted_transaction_are_dropped_up_to_its_marker():
    buffer = b"".join(
        [
            transactional(1, 0, 1),
            transactional(2, 2),
            marker("commit", 3, 1),
            transactional(1, 4),
            batch(5),
            marker("abort", 6, 1),
            transactional(1, 7),
            marker("commit", 8, 2),
            marker("commit", 9, 1),
        ]
    )
    assert offsets_of(decode_columns(buffer)) == [0, 1, 2, 4, 5, 7]
    committed = decode_columns(buffer, aborted=[(1, 4)])
    assert (offsets_of(committed), committed.next_offset) == ([0, 1, 2, 5, 7], 10)
    assert offsets_of(decode_columns(buffer, aborted=[])) == [0, 1, 2, 4, 5, 7]


def test_aborted_transactions_of_two_producers_may_overlap_and_come_unordered():
    buffer = b"".join(
        [
            transactional(2, 0),
            transactional(1, 1),
            transactional(3, 2),
            marker("abort", 3, 2),
            transactional(2, 4),
            transactional(1, 5),
            marker("abort", 6, 1),
            transactional(1, 7),
        ]
    )
    assert offsets_of(decode_columns(buffer, aborted=[(1, 1), (2, 0)])) == [2, 4, 7]


def test_a_commit_marker_of_an_older_transaction_does_not_end_an_aborted_one():
    # The producer's commit at 1 ends what came before; its next transaction starts at 2 and is the aborted one.
    buffer = (
        transactional(1, 0) + marker("commit", 1, 1) + transactional(1, 2) + transactional(1, 3) + marker("abort", 4, 1)
    )
    assert offsets_of(decode_columns(buffer, aborted=[(1, 2)])) == [0]


def test_what_an_idempotent_producer_wrote_outside_a_transaction_is_kept():
    buffer = batch(0, producer_id=1, producer_epoch=0, base_sequence=0) + transactional(1, 1)
    assert offsets_of(decode_columns(buffer, aborted=[(1, 0)])) == [0]


def test_an_abort_marker_below_the_start_still_ends_its_transaction():
    buffer = transactional(1, 0) + marker("abort", 1, 1) + transactional(1, 2)
    assert offsets_of(decode_columns(buffer, aborted=[(1, 0)], start=2)) == [2]
    assert offsets_of(decode_columns([buffer[:-1], transactional(1, 2)], aborted=[(1, 0)], start=2)) == [2]


def test_small_columns_do_not_hold_on_to_the_room_made_for_large_ones():
    buffer = b"".join(batch(offset, value=b"x" * 100_000) for offset in range(20))
    before = pa.total_allocated_bytes()
    keys = decode_columns(buffer, columns=["key", "offset"])
    assert pa.total_allocated_bytes() - before < 10_000
    last = decode_columns(buffer, start=19)
    assert pa.total_allocated_bytes() - before < 250_000
    assert (keys.row_count, last.row_count) == (20, 1)


def test_more_bytes_than_an_arrow_column_can_count_are_refused_before_room_is_made(monkeypatch):
    monkeypatch.setattr(column_batches, "MAX_ROW_BYTES", 1000)
    assert decode_columns(batch(1, value=b"x" * 900)).row_count == 1
    with pytest.raises(UsageError, match="decode fewer buffers at once"):
        decode_columns([batch(1, value=b"x" * 600), batch(2, value=b"x" * 600)])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"columns": ["offset", "topic"]}, "columns='topic': no such column"),
        ({"columns": ["key", "key"]}, "columns='key': it is named twice"),
        ({"timestamp_unit": "s"}, "timestamp_unit='s': it must be 'ms' or 'us'"),
        ({"max_bytes": -1}, "max_bytes=-1: it must not be negative"),
        ({"start": -1}, "start=-1: an offset must be from 0 to 2**63 - 1"),
        ({"end": 2**63 + 1}, "end=9223372036854775809: an offset must be from 0 to 2**63 - 1"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(arguments, sentence):
    with pytest.raises(ConfigError) as refused:
        decode_columns(batch(1), **arguments)
    assert str(refused.value).startswith(sentence)
