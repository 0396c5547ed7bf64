"""What is stored: the four kinds of record an offsets-topic partition holds, as values.

A commit record is also the entry of the offsets table, so replaying it stores the object itself. Each kind has a key;
of all records with one key only the last counts, and no record changes the meaning of another key. That is why
replaying a compacted log gives the same state as replaying the whole one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NO_EXPIRY = -1


class OffsetCommitted(NamedTuple):
    """F6. ``expire_ms`` is -1 unless the commit carried a retention time (v2 to v4); then there is no epoch.

    A tuple, because it is made for every partition of every commit.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY


@dataclass(slots=True)
class OffsetRemoved:
    group_id: str
    topic: str
    partition: int


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(slots=True)
class GroupStored:
    """A generation of a group; without members the group is Empty since ``state_ms`` (-1: not known)."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[StoredMember, ...] = ()


@dataclass(slots=True)
class GroupRemoved:
    group_id: str


Record = OffsetCommitted | OffsetRemoved | GroupStored | GroupRemoved
RecordKey = tuple[str] | tuple[str, str, int]


def record_key(record: Record) -> RecordKey:
    """The identity under which the log is compacted: (group,) or (group, topic, partition)."""
    if isinstance(record, OffsetCommitted | OffsetRemoved):
        return (record.group_id, record.topic, record.partition)
    return (record.group_id,)


def is_tombstone(record: Record) -> bool:
    return isinstance(record, OffsetRemoved | GroupRemoved)
