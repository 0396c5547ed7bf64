"""Which partition of the offsets topic a group belongs to (B3, B4).

Kafka's form: the absolute value of Java's string hash, with that of the smallest integer taken as 0, modulo the
partition count. The broker that leads the partition coordinates the group (B5).
"""

from __future__ import annotations

from functools import lru_cache

_SMALLEST_INT32 = -(2**31)


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``, over UTF-16 code units as Java counts them.

    >>> java_string_hash("my-group")
    -1906497762
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(maxsize=16_384)  # the hash costs microseconds and a busy group is looked up with every request
def partition_for(group_id: str, partition_count: int) -> int:
    """The offsets partition of a group.

    >>> partition_for("demoGroup", 50), partition_for("polygenelubricants", 50)
    (38, 0)
    """
    value = java_string_hash(group_id)
    return 0 if value == _SMALLEST_INT32 else abs(value) % partition_count
