"""Replay: the only code that changes what is stored, live and while loading.

The stored state is a map from keys to values. An offset's key is (group, topic, partition), a group's key is its
name; the value is the last record written under the key, a tombstone takes the key away. No record touches another
key: removing a group record leaves the group's offsets alone, and an offset without a group record is that of a
simple consumer. So the order of records matters only within a key, and a log that keeps just the last record of each
key replays to the same state.

A handler decides which records to write; nothing changes until the append is acknowledged and the very same records
come through here. Loading reads records from the log instead and comes through here as well. There is no third way
in.

>>> from seamark.coordinator.storing.records import GroupRemoved, GroupStored, OffsetCommitted, OffsetRemoved
>>> def commit(partition, offset):
...     return OffsetCommitted("g", "t", partition, offset, -1, "", 0)
>>> log = [commit(0, 100), commit(1, 7), GroupStored("g", "consumer", 1, None, None, 0), commit(0, 150), commit(0, 120),
...        OffsetRemoved("g", "t", 1)]
>>> groups = {}
>>> replay(groups, log)
>>> {key: record.offset for key, record in groups["g"].offsets.items()}, groups["g"].stored.generation
({('t', 0): 120}, 1)
>>> compacted = {}
>>> replay(compacted, [log[2], log[4], log[5]])
>>> stored_state(compacted) == stored_state(groups)
True
>>> replay(groups, [GroupRemoved("g")])
>>> sorted(stored_state(groups))
[('g', 't', 0)]
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.coordinator.membership.groups import Group
from seamark.coordinator.offsets.commit_patterns import RepeatedRecords
from seamark.coordinator.storing.records import GroupStored, OffsetCommitted, OffsetRemoved, Record, RecordKey


def replay(groups: dict[str, Group], records: Iterable[Record]) -> None:
    """Apply records in order to the stored state held by ``groups``."""
    if type(records) is RepeatedRecords:
        # What the loop below would do, one by one: these have one group, and their keys are known.
        group_id = records.pattern.group_id
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = Group(group_id)
        group.offsets.update(zip(records.pattern.keys, records))  # type: ignore[arg-type]  # noqa: B905
        return
    for record in records:
        group = groups.get(record.group_id)
        if type(record) is OffsetCommitted:
            if group is None:
                group = groups[record.group_id] = Group(record.group_id)
            group.offsets[record.topic, record.partition] = record
        elif type(record) is GroupStored:
            if group is None:
                group = groups[record.group_id] = Group(record.group_id)
            group.stored = record
        elif group is not None:
            if type(record) is OffsetRemoved:
                group.offsets.pop((record.topic, record.partition), None)
            else:
                group.stored = None


def stored_state(groups: dict[str, Group]) -> dict[RecordKey, Record]:
    """The stored state as a plain map, to compare a live shard with a replayed log."""
    state: dict[RecordKey, Record] = {}
    for group_id, group in groups.items():
        if group.stored is not None:
            state[(group_id,)] = group.stored
        for (topic, partition), record in group.offsets.items():
            state[(group_id, topic, partition)] = record
    return state
