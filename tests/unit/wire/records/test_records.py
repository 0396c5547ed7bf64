"""Record batches that are sound: golden bytes, every kind of batch, and the rewrites a broker makes."""

import doctest

import pytest

from seamark.errors import BadValue, EncodeError, NotNullable, OutOfRange, Truncated
from seamark.wire import records as records_module
from seamark.wire.records import (
    BatchHeader,
    Codec,
    Record,
    check_crc,
    decode_batch,
    decode_control_marker,
    encode_batch,
    encode_control_marker,
    read_header,
    read_records,
    rebase,
    restamp,
    scan_batches,
    varints,
)

TIME_MS = 1_700_000_000_000


def castagnoli(content):
    """CRC-32C bit by bit, to have the golden bytes checked by something other than the package the code uses."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


GOLDEN_COVERED = bytes.fromhex(
    "0000"  # attributes
    "00000002"  # last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56864"  # max timestamp
    "0000000000000fa0"  # producer id 4000
    "0003"  # producer epoch
    "0000000a"  # base sequence
    "00000002"  # two records
    # length 19, attributes, timestamp delta 0, offset delta 0, key "k1", value "value", 2 headers: "h"="x", ""=null
    "26" "00" "00" "00" "04" "6b31" "0a" "76616c7565" "04" "02" "68" "02" "78" "00" "01"
    # length 7, timestamp delta 100, offset delta 2, null key, null value, no headers
    "0e" "00" "c801" "04" "01" "01" "00"
)  # fmt: skip
GOLDEN = (
    bytes.fromhex("000000000000002a" + f"{len(GOLDEN_COVERED) + 9:08x}" + "00000007" + "02")
    + castagnoli(GOLDEN_COVERED).to_bytes(4)
    + GOLDEN_COVERED
)
GOLDEN_RECORDS = [
    Record(42, TIME_MS, 0, b"k1", b"value", [("h", b"x"), ("", None)]),
    Record(44, TIME_MS + 100, 0, None, None, []),
]


def test_the_golden_batch_is_read():
    assert decode_batch(GOLDEN) == GOLDEN_RECORDS
    header = read_header(GOLDEN)
    assert header.base_offset == 42
    assert header.last_offset == 44
    assert header.next_offset == 45
    assert header.size_bytes == len(GOLDEN)
    assert header.partition_leader_epoch == 7
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 3, 10)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (TIME_MS, TIME_MS + 100)
    assert header.codec is Codec.NONE
    assert header.record_count == 2
    assert (header.is_control, header.is_transactional, header.has_delete_horizon) == (False, False, False)


def test_the_golden_batch_is_written():
    written = encode_batch(
        GOLDEN_RECORDS, partition_leader_epoch=7, producer_id=4000, producer_epoch=3, base_sequence=10
    )
    assert written.hex() == GOLDEN.hex()


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_a_batch_is_read_from_any_place_of_any_buffer(make):
    buffer = make(b"xyz" + GOLDEN + b"tail")
    assert decode_batch(buffer, 3) == GOLDEN_RECORDS
    check_crc(buffer, 3, read_header(buffer, 3))


def test_keys_and_values_are_bytes_whatever_the_buffer():
    for record in decode_batch(memoryview(bytearray(GOLDEN)))[:1]:
        assert type(record.key) is bytes
        assert type(record.value) is bytes
        assert type(record.headers[0][1]) is bytes


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_gives_the_records_back(codec):
    records = [Record(i, TIME_MS + i, 0, b"key %d" % i, b"value " * 30, [("n", b"%d" % i)]) for i in range(500)]
    batch = encode_batch(records, codec=codec)
    assert read_header(batch).codec is codec
    assert decode_batch(batch) == records
    if codec is not Codec.NONE:
        assert len(batch) < len(encode_batch(records)) / 2


def test_empty_keys_and_values_are_not_null():
    records = [Record(0, TIME_MS, 0, b"", b"", [("", b"")]), Record(1, TIME_MS, 0, None, None, [("", None)])]
    assert decode_batch(encode_batch(records)) == records


def test_log_append_time_gives_every_record_the_batch_maximum():
    records = [Record(i, TIME_MS + i, 0, None, b"v") for i in range(3)]
    batch = encode_batch(records, timestamp_type=1, max_timestamp_ms=TIME_MS + 5_000)
    assert read_header(batch).timestamp_type == 1
    assert {(r.timestamp_ms, r.timestamp_type) for r in decode_batch(batch)} == {(TIME_MS + 5_000, 1)}


def test_timestamps_may_go_back_inside_a_batch():
    times = [TIME_MS, TIME_MS - 10_000_000, TIME_MS - 1, TIME_MS + 2**40, -1, 0]
    records = [Record(i, time) for i, time in enumerate(times)]
    batch = encode_batch(records)
    assert [r.timestamp_ms for r in decode_batch(batch)] == times
    assert read_header(batch).max_timestamp_ms == TIME_MS + 2**40


def test_the_widest_timestamps_that_fit_are_carried():
    for first, second in [(0, 2**63 - 1), (-1, -(2**63)), (2**63 - 1, 0), (-(2**62), 2**62 - 1)]:
        records = [Record(0, first), Record(1, second)]
        assert decode_batch(encode_batch(records)) == records


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp():
    records = [Record(5, TIME_MS, 0, b"k", None), Record(9, TIME_MS + 3, 0, b"l", None)]
    batch = encode_batch(records, delete_horizon_ms=TIME_MS + 86_400_000)
    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.delete_horizon_ms == header.base_timestamp_ms == TIME_MS + 86_400_000
    assert header.max_timestamp_ms == TIME_MS + 3
    assert decode_batch(batch) == records


def test_compaction_keeps_the_ends_of_a_batch():
    survivors = [Record(105, TIME_MS), Record(109, TIME_MS)]
    batch = encode_batch(survivors, base_offset=100, last_offset=119)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (100, 119, 2)
    assert decode_batch(batch) == survivors


def test_a_batch_may_have_lost_all_its_records():
    batch = encode_batch(
        [], base_offset=100, last_offset=119, codec=Codec.ZSTD, max_timestamp_ms=TIME_MS, producer_id=1
    )
    header = read_header(batch)
    assert (header.base_offset, header.next_offset, header.record_count) == (100, 120, 0)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-1, TIME_MS)
    assert header.codec is Codec.NONE
    assert decode_batch(batch) == []


def test_a_batch_of_no_records_may_name_a_codec():
    batch = bytearray(encode_batch([], base_offset=0, last_offset=0))
    batch[22] = Codec.GZIP
    assert decode_batch(batch, verify=False) == []


def test_rebase_changes_only_what_stands_before_the_crc():
    batch = encode_batch([Record(i, TIME_MS, 0, None, b"%d" % i) for i in range(10)], codec=Codec.LZ4)
    moved = rebase(batch, 5_000_000_000, 12)
    assert moved[17:] == batch[17:]
    header = read_header(moved)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (5_000_000_000, 5_000_000_009, 12)
    assert [r.offset for r in decode_batch(moved)] == list(range(5_000_000_000, 5_000_000_010))


def test_rebase_refuses_offsets_that_do_not_exist():
    batch = encode_batch([Record(0), Record(1)])
    for offset in (-1, 2**63 - 1):
        with pytest.raises(OutOfRange) as caught:
            rebase(batch, offset, 0)
        assert caught.value.field == "base_offset"
    with pytest.raises(OutOfRange) as caught:
        rebase(batch, 0, 2**31)
    assert caught.value.field == "partition_leader_epoch"


def test_restamp_makes_a_log_append_batch_with_a_right_crc():
    batch = encode_batch([Record(0, 5, 0, b"k", b"v"), Record(1, 9, 0)], codec=Codec.GZIP)
    stamped = restamp(batch, TIME_MS)
    assert [(r.timestamp_ms, r.timestamp_type, r.offset) for r in decode_batch(stamped)] == [
        (TIME_MS, 1, 0),
        (TIME_MS, 1, 1),
    ]
    assert read_header(stamped).codec is Codec.GZIP
    with pytest.raises(OutOfRange):
        restamp(batch, 2**63)


@pytest.mark.parametrize("kind", ["commit", "abort"])
def test_a_transaction_marker_says_its_kind_and_epoch(kind):
    batch = encode_control_marker(
        kind, offset=17, timestamp_ms=TIME_MS, producer_id=4000, producer_epoch=2, coordinator_epoch=9
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 2, -1)
    (record,) = decode_batch(batch)
    assert record.key == (b"\x00\x00\x00\x01" if kind == "commit" else b"\x00\x00\x00\x00")
    assert record.value == b"\x00\x00\x00\x00\x00\x09"
    assert decode_control_marker(record) == (kind, 1 if kind == "commit" else 0, 9)


def test_an_unknown_marker_keeps_its_number():
    assert decode_control_marker(Record(0, key=b"\x00\x00\x00\x05")) == ("other", 5, None)


@pytest.mark.parametrize(
    ("key", "value", "error", "field"),
    [
        (None, b"", Truncated, "marker_key"),
        (b"\x00\x00\x00", b"", Truncated, "marker_key"),
        (b"\xff\xff\x00\x01", b"", BadValue, "marker_key.version"),
        (b"\x00\x00\x00\x01", None, Truncated, "marker_value"),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00", Truncated, "marker_value"),
        (b"\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00", BadValue, "marker_value.version"),
    ],
)
def test_a_marker_that_is_none_is_refused(key, value, error, field):
    with pytest.raises(error) as caught:
        decode_control_marker(Record(0, key=key, value=value))
    assert caught.value.field == field


def test_a_marker_of_no_known_kind_is_not_written():
    with pytest.raises(EncodeError, match="kind"):
        encode_control_marker("prepare", offset=0, timestamp_ms=0, producer_id=1, producer_epoch=0)
    with pytest.raises(OutOfRange, match="coordinator_epoch"):
        encode_control_marker(
            "abort", offset=0, timestamp_ms=0, producer_id=1, producer_epoch=0, coordinator_epoch=2**31
        )


def fetch_response():
    first = encode_batch([Record(0, TIME_MS, 0, b"a", b"1"), Record(1, TIME_MS, 0, b"b", b"2")], codec=Codec.SNAPPY)
    marker = encode_control_marker("commit", offset=2, timestamp_ms=TIME_MS, producer_id=1, producer_epoch=0)
    last = encode_batch([Record(3, TIME_MS, 0, b"c", b"3")])
    return first, marker, last


def test_all_batches_of_a_fetch_response_are_read_without_the_markers():
    buffer = b"".join(fetch_response())
    assert [r.offset for r in read_records(buffer)] == [0, 1, 3]
    assert [r.offset for r in read_records(buffer, include_control=True)] == [0, 1, 2, 3]
    assert [h.is_control for h, _ in scan_batches(buffer)] == [False, True, False]
    starts = [start for _, start in scan_batches(buffer)]
    assert [r.offset for r in read_records(buffer, starts[1])] == [3]


def test_a_cut_off_last_batch_ends_a_fetch_response_quietly():
    first, marker, last = fetch_response()
    for size in range(len(last)):
        assert [r.offset for r in read_records(first + marker + last[:size])] == [0, 1]
    assert list(scan_batches(b"")) == []


def test_headers_and_records_compare_and_show_their_fields():
    header = read_header(GOLDEN)
    assert header == read_header(GOLDEN)
    assert header != read_header(rebase(GOLDEN, 1, 1))
    assert header != 1
    assert "base_offset=42" in repr(header)
    assert isinstance(header, BatchHeader)
    assert Record(1) != Record(2)
    assert Record(1) != (1,)
    assert Record(1, headers=[]) == Record(1)
    assert repr(Record(1, 2, 0, b"k", None, [("h", b"x")])) == (
        "Record(offset=1, timestamp_ms=2, timestamp_type=0, key=b'k', value=None, headers=[('h', b'x')])"
    )


@pytest.mark.parametrize(
    ("records", "options", "field"),
    [
        ([], {}, "records"),
        ([], {"base_offset": 1}, "records"),
        ([], {"base_offset": 2, "last_offset": 1}, "last_offset"),
        ([Record(-1)], {}, "base_offset"),
        ([Record(0), Record(0)], {}, "offset"),
        ([Record(1), Record(0)], {}, "last_offset"),
        ([Record(1), Record(9), Record(5), Record(10)], {}, "offset"),
        ([Record(0), Record(2**31)], {}, "last_offset"),
        ([Record(2**63)], {}, "base_offset"),
        ([Record(5)], {"base_offset": 6}, "base_offset"),
        ([Record(5)], {"last_offset": 4}, "last_offset"),
        ([Record(0, -(2**63)), Record(1, 1)], {}, "timestamp_ms"),
        ([Record(0, 2**63)], {}, "timestamp_ms"),
        ([Record(0, 0)], {"delete_horizon_ms": 2**63}, "base_timestamp_ms"),
        ([Record(0)], {"max_timestamp_ms": 2**63}, "max_timestamp_ms"),
        ([Record(0, 2**62), Record(1, 2**63)], {"max_timestamp_ms": 0}, "timestamp_ms"),
        ([Record(0, -(2**62)), Record(1, -(2**63) - 1)], {}, "timestamp_ms"),
        ([Record(0)], {"timestamp_type": 2}, "timestamp_type"),
        ([Record(0)], {"producer_id": 2**63}, "producer_id"),
        ([Record(0)], {"producer_epoch": 2**15}, "producer_epoch"),
        ([Record(0)], {"base_sequence": 2**31}, "base_sequence"),
        ([Record(0)], {"partition_leader_epoch": 2**31}, "partition_leader_epoch"),
        ([Record(0)], {"codec": 5}, "codec"),
        ([Record(0, key="text")], {}, "key"),
        ([Record(0, value=5)], {}, "value"),
        ([Record(0, headers=[(b"k", b"v")])], {}, "header key"),
        ([Record(0, headers=[("\ud800", b"v")])], {}, "header key"),
        ([Record(0, headers=[("k", "v")])], {}, "header value"),
    ],
)
def test_what_the_format_cannot_carry_is_refused(records, options, field):
    with pytest.raises(EncodeError) as caught:
        encode_batch(records, **options)
    assert caught.value.field == field


def test_a_null_header_key_is_refused():
    with pytest.raises(NotNullable):
        encode_batch([Record(0, headers=[(None, b"v")])])


def test_the_examples_in_the_docstrings_hold():
    for module in (records_module, varints):
        assert doctest.testmod(module).attempted
        assert doctest.testmod(module).failed == 0
