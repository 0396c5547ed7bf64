"""The record of a classic consumer group in ``__consumer_offsets``: who its members are, and what each was given.

v1 adds the rebalance timeout · v2 the time of the last state change · v3 the instance id of static members · v4 is
flexible. Version 3 is what Kafka writes since 2.3, 4.3 included. A group without members has no protocol and no
leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.wire.schema.schema import Message, Struct, array, bytes_, field, int32, int64, string
from seamark.wire.schema.versioned import decode_versioned, encode_versioned

KEY_VERSION = 2
VALUE_VERSION = 3


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
    return encode_versioned(GroupMetadataKey(group=group), KEY_VERSION)


def group_metadata_value(
    *,
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    current_state_timestamp: int,
    members: Sequence[MemberMetadata],
    version: int = VALUE_VERSION,
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
