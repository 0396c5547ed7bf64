"""The client: consumer, producer and admin that speak Kafka's protocol over one I/O thread per process.

All that users make, get, pass and catch is exported here. Names are loaded when they are first asked for, so that
importing a part costs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.acls import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
    from seamark.client.admin.admin import Admin
    from seamark.client.admin.async_admin import AsyncAdmin
    from seamark.client.admin.record_times import LogPlace
    from seamark.client.admin.types import (
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        GroupDescription,
        GroupListing,
        GroupMember,
        ListedOffset,
        NewTopic,
        Resource,
    )
    from seamark.client.cluster_view import Node, PartitionView, TopicView
    from seamark.client.consumer.async_consumer import AsyncConsumer
    from seamark.client.consumer.consumer import Consumer
    from seamark.client.consumer.handle import OffsetAndTime
    from seamark.client.consumer.owner import OwnedConsumer
    from seamark.client.core.assignment_state import Position
    from seamark.client.core.listener import ListenerFailed
    from seamark.client.core.membership.context import GroupMetadata
    from seamark.client.core.positions.positions import LogTruncated
    from seamark.client.errors import (
        AssignmentUnusable,
        AuthenticationFailed,
        BrokerError,
        BufferFull,
        ClientError,
        CommitError,
        CommitFailed,
        CommitMetadataTooLarge,
        CommitTimedOut,
        ConcurrentUse,
        ConnectionFailed,
        CoordinatorMoved,
        CorruptRecords,
        DeliveryFailed,
        DeliveryTimedOut,
        DeserializationFailed,
        FailedTo,
        MemberFenced,
        NetworkError,
        NoBrokerAvailable,
        NoOffsetForPartition,
        OffsetOutOfRange,
        OperationTimedOut,
        PeerProtocolError,
        PositionError,
        RangeGone,
        RebalanceInProgress,
        RecordsTooLarge,
        RecordTooLarge,
        Refused,
        RequestTimedOut,
        RetriableCommitFailed,
        RetryLater,
        TlsFailed,
        UnsupportedByBroker,
        WakeUp,
    )
    from seamark.client.fetch.ranges import ColumnReader
    from seamark.client.net.fanout import Results, SomeFailed
    from seamark.client.producer.async_producer import AsyncProducer
    from seamark.client.producer.delivery import Delivered, Delivery, DeliveryRun
    from seamark.client.producer.handle import BySchema
    from seamark.client.producer.producer import Producer
    from seamark.client.records import Offset, Record
    from seamark.client.serde.avro import Avro
    from seamark.client.serde.schema_registry import Reference, RegisteredSchema, RegistryError, SchemaRegistry
    from seamark.client.serde.serializers import ByTopic
    from seamark.client.zookeeper.store import OffsetStorageRefused, OffsetStorageUnavailable
    from seamark.errors import ClosedError, ConfigError, MadeBeforeFork, MissingExtra, SeamarkError, UsageError
    from seamark.topic_partition import TopicPartition
    from seamark.wire.protocol.error_codes import ErrorCode

_HOMES = {
    "seamark.acls": ("Acl", "AclFilter", "Operation", "PatternType", "PermissionType", "ResourceType"),
    "seamark.client.admin.admin": ("Admin",),
    "seamark.client.admin.async_admin": ("AsyncAdmin",),
    "seamark.client.admin.record_times": ("LogPlace",),
    "seamark.client.admin.types": (
        "ClusterDescription",
        "ConfigChange",
        "ConfigEntry",
        "GroupDescription",
        "GroupListing",
        "GroupMember",
        "ListedOffset",
        "NewTopic",
        "Resource",
    ),
    "seamark.client.cluster_view": ("Node", "PartitionView", "TopicView"),
    "seamark.client.consumer.async_consumer": ("AsyncConsumer",),
    "seamark.client.consumer.consumer": ("Consumer",),
    "seamark.client.consumer.handle": ("OffsetAndTime",),
    "seamark.client.consumer.owner": ("OwnedConsumer",),
    "seamark.client.core.assignment_state": ("Position",),
    "seamark.client.core.listener": ("ListenerFailed",),
    "seamark.client.core.membership.context": ("GroupMetadata",),
    "seamark.client.core.positions.positions": ("LogTruncated",),
    "seamark.client.errors": (
        "AssignmentUnusable",
        "AuthenticationFailed",
        "BrokerError",
        "BufferFull",
        "ClientError",
        "CommitError",
        "CommitFailed",
        "CommitMetadataTooLarge",
        "CommitTimedOut",
        "ConcurrentUse",
        "ConnectionFailed",
        "CoordinatorMoved",
        "CorruptRecords",
        "DeliveryFailed",
        "DeliveryTimedOut",
        "DeserializationFailed",
        "FailedTo",
        "MemberFenced",
        "NetworkError",
        "NoBrokerAvailable",
        "NoOffsetForPartition",
        "OffsetOutOfRange",
        "OperationTimedOut",
        "PeerProtocolError",
        "PositionError",
        "RangeGone",
        "RebalanceInProgress",
        "RecordTooLarge",
        "RecordsTooLarge",
        "Refused",
        "RequestTimedOut",
        "RetriableCommitFailed",
        "RetryLater",
        "TlsFailed",
        "UnsupportedByBroker",
        "WakeUp",
    ),
    "seamark.client.fetch.ranges": ("ColumnReader",),
    "seamark.client.net.fanout": ("Results", "SomeFailed"),
    "seamark.client.producer.async_producer": ("AsyncProducer",),
    "seamark.client.producer.delivery": ("Delivered", "Delivery", "DeliveryRun"),
    "seamark.client.producer.handle": ("BySchema",),
    "seamark.client.producer.producer": ("Producer",),
    "seamark.client.records": ("Offset", "Record"),
    "seamark.client.serde.avro": ("Avro",),
    "seamark.client.serde.schema_registry": ("Reference", "RegisteredSchema", "RegistryError", "SchemaRegistry"),
    "seamark.client.serde.serializers": ("ByTopic",),
    "seamark.client.zookeeper.store": ("OffsetStorageRefused", "OffsetStorageUnavailable"),
    "seamark.errors": ("ClosedError", "ConfigError", "MadeBeforeFork", "MissingExtra", "SeamarkError", "UsageError"),
    "seamark.topic_partition": ("TopicPartition",),
    "seamark.wire.protocol.error_codes": ("ErrorCode",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acl",
    "AclFilter",
    "Admin",
    "AssignmentUnusable",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AuthenticationFailed",
    "Avro",
    "BrokerError",
    "BufferFull",
    "BySchema",
    "ByTopic",
    "ClientError",
    "ClosedError",
    "ClusterDescription",
    "ColumnReader",
    "CommitError",
    "CommitFailed",
    "CommitMetadataTooLarge",
    "CommitTimedOut",
    "ConcurrentUse",
    "ConfigChange",
    "ConfigEntry",
    "ConfigError",
    "ConnectionFailed",
    "Consumer",
    "CoordinatorMoved",
    "CorruptRecords",
    "Delivered",
    "Delivery",
    "DeliveryFailed",
    "DeliveryRun",
    "DeliveryTimedOut",
    "DeserializationFailed",
    "ErrorCode",
    "FailedTo",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "ListedOffset",
    "ListenerFailed",
    "LogPlace",
    "LogTruncated",
    "MadeBeforeFork",
    "MemberFenced",
    "MissingExtra",
    "NetworkError",
    "NewTopic",
    "NoBrokerAvailable",
    "NoOffsetForPartition",
    "Node",
    "Offset",
    "OffsetAndTime",
    "OffsetOutOfRange",
    "OffsetStorageRefused",
    "OffsetStorageUnavailable",
    "Operation",
    "OperationTimedOut",
    "OwnedConsumer",
    "PartitionView",
    "PatternType",
    "PeerProtocolError",
    "PermissionType",
    "Position",
    "PositionError",
    "Producer",
    "RangeGone",
    "RebalanceInProgress",
    "Record",
    "RecordTooLarge",
    "RecordsTooLarge",
    "Reference",
    "Refused",
    "RegisteredSchema",
    "RegistryError",
    "RequestTimedOut",
    "Resource",
    "ResourceType",
    "Results",
    "RetriableCommitFailed",
    "RetryLater",
    "SchemaRegistry",
    "SeamarkError",
    "SomeFailed",
    "TlsFailed",
    "TopicPartition",
    "TopicView",
    "UnsupportedByBroker",
    "UsageError",
    "WakeUp",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
