"""Metadata (3): brokers, topics, partitions and their leaders.

v0   an empty topic list asks for all topics
v1   a null list asks for all topics and an empty one for none; racks, controller and internal topics in the response
v2   adds the cluster id
v3   adds throttling
v4   the request says whether an unknown topic may be created
v5   adds offline replicas
v6   throttling happens after the response is sent
v7   adds leader epochs
v8   authorized operations on request
v9   flexible
v10  adds topic ids, which brokers answer but do not accept yet
v11  drops the cluster's authorized operations (DescribeCluster has them)
v12  a topic may be asked for by id, its name being null
v13  adds an error code for the whole response
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int16, int32, string, uuid


class MetadataRequestTopic(Struct):
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    name: str | None = field(string, nullable="10+")


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(boolean, versions="4+", default=True)
    include_cluster_authorized_operations: bool = field(boolean, versions="8-10")
    include_topic_authorized_operations: bool = field(boolean, versions="8+")


class MetadataResponseBroker(Struct):
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, versions="1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = field(int16)
    partition_index: int = field(int32)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32, versions="7+", default=-1, ignorable=True)
    replica_nodes: list[int] = field(array(int32))
    isr_nodes: list[int] = field(array(int32))
    offline_replicas: list[int] = field(array(int32), versions="5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = field(int16)
    name: str | None = field(string, nullable="12+")
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    is_internal: bool = field(boolean, versions="1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field(array(MetadataResponsePartition))
    topic_authorized_operations: int = field(int32, versions="8+", default=-(1 << 31))


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(string, versions="2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = field(int32, versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(int32, versions="8-10", default=-(1 << 31))
    error_code: int = field(int16, versions="13+", ignorable=True)
