"""ControlledShutdown (7): a broker asks the controller to move its leaderships away (A12); gone from Kafka 4.

v0  the broker's id; its request header has no client id
v1  the usual request header
v2  adds the broker epoch
v3  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, int64, string


class ControlledShutdownRequest(Message, api_key=7, versions="0-3", flexible="3+"):
    broker_id: int = field(int32)
    broker_epoch: int = field(int64, versions="2+", default=-1, ignorable=True)


class ControlledShutdownResponseRemainingPartition(Struct):
    topic_name: str = field(string)
    partition_index: int = field(int32)


class ControlledShutdownResponse(Message, api_key=7, versions="0-3", flexible="3+"):
    error_code: int = field(int16)
    remaining_partitions: list[ControlledShutdownResponseRemainingPartition] = field(
        array(ControlledShutdownResponseRemainingPartition)
    )
