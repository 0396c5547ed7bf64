"""DescribeCluster (60): id, controller and brokers of the cluster.

v0  flexible from the start
v1  adds the endpoint type: 1 brokers, 2 controllers
v2  fenced brokers on request
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int8, int16, int32, string


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = field(boolean)
    endpoint_type: int = field(int8, versions="1+", default=1)
    include_fenced_brokers: bool = field(boolean, versions="2+")


class DescribeClusterResponseBroker(Struct):
    broker_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)
    is_fenced: bool = field(boolean, versions="2+")


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    endpoint_type: int = field(int8, versions="1+", default=1)
    cluster_id: str = field(string)
    controller_id: int = field(int32, default=-1)
    brokers: list[DescribeClusterResponseBroker] = field(array(DescribeClusterResponseBroker))
    cluster_authorized_operations: int = field(int32, default=-(1 << 31))
