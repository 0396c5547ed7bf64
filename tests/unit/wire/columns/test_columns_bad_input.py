"""Each way in which a batch can be wrong gives one DecodeError with field and position, before memory is taken."""

from struct import pack_into

import pyarrow as pa
import pytest

from seamark.errors import (
    BadChecksum,
    BadLength,
    BadText,
    BadValue,
    DecodeError,
    TrailingBytes,
    Truncated,
    UnknownCodec,
    UnknownVersion,
)
from seamark.wire.columns import compiler as column_compiler
from seamark.wire.columns.columns import COLUMN_NAMES, decode_columns
from seamark.wire.records import Codec, Record, decode_batch, encode_batch, encode_control_marker
from seamark.wire.records.compression import compress
from tests.support.mutations import with_length_and_crc

HEADER_BYTES = 61
NOW = 1_700_000_000_000


def batch_of(content, count=1, codec=Codec.NONE, last_offset_delta=None):
    """A batch around bytes that stand for its records."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    empty = bytearray(encode_batch([], base_offset=100, last_offset=100 + last))
    pack_into(">h", empty, 21, codec)
    pack_into(">i", empty, 57, count)
    return with_length_and_crc(empty + (compress(codec, content) if codec else content))


# Length, attributes, timestamp delta, offset delta, null key, value "v", no headers.
GOOD = b"\x0e" + b"\x00\x00\x00\x01\x02v\x00"


def test_the_record_that_the_cases_below_break_is_sound():
    assert decode_columns(batch_of(GOOD)).batch["value"].to_pylist() == [b"v"]


RECORDS = {
    "length ends inside its varint": (
        b"\x20\x00\x00\x00\x01\x14" + b"v" * 10 + b"\x00" + b"\x80",
        2,
        Truncated,
        "records[1].length",
        78,
    ),
    "length is overlong": (b"\x80\x80\x80\x80\x80\x00" + GOOD, 1, BadLength, "records[0].length", 61),
    "length has too many bits": (b"\x80\x80\x80\x80\x10" + GOOD, 1, BadLength, "records[0].length", 61),
    "length is negative": (b"\x01" + GOOD[1:], 1, BadLength, "records[0].length", 61),
    "length is beyond the batch": (b"\x10" + GOOD[1:], 1, Truncated, "records[0].length", 61),
    "record is empty": (b"\x00" + GOOD[1:], 1, Truncated, "records[0].attributes", 62),
    "timestamp delta is overlong": (
        b"\x22\x00" + b"\x80" * 10 + b"\x00\x00\x01\x02v\x00",
        1,
        BadLength,
        "records[0].timestamp_delta",
        63,
    ),
    "timestamp delta has too many bits": (
        b"\x20\x00" + b"\xff" * 9 + b"\x02\x00\x01\x02v\x00",
        1,
        BadLength,
        "records[0].timestamp_delta",
        63,
    ),
    "timestamp leaves the int64 range": (
        # The base timestamp of the empty batch is -1.
        b"\x20\x00" + b"\xff" * 9 + b"\x01\x00\x01\x02v\x00",
        1,
        BadValue,
        "records[0].timestamp_delta",
        63,
    ),
    "offset delta is negative": (b"\x0e\x00\x00\x01\x01\x02v\x00", 1, BadValue, "records[0].offset_delta", 64),
    "offset delta is beyond the batch": (b"\x0e\x00\x00\x02\x01\x02v\x00", 1, BadValue, "records[0].offset_delta", 64),
    "offset does not rise": (GOOD + GOOD, 2, BadValue, "records[1].offset_delta", 72),
    "key length is below -1": (b"\x0e\x00\x00\x00\x03\x02v\x00", 1, BadLength, "records[0].key_length", 65),
    "key is longer than the record": (b"\x0e\x00\x00\x00\x08\x02v\x00", 1, BadLength, "records[0].key_length", 65),
    "value length is below -1": (b"\x0e\x00\x00\x00\x01\x05v\x00", 1, BadLength, "records[0].value_length", 66),
    "value is longer than the record": (b"\x0e\x00\x00\x00\x01\x08v\x00", 1, BadLength, "records[0].value_length", 66),
    "record ends before its value": (b"\x0a\x00\x00\x00\x02k\x00\x00", 1, Truncated, "records[0].value_length", 67),
    "header count is negative": (b"\x0e\x00\x00\x00\x01\x02v\x01", 1, BadLength, "records[0].header_count", 68),
    "header count is beyond the record": (
        b"\x0e\x00\x00\x00\x01\x02v\x02",
        1,
        BadLength,
        "records[0].header_count",
        68,
    ),
    "header key is null": (
        b"\x12\x00\x00\x00\x01\x02v\x02\x01\x01",
        1,
        BadLength,
        "records[0].headers[0].key_length",
        69,
    ),
    "header key is not UTF-8": (
        b"\x1a\x00\x00\x00\x01\x02v\x04\x00\x00\x04\xc0\x80\x01",
        1,
        BadText,
        "records[0].headers[1].key",
        72,
    ),
    "header value length is below -1": (
        b"\x12\x00\x00\x00\x01\x02v\x02\x00\x03",
        1,
        BadLength,
        "records[0].headers[0].value_length",
        70,
    ),
    "bytes are left in the record": (b"\x10" + GOOD[1:] + b"\x00", 1, TrailingBytes, "records[0]", 69),
    "bytes are left behind the records": (GOOD + GOOD, 1, TrailingBytes, "records", 69),
    "more records are announced than there are": (GOOD, 2, BadLength, "record_count", 57),
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_wrong_record_is_refused_where_it_is_wrong(case):
    content, count, kind, field, position = RECORDS[case]
    buffer = batch_of(content, count)
    with pytest.raises(DecodeError) as objects:
        decode_batch(buffer)
    for columns in ([], ["offset"], COLUMN_NAMES):
        with pytest.raises(DecodeError) as refused:
            decode_columns(buffer, columns=columns)
        error = refused.value
        assert (type(error), error.field, error.position) == (kind, field, position)
        assert (type(error), error.field, error.position) == (
            type(objects.value),
            objects.value.field,
            objects.value.position,
        )


@pytest.mark.parametrize("case", [case for case in RECORDS if RECORDS[case][3] != "record_count"])
def test_inside_compressed_records_the_reason_says_where(case):
    content, count, kind, field, position = RECORDS[case]
    with pytest.raises(kind) as refused:
        decode_columns(batch_of(content, count, Codec.GZIP))
    assert (refused.value.field, refused.value.position) == (field, HEADER_BYTES)
    assert refused.value.reason.endswith(f"(byte {position - HEADER_BYTES} of the decompressed records)")


def changed(position, replacement, fix=True, last_offset_delta=0):
    whole = bytearray(batch_of(GOOD, last_offset_delta=last_offset_delta))
    whole[position : position + len(replacement)] = replacement
    return with_length_and_crc(whole) if fix else bytes(whole)


@pytest.mark.parametrize(
    ("buffer", "kind", "field", "position"),
    [
        (changed(0, b"\xff"), BadValue, "base_offset", 0),
        (changed(8, b"\x00\x00\x00\x30", fix=False), BadLength, "batch_length", 8),
        (changed(8, b"\xff", fix=False), BadLength, "batch_length", 8),
        (changed(16, b"\x01"), UnknownVersion, "magic", 16),
        (changed(16, b"\x03"), UnknownVersion, "magic", 16),
        (changed(17, b"\x00\x00\x00\x00", fix=False), BadChecksum, "crc", 17),
        (changed(21, b"\x00\x05"), UnknownCodec, "attributes", 21),
        (changed(23, b"\xff"), BadValue, "last_offset_delta", 23),
        (changed(57, b"\xff"), BadLength, "record_count", 57),
        (changed(0, b"\x7f" + b"\xff" * 7, last_offset_delta=1), BadValue, "last_offset_delta", 23),
    ],
)
def test_a_wrong_header_is_refused_where_it_is_wrong(buffer, kind, field, position):
    with pytest.raises(kind) as refused:
        decode_columns(buffer)
    assert (type(refused.value), refused.value.field, refused.value.position) == (kind, field, position)


def test_the_last_offset_that_an_int64_can_hold_is_read():
    decoded = decode_columns(changed(0, b"\x7f" + b"\xff" * 7))
    assert (decoded.batch["offset"].to_pylist(), decoded.next_offset) == ([2**63 - 1], 2**63)


def test_positions_count_from_the_start_of_the_buffer_not_of_the_batch():
    first = batch_of(GOOD)
    with pytest.raises(BadLength) as refused:
        decode_columns(first + batch_of(RECORDS["length is negative"][0]))
    assert refused.value.position == len(first) + 61


@pytest.mark.parametrize(
    "bad", [changed(16, b"\x03"), batch_of(b"\x01" + GOOD[1:]), changed(17, b"\0\0\0\0", fix=False)]
)
def test_with_several_buffers_the_reason_names_the_one(bad):
    with pytest.raises(DecodeError, match=r"\(in buffer 1 of the call\)"):
        decode_columns([batch_of(GOOD), bad])


def test_a_wrong_checksum_passes_only_where_checking_was_turned_off():
    buffer = changed(17, b"\x00\x00\x00\x00", fix=False)
    with pytest.raises(BadChecksum):
        decode_columns(buffer)
    assert decode_columns(buffer, verify=False).row_count == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_a_lie_about_the_record_count_takes_no_memory(codec):
    peak = pa.default_memory_pool().max_memory()
    with pytest.raises(BadLength) as refused:
        decode_columns(batch_of(GOOD, 2**31 - 1, codec, last_offset_delta=2**31 - 1), columns=COLUMN_NAMES)
    assert refused.value.field == "record_count"
    assert pa.default_memory_pool().max_memory() - peak < 1 << 20


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_all_batches_of_a_call_unfold_to_is_bounded(codec):
    large = encode_batch([Record(0, NOW, value=bytes(300_000))], codec=codec)
    assert decode_columns(large, max_bytes=1_000_000).row_count == 1
    assert decode_columns([large] * 2, max_bytes=1_000_000).row_count == 2
    with pytest.raises(BadLength) as refused:
        decode_columns(large * 5, max_bytes=1_000_000)
    assert len(large) * 2 < refused.value.position < len(large) * 5


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_bytes_that_are_damaged_are_a_decode_error(codec):
    whole = bytearray(batch_of(GOOD, codec=codec))
    del whole[-3:]
    with pytest.raises(DecodeError):
        decode_columns(with_length_and_crc(whole))


@pytest.mark.parametrize("written", [b"\xff\xff\xff\xff\x07", b"\x01\x01\x01\x01\x01", b"\xfe\x01\x00\x00\x00"])
def test_a_buffer_that_changes_while_it_is_decoded_is_an_error_and_not_a_crash(monkeypatch, written):
    buffer = bytearray(encode_batch([Record(0, NOW, headers=[("key", b"value")] * 3)]))
    copy_headers = column_compiler.copy_headers()

    def after_a_write(*arguments):
        at = buffer.index(b"\x06key")
        buffer[at : at + len(written)] = written
        return copy_headers(*arguments)

    monkeypatch.setattr(column_compiler, "copy_headers", lambda: after_a_write)
    with pytest.raises(BadValue, match="written to while it was decoded"):
        decode_columns(buffer, columns=["headers"])


def test_a_marker_that_cannot_be_read_is_refused_where_it_matters():
    marker = bytearray(encode_control_marker("abort", offset=1, timestamp_ms=NOW, producer_id=1, producer_epoch=0))
    marker[61:] = b"\x12\x00\x00\x00\x04\x00\x00\x02v\x00"
    broken = with_length_and_crc(marker)
    assert decode_columns(broken).row_count == 0
    with pytest.raises(Truncated) as refused:
        decode_columns(broken, aborted=[(1, 0)])
    assert (refused.value.field, refused.value.position) == ("marker_key", 61)
