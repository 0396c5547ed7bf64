"""Any batch comes back as it was, and any damage to one gives the records or one DecodeError."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.errors import DecodeError
from seamark.wire.records import (
    Codec,
    Record,
    RecordSlices,
    decode_batch,
    encode_batch,
    read_header,
    read_records,
    rebase,
    scan_batches,
)
from seamark.wire.records.careful_reader import read_carefully
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.fast_reader import read_quickly
from seamark.wire.records.varints import encode_varint, read_varint, read_varlong

nullable_bytes = st.none() | st.binary(max_size=200) | st.integers(0, 20_000).map(bytes)
header_lists = st.lists(st.tuples(st.text(max_size=70), nullable_bytes), max_size=4)
timestamps = st.integers(-1, 2**42) | st.integers(-(2**62) + 1, 2**62 - 1)


@st.composite
def record_lists(draw, max_size=12):
    offset = draw(st.integers(0, 2**40) | st.integers(2**63 - 2**33, 2**63 - 2**32))
    records = []
    for gap in draw(st.lists(st.integers(1, 5) | st.integers(1, 2**27), min_size=1, max_size=max_size)):
        records.append(
            Record(offset, draw(timestamps), 0, draw(nullable_bytes), draw(nullable_bytes), draw(header_lists))
        )
        offset += gap
    return records


@st.composite
def records_of_one_size(draw):
    """As many as are read by columns, most of them in a row without gaps."""
    count = draw(st.integers(12, 150))
    key, value = (draw(st.none() | st.integers(0, 200).map(bytes)) for _ in range(2))
    first, step = draw(st.integers(0, 2**42)), draw(st.sampled_from([0, 1, 100, -1]))
    gap_at, gap = draw(st.integers(0, 300)), draw(st.integers(0, 5000))
    offsets = [number + (gap if number > gap_at else 0) for number in range(count)]
    return [Record(offset, first + number * step, 0, key, value) for number, offset in enumerate(offsets)]


batch_options = st.fixed_dictionaries(
    {
        "codec": st.sampled_from(Codec),
        "partition_leader_epoch": st.integers(-(2**31), 2**31 - 1),
        "producer_id": st.integers(-1, 2**63 - 1),
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "base_sequence": st.integers(-1, 2**31 - 1),
        "is_transactional": st.booleans(),
        "is_control": st.booleans(),
    }
)


@settings(max_examples=200, deadline=None)
@given(
    records=record_lists() | records_of_one_size(),
    options=batch_options,
    before=st.integers(0, 30),
    after=st.integers(0, 3),
)
def test_any_batch_is_read_as_it_was_written(records, options, before, after):
    batch = encode_batch(records, **options)
    decoded = decode_batch(b"\xaa" * before + batch + b"\xbb" * after, before)
    assert decoded == records
    header = read_header(batch)
    for name, value in options.items():
        assert getattr(header, name) == value
    assert header.size_bytes == len(batch)
    assert header.base_offset == records[0].offset
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    # What was read is written to the same bytes again.
    assert encode_batch(decoded, **options) == batch


@settings(max_examples=50, deadline=None)
@given(batches=st.lists(st.tuples(record_lists(max_size=4), batch_options), max_size=4), cut=st.integers(0, 10_000))
def test_whole_batches_of_a_cut_buffer_are_read_in_order(batches, cut):
    written = [encode_batch(records, **options) for records, options in batches]
    buffer = b"".join(written)
    buffer = buffer[: max(len(buffer) - cut, 0)]
    expected, at = [], 0
    for (records, _), batch in zip(batches, written, strict=True):
        at += len(batch)
        if at > len(buffer):
            break
        expected += records
    assert read_records(buffer, include_control=True) == expected


@settings(max_examples=100, deadline=None)
@given(
    records=record_lists(max_size=4),
    options=batch_options,
    offset=st.integers(0, 2**62),
    epoch=st.integers(-1, 2**31 - 1),
)
def test_a_rebased_batch_has_the_same_records_at_other_offsets(records, options, offset, epoch):
    batch = encode_batch(records, **options)
    moved = decode_batch(rebase(batch, offset, epoch))
    shift = offset - records[0].offset
    assert [(r.offset, r.value) for r in moved] == [(r.offset + shift, r.value) for r in records]


damages = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "delete", "copy"]), st.integers(0, 1 << 16), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


def damaged(content, changes):
    content = bytearray(content)
    for kind, where, byte in changes:
        at = where % (len(content) + 1)
        if kind == "insert":
            content.insert(at, byte)
        elif kind == "copy":
            content[at:at] = content[max(at - byte % 16, 0) : at]
        elif at < len(content):
            if kind == "set":
                content[at] = byte
            else:
                del content[at]
    return bytes(content)


def reseal(batch):
    """Correct the length and the CRC, so that what stands behind them is reached."""
    covered = batch[21:]
    return batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:17] + struct.pack(">I", crc32c(covered)) + covered


def decode_error_of(read, batch):
    try:
        read(batch)
    except DecodeError as error:
        return error
    return None


@settings(max_examples=400, deadline=None)
@given(records=record_lists(max_size=5), options=batch_options, changes=damages, sealed=st.booleans())
def test_damage_gives_records_or_one_decode_error(records, options, changes, sealed):
    batch = damaged(encode_batch(records, **options), changes)
    if sealed and len(batch) > 21:
        batch = reseal(batch)
    for read in (decode_batch, read_records, lambda buffer: list(scan_batches(buffer))):
        error = decode_error_of(read, batch)
        if error is not None:
            assert error.field
            assert 0 <= error.position <= len(batch)
            assert type(error) is not DecodeError


@settings(max_examples=600, deadline=None)
@given(
    records=record_lists(max_size=5) | records_of_one_size(),
    timestamp_type=st.sampled_from([0, 1]),
    changes=damages | st.just([]),
)
def test_the_quick_reader_takes_nothing_that_the_careful_one_refuses(records, timestamp_type, changes):
    batch = encode_batch(records, timestamp_type=timestamp_type)
    header = read_header(batch)
    content = damaged(batch[61:], changes)

    def slices() -> RecordSlices:
        made = RecordSlices(batch, 0, header)
        made.content, made.position, made.end = content, 0, len(content)
        return made

    def fields(*given):
        return given

    quick = read_quickly(slices(), fields, "t", 3, header.record_count, 1000)
    try:
        careful = read_carefully(slices(), fields, "t", 3, header.record_count, 1000)
    except DecodeError:
        assert quick is None
    else:
        assert quick is None or quick == careful
        if not changes:
            assert quick is not None


@settings(max_examples=300, deadline=None)
@given(
    records=record_lists(max_size=9) | records_of_one_size(),
    most=st.integers(1, 4) | st.integers(50, 100),
    most_headers=st.integers(0, 3),
    codec=st.sampled_from(Codec),
)
def test_a_batch_read_in_slices_gives_the_records_that_it_gives_at_once(records, most, most_headers, codec):
    batch = encode_batch(records, codec=codec)
    slices = RecordSlices(batch, 0, read_header(batch))
    found = []
    while slices.left:
        some = slices.read(most, most_headers)
        assert 1 <= len(some) <= most
        assert sum(len(record.headers) for record in some[:-1]) < max(most_headers, 1)
        found += some
    assert found == decode_batch(batch)
    assert slices.header_count == sum(len(record.headers) for record in records)


@settings(max_examples=300, deadline=None)
@given(value=st.integers(-(2**31), 2**31 - 1), padding=st.binary(max_size=3))
def test_varints_come_back(value, padding):
    encoded = encode_varint(value)
    assert len(encoded) <= 5
    assert read_varint(padding + encoded + b"\x7f", len(padding), 100, "x") == (value, len(padding) + len(encoded))


@settings(max_examples=300, deadline=None)
@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varlongs_come_back(value):
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert read_varlong(encoded, 0, len(encoded), "x") == (value, len(encoded))
