"""Places of numbers in an encoding are found by encoding twice."""

import struct

import pytest

from seamark.wire.protocol.template import gaps_between


@pytest.mark.parametrize("width", [1, 2, 8])
def test_each_place_of_a_number_is_found(width):
    parts = [b"ab", b"", b"\x00" * 9, b"\xff" * 9, b"z"]
    encodings = [b"-".join(parts).replace(b"-", b"|" + filling * width + b"|") for filling in (b"\x00", b"\xff")]
    found = gaps_between(*encodings, width)
    assert len(found) == len(parts) - 1
    assert all(encodings[1][place : place + width] == b"\xff" * width for place in found)


def test_equal_encodings_have_no_gap():
    assert gaps_between(b"same", b"same", 8) == []


def test_a_number_without_a_fixed_width_has_no_place():
    with pytest.raises(ValueError, match="no fixed width"):
        gaps_between(struct.pack(">q", 0), struct.pack(">q", -1) + b"x", 8)
