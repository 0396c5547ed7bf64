"""A dead letter says where it came from and why, keeps what it was, and can be put back a bounded number of times."""

import pytest

from seamark.parallel.core.dead_letters import (
    MAX_ERROR_BYTES,
    MAX_STACK_BYTES,
    PREFIX,
    NotReplayable,
    decode,
    encode,
    provenance_of,
    replay,
    size_bytes,
    trimmed,
)
from tests.unit.parallel.lane_cases import ORDERS

OWN = [("trace", b"\x00\xff"), ("trace", None), ("lang", b"de")]


def failing(depth=0):
    if depth:
        failing(depth - 1)
    raise ValueError("no such customer: Zoë")


def provenance(headers=OWN, error=None, attempts=5):
    if error is None:
        try:
            failing()
        except ValueError as raised:
            error = raised
    return provenance_of(ORDERS, 41, 1_700, headers, error, group="billing", attempts=attempts, failed_at_ms=1_800)


def test_provenance_is_read_back_and_own_headers_stay_first_and_untouched():
    origin = provenance()
    headers = encode(origin, OWN)
    assert headers[: len(OWN)] == OWN
    assert decode(headers) == origin
    assert (origin.source, origin.offset, origin.timestamp_ms) == (ORDERS, 41, 1_700)
    assert (origin.group, origin.attempts, origin.error_type) == ("billing", 5, "builtins.ValueError")
    assert origin.error == "no such customer: Zoë"
    assert "in failing" in origin.stack


def test_long_errors_and_stacks_are_trimmed_in_the_middle():
    try:
        failing(depth=400)
    except ValueError as raised:
        raised.args = ("ö" * 5_000,)
        origin = provenance(error=raised)
    assert len(origin.error.encode()) <= MAX_ERROR_BYTES
    assert len(origin.stack.encode()) <= MAX_STACK_BYTES
    assert origin.stack.startswith("Traceback")
    assert decode(encode(origin, [])) == origin
    assert trimmed("short", 100) == "short"
    assert trimmed("lone \ud800", 100) == "lone \\ud800"


def test_an_error_that_cannot_be_printed_still_makes_a_dead_letter():
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    origin = provenance(error=Unprintable())
    assert origin.error == "(its __str__ raised RuntimeError)"


def test_a_replayed_record_has_its_own_headers_and_counts_its_replays():
    first = replay(encode(provenance(), OWN))
    assert first.topic == "orders"
    assert first.headers == [*OWN, (PREFIX + "replays", b"1")]
    again = encode(provenance(first.headers), first.headers)
    assert decode(again).replays == 1
    assert sum(name == PREFIX + "replays" for name, _ in again) == 1
    assert replay(again, to="elsewhere").topic == "elsewhere"
    assert replay(again).headers[-1] == (PREFIX + "replays", b"2")


def test_a_record_that_fails_again_and_again_is_held_back():
    headers = encode(provenance([(PREFIX + "replays", b"5")]), [])
    with pytest.raises(NotReplayable, match=r"^orders-0 offset 41 was replayed 5 times and failed each time$"):
        replay(headers)
    assert replay(headers, max_replays=6).headers == [(PREFIX + "replays", b"6")]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        OWN,
        [(PREFIX + "source-topic", b"t")],
        [(name, b"x" if "offset" in name else value) for name, value in encode(provenance(), [])],
        [(name, None) for name, _ in encode(provenance(), [])],
    ],
)
def test_a_record_that_is_not_a_dead_letter_is_not_replayed(headers):
    assert decode(headers) is None
    with pytest.raises(NotReplayable, match="has no source headers"):
        replay(headers)


def test_a_replay_count_that_is_no_number_counts_as_none():
    for value in (b"-1", b"many", b"9" * 30, None):
        assert provenance([(PREFIX + "replays", value)]).replays == 0


def test_its_size_counts_key_value_and_headers():
    assert size_bytes(b"key", None, [("ab", b"cde"), ("f", None)]) == 3 + 5 + 1
