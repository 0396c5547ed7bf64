"""The loop that numba compiles for histories: what each record of an offsets partition finds before it.

Records pass in the order of their offsets. For each (group, topic, partition) the last record is kept in a slot, found
by hashing with linear probing; a group record puts its members' partitions into slots too, stamped with the record's
number, so that a partition is owned exactly if its slot carries the number of its group's last record.

Holes: ``GAP`` is the offset of the first record behind the last hole in the offsets. A record is complete if no hole
lies between it and the record before of its key: compaction cannot have removed one there. For the first record of a
key there must be no hole at all, the log's own start above 0 being one.

Everything a kernel refers to stands in this file; explicit loops only. The caller sees to it that tables have room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import register_jitable

# Kinds of records, as this loop sees them.
OTHER, COMMIT, COMMIT_TOMBSTONE, GROUP, GROUP_TOMBSTONE = range(5)

# Rows of the table of records: one column per record. ``FIRST`` and ``STOP`` are the places of a group record's
# partitions in the table of assigned ones.
AT, KIND, OF_GROUP, TOPIC, PARTITION, OFFSET, COMMIT_MS, GENERATION, MEMBERS, FIRST, STOP = range(11)
RECORD_FIELDS = 11

# Rows of the table of assigned partitions.
ASSIGNED_TOPIC, ASSIGNED_PARTITION, ASSIGNED_MEMBER = range(3)
ASSIGNED_FIELDS = 3

# Rows of the table of slots. SEEN_AT is -1 in a slot that only an assignment has made.
SLOT_GROUP, SLOT_TOPIC, SLOT_PARTITION, SEEN_AT, IS_GONE, LAST_OFFSET, LAST_MS, OWNED_IN, OWNER = range(9)
SLOT_FIELDS = 9

# Rows of the table of groups. RECORD is the number of the group's last record, 0 where none was seen.
RECORD, LAST_GENERATION, LAST_MEMBERS, GROUP_SEEN_AT = range(4)
GROUP_FIELDS = 4

# Marks that go from one call to the next.
SLOTS, RECORDS, EXPECTED, GAP = range(4)
MARKS = 4

# Rows of what is found. PREVIOUS_ROW is meaningful where HAS_PREVIOUS is 1.
COMPLETE, HAS_PREVIOUS, PREVIOUS_OFFSET, PREVIOUS_MS, ORIGIN, FOUND_GENERATION, FOUND_OWNER = range(7)
FOUND_FIELDS = 7
UNKNOWN, OUTSIDE, MEMBER = range(3)
NO_GENERATION = -(1 << 40)

_TABLE = types.int64[:, ::1]
_INT64S = types.int64[::1]


def _slot_of(index: Any, slots: Any, marks: Any, group: int, topic: int, partition: int) -> int:
    """The key's slot, made if there is none."""
    mask = len(index) - 1
    mixed = group * 0x9E3779B1 + topic * 0x85EBCA77 + partition * 0xC2B2AE3D
    mixed ^= mixed >> 31
    at = mixed & mask
    while index[at] >= 0:
        slot = index[at]
        is_same_topic = slots[SLOT_GROUP, slot] == group and slots[SLOT_TOPIC, slot] == topic
        if is_same_topic and slots[SLOT_PARTITION, slot] == partition:
            return slot  # type: ignore[no-any-return]
        at = (at + 1) & mask
    slot = marks[SLOTS]
    marks[SLOTS] += 1
    index[at] = slot
    slots[SLOT_GROUP, slot] = group
    slots[SLOT_TOPIC, slot] = topic
    slots[SLOT_PARTITION, slot] = partition
    slots[SEEN_AT, slot] = -1
    slots[IS_GONE, slot] = 0
    slots[OWNED_IN, slot] = 0
    slots[OWNER, slot] = -1
    return slot  # type: ignore[no-any-return]


slot_of: Callable[[Any, Any, Any, int, int, int], int] = register_jitable(_slot_of)


def _take_group(
    records: Any, row: int, assigned: Any, slots: Any, index: Any, groups: Any, marks: Any, derived: Any
) -> None:
    group = records[OF_GROUP, row]
    derived[COMPLETE, row] = 1 if marks[GAP] <= groups[GROUP_SEEN_AT, group] else 0
    marks[RECORDS] += 1
    is_gone = records[KIND, row] == GROUP_TOMBSTONE
    groups[RECORD, group] = marks[RECORDS]
    groups[LAST_GENERATION, group] = NO_GENERATION if is_gone else records[GENERATION, row]
    groups[LAST_MEMBERS, group] = 0 if is_gone else records[MEMBERS, row]
    groups[GROUP_SEEN_AT, group] = records[AT, row]
    for place in range(records[FIRST, row], records[STOP, row]):
        slot = slot_of(index, slots, marks, group, assigned[ASSIGNED_TOPIC, place], assigned[ASSIGNED_PARTITION, place])
        slots[OWNED_IN, slot] = marks[RECORDS]
        slots[OWNER, slot] = assigned[ASSIGNED_MEMBER, place]


take_group: Callable[..., None] = register_jitable(_take_group)


def _take_commit(records: Any, row: int, slots: Any, index: Any, groups: Any, marks: Any, derived: Any) -> None:
    group = records[OF_GROUP, row]
    slot = slot_of(index, slots, marks, group, records[TOPIC, row], records[PARTITION, row])
    seen_at = slots[SEEN_AT, slot]
    derived[COMPLETE, row] = 1 if marks[GAP] <= seen_at else 0
    derived[HAS_PREVIOUS, row] = 1 if seen_at >= 0 and slots[IS_GONE, slot] == 0 else 0
    derived[PREVIOUS_OFFSET, row] = slots[LAST_OFFSET, slot]
    derived[PREVIOUS_MS, row] = slots[LAST_MS, slot]
    derived[FOUND_OWNER, row] = -1
    derived[FOUND_GENERATION, row] = NO_GENERATION
    if groups[RECORD, group] == 0:
        derived[ORIGIN, row] = UNKNOWN
    else:
        derived[FOUND_GENERATION, row] = groups[LAST_GENERATION, group]
        if groups[LAST_MEMBERS, group] > 0 and slots[OWNED_IN, slot] == groups[RECORD, group]:
            derived[ORIGIN, row] = MEMBER
            derived[FOUND_OWNER, row] = slots[OWNER, slot]
        else:
            derived[ORIGIN, row] = OUTSIDE
    slots[SEEN_AT, slot] = records[AT, row]
    slots[IS_GONE, slot] = 1 if records[KIND, row] == COMMIT_TOMBSTONE else 0
    slots[LAST_OFFSET, slot] = records[OFFSET, row]
    slots[LAST_MS, slot] = records[COMMIT_MS, row]


take_commit: Callable[..., None] = register_jitable(_take_commit)

FOLLOW = types.int64(_TABLE, _TABLE, _TABLE, _INT64S, _TABLE, _INT64S, _TABLE)


def follow(records: Any, assigned: Any, slots: Any, index: Any, groups: Any, marks: Any, derived: Any) -> int:
    """Let the records pass; gives the number of slots in use."""
    for row in range(records.shape[1]):
        at = records[AT, row]
        if at > marks[EXPECTED]:
            marks[GAP] = at
        if at >= marks[EXPECTED]:
            marks[EXPECTED] = at + 1
        kind = records[KIND, row]
        if kind in (COMMIT, COMMIT_TOMBSTONE):
            take_commit(records, row, slots, index, groups, marks, derived)
        elif kind in (GROUP, GROUP_TOMBSTONE):
            take_group(records, row, assigned, slots, index, groups, marks, derived)
    return marks[SLOTS]  # type: ignore[no-any-return]


RECALL = types.int64(_TABLE, _INT64S, _INT64S, _TABLE)


def recall(kept: Any, index: Any, marks: Any, slots: Any) -> int:
    """Put kept keys (rows as in the table of slots) into empty slots, and all slots into a new index."""
    for number in range(kept.shape[1]):
        slot = slot_of(
            index, slots, marks, kept[SLOT_GROUP, number], kept[SLOT_TOPIC, number], kept[SLOT_PARTITION, number]
        )
        for field in range(SEEN_AT, SLOT_FIELDS):
            slots[field, slot] = kept[field, number]
    return marks[SLOTS]  # type: ignore[no-any-return]
