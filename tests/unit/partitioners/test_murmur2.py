"""The key hash: Kafka's values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.partitioners import murmur2, partition_for_key


# covers: J6
@pytest.mark.parametrize(
    ("key", "hashed", "modulo_3", "modulo_6", "modulo_10"),
    [
        (b"aaa", 1941014727, 0, 3, 7),
        (b"demoTopic", 690038779, 1, 1, 9),
        (b"21", -973932308, 0, 0, 0),
        (b"foobar", -790332482, 0, 0, 6),
        (b"", 275646681, 0, 3, 1),
    ],
)
def test_hash_and_partition_are_kafkas(key, hashed, modulo_3, modulo_6, modulo_10):
    assert murmur2(key) == hashed
    assert [partition_for_key(key, count) for count in (3, 6, 10)] == [modulo_3, modulo_6, modulo_10]


def plain_murmur2(data):
    """The algorithm byte by byte, as its description reads."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    for i in range(0, len(data) - len(data) % 4, 4):
        k = data[i] | data[i + 1] << 8 | data[i + 2] << 16 | data[i + 3] << 24
        k = k * m & mask
        k ^= k >> 24
        k = k * m & mask
        h = h * m & mask
        h ^= k
    tail = data[len(data) - len(data) % 4 :]
    for i in reversed(range(len(tail))):
        h ^= tail[i] << 8 * i
    if tail:
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


@given(st.binary(max_size=300))
def test_the_hash_equals_the_plain_algorithm(key):
    assert murmur2(key) == plain_murmur2(key)


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_a_key_has_a_partition_of_the_topic(key, count):
    assert 0 <= partition_for_key(key, count) < count
