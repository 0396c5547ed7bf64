"""Record batches that are not: each raises one DecodeError that names the field and the place, and takes no memory."""

import struct
import time
import tracemalloc

import pytest

from seamark.errors import (
    BadChecksum,
    BadLength,
    BadText,
    BadValue,
    DecodeError,
    OverLimit,
    TrailingBytes,
    Truncated,
    UnknownCodec,
    UnknownVersion,
)
from seamark.wire.records import (
    Codec,
    Record,
    check_crc,
    decode_batch,
    encode_batch,
    read_header,
    read_records,
    rebase,
    scan_batches,
)
from seamark.wire.records.compression import compress
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.varints import encode_varint

TIME_MS = 1_700_000_000_000
RECORDS = [Record(i, TIME_MS + i, 0, b"key%d" % i, b"value" * 20, [("header", b"x"), ("y", None)]) for i in range(3)]
BATCH = encode_batch(RECORDS)


def sealed(content, *, count=1, last_delta=None, attributes=0, base_timestamp=TIME_MS):
    """A batch around these record bytes, with a right length and CRC: what an attacker would send."""
    last_delta = max(count - 1, 0) if last_delta is None else last_delta
    covered = struct.pack(">hiqqqhii", attributes, last_delta, base_timestamp, base_timestamp, -1, -1, -1, count)
    covered += content
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c(covered)) + covered


def sized(body):
    return encode_varint(len(body)) + body


SOUND = sized(b"\x00\x00\x00\x01\x01\x00")


def error_of(batch, **options):
    with pytest.raises(DecodeError) as caught:
        decode_batch(batch, **options)
    return caught.value


@pytest.mark.parametrize("verify", [True, False])
def test_a_batch_cut_at_any_byte_is_truncated(verify):
    for size in range(len(BATCH)):
        error = error_of(BATCH[:size], verify=verify)
        assert type(error) is Truncated
        assert error.field == ("batch_header" if size < 61 else "batch")
        assert error.position == 0


def test_records_cut_at_any_byte_inside_a_sound_batch_are_refused():
    content = BATCH[61:]
    for size in range(len(content)):
        error = error_of(sealed(content[:size], count=3, base_timestamp=TIME_MS))
        assert isinstance(error, Truncated | BadLength), size
        assert 57 <= error.position <= 61 + size


def test_the_crc_covers_everything_behind_it():
    for index in range(21, len(BATCH)):
        damaged = bytearray(BATCH)
        damaged[index] ^= 0x01
        with pytest.raises(DecodeError) as caught:
            check_crc(damaged, 0, read_header(BATCH))
        assert type(caught.value) is BadChecksum
        assert (caught.value.field, caught.value.position) == ("crc", 17)


def test_a_wrong_crc_is_refused_unless_the_caller_says_so():
    damaged = BATCH[:17] + bytes(4) + BATCH[21:]
    error = error_of(b"xx" + damaged, position=2)
    assert type(error) is BadChecksum
    assert error.position == 19
    assert decode_batch(damaged, verify=False) == RECORDS


@pytest.mark.parametrize("magic", [0, 1, 3, 127, -1])
def test_another_magic_is_an_unknown_version(magic):
    batch = BATCH[:16] + struct.pack(">b", magic) + BATCH[17:]
    error = error_of(b"..." + batch, position=3)
    assert type(error) is UnknownVersion
    assert (error.field, error.position) == ("magic", 19)
    with pytest.raises(UnknownVersion):
        list(scan_batches(batch))


def test_an_old_message_shorter_than_a_batch_header_is_an_unknown_version():
    message = struct.pack(">qiIbb", 0, 22, 0, 1, 0) + bytes(16)
    with pytest.raises(UnknownVersion):
        read_records(message)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_kafka_does_not_define_is_refused(codec):
    error = error_of(sealed(SOUND, attributes=codec))
    assert type(error) is UnknownCodec
    assert (error.field, error.position) == ("attributes", 21)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_batch_length_below_the_header_is_refused(length):
    batch = BATCH[:8] + struct.pack(">i", length) + BATCH[12:]
    error = error_of(batch)
    assert type(error) is BadLength
    assert (error.field, error.position) == ("batch_length", 8)
    with pytest.raises(BadLength):
        list(scan_batches(batch))


def header_with(**fields):
    names = "base_offset length epoch magic crc attributes last_delta base_time max_time pid pepoch sequence count"
    values = dict(zip(names.split(), struct.unpack(">qiibIhiqqqhii", BATCH[:61]), strict=True))
    return struct.pack(">qiibIhiqqqhii", *{**values, **fields}.values()) + BATCH[61:]


@pytest.mark.parametrize(
    ("fields", "error", "field", "position"),
    [
        ({"base_offset": -1}, BadValue, "base_offset", 0),
        ({"last_delta": -1}, BadValue, "last_offset_delta", 23),
        ({"base_offset": 2**63 - 1}, BadValue, "last_offset_delta", 23),
        ({"count": -1}, BadLength, "record_count", 57),
        ({"count": 4}, BadLength, "record_count", 57),
        ({"count": 2**31 - 1, "last_delta": 2**31 - 1}, BadLength, "record_count", 57),
        ({"count": 2**31 - 1, "last_delta": 2**31 - 1, "attributes": 1}, BadValue, "records", 61),
    ],
)
def test_header_fields_that_cannot_be_are_refused(fields, error, field, position):
    caught = error_of(header_with(**fields), verify=False)
    assert type(caught) is error
    assert (caught.field, caught.position) == (field, position)


def test_a_record_count_that_lies_is_refused():
    content = BATCH[61:]
    low = error_of(sealed(content, count=2, last_delta=2))
    assert type(low) is TrailingBytes
    assert low.field == "records"
    high = error_of(sealed(content, count=4))
    assert type(high) is Truncated
    assert (high.field, high.position) == ("records[3].length", 61 + len(content))
    none = error_of(sealed(content, count=0))
    assert type(none) is TrailingBytes


def test_a_record_count_that_lies_about_compressed_records_is_refused():
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        compressed = encode_batch(RECORDS, codec=codec)[61:]
        low = error_of(sealed(compressed, count=2, attributes=codec))
        assert type(low) is TrailingBytes
        assert low.position == 61
        assert "decompressed" in low.reason
        assert type(error_of(sealed(compressed, count=4, attributes=codec))) is Truncated
        assert type(error_of(sealed(compressed, count=2**31 - 1, attributes=codec))) is BadLength
        assert type(error_of(sealed(b"", count=1, attributes=codec))) is BadValue
        assert type(error_of(sealed(compressed, count=0, attributes=codec))) is TrailingBytes


def test_bytes_behind_the_last_record_are_refused():
    error = error_of(sealed(SOUND + b"\x00"))
    assert type(error) is TrailingBytes
    assert (error.field, error.position) == ("records", 61 + len(SOUND))


OVERLONG = b"\x80\x80\x80\x80\x80\x00"
OVERFLOW = b"\xff\xff\xff\xff\x1f"


@pytest.mark.parametrize(
    ("content", "error", "field", "position"),
    [
        (b"\x01" + bytes(7), BadLength, "records[0].length", 61),
        # -7, whose bits without the sign are the 6 bytes that follow.
        (b"\x0d\x00\x00\x00\x01\x01\x00", BadLength, "records[0].length", 61),
        (OVERLONG + bytes(4), BadLength, "records[0].length", 61),
        (OVERFLOW + bytes(4), BadLength, "records[0].length", 61),
        (b"\x00" + bytes(7), Truncated, "records[0].attributes", 62),
        (b"\xfe\x01" + bytes(7), Truncated, "records[0].length", 61),
        (b"\x02" + bytes(7), Truncated, "records[0].timestamp_delta", 63),
        (sized(b"\x00" + b"\x80" * 10 + b"\x00" * 5), BadLength, "records[0].timestamp_delta", 63),
        (sized(b"\x00" + b"\xff" * 9 + b"\x02" + b"\x00" * 5), BadLength, "records[0].timestamp_delta", 63),
        (sized(b"\x00\x00" + OVERLONG + b"\x01\x01\x00"), BadLength, "records[0].offset_delta", 64),
        (sized(b"\x00\x00\x01\x01\x01\x00"), BadValue, "records[0].offset_delta", 64),
        (sized(b"\x00\x00\x02\x01\x01\x00"), BadValue, "records[0].offset_delta", 64),
        (sized(b"\x00\x00\x00\x03\x01\x00"), BadLength, "records[0].key_length", 65),
        (sized(b"\x00\x00\x00\x04\x01\x00"), Truncated, "records[0].value_length", 68),
        (sized(b"\x00\x00\x00\x0aab\x01\x00"), BadLength, "records[0].key_length", 65),
        (sized(b"\x00\x00\x00" + OVERLONG + b"\x01\x00"), BadLength, "records[0].key_length", 65),
        (sized(b"\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00"), BadLength, "records[0].key_length", 65),
        (sized(b"\x00\x00\x00\x01\x03\x00"), BadLength, "records[0].value_length", 66),
        (sized(b"\x00\x00\x00\x01\x80\x01\x00"), BadLength, "records[0].value_length", 66),
        (sized(b"\x00\x00\x00\x01\xff\x01\x00"), BadLength, "records[0].value_length", 66),
        (sized(b"\x00\x00\x00\x01" + OVERFLOW + b"\x00"), BadLength, "records[0].value_length", 66),
        (sized(b"\x00\x00\x00\x02a\x01"), Truncated, "records[0].header_count", 68),
        (sized(b"\x00\x00\x00\x01\x01\x01"), BadLength, "records[0].header_count", 67),
        (sized(b"\x00\x00\x00\x01\x01\x04\x00\x00"), BadLength, "records[0].header_count", 67),
        (sized(b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f"), BadLength, "records[0].header_count", 67),
        (sized(b"\x00\x00\x00\x01\x01\x02\x01\x00"), BadLength, "records[0].headers[0].key_length", 68),
        (sized(b"\x00\x00\x00\x01\x01\x02\x08a\x00"), BadLength, "records[0].headers[0].key_length", 68),
        (sized(b"\x00\x00\x00\x01\x01\x02\x02\xff\x00"), BadText, "records[0].headers[0].key", 69),
        (sized(b"\x00\x00\x00\x01\x01\x02\x02a\x03"), BadLength, "records[0].headers[0].value_length", 70),
        (sized(b"\x00\x00\x00\x01\x01\x02\x02a\x08bc"), BadLength, "records[0].headers[0].value_length", 70),
        (sized(b"\x00\x00\x00\x01\x01\x02\x02a\x00x"), TrailingBytes, "records[0]", 71),
        (sized(b"\x00\x00\x00\x01\x01\x00x"), TrailingBytes, "records[0]", 68),
    ],
)
def test_each_bad_field_of_a_record_is_named_with_its_place(content, error, field, position):
    for make in (bytes, bytearray):
        caught = error_of(make(sealed(content)))
        assert type(caught) is error, caught
        assert (caught.field, caught.position) == (field, position)
        assert field in str(caught)


def test_a_field_that_reaches_into_the_next_record_is_refused():
    reaching = b"\x0c\x00\x00\x00\x01\x0c\x00"
    error = error_of(sealed(reaching + SOUND, count=2))
    assert type(error) is BadLength
    assert error.field == "records[0].value_length"


def test_a_field_that_reaches_behind_the_batch_is_refused():
    reaching = sealed(b"\x0c\x00\x00\x00\x01\x0e\x00") + b"bytes of the next batch"
    assert error_of(reaching).field == "records[0].value_length"


def test_offsets_that_repeat_or_fall_are_refused():
    for second in (b"\x00", b"\x01"):
        error = error_of(sealed(SOUND + sized(b"\x00\x00" + second + b"\x01\x01\x00"), count=2))
        assert type(error) is BadValue
        assert error.field == "records[1].offset_delta"


@pytest.mark.parametrize(
    ("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (2**62, 2**62), (-(2**62) - 1, -(2**62)), (1, 2**63 - 1)]
)
def test_a_timestamp_beyond_int64_is_refused(base, delta):
    content = sized(b"\x00" + encode_varint(delta) + b"\x00\x01\x01\x00")
    error = error_of(sealed(content, base_timestamp=base))
    assert type(error) is BadValue
    assert (error.field, error.position) == ("records[0].timestamp_delta", 63)


def test_a_padded_varint_is_accepted_as_kafka_accepts_it():
    # Null key in two bytes, empty value in three, record length in two.
    content = b"\x92\x00" + b"\x00\x00\x00" + b"\x81\x00" + b"\x80\x80\x00" + b"\x00"
    assert decode_batch(sealed(content)) == [Record(0, TIME_MS, 0, None, b"")]


def test_positions_count_from_the_start_of_the_callers_buffer():
    bad = sealed(sized(b"\x00\x00\x00\x03\x01\x00"))
    for buffer in (bytes(100) + bad, memoryview(bytes(100) + bad)):
        error = error_of(buffer, position=100)
        assert error.position == 165
    with pytest.raises(DecodeError) as caught:
        read_records(BATCH + bad)
    assert caught.value.position == len(BATCH) + 65


def test_the_walk_stops_at_a_bad_batch_behind_sound_ones():
    walk = scan_batches(BATCH + header_with(count=-5))
    assert next(walk)[1] == 0
    with pytest.raises(BadLength) as caught:
        next(walk)
    assert caught.value.position == len(BATCH) + 57


def test_rebase_refuses_what_is_no_batch():
    with pytest.raises(Truncated):
        rebase(BATCH[:60], 0, 0)
    with pytest.raises(UnknownVersion):
        rebase(BATCH[:16] + b"\x01" + BATCH[17:], 0, 0)


def test_headers_by_the_million_are_refused_before_they_are_made():
    body = b"\x00\x00\x00\x01\x01" + encode_varint(10_000_000) + b"\x00\x01" * 10_000_000
    stored = compress(Codec.ZSTD, sized(body))
    assert len(stored) < 4_096
    batch = sealed(stored, attributes=Codec.ZSTD)
    tracemalloc.start()
    try:
        error = error_of(batch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert type(error) is OverLimit
    assert error.field == "records[0].header_count"
    # The decompressed records and their copy.
    assert peak < 3 * len(body)


def test_the_headers_of_all_records_count_against_the_limit(monkeypatch):
    monkeypatch.setattr("seamark.wire.records.record_reader.MAX_HEADERS_PER_BATCH", 100)
    for each in (3, 60, 70):
        count = 100 // each
        fitting = [Record(i, TIME_MS, 0, None, None, [("", None)] * each) for i in range(count)]
        assert decode_batch(encode_batch(fitting)) == fitting
        error = error_of(encode_batch([*fitting, Record(count, TIME_MS, 0, None, None, [("", None)] * each)]))
        assert type(error) is OverLimit
        assert error.field == f"records[{count}].header_count"


def test_reading_bad_bytes_takes_time_in_proportion_to_them():
    # Ten thousand sound records and a bad one behind them; then a record whose thousands of headers end in a bad one.
    many = b"".join(sized(b"\x00\x00" + encode_varint(i) + b"\x01\x01\x00") for i in range(10_000))
    headers = encode_varint(20_001) + b"\x00\x01" * 20_000 + b"\x00\x03"
    for content, count in [
        (many + sized(b"\x00\x00\x00\x01\x01\x00"), 10_001),
        (sized(b"\x00\x00\x00\x01\x01" + headers), 1),
    ]:
        started = time.perf_counter()
        error_of(sealed(content, count=count))
        assert time.perf_counter() - started < 2.0
