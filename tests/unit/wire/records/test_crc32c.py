"""The checksum is the one that Kafka means, whichever package computes it."""

import pytest

from seamark.wire.records.crc32c import crc32c

# The examples of RFC 3720, appendix B.4, and the check value of the catalogues.
KNOWN = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


def bit_by_bit(content: bytes) -> int:
    """The definition: no table, no word larger than a bit."""
    state = 0xFFFFFFFF
    for byte in content:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(("content", "checksum"), KNOWN)
def test_known_bytes_have_the_published_checksum(content, checksum):
    assert crc32c(content) == checksum


# Packages take another way from some length on: by bytes, by words, by vectors.
@pytest.mark.parametrize("length", [1, 7, 15, 16, 63, 64, 127, 128, 255, 256, 257, 1023, 1024, 4099])
def test_every_length_has_the_checksum_of_the_definition(length):
    content = bytes((number * 131 + length) & 0xFF for number in range(length + 3))
    assert crc32c(memoryview(content)[3:]) == bit_by_bit(content[3:])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda content: memoryview(bytearray(content))])
def test_bytes_of_any_kind_have_the_same_checksum(kind):
    assert crc32c(kind(b"123456789")) == 0xE3069283


@pytest.mark.parametrize("cut", [0, 1, 8, 99, 300])
def test_a_checksum_goes_on_from_that_of_the_bytes_before(cut):
    content = bytes(range(256)) * 2
    assert crc32c(content[cut:], crc32c(content[:cut])) == crc32c(content)
