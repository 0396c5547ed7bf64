"""The hash that Kafka's producers place keys by: 32-bit murmur2 with Kafka's seed, over the key's bytes (J6).

Every client that writes to a topic must agree on it, or equal keys end up in different partitions.
"""

from __future__ import annotations

import struct
from functools import lru_cache

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=64)
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")


def murmur2(data: bytes) -> int:
    """The hash as Java has it, a signed 32-bit number.

    >>> murmur2(b"aaa"), murmur2(b"21"), murmur2(b"")
    (1941014727, -973932308, 275646681)
    """
    length = len(data)
    hashed = _SEED ^ length
    whole = length >> 2
    for word in _words(whole).unpack_from(data):
        word = word * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = (hashed * _M ^ word) & _MASK
    rest = data[whole << 2 :]
    if rest:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    hashed ^= hashed >> 15
    return hashed - 0x1_0000_0000 if hashed & 0x8000_0000 else hashed


def partition_for_key(key: bytes, count: int) -> int:
    """The key's partition: the hash without its sign bit, modulo the number of partitions.

    >>> [partition_for_key(b"21", count) for count in (3, 6, 10)]
    [0, 0, 0]
    """
    return (murmur2(key) & 0x7FFFFFFF) % count
