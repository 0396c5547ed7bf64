"""Columns against the reader of objects: the same rows for good bytes, the same error for bad ones, never a crash."""

import subprocess
import sys
from random import Random
from time import monotonic

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.errors import DecodeError
from seamark.wire.columns import buffers as column_buffers
from seamark.wire.columns.columns import COLUMN_NAMES, decode_columns
from seamark.wire.records import Codec, Record, encode_batch, read_records
from tests.support.mutations import mutate, mutate_batch

INT64 = st.integers(-(2**63), 2**63 - 1)
SHORT = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), SHORT), max_size=4)
MAX_BYTES = 1 << 20


def rows_of(columns):
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["timestamp_type"],
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or []],
        )
        for row in with_plain_timestamps(columns.batch).to_pylist()
    ]


def with_plain_timestamps(batch):
    place = batch.schema.names.index("timestamp")
    return batch.set_column(place, "timestamp", batch.column(place).view("int64"))


@st.composite
def batches(draw):
    offset = draw(st.integers(0, 2**40))
    encoded = []
    for _ in range(draw(st.integers(1, 4))):
        base_timestamp = draw(st.integers(-1, 2**45) | INT64)
        records = []
        for _ in range(draw(st.integers(1, 12))):
            offset += draw(st.integers(1, 3) | st.integers(1, 2000))
            delta = draw(st.integers(-100, 100) | st.integers(-(2**40), 2**40))
            timestamp = max(-(2**63), min(base_timestamp + delta, 2**63 - 1))
            key, value = draw(SHORT), draw(SHORT | st.binary(min_size=60, max_size=300))
            records.append(Record(offset, timestamp, key=key, value=value, headers=draw(HEADERS)))
        encoded.append(
            encode_batch(
                records,
                codec=draw(st.sampled_from(Codec)),
                timestamp_type=draw(st.integers(0, 1)),
                last_offset=offset + draw(st.integers(0, 3)),
            )
        )
        offset += 4
    return encoded


@settings(max_examples=80, deadline=None)
@given(batches())
def test_columns_hold_the_rows_that_the_object_reader_reads(encoded):
    buffer = b"".join(encoded)
    expected = read_records(buffer)
    whole = decode_columns(buffer, columns=COLUMN_NAMES)
    whole.batch.validate(full=True)
    assert rows_of(whole) == expected
    assert rows_of(decode_columns(encoded, columns=COLUMN_NAMES)) == expected


@settings(max_examples=60, deadline=None)
@given(batches(), st.data())
def test_a_range_holds_exactly_the_rows_between_its_ends(encoded, data):
    buffer = b"".join(encoded)
    expected = read_records(buffer)
    offsets = st.integers(expected[0].offset - 1, expected[-1].offset + 5)
    start, end = data.draw(offsets), data.draw(offsets)
    part = decode_columns(buffer, columns=COLUMN_NAMES, start=start, end=end)
    part.batch.validate(full=True)
    assert rows_of(part) == [record for record in expected if start <= record.offset < end]
    assert part.next_offset is not None
    assert start <= part.next_offset <= max(start, end)


@settings(max_examples=40, deadline=None)
@given(batches(), st.data())
def test_reading_on_from_next_offset_finds_every_row_once(encoded, data):
    buffer = b"".join(encoded)
    expected = [record.offset for record in read_records(buffer)]
    position, found = expected[0], []
    while position <= expected[-1]:
        end = position + data.draw(st.integers(1, 9) | st.integers(1000, 9000))
        part = decode_columns(buffer, columns=["offset"], start=position, end=end)
        found += part.batch["offset"].to_pylist()
        assert part.next_offset > position
        position = part.next_offset
    assert found == expected


@settings(max_examples=40, deadline=None)
@given(batches(), st.data())
def test_any_cut_of_a_buffer_gives_the_whole_batches_before_it(encoded, data):
    buffer = b"".join(encoded)
    cut = data.draw(st.integers(0, len(buffer)))
    decoded = decode_columns(buffer[:cut], columns=COLUMN_NAMES)
    assert rows_of(decoded) == read_records(buffer[:cut])
    ends = [sum(map(len, encoded[:count])) for count in range(len(encoded) + 1)]
    assert decoded.cut_off == (cut not in ends)


def sample_batches(rng):
    """One of each kind: codecs, both timestamp types, headers, nulls, gaps, many small and few large records."""
    for codec in Codec:
        for count in (1, 3, 40):
            records, offset = [], rng.randrange(1000)
            for _ in range(count):
                offset += rng.choice((1, 1, 1, 7, 300))
                key = rng.choice((None, b"", rng.randbytes(5)))
                value = rng.choice((None, b"v", rng.randbytes(100), rng.randbytes(200)))
                headers = [("trace-é", b"1"), ("n", None)][: rng.randrange(3)]
                records.append(Record(offset, 1_700_000_000_000 + rng.randrange(-9, 99999), 0, key, value, headers))
            yield encode_batch(
                records, codec=codec, timestamp_type=rng.randrange(2), last_offset=offset + rng.randrange(3)
            )


def outcome(read, *arguments, **keywords):
    """What a reader returns, or the error it raises, as something that can be compared."""
    try:
        return read(*arguments, **keywords)
    except DecodeError as error:
        return type(error), error.field, error.position


def all_rows(buffer):
    return rows_of(decode_columns(buffer, columns=COLUMN_NAMES, skip_control=False, max_bytes=MAX_BYTES))


def row_count(buffer, columns):
    return decode_columns(buffer, columns=columns, max_bytes=MAX_BYTES).row_count


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_batch_gives_the_object_readers_rows_or_its_error(seed):
    # Every third batch keeps its wrong length and CRC; the others have them repaired, so that the records are reached.
    rng = Random(seed)
    samples = list(sample_batches(rng))
    seen = {"rows": 0, "errors": 0}
    until = monotonic() + 1.5
    while monotonic() < until:
        for sample in samples:
            fix = rng.randrange(3) > 0
            damaged = mutate_batch(sample, rng, fix) if rng.randrange(8) else mutate(sample + sample, rng)
            objects = outcome(read_records, damaged, include_control=True, max_bytes=MAX_BYTES)
            columns = outcome(all_rows, damaged)
            assert columns == objects, damaged.hex()
            seen["rows" if isinstance(columns, list) else "errors"] += 1
    assert min(seen.values()) > 20, seen


def test_no_kernel_writes_behind_the_room_it_was_given(monkeypatch):
    # A write out of bounds may go unnoticed for long: canaries behind every buffer show it at once.
    guarded = []

    def room_with_canaries(count, kind):
        size = count * np.dtype(kind).itemsize
        memory = bytearray(b"\xa5" * (size + 512))
        guarded.append((memory, size))
        return np.frombuffer(pa.py_buffer(memoryview(memory)[:size]), kind)

    monkeypatch.setattr(column_buffers, "_room", room_with_canaries)
    rng = Random(11)
    samples = list(sample_batches(rng))
    until = monotonic() + 1.5
    while monotonic() < until:
        for sample in samples:
            damaged = mutate_batch(sample, rng, fix=True)
            outcome(all_rows, damaged)
            for memory, size in guarded:
                assert memory.count(0xA5, size) == 512, damaged.hex()
            guarded.clear()


def test_damage_is_found_whatever_columns_are_asked_for():
    rng = Random(5)
    samples = list(sample_batches(rng))
    until = monotonic() + 1.5
    while monotonic() < until:
        for sample in samples:
            damaged = mutate_batch(sample, rng, fix=True)
            wanted = rng.sample(COLUMN_NAMES, rng.randrange(3))
            narrow = outcome(row_count, damaged, wanted)
            assert narrow == outcome(row_count, damaged, COLUMN_NAMES), damaged.hex()


READ_BESIDE_A_FORBIDDEN_PAGE = """
import ctypes, mmap
from random import Random
from seamark.errors import DecodeError
from seamark.wire.columns.columns import COLUMN_NAMES, decode_columns
from tests.property.wire.test_columns import sample_batches
from tests.support.mutations import mutate_batch

size = 16 * mmap.PAGESIZE
memory = mmap.mmap(-1, size + mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
view = memoryview(memory)
rng = Random(3)
samples = [sample for sample in sample_batches(rng) if sample[22] & 7 == 0]
count = 0
while count < 3000:
    for sample in samples:
        damaged = mutate_batch(sample, rng, fix=True)
        view[size - len(damaged) : size] = damaged
        count += 1
        try:
            decode_columns(view[size - len(damaged) : size], columns=COLUMN_NAMES)
        except DecodeError:
            pass
print(count)
"""


def test_no_kernel_reads_behind_the_bytes_it_was_given(pytestconfig):
    # The batch ends where the next page may not be read: one byte too far ends the process.
    ran = subprocess.run(
        [sys.executable, "-c", READ_BESIDE_A_FORBIDDEN_PAGE],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) >= 3000


@settings(max_examples=60, deadline=None)
@given(batches(), st.data())
def test_calls_that_end_early_find_every_row_once_and_give_no_more_than_was_allowed(encoded, data):
    buffer = b"".join(encoded)
    expected = read_records(buffer)
    stop_rows = data.draw(st.integers(1, 5) | st.just(1000))
    stop_bytes = data.draw(st.integers(0, 400) | st.just(10_000))
    position, found = expected[0].offset, []
    while position <= expected[-1].offset:
        part = decode_columns(
            buffer, columns=COLUMN_NAMES, start=position, stop_rows=stop_rows, stop_bytes=stop_bytes, log_end=2**62
        )
        assert part.next_offset > position
        assert part.row_count <= stop_rows
        found += rows_of(part)
        position = part.next_offset
    assert found == expected
