"""The bytes in which sticky members tell the leader what they had: user data of the subscription.

``sticky``: an array of (topic, array of partition indexes), then the generation; the first releases left the generation
out. ``cooperative-sticky``: the generation alone, since the subscription itself lists the owned partitions. All
integers are big endian: int16 for the length of a topic name, int32 for everything else. Bytes behind the known fields
are ignored.

User data comes from other members, of any version or make. What cannot be read counts as "had nothing": a member loses
stickiness for a round, the group does not lose its rebalance.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from seamark.assignors.contract import NO_GENERATION
from seamark.topic_partition import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def encode_owned(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    indexes_of: dict[str, list[int]] = {}
    for topic, index in sorted(set(partitions)):
        indexes_of.setdefault(topic, []).append(index)
    parts = [_INT32.pack(len(indexes_of))]
    for topic, indexes in indexes_of.items():
        name = topic.encode()
        parts += (_INT16.pack(len(name)), name, struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    parts.append(_INT32.pack(generation))
    return b"".join(parts)


def decode_owned(user_data: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """Owned partitions and their generation, from either version of the format."""
    if not user_data:
        return (), NO_GENERATION
    partitions: list[TopicPartition] = []
    try:
        (topic_count,) = _INT32.unpack_from(user_data)
        position = _INT32.size
        if topic_count < 0:
            return (), NO_GENERATION
        for _ in range(topic_count):
            (name_length,) = _INT16.unpack_from(user_data, position)
            position += _INT16.size
            if name_length < 0:
                return (), NO_GENERATION
            topic = str(user_data[position : position + name_length], "utf-8", "replace")
            position += name_length
            (index_count,) = _INT32.unpack_from(user_data, position)
            position += _INT32.size
            if index_count < 0:
                return (), NO_GENERATION
            indexes = struct.unpack_from(f">{index_count}i", user_data, position)
            position += index_count * _INT32.size
            partitions.extend(TopicPartition(topic, index) for index in indexes)
    except struct.error:
        return (), NO_GENERATION
    if len(user_data) - position < _INT32.size:
        return tuple(partitions), NO_GENERATION
    return tuple(partitions), int(_INT32.unpack_from(user_data, position)[0])


def encode_generation(generation: int) -> bytes:
    return _INT32.pack(generation)


def decode_generation(user_data: bytes | None) -> int:
    if user_data is None or len(user_data) < _INT32.size:
        return NO_GENERATION
    return int(_INT32.unpack_from(user_data)[0])
