"""The records of ``__consumer_offsets`` that classic groups have: a committed offset, and a group with its members.

A committed offset, in versions 0 to 4 of its value: v0 offset, metadata, commit time · v1 adds an expiry time (and is
still what a commit with a retention time is stored as) · v2 drops it again · v3 adds the leader epoch · v4 is flexible
and may carry the topic id as tag 0. Keys of version 0 and 1 have the same fields; version 1 is what every broker since
0.8.2 writes. A broker writes and reads one of these per committed partition, so the newest forms have hand-written
code. It only takes the plain case and hands everything else, wrong values included, to the compiled codecs: both always
give the same result.

A group: who its members are, and what each was given. v1 adds the rebalance timeout · v2 the time of the last state
change · v3 the instance id of static members · v4 is flexible. Version 3 is what Kafka writes since 2.3, 4.3 included.
A group without members has no protocol and no leader.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from seamark.wire.schema.codec import decode_versioned, encode_versioned
from seamark.wire.schema.primitives import MAX_STRING, SMALL, SMALL_VARINTS
from seamark.wire.schema.schema import ZERO_UUID, Message, Struct, array, bytes_, field, int32, int64, string, uuid

KEY_VERSION = 1
VALUE_VERSION = 4
EXPIRING_VALUE_VERSION = 1
GROUP_KEY_VERSION = 2
GROUP_VALUE_VERSION = 3

# A topic's count of partitions is an int32, so its last partition has at most this number.
LARGEST_PARTITION = 2**31 - 2

NO_EPOCH = -1
NO_EXPIRY = -1


class OffsetCommitKey(Message, versions="0-1"):
    group: str = field(string)
    topic: str = field(string)
    partition: int = field(int32)


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """``expire_timestamp`` is -1 where the broker's retention decides; ``topic_id`` is zero where it is not known."""

    offset: int = field(int64)
    leader_epoch: int = field(int32, versions="3+", default=NO_EPOCH, ignorable=True)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)
    expire_timestamp: int = field(int64, versions="1", default=NO_EXPIRY, ignorable=True)
    topic_id: bytes = field(uuid, versions="4+", tag=0, default=ZERO_UUID, ignorable=True)


_pack_two_shorts = struct.Struct(">hh").pack
_pack_short = struct.Struct(">H").pack
_pack_int = struct.Struct(">i").pack
_pack_v4_head = struct.Struct(">hqi").pack
_pack_v4_tail = struct.Struct(">qx").pack
_unpack_v4_head = struct.Struct(">hqiB").unpack_from
_unpack_v4_tail = struct.Struct(">qB").unpack_from
_unpack_two_shorts = struct.Struct(">hh").unpack_from
_unpack_short = struct.Struct(">h").unpack_from
_unpack_int = struct.Struct(">i").unpack_from
_V4_HEAD = 15
_V4_TAIL = 9
_new: Any = object.__new__

# What the hand-written code stumbles over; the compiled codec then says which field is wrong, or knows better.
_NOT_PLAIN = (struct.error, TypeError, ValueError, AttributeError, IndexError)


def offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    try:
        group_bytes = group.encode()
        topic_bytes = topic.encode()
        if len(topic_bytes) <= MAX_STRING:
            return b"".join(
                (
                    _pack_two_shorts(KEY_VERSION, len(group_bytes)),
                    group_bytes,
                    _pack_short(len(topic_bytes)),
                    topic_bytes,
                    _pack_int(partition),
                )
            )
    except _NOT_PLAIN:
        pass
    return encode_versioned(OffsetCommitKey(group=group, topic=topic, partition=partition), KEY_VERSION)


def offset_commit_value(
    offset: int,
    metadata: str,
    commit_timestamp: int,
    *,
    leader_epoch: int = NO_EPOCH,
    expire_timestamp: int = NO_EXPIRY,
    topic_id: bytes = ZERO_UUID,
    version: int | None = None,
) -> bytes:
    """The value as Kafka 4.1 and later store it: version 4, or version 1 if there is an expiry time.

    With a ``version`` it is written in that one. Fields that a version does not have are left out, as brokers do.
    """
    if version is None:
        version = VALUE_VERSION if expire_timestamp == NO_EXPIRY else EXPIRING_VALUE_VERSION
    if version == 4 and topic_id == ZERO_UUID:
        try:
            text = metadata.encode()
            size = len(text) + 1
            if size < SMALL:
                return b"".join(
                    (
                        _pack_v4_head(4, offset, leader_epoch),
                        SMALL_VARINTS[size],
                        text,
                        _pack_v4_tail(commit_timestamp),
                    )
                )
        except _NOT_PLAIN:
            pass
    return encode_versioned(
        OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
            expire_timestamp=expire_timestamp,
            topic_id=topic_id,
        ),
        version,
    )


def decode_offset_commit_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition of a key of version 0 or 1."""
    try:
        version, group_size = _unpack_two_shorts(key, 0)
        group_end = 4 + group_size
        topic_start = group_end + 2
        topic_end = topic_start + _unpack_short(key, group_end)[0]
        if group_size >= 0 and topic_end >= topic_start and topic_end + 4 == len(key) and version in (0, 1):
            group, topic = str(key[4:group_end], "utf-8"), str(key[topic_start:topic_end], "utf-8")
            return group, topic, _unpack_int(key, topic_end)[0]
    except _NOT_PLAIN:
        pass
    message, _ = decode_versioned(OffsetCommitKey, key)
    return message.group, message.topic, message.partition


def decode_offset_commit_value(value: bytes) -> tuple[OffsetCommitValue, int]:
    """The committed offset, and the version it was stored in."""
    try:
        version, offset, leader_epoch, size = _unpack_v4_head(value, 0)
        if version == 4 and size > 0:
            start = _V4_HEAD
            if size > 127:
                high = value[_V4_HEAD]
                # A third byte, or a zero that only pads: let the compiled decoder judge.
                size = size & 127 | high << 7 if 0 < high < 128 else 1 << 31
                start += 1
            end = start + size - 1
            if end + _V4_TAIL == len(value):
                commit_timestamp, tags = _unpack_v4_tail(value, end)
                if tags == 0:
                    plain: OffsetCommitValue = _new(OffsetCommitValue)
                    plain.offset = offset
                    plain.leader_epoch = leader_epoch
                    plain.metadata = str(value[start:end], "utf-8")
                    plain.commit_timestamp = commit_timestamp
                    plain.expire_timestamp = NO_EXPIRY
                    plain.topic_id = ZERO_UUID
                    plain.unknown_tags = ()
                    return plain, 4
    except _NOT_PLAIN:
        pass
    return decode_versioned(OffsetCommitValue, value)


class GroupMetadataKey(Message, versions="2"):
    group: str = field(string)


class MemberMetadata(Struct):
    """``subscription`` and ``assignment`` are opaque here; ``protocol.consumer_protocol`` reads consumers' ones."""

    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout: int = field(int32, versions="1+", default=-1, ignorable=True)
    session_timeout: int = field(int32)
    subscription: bytes = field(bytes_)
    assignment: bytes = field(bytes_)


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """Timeouts and times are in milliseconds; ``current_state_timestamp`` is -1 where the version has none."""

    protocol_type: str = field(string)
    generation: int = field(int32)
    protocol: str | None = field(string, nullable="0+")
    leader: str | None = field(string, nullable="0+")
    current_state_timestamp: int = field(int64, versions="2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field(array(MemberMetadata))


def group_metadata_key(group: str) -> bytes:
    return encode_versioned(GroupMetadataKey(group=group), GROUP_KEY_VERSION)


def group_metadata_value(
    *,
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    current_state_timestamp: int,
    members: Sequence[MemberMetadata],
    version: int = GROUP_VALUE_VERSION,
) -> bytes:
    """The value as Kafka 4.3 stores it; in another ``version``, the fields that one lacks are left out."""
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=current_state_timestamp,
        members=list(members),
    )
    return encode_versioned(value, version)


def decode_group_metadata_key(key: bytes) -> str:
    return decode_versioned(GroupMetadataKey, key)[0].group


def decode_group_metadata_value(value: bytes) -> tuple[GroupMetadataValue, int]:
    """The group, and the version it was stored in."""
    return decode_versioned(GroupMetadataValue, value)
