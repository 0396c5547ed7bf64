"""Requests of any size for every API, made from its schema: one array of the request holds ``count`` elements.

The names in it are of things that do not exist, of things that exist, or the same one again and again. Things that
exist are named by ``name_of``, whether they are topics or groups: a broker that is asked has both of each name.
Values are such that a request is not refused at its first check, where one value can do that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import count
from typing import Any

from seamark.wire.records import Record, encode_batch
from seamark.wire.schema.schema import Array, Fixed, Kind, Message, Struct

# The array of the tagged fields that nobody knows, which every struct of a flexible version has.
UNKNOWN_TAGS = ("unknown_tags",)

_FRESH = count()
_BATCH = encode_batch([Record(0, key=b"k", value=b"v")])
# What a field needs so that the request gets further than its first check.
_VALUES: dict[tuple[str, str], Any] = {
    ("ApiVersionsRequest", "client_software_name"): "tests",
    ("ApiVersionsRequest", "client_software_version"): "1",
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"): None,
    ("CreateAclsRequestCreation", "host"): "*",
    ("CreateAclsRequestCreation", "operation"): 3,
    ("CreateAclsRequestCreation", "permission_type"): 3,
    ("CreateAclsRequestCreation", "principal"): "User:somebody",
    ("CreateAclsRequestCreation", "resource_type"): 2,
    ("CreateAclsRequestCreation", "resource_pattern_type"): 3,
    ("CreatePartitionsRequestTopic", "count"): 2,
    ("CreateTopicsRequestTopic", "num_partitions"): 1,
    ("CreateTopicsRequestTopic", "replication_factor"): 1,
    ("DeleteAclsRequestFilter", "host_filter"): "*",
    ("DeleteAclsRequestFilter", "pattern_type_filter"): 3,
    ("DeleteAclsRequestFilter", "operation"): 3,
    ("DeleteAclsRequestFilter", "permission_type"): 3,
    ("DeleteAclsRequestFilter", "principal_filter"): "User:somebody",
    ("DeleteAclsRequestFilter", "resource_type_filter"): 2,
    ("DeleteRecordsRequestPartition", "offset"): -1,
    ("DescribeAclsRequest", "operation"): 1,
    ("DescribeAclsRequest", "permission_type"): 1,
    ("DescribeAclsRequest", "pattern_type_filter"): 1,
    ("DescribeAclsRequest", "resource_type_filter"): 1,
    ("DescribeClusterRequest", "endpoint_type"): 1,
    ("DescribeConfigsRequestResource", "resource_type"): 2,
    ("DescribeConfigsRequest", "include_synonyms"): True,
    ("FetchRequestPartition", "partition_max_bytes"): 1000,
    ("FetchRequest", "max_bytes"): 1 << 30,
    ("FetchRequest", "max_wait_ms"): 0,
    ("FetchRequest", "session_epoch"): -1,
    ("IncrementalAlterConfigsRequestConfig", "config_operation"): 0,
    ("IncrementalAlterConfigsRequestConfig", "value"): "1000",
    ("IncrementalAlterConfigsRequestResource", "resource_type"): 2,
    ("InitProducerIdRequest", "transactional_id"): None,
    ("JoinGroupRequest", "member_id"): "",
    ("JoinGroupRequest", "protocol_type"): "consumer",
    ("JoinGroupRequest", "rebalance_timeout_ms"): 10_000,
    ("JoinGroupRequest", "session_timeout_ms"): 10_000,
    ("ListOffsetsRequestPartition", "timestamp"): -1,
    ("MetadataRequest", "allow_auto_topic_creation"): False,
    ("OffsetCommitRequest", "generation_id_or_member_epoch"): -1,
    ("OffsetCommitRequest", "member_id"): "",
    ("OffsetCommitRequestPartition", "committed_metadata"): "",
    ("ProduceRequest", "acks"): 1,
    ("ProduceRequest", "transactional_id"): None,
    ("ProduceRequestPartition", "records"): _BATCH,
    ("SaslHandshakeRequest", "mechanism"): "PLAIN",
}
# Arrays that are left empty where they are not the one in question: with one element the request means another thing.
_EMPTY = {"assignments", "configs", "configuration_keys", "forgotten_topics_data", "states_filter", "types_filter"}
_NULLED = {("CreatePartitionsRequestTopic", "assignments")}
_INDEXES = {"partition", "partition_index", "index"}


class Naming(Enum):
    MISSING = "names that do not exist"
    EXISTING = "names that exist"
    REPEATED = "one name that exists, repeated"


def name_of(number: int) -> str:
    """The name of a thing that exists."""
    return f"n{number:05}"


def array_paths(cls: type[Struct], version: int, *, is_flexible: bool) -> Iterator[tuple[str, ...]]:
    """The fields that lead to each array of a request, nested ones included."""
    for field in cls.fields:
        if version not in field.versions:
            continue
        if isinstance(field.kind, Array):
            yield (field.name,)
            element = field.kind.element
            if isinstance(element, type):
                for rest in array_paths(element, version, is_flexible=False):
                    yield (field.name, *rest)
    if is_flexible:
        yield UNKNOWN_TAGS


def shaped(
    cls: type[Message],
    version: int,
    path: tuple[str, ...],
    size: int,
    naming: Naming = Naming.MISSING,
    topic_ids: Mapping[str, bytes] | None = None,
) -> Message:
    """A request of which the array at ``path`` has ``size`` elements; ``topic_ids`` are those of existing topics."""
    maker = _Maker(version, size, naming, topic_ids or {})
    message = maker.struct(cls, path, 0)
    assert isinstance(message, Message)
    return message


class _Maker:
    def __init__(self, version: int, size: int, naming: Naming, topic_ids: Mapping[str, bytes]) -> None:
        self._version = version
        self._size = size
        self._naming = naming
        self._topic_ids = topic_ids

    def struct(self, cls: type[Struct], path: tuple[str, ...], number: int) -> Struct:
        values: dict[str, Any] = {}
        for field in cls.fields:
            if self._version not in field.versions or field.is_tagged(self._version):
                continue
            if (cls.__name__, field.name) in _NULLED and path[:1] != (field.name,):
                values[field.name] = None
            elif isinstance(field.kind, Array):
                values[field.name] = self._array(field.name, field.kind, path)
            elif (cls.__name__, field.name) in _VALUES:
                values[field.name] = _VALUES[cls.__name__, field.name]
            else:
                values[field.name] = self._value(cls, field.name, field.kind, field.default, number)
        if path == UNKNOWN_TAGS:
            values["unknown_tags"] = tuple((1000 + each, b"") for each in range(self._size))
        return cls(**values)

    def _array(self, name: str, kind: Array, path: tuple[str, ...]) -> list[Any]:
        if path[:1] != (name,):
            numbers = [] if name in _EMPTY else [0]
        else:
            numbers = list(range(self._size)) if len(path) == 1 else [0]
        if isinstance(kind.element, type):
            return [self.struct(kind.element, path[1:], each) for each in numbers]
        if name == "broker_ids" and path[:1] != (name,):
            # The one node that there is.
            return [0]
        return [self._value(None, "partition", kind.element, 0, each) for each in numbers]

    def _value(self, cls: type[Struct] | None, name: str, kind: Kind, default: Any, number: int) -> Any:
        if self._naming is Naming.REPEATED:
            number = 0
        if isinstance(kind, Fixed):
            if kind.code == "16s":
                return self._topic_ids.get(self._name(number), number.to_bytes(16)) if cls else bytes(16)
            return number if name in _INDEXES and kind.code == "i" else default
        if isinstance(kind, type):
            return kind()
        if kind.name != "string":
            return default
        if cls is not None and cls.__name__ == "JoinGroupRequest" and name == "group_id":
            return f"{name_of(0)}-{next(_FRESH)}"
        return self._name(number)

    def _name(self, number: int) -> str:
        return f"x{number:05}" if self._naming is Naming.MISSING else name_of(number)
