"""What a record of ``__consumer_offsets`` says, whoever wrote it.

The first two bytes of a key are the record's type (Kafka calls them the key's version). Offset commits and classic
groups are decoded; the records of the newer group protocols are named and kept as they are; whatever this build
cannot read is kept as it is with the reason. ``decode_entry`` never raises for what is in a record, so one strange
record stops no reader.

A value of None is a tombstone: the key's entry was deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from seamark.errors import DecodeError
from seamark.wire.offsets.records import (
    LARGEST_PARTITION,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    decode_group_metadata_key,
    decode_group_metadata_value,
    decode_offset_commit_key,
    decode_offset_commit_value,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from seamark.wire.schema.codec import VERSION_BYTES, decode_from, version_of
from seamark.wire.schema.schema import Message, field, string

__all__ = [
    "NEWER_RECORDS",
    "Entry",
    "GroupEntry",
    "GroupMetadataValue",
    "MemberMetadata",
    "NewerEntry",
    "OffsetCommitEntry",
    "OffsetCommitValue",
    "UnreadableEntry",
    "decode_entry",
    "group_metadata_key",
    "group_metadata_value",
    "offset_commit_key",
    "offset_commit_value",
]

# The records that a coordinator keeps for the newer kinds of groups, by the number in front of their keys. Kafka 4.1 no
# longer writes 9 and 18; earlier releases left them in topics.
NEWER_RECORDS = {
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}


@dataclass(slots=True)
class OffsetCommitEntry:
    """A committed offset, or its deletion: then ``value`` and ``value_version`` are None."""

    group: str
    topic: str
    partition: int
    value: OffsetCommitValue | None
    value_version: int | None


@dataclass(slots=True)
class GroupEntry:
    """The state of a classic group, or its deletion: then ``value`` and ``value_version`` are None."""

    group: str
    value: GroupMetadataValue | None
    value_version: int | None


@dataclass(slots=True)
class NewerEntry:
    """A record of a newer group protocol, kept as it is; ``group`` is None if its key cannot be read."""

    name: str
    key_version: int
    group: str | None
    raw_key: bytes
    raw_value: bytes | None


@dataclass(slots=True)
class UnreadableEntry:
    """A record of a type or version that this build does not know, or one that says what cannot be."""

    reason: str
    raw_key: bytes | None
    raw_value: bytes | None


Entry = OffsetCommitEntry | GroupEntry | NewerEntry | UnreadableEntry


class _NewerKey(Message, versions="3-23"):
    """What all the newer keys start with; some have a member id or a pattern behind it."""

    group_id: str = field(string)


def decode_entry(key: bytes | None, value: bytes | None) -> Entry:
    """What the record says; what cannot be read comes back as an UnreadableEntry, not as an exception."""
    if key is None:
        return UnreadableEntry("the record has no key", key, value)
    try:
        kind = version_of(key, "key")
        if kind in (0, 1):
            group, topic, partition = decode_offset_commit_key(key)
            if not 0 <= partition <= LARGEST_PARTITION:
                return UnreadableEntry(f"partition number {partition} is invalid", key, value)
            if value is None:
                return OffsetCommitEntry(group, topic, partition, None, None)
            return OffsetCommitEntry(group, topic, partition, *decode_offset_commit_value(value))
        if kind == 2:
            group = decode_group_metadata_key(key)
            if value is None:
                return GroupEntry(group, None, None)
            return GroupEntry(group, *decode_group_metadata_value(value))
    except DecodeError as error:
        return UnreadableEntry(str(error), key, value)
    name = NEWER_RECORDS.get(kind)
    if name is None:
        return UnreadableEntry(f"{kind} is not a known record type", key, value)
    return NewerEntry(name, kind, _group_of(key, kind), key, value)


def _group_of(key: bytes, kind: int) -> str | None:
    try:
        return decode_from(_NewerKey, key, VERSION_BYTES, kind)[0].group_id
    except DecodeError:
        return None
