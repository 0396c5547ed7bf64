"""Which partition of the offsets topic a group belongs to (B3, B4).

Kafka's form: the absolute value of Java's string hash, with that of the smallest integer taken as 0, modulo the
partition count. The broker that leads the partition coordinates the group (B5).
"""

from __future__ import annotations

import sys
from array import array
from functools import lru_cache
from operator import mul

_SMALLEST_INT32 = -(2**31)
# A hash is taken of so many code units at once; each counts 31 times as much as the one behind it.
_BLOCK = 1024
_POWERS = tuple(pow(31, position, 2**32) for position in range(_BLOCK + 1))
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
# Names longer than this are hashed each time: what is kept must be small, and anybody can make up names.
_LONGEST_KEPT = 255


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``, over UTF-16 code units as Java counts them.

    >>> java_string_hash("my-group")
    -1906497762
    """
    value = 0
    units = array("H", text.encode(_UTF_16, "surrogatepass"))
    for start in range(0, len(units), _BLOCK):
        block = units[start : start + _BLOCK]
        value = (value * _POWERS[len(block)] + sum(map(mul, reversed(block), _POWERS))) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """The offsets partition of a group.

    >>> partition_for("demoGroup", 50), partition_for("polygenelubricants", 50)
    (38, 0)
    """
    if len(group_id) > _LONGEST_KEPT:
        return _partition_for(group_id, partition_count)
    return _kept_partition_for(group_id, partition_count)


def _partition_for(group_id: str, partition_count: int) -> int:
    value = java_string_hash(group_id)
    return 0 if value == _SMALLEST_INT32 else abs(value) % partition_count


# The hash costs microseconds, and a busy group is looked up with every request.
_kept_partition_for = lru_cache(maxsize=16_384)(_partition_for)
