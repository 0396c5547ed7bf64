import zlib
from base64 import b85encode
from random import Random

import pytest

from seamark.errors import OutOfRange
from seamark.wire.offsets import done_ahead
from seamark.wire.offsets.done_ahead import MAX_LENGTH, DoneAhead, Refusal, decode, encode, encoded_size, read
from seamark.wire.offsets.done_ahead_forms import MAX_OFFSET

BASE = 1000


def text_of(form, body, base=BASE):
    """A text made by hand from the documented format."""
    encoded = b85encode(body).decode()
    covered = base.to_bytes(8, "big") + b"1" + form.encode() + encoded.encode()
    return "sm1" + form + b85encode(zlib.crc32(covered).to_bytes(4, "big")).decode() + encoded


def deflated(body):
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(body) + deflater.flush()


@pytest.mark.parametrize(
    ("form", "body", "ranges"),
    [
        ("r", bytes((0, 3)), [(1001, 1004)]),
        ("r", bytes((2, 1, 5, 2)), [(1003, 1004), (1009, 1011)]),
        ("r", bytes((0xAC, 0x02, 1)), [(1301, 1302)]),
        ("d", bytes((0, 0, 3)), [(1001, 1003), (1006, 1007)]),
        ("h", bytes((2, 0, 4)), [(1001, 1003), (1005, 1009)]),
        ("h", bytes((0, 1)), [(1002, 1003)]),
        ("b", bytes((0b00000101, 0x80)), [(1001, 1002), (1003, 1004), (1016, 1017)]),
        ("R", deflated(bytes((2, 1, 5, 2))), [(1003, 1004), (1009, 1011)]),
        ("B", deflated(bytes((0b00000110,))), [(1002, 1004)]),
    ],
)
def test_each_form_reads_as_documented(form, body, ranges):
    found = read(text_of(form, body), BASE)
    assert isinstance(found, DoneAhead), found
    assert found.ranges == ranges
    assert found.base == BASE


@pytest.mark.parametrize(
    ("form", "done"),
    [
        ("r", [*range(1002, 1200), *range(5000, 9000), *range(20000, 90000)]),
        ("d", [1003, 1040, 1100, 1190, 1260, 1301]),
        ("h", [offset for offset in range(1001, 1300) if offset not in (1013, 1100, 1190, 1207, 1290)]),
        ("b", [1001, 1003, 1006, 1007, 1010, 1011, 1012, 1014, 1017, 1019, 1020, 1023, 1026, 1027, 1028]),
        ("H", [offset for offset in range(1001, 60000) if offset % 501]),
        ("D", list(range(1001, 30000, 7))),
    ],
)
def test_the_form_that_suits_the_offsets_is_taken(form, done):
    encoded = encode(BASE, done)
    assert encoded.text[3] == form
    assert list(decode(encoded.text, BASE)) == done


def test_a_blocked_record_with_everything_behind_it_done_takes_a_few_characters():
    encoded = encode(BASE, DoneAhead(BASE, [(BASE + 1, BASE + 10_000_001)]))
    assert (encoded.kept, encoded.dropped) == (10_000_000, 0)
    assert len(encoded.text) <= 15


def test_nothing_done_ahead_is_the_empty_text():
    assert encode(BASE, []) == ("", 0, 0)
    assert encoded_size(BASE, []) == 0
    assert decode("", BASE) is None
    assert decode(None, BASE) is None


def test_offsets_may_come_as_a_set_a_list_or_a_map():
    wanted = encode(BASE, [1002, 1003, 1010])
    assert encode(BASE, {1010, 1003, 1002}) == wanted
    assert encode(BASE, [1010, 1002, 1003, 1002]) == wanted
    assert encode(BASE, DoneAhead(BASE, [(1010, 1011), (1002, 1003), (1002, 1004)])) == wanted
    assert encode(BASE, DoneAhead(900, [(1002, 1004), (1010, 1011)])) == wanted


@pytest.mark.parametrize("offset", [BASE, BASE - 1, MAX_OFFSET + 1])
def test_an_offset_that_is_not_beyond_the_committed_one_is_refused(offset):
    with pytest.raises(OutOfRange) as caught:
        encode(BASE, [1005, offset])
    assert caught.value.field == "offset"
    assert caught.value.value == offset


def test_a_range_that_ends_before_it_starts_is_refused():
    with pytest.raises(OutOfRange, match="not greater than its start"):
        DoneAhead(BASE, [(1005, 1005)])


def test_something_that_is_no_offset_is_refused():
    with pytest.raises(OutOfRange, match="whole numbers"):
        DoneAhead(BASE, [(1005.5, 1007.5)])
    with pytest.raises(OutOfRange, match="is not an offset"):
        encode(-1, [5])


def test_the_highest_offsets_survive():
    done = DoneAhead(MAX_OFFSET - 5, [(MAX_OFFSET - 3, MAX_OFFSET - 1), (MAX_OFFSET, MAX_OFFSET + 1)])
    assert decode(encode(MAX_OFFSET - 5, done).text, MAX_OFFSET - 5) == done
    far = DoneAhead(0, [(1, 2), (MAX_OFFSET, MAX_OFFSET + 1)])
    assert decode(encode(0, far).text, 0) == far


def test_membership_count_and_order():
    done = DoneAhead(BASE, [(1002, 1004), (1010, 1011)])
    assert [offset for offset in range(995, 1020) if offset in done] == [1002, 1003, 1010] == list(done)
    assert done.count == 3
    assert done
    assert not DoneAhead(BASE)
    assert repr(done) == "DoneAhead(base=1000, count=3, [1002-1003, 1010-1010])"


@pytest.mark.parametrize(
    "text",
    [
        "associated metadata",
        "consumer-1 wrote this",
        "sm",
        "sm1",
        "smooth operation of the pipeline",
        '{"offset": 5}',
        "bw8AAAAAAAAAAA==",
        "grüße\x00",
        "\ud800",
    ],
)
def test_text_of_another_tool_is_foreign(text):
    found = read(text, BASE)
    assert isinstance(found, Refusal)
    assert found.kind == "foreign"
    assert decode(text, BASE) is None


def test_a_newer_version_is_left_alone():
    text = encode(BASE, [1005]).text
    found = read("sm2" + text[3:], BASE)
    assert found.kind == "newer"
    assert "version 2" in found.reason


# A tool that moves the committed offset and keeps the text must not make a consumer skip records.
@pytest.mark.parametrize("moved", [0, BASE - 1, BASE + 1, 5_000_000, -1])
def test_a_map_for_another_committed_offset_is_not_applied(moved):
    found = read(encode(BASE, [1005, 1007]).text, moved)
    assert isinstance(found, Refusal)
    assert found.kind == "damaged"


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("r", bytes((1,))),
        ("r", bytes((1, 0))),
        ("r", bytes((1, 1, 0, 1))),
        ("r", bytes((1, 0x80))),
        ("d", b"\xff" * 9 + b"\x01"),
        ("d", b"\xff" * 8 + b"\x7f" + b"\xff" * 8 + b"\x7f"),
        ("h", bytes((0, 0))),
        ("b", bytes(4)),
        ("R", b"\x00"),
        ("R", bytes((1, 1))),
        ("R", deflated(bytes((1, 1))) + b"more"),
        ("R", deflated(bytes((1, 1)))[:-1]),
        ("B", deflated(b"\x01" * (done_ahead.MAX_BODY + 1))),
        ("x", bytes((1, 1))),
    ],
)
def test_a_body_that_is_not_one_is_refused_even_with_a_right_checksum(form, body):
    found = read(text_of(form, body), BASE)
    assert isinstance(found, Refusal)
    assert found.kind == "damaged"
    assert found.reason


def test_a_small_text_that_inflates_far_is_refused_before_it_takes_memory():
    bomb = text_of("B", deflated(bytes(50_000_000) + b"\x01"))
    assert len(bomb) > MAX_LENGTH
    assert read(bomb, BASE).kind == "damaged"
    bomb = text_of("B", deflated(bytes(15_000_000) + b"\x01"))
    assert len(bomb) < MAX_LENGTH
    assert read(bomb, BASE).kind == "damaged"


def test_the_densest_text_that_may_be_read_gives_bounded_ranges():
    found = decode(text_of("B", deflated(b"\x55" * done_ahead.MAX_BODY)), BASE)
    assert found.count == len(found.ranges) == done_ahead.MAX_BODY * 4


# F18: brokers refuse metadata over a limit, 4096 characters by default; some tools misread 127 and more.
@pytest.mark.parametrize("limit", [0, 9, 10, 11, 12, 15, 20, 40, 126, 300, 1000, 4096])
def test_a_map_over_the_limit_keeps_the_lowest_offsets(limit):
    done = sorted(Random(limit).sample(range(BASE + 1, BASE + 90_000), 10_000))
    encoded = encode(BASE, done, limit)
    assert len(encoded.text) <= limit
    assert encoded.kept + encoded.dropped == len(done)
    assert encoded.dropped > 0
    found = decode(encoded.text, BASE)
    assert (list(found) if found else []) == done[: encoded.kept]
    # Each of these offsets takes less than a byte and a half, and four bytes take five characters.
    assert encoded.kept >= (limit - 12) * 0.8 / 1.5


def test_a_run_that_does_not_fit_whole_is_shortened():
    # Two bytes of body: one number for the gap, one for as much of the run as it can say.
    encoded = encode(BASE, DoneAhead(BASE, [(1003, 9000)]), 12)
    assert decode(encoded.text, BASE).ranges == [(1003, 1130)]
    assert (encoded.kept, encoded.dropped) == (127, 9000 - 1130)


def test_offsets_beyond_any_text_are_dropped_in_reasonable_time():
    done = DoneAhead.of_offsets(BASE, range(BASE + 1, BASE + 900_000, 3))
    encoded = encode(BASE, DoneAhead(BASE, [*done.ranges, (10_000_000, 4_000_000_000)]))
    assert encoded.kept > 100_000
    assert list(decode(encoded.text, BASE)) == list(done)[: encoded.kept]


def test_no_limit_goes_beyond_what_kafka_can_carry():
    done = Random(3).sample(range(BASE + 1, BASE + 1_000_000), 100_000)
    assert encoded_size(BASE, done) > MAX_LENGTH
    encoded = encode(BASE, done, 1 << 30)
    assert len(encoded.text) <= MAX_LENGTH
    assert 0 < encoded.kept < len(done)
