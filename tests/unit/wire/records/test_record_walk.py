"""The walk over a batch's records: it passes what readers read, in any slices, and stops at its bounds."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from seamark.errors import BadValue, DecodeError, OverLimit
from seamark.wire.records import Record, decode_batch, encode_batch, read_header, record_walk
from seamark.wire.records.compression import decompress
from seamark.wire.records.record_batch import HEADER_BYTES, INT64_MAX
from seamark.wire.records.record_walk import MAX_HEADERS_OF_ONE_RECORD, MAX_RECORDS, RecordWalk
from seamark.wire.records.varints import encode_varint
from tests.support.hostile_batches import NOW_MS, batch, headers, mutated, record, records, sampled_cases


def walked(made: bytes, slice_: int) -> RecordWalk:
    codec = made[22] & 7
    content, start = (made, HEADER_BYTES) if not codec else (decompress(codec, made[HEADER_BYTES:], 1 << 20), 0)
    base_ms = int.from_bytes(made[27:35], "big", signed=True)
    count = int.from_bytes(made[57:61], "big", signed=True)
    walk = RecordWalk(content, start, count, base_ms, is_compressed=bool(codec))
    while not walk.advance(slice_):
        pass
    if walk.has_false_offset or walk.oddity or walk.max_timestamp_ms > INT64_MAX:
        raise BadValue("records", 0, "sound, and not those of a producer")
    return walk


def agrees_with_the_reader(made: bytes, slice_: int) -> bool:
    """Assert that both take the batch or both refuse it; return which."""
    try:
        found = decode_batch(made)
        is_read = [each.offset for each in found] == list(range(read_header(made).record_count))
    except DecodeError:
        is_read = False
    try:
        walk = walked(made, slice_)
    except DecodeError:
        assert not is_read
        return False
    assert is_read
    assert walk.max_timestamp_ms == max(each.timestamp_ms for each in found)
    assert walk.least_timestamp_ms <= min(each.timestamp_ms for each in found)
    assert walk.has_null_key == any(each.key is None for each in found)
    assert walk.headers_walked == sum(len(each.headers) for each in found)
    return True


@pytest.mark.parametrize("slice_", [7, 10_000])
@pytest.mark.parametrize("many_headers", [0, record_walk._MANY_HEADERS])
def test_the_walk_passes_exactly_what_the_reader_reads(slice_, many_headers, monkeypatch):
    monkeypatch.setattr(record_walk, "_MANY_HEADERS", many_headers)
    taken = sum(agrees_with_the_reader(mutated(seed), slice_) for seed in range(600))
    assert 150 < taken < 450


def test_every_named_case_is_judged_as_by_the_reader():
    for name, made in sampled_cases().items():
        # Append time, which the walk does not look at, replaces what the reader finds.
        if made[16] == 2 and not made[22] & 8 and "batches" not in name and "behind the batch" not in name:
            head = int.from_bytes(made[57:61], "big", signed=True)
            if head > 0 and made[:8] == bytes(8) and "checksum" not in name and "length" not in name:
                agrees_with_the_reader_or_header(name, made)


def agrees_with_the_reader_or_header(name: str, made: bytes) -> None:
    try:
        read_header(made)
    except DecodeError:
        return
    try:
        agrees_with_the_reader(made, 10_000)
    except AssertionError:
        raise AssertionError(name) from None


def random_shape(chance: random.Random, count: int) -> list[Record]:
    """Runs of records of one shape, some with headers, and single ones between them."""
    found: list[Record] = []
    clock = NOW_MS
    while len(found) < count:
        key = chance.choice((None, b"", b"key", b"k" * 70))
        value = b"v" * chance.choice((0, 5, 63, 64, 200, 9000))
        given = [("trace", b"x" * 5), ("é", None)][: chance.choice((0, 0, 1, 2))]
        for _ in range(chance.choice((1, 1, 3, 30, 120))):
            clock += chance.choice((0, 0, 0, 1, 1, 40, -3))
            found.append(Record(len(found), clock, key=key, value=value, headers=given))
    return found


def test_runs_of_one_shape_are_checked_like_single_records():
    for seed in range(4):
        chance = random.Random(seed)
        made = encode_batch(random_shape(chance, 300))
        assert agrees_with_the_reader(made, 10_000)
        for _ in range(25):
            # One byte anywhere, most often in the middle of a run.
            changed = bytearray(made)
            changed[chance.randrange(HEADER_BYTES, len(made))] ^= 1 << chance.randrange(8)
            body = bytes(changed[HEADER_BYTES:])
            agrees_with_the_reader(batch(body, read_header(made).record_count, base_ms=NOW_MS), 10_000)


def test_offset_deltas_of_every_width_are_told_from_their_neighbours():
    """The bytes of an offset delta change their pattern at 64 and 8192."""
    made = encode_batch([Record(number, NOW_MS + number // 9, value=b"v") for number in range(17_000)])
    walk = walked(made, 100_000)
    assert walk.max_timestamp_ms == NOW_MS + 16_999 // 9
    whole = [record(number, key=None, value=b"v", time_delta=number // 9) for number in range(17_000)]
    assert b"".join(whole) == made[HEADER_BYTES:]
    for number in (0, 1, 63, 64, 65, 127, 128, 8191, 8192, 8193, 8320, 16_383, 16_384, 16_999):
        wrong = whole.copy()
        wrong[number] = record(number, offset_delta=number + 1, key=None, value=b"v", time_delta=number // 9)
        with pytest.raises(DecodeError):
            walked(batch(b"".join(wrong), 17_000), 100_000)


def test_records_of_one_shape_cost_less_than_a_step_each(monkeypatch):
    """Counted in steps of the loop that walks one by one."""
    single = []
    walk_one_by_one = RecordWalk._walk
    monkeypatch.setattr(
        RecordWalk,
        "_walk",
        lambda walk, stop, most: (single.append(stop - walk._index), walk_one_by_one(walk, stop, most)),
    )
    walked(encode_batch([Record(n, NOW_MS + n // 50, value=b"x" * 100) for n in range(10_000)]), 100_000)
    assert sum(single) < 200


def test_a_walk_ends_after_its_slice_whatever_it_counts():
    body = records(100, headers=headers(*[(b"h", b"")] * 20))
    walk = RecordWalk(body, 0, 100, NOW_MS)
    slices = 1
    while not walk.advance(50):
        slices += 1
    assert 20 <= slices <= 100
    assert walk.headers_walked == 2000


def test_the_headers_of_one_record_are_walked_in_slices_too():
    body = records(3, headers=headers(*[(b"h", b"v")] * 5000))
    walk = RecordWalk(body, 0, 3, NOW_MS)
    seen = [0]
    while not walk.advance(1000):
        seen.append(walk.headers_walked)
    assert max(after - before for before, after in pairwise(seen)) <= 1000
    assert walk.headers_walked == 15_000
    assert len(list(RecordWalk(body, 0, 3, NOW_MS).one_by_one())) == 3


def test_more_records_than_any_client_sends_are_refused_before_one_is_looked_at():
    with pytest.raises(OverLimit, match="records in one batch"):
        RecordWalk(bytes(8 * MAX_RECORDS), 0, MAX_RECORDS + 1, NOW_MS)


def test_more_headers_than_any_client_sends_are_refused_before_one_is_looked_at():
    count = MAX_HEADERS_OF_ONE_RECORD + 1
    body = record(0, headers=encode_varint(count) + bytes(2 * count))
    with pytest.raises(OverLimit, match="headers"):
        RecordWalk(body, 0, 1, NOW_MS).advance(10)


def test_the_headers_of_all_records_are_bounded_in_sum(monkeypatch):
    monkeypatch.setattr(record_walk, "MAX_HEADERS", 100)
    with pytest.raises(OverLimit, match="headers"):
        RecordWalk(records(101, headers=headers((b"", b""))), 0, 101, NOW_MS).advance(1000)
    assert RecordWalk(records(100, headers=headers((b"", b""))), 0, 100, NOW_MS).advance(1000)
