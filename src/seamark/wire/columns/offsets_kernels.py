"""The loops that numba compiles for ``__consumer_offsets``: where in the bytes of many records their fields are.

A kernel copies no text: it finds positions and numbers, and Arrow cuts the columns out. It takes a record only if it is
plain and whole to the last byte; everything else it marks as ``SLOW``, and ``decode_entry`` has the last word, so both
always say the same.

Invariant: no byte is read at a place that was not compared with the end of its record first. Everything a kernel refers
to stands in this file or in ``kernels``, which changes less often than numba's cache lives; explicit loops only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import register_jitable

from seamark.wire.columns import kernels
from seamark.wire.offsets.records import LARGEST_PARTITION

byte_at: Callable[[Any, int], int] = kernels.byte_at

# Kinds of records.
COMMIT, COMMIT_TOMBSTONE, GROUP, GROUP_TOMBSTONE, NEWER, SLOW = range(6)

# Rows of the table that ``scan_entries`` fills: one column per record. Positions count from the start of the buffer.
(
    KIND, GROUP_AT, GROUP_SIZE, TOPIC_AT, TOPIC_SIZE, PARTITION, OFFSET, EPOCH, METADATA_AT, METADATA_SIZE, COMMIT_MS,
    EXPIRE_MS, VERSION, TOPIC_ID_AT,
) = range(14)  # fmt: skip
ENTRY_FIELDS = 14

# Rows of the table of groups, and of the table of their members.
(
    PROTOCOL_TYPE_AT, PROTOCOL_TYPE_SIZE, GENERATION, PROTOCOL_AT, PROTOCOL_SIZE, LEADER_AT, LEADER_SIZE, STATE_MS,
    MEMBERS, GROUP_VERSION,
) = range(10)  # fmt: skip
GROUP_FIELDS = 10
(
    OF_GROUP, MEMBER_AT, MEMBER_SIZE, INSTANCE_AT, INSTANCE_SIZE, CLIENT_AT, CLIENT_SIZE, HOST_AT, HOST_SIZE,
    REBALANCE_MS, SESSION_MS, SUBSCRIPTION_AT, SUBSCRIPTION_SIZE, ASSIGNMENT_AT, ASSIGNMENT_SIZE,
) = range(15)  # fmt: skip
MEMBER_FIELDS = 15

# Rows of the table of assigned partitions.
OF_MEMBER, ASSIGNED_TOPIC_AT, ASSIGNED_TOPIC_SIZE, ASSIGNED_PARTITION = range(4)
ASSIGNED_FIELDS = 4

_NEWEST_KIND = 23
_SOURCE = types.Array(types.uint8, 1, "C", readonly=True)
_INT64S = types.int64[::1]
_TABLE = types.int64[:, ::1]
_INT64 = types.int64


def _int16(source: Any, at: int) -> int:
    number = (byte_at(source, at) << 8) | byte_at(source, at + 1)
    return number - 0x10000 if number & 0x8000 else number


int16: Callable[[Any, int], int] = register_jitable(_int16)


def _int32(source: Any, at: int) -> int:
    number = (
        (byte_at(source, at) << 24)
        | (byte_at(source, at + 1) << 16)
        | (byte_at(source, at + 2) << 8)
        | byte_at(source, at + 3)
    )
    return number - 0x1_0000_0000 if number & 0x8000_0000 else number


int32: Callable[[Any, int], int] = register_jitable(_int32)


def _int64(source: Any, at: int) -> int:
    high = int32(source, at)
    return (high << 32) | (int32(source, at + 4) & 0xFFFF_FFFF)


int64: Callable[[Any, int], int] = register_jitable(_int64)


def _text_size(source: Any, at: int, end: int) -> int:
    """The size of the string whose 16-bit length is at ``at``; -1 is null, -2 that it is not whole."""
    if end - at < 2:
        return -2
    size = int16(source, at)
    if size < -1 or size > end - at - 2:
        return -2
    return size


text_size: Callable[[Any, int, int], int] = register_jitable(_text_size)


def _bytes_size(source: Any, at: int, end: int) -> int:
    """As ``text_size``, of bytes with a 32-bit length."""
    if end - at < 4:
        return -2
    size = int32(source, at)
    if size < -1 or size > end - at - 4:
        return -2
    return size


bytes_size: Callable[[Any, int, int], int] = register_jitable(_bytes_size)


def _scan_key(keys: Any, at: int, end: int, entries: Any, row: int) -> int:
    """The kind of the record as far as its key says."""
    if end - at < 2:
        return SLOW
    kind = int16(keys, at)
    if kind < 0 or kind > _NEWEST_KIND:
        return SLOW
    if kind > 2:
        return NEWER
    at += 2
    size = text_size(keys, at, end)
    if size < 0:
        return SLOW
    entries[GROUP_AT, row] = at + 2
    entries[GROUP_SIZE, row] = size
    at += 2 + size
    if kind == 2:
        return GROUP if at == end else SLOW
    size = text_size(keys, at, end)
    if size < 0 or end - at - 2 - size != 4:
        return SLOW
    entries[TOPIC_AT, row] = at + 2
    entries[TOPIC_SIZE, row] = size
    partition = int32(keys, at + 2 + size)
    if partition < 0 or partition > LARGEST_PARTITION:
        return SLOW
    entries[PARTITION, row] = partition
    return COMMIT


scan_key: Any = register_jitable(_scan_key)


def _scan_commit(values: Any, at: int, end: int, entries: Any, row: int) -> int:
    if end - at < 2:
        return SLOW
    version = int16(values, at)
    at += 2
    if version < 1 or version > 4 or end - at < 12:
        return SLOW
    entries[VERSION, row] = version
    entries[OFFSET, row] = int64(values, at)
    at += 8
    entries[EPOCH, row] = -1
    entries[EXPIRE_MS, row] = -1
    entries[TOPIC_ID_AT, row] = -1
    if version >= 3:
        entries[EPOCH, row] = int32(values, at)
        at += 4
    if version < 4:
        size = text_size(values, at, end)
        at += 2
    else:
        # A length of one or two bytes, one more than the text has; longer ones are not plain.
        if end - at < 2:
            return SLOW
        size = byte_at(values, at)
        at += 1
        if size >= 0x80:
            high = byte_at(values, at)
            at += 1
            if high == 0 or high >= 0x80:
                return SLOW
            size = (size & 0x7F) | (high << 7)
        size -= 1
    if size < 0 or size > end - at:
        return SLOW
    entries[METADATA_AT, row] = at
    entries[METADATA_SIZE, row] = size
    at += size
    if end - at < 8:
        return SLOW
    entries[COMMIT_MS, row] = int64(values, at)
    at += 8
    if version == 1:
        if end - at != 8:
            return SLOW
        entries[EXPIRE_MS, row] = int64(values, at)
        return COMMIT
    if version < 4:
        return COMMIT if at == end else SLOW
    if end - at == 1 and byte_at(values, at) == 0:
        return COMMIT
    # One tagged field: number 0, of 16 bytes, the topic's id.
    if end - at == 19 and byte_at(values, at) == 1 and byte_at(values, at + 1) == 0 and byte_at(values, at + 2) == 16:
        entries[TOPIC_ID_AT, row] = at + 3
        return COMMIT
    return SLOW


scan_commit: Any = register_jitable(_scan_commit)

SCAN_ENTRIES = types.int64(_SOURCE, _INT64S, _INT64S, _SOURCE, _INT64S, _INT64S, _TABLE)


def scan_entries(
    keys: Any, key_starts: Any, key_sizes: Any, values: Any, value_starts: Any, value_sizes: Any, entries: Any
) -> int:
    """Fill one column of ``entries`` per record; a size of -1 is null. Returns how many are not ``SLOW``."""
    plain = 0
    for row in range(key_starts.shape[0]):
        kind = SLOW
        begin = key_starts[row]
        size = key_sizes[row]
        if size >= 0 and begin >= 0 and begin + size <= keys.shape[0]:
            kind = scan_key(keys, begin, begin + size, entries, row)
        begin = value_starts[row]
        size = value_sizes[row]
        if kind == COMMIT:
            if size < 0:
                kind = COMMIT_TOMBSTONE
            elif begin >= 0 and begin + size <= values.shape[0]:
                kind = scan_commit(values, begin, begin + size, entries, row)
            else:
                kind = SLOW
        elif kind == GROUP and size < 0:
            kind = GROUP_TOMBSTONE
        entries[KIND, row] = kind
        if kind != SLOW:
            plain += 1
    return plain


SCAN_GROUPS = types.int64(_SOURCE, _INT64S, _INT64S, _TABLE, _TABLE)


def scan_groups(values: Any, starts: Any, sizes: Any, groups: Any, members: Any) -> int:
    """Fill ``groups`` and, as far as there is room, ``members``; returns how many members there are in all.

    A group that is not plain has -1 in ``MEMBERS``. Called twice: with no room to count, then with room.
    """
    count = 0
    for row in range(starts.shape[0]):
        groups[MEMBERS, row] = -1
        at = starts[row]
        end = at + sizes[row]
        if at < 0 or sizes[row] < 2 or end > values.shape[0]:
            continue
        version = int16(values, at)
        at += 2
        if version < 0 or version > 3:
            continue
        size = text_size(values, at, end)
        if size < 0:
            continue
        groups[PROTOCOL_TYPE_AT, row] = at + 2
        groups[PROTOCOL_TYPE_SIZE, row] = size
        at += 2 + size
        if end - at < 4:
            continue
        groups[GENERATION, row] = int32(values, at)
        at += 4
        size = text_size(values, at, end)
        if size < -1:
            continue
        groups[PROTOCOL_AT, row] = at + 2
        groups[PROTOCOL_SIZE, row] = size
        at += 2 + max(size, 0)
        size = text_size(values, at, end)
        if size < -1:
            continue
        groups[LEADER_AT, row] = at + 2
        groups[LEADER_SIZE, row] = size
        at += 2 + max(size, 0)
        groups[STATE_MS, row] = -1
        if version >= 2:
            if end - at < 8:
                continue
            groups[STATE_MS, row] = int64(values, at)
            at += 8
        if end - at < 4:
            continue
        expected = int32(values, at)
        at += 4
        # The shortest member has 20 bytes; more members than fit are not plain.
        if expected < 0 or expected > (end - at) // 18:
            continue
        first = count
        for _ in range(expected):
            at = scan_member(values, at, end, version, members, count, row)
            if at < 0:
                break
            count += 1
        if at != end:
            count = first
            continue
        groups[MEMBERS, row] = expected
        groups[GROUP_VERSION, row] = version
    return count


def _keep(table: Any, field: int, place: int, number: int) -> None:
    if place < table.shape[1]:
        table[field, place] = number


keep: Any = register_jitable(_keep)


def _scan_member(values: Any, at: int, end: int, version: int, members: Any, place: int, row: int) -> int:
    """Note one member at ``place`` if there is room; the position behind it, or -1 if it is not plain."""
    keep(members, OF_GROUP, place, row)
    size = text_size(values, at, end)
    if size < 0:
        return -1
    keep(members, MEMBER_AT, place, at + 2)
    keep(members, MEMBER_SIZE, place, size)
    at += 2 + size
    keep(members, INSTANCE_AT, place, at)
    keep(members, INSTANCE_SIZE, place, -1)
    if version >= 3:
        size = text_size(values, at, end)
        if size < -1:
            return -1
        keep(members, INSTANCE_AT, place, at + 2)
        keep(members, INSTANCE_SIZE, place, size)
        at += 2 + max(size, 0)
    size = text_size(values, at, end)
    if size < 0:
        return -1
    keep(members, CLIENT_AT, place, at + 2)
    keep(members, CLIENT_SIZE, place, size)
    at += 2 + size
    size = text_size(values, at, end)
    if size < 0:
        return -1
    keep(members, HOST_AT, place, at + 2)
    keep(members, HOST_SIZE, place, size)
    at += 2 + size
    keep(members, REBALANCE_MS, place, -1)
    if version >= 1:
        if end - at < 4:
            return -1
        keep(members, REBALANCE_MS, place, int32(values, at))
        at += 4
    if end - at < 4:
        return -1
    keep(members, SESSION_MS, place, int32(values, at))
    at += 4
    size = bytes_size(values, at, end)
    if size < 0:
        return -1
    keep(members, SUBSCRIPTION_AT, place, at + 4)
    keep(members, SUBSCRIPTION_SIZE, place, size)
    at += 4 + size
    size = bytes_size(values, at, end)
    if size < 0:
        return -1
    keep(members, ASSIGNMENT_AT, place, at + 4)
    keep(members, ASSIGNMENT_SIZE, place, size)
    return at + 4 + size


scan_member: Any = register_jitable(_scan_member)

SCAN_ASSIGNMENTS = types.int64(_SOURCE, _INT64S, _INT64S, _TABLE)


def scan_assignments(source: Any, starts: Any, sizes: Any, assigned: Any) -> int:
    """Note the partitions in consumers' assignments as far as there is room; returns how many there are in all.

    What is not an assignment of the consumer protocol counts as none: its bytes are kept beside it.
    """
    count = 0
    for member in range(starts.shape[0]):
        at = starts[member]
        end = at + sizes[member]
        if at < 0 or sizes[member] < 6 or end > source.shape[0] or int16(source, at) < 0:
            continue
        topics = int32(source, at + 2)
        at += 6
        first = count
        is_whole = topics >= 0
        for _ in range(max(topics, 0)):
            size = text_size(source, at, end)
            if size < 0 or end - at - 2 - size < 4:
                is_whole = False
                break
            topic_at = at + 2
            at += 2 + size
            partitions = int32(source, at)
            at += 4
            if partitions < 0 or partitions > (end - at) // 4:
                is_whole = False
                break
            for _ in range(partitions):
                keep(assigned, OF_MEMBER, count, member)
                keep(assigned, ASSIGNED_TOPIC_AT, count, topic_at)
                keep(assigned, ASSIGNED_TOPIC_SIZE, count, size)
                keep(assigned, ASSIGNED_PARTITION, count, int32(source, at))
                at += 4
                count += 1
        if not is_whole:
            count = first
    return count
