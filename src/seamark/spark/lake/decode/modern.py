"""Records of the newer consumer groups (KIP-848) as rows: the key's names, and the value's fields as JSON.

Kafka keeps a group of the newer protocol as several records: its epoch, its members, the assignment that it is moving
to and what each member has. Share and streams groups have records of their own, which are kept as they are. Values are
all of version 0 so far; a record of another version, or one that is damaged, is told apart with the reason.
"""

from __future__ import annotations

import json
import uuid as uuids
from typing import Any, NamedTuple

from seamark.errors import DecodeError
from seamark.wire.schema.codec import decode_versioned, version_of
from seamark.wire.schema.schema import Fixed, Message, Struct, array, bytes_, field, int8, int32, int64, string, uuid


class _GroupKey(Message, versions="3-6"):
    group: str = field(string)


class _MemberKey(Message, versions="5-8"):
    group: str = field(string)
    member: str = field(string)


class _PatternKey(Message, versions="16"):
    group: str = field(string)
    regular_expression: str = field(string)


class _Partitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


class _Racks(Struct):
    partition: int = field(int32)
    racks: list[str] = field(array(string))


class _Topic(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    num_partitions: int = field(int32)
    partition_metadata: list[_Racks] = field(array(_Racks))


class _Protocol(Struct):
    name: str = field(string)
    metadata: bytes = field(bytes_)


class _ClassicMember(Struct):
    session_timeout_ms: int = field(int32)
    supported_protocols: list[_Protocol] = field(array(_Protocol))


class _Epoch(Message, versions="0", flexible="0+"):
    """``metadata_hash`` since Kafka 4.1: of the topics that the group is subscribed to."""

    epoch: int = field(int32)
    metadata_hash: int = field(int64, tag=0, ignorable=True)


class _Topics(Message, versions="0", flexible="0+"):
    """No longer written since Kafka 4.1."""

    topics: list[_Topic] = field(array(_Topic))


class _MemberMetadata(Message, versions="0", flexible="0+"):
    instance_id: str | None = field(string, nullable="0+")
    rack_id: str | None = field(string, nullable="0+")
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+")
    rebalance_timeout_ms: int = field(int32, default=-1)
    server_assignor: str | None = field(string, nullable="0+")
    classic_member_metadata: _ClassicMember | None = field(_ClassicMember, nullable="0+", default=None, tag=0)


class _TargetEpoch(Message, versions="0", flexible="0+"):
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0, ignorable=True)


class _Target(Message, versions="0", flexible="0+"):
    topic_partitions: list[_Partitions] = field(array(_Partitions))


class _Current(Message, versions="0", flexible="0+"):
    """``state``: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown."""

    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[_Partitions] = field(array(_Partitions))
    partitions_pending_revocation: list[_Partitions] = field(array(_Partitions))


class _Pattern(Message, versions="0", flexible="0+"):
    topics: list[str] = field(array(string))
    version: int = field(int64)
    timestamp: int = field(int64)


# By the number in front of the key.
_RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    3: (_GroupKey, _Epoch),
    4: (_GroupKey, _Topics),
    5: (_MemberKey, _MemberMetadata),
    6: (_GroupKey, _TargetEpoch),
    7: (_MemberKey, _Target),
    8: (_MemberKey, _Current),
    16: (_PatternKey, _Pattern),
}


class ModernRecord(NamedTuple):
    """A row of ``modern_groups`` but for its place and time; ``version`` is None for a tombstone."""

    group: str
    member: str | None
    version: int | None
    fields: str


def is_modern(key: bytes) -> bool:
    """Whether the key is one of a newer consumer group, not of a share or streams group."""
    return version_of(key, "key") in _RECORDS


def decode_modern(key: bytes, value: bytes | None) -> ModernRecord | str:
    """The record, or the reason why it cannot be read."""
    try:
        key_class, value_class = _RECORDS[version_of(key, "key")]
        named = _plain(decode_versioned(key_class, key)[0])
        group, member = named.pop("group"), named.pop("member", None)
        if value is None:
            return ModernRecord(group, member, None, json.dumps(named))
        decoded, version = decode_versioned(value_class, value)
    except DecodeError as error:
        return str(error)
    return ModernRecord(group, member, version, json.dumps({**named, **_plain(decoded)}))


def _plain(struct: Struct) -> dict[str, Any]:
    return {declared.name: _json(getattr(struct, declared.name), declared.kind) for declared in struct.fields}


def _json(value: Any, kind: Any) -> Any:
    if isinstance(value, Struct):
        return _plain(value)
    if isinstance(value, list | tuple):
        return [_json(item, kind.element) for item in value]
    if isinstance(value, bytes | memoryview):
        is_id = isinstance(kind, Fixed)
        return str(uuids.UUID(bytes=bytes(value))) if is_id else bytes(value).hex()
    return value
