"""Produce (0): append record batches to partitions.

v0   acks, timeout and one run of records per partition; message sets of the old formats
v1   the response adds throttling
v2   the response adds the log append time
v3   adds the transactional id; from here on records are batches of format 2
v4   KAFKA_STORAGE_ERROR is a possible answer
v5   the response adds the log start offset
v6   throttling happens after the response is sent
v7   zstd may be used
v8   the response names the records that spoiled a batch
v9   flexible
v10  the response may name the new leader and its address
v11  TRANSACTION_ABORTABLE is a possible answer
v12  a transactional produce also adds its partitions to the transaction
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, int64, records, string


class ProduceRequestPartition(Struct):
    index: int = field(int32)
    records: bytes | memoryview | None = field(records, nullable="0+")


class ProduceRequestTopic(Struct):
    name: str = field(string)
    partition_data: list[ProduceRequestPartition] = field(array(ProduceRequestPartition))


class ProduceRequest(Message, api_key=0, versions="0-12", flexible="9+"):
    transactional_id: str | None = field(string, versions="3+", nullable="3+", default=None)
    acks: int = field(int16)
    timeout_ms: int = field(int32)
    topic_data: list[ProduceRequestTopic] = field(array(ProduceRequestTopic))


class ProduceResponseRecordError(Struct):
    batch_index: int = field(int32)
    batch_index_error_message: str | None = field(string, nullable="0+", default=None)


class ProduceResponseCurrentLeader(Struct):
    leader_id: int = field(int32, default=-1)
    leader_epoch: int = field(int32, default=-1)


class ProduceResponsePartition(Struct):
    index: int = field(int32)
    error_code: int = field(int16)
    base_offset: int = field(int64)
    log_append_time_ms: int = field(int64, versions="2+", default=-1, ignorable=True)
    log_start_offset: int = field(int64, versions="5+", default=-1, ignorable=True)
    record_errors: list[ProduceResponseRecordError] = field(
        array(ProduceResponseRecordError), versions="8+", ignorable=True
    )
    error_message: str | None = field(string, versions="8+", nullable="8+", default=None, ignorable=True)
    current_leader: ProduceResponseCurrentLeader = field(ProduceResponseCurrentLeader, versions="10+", tag=0)


class ProduceResponseTopic(Struct):
    name: str = field(string)
    partition_responses: list[ProduceResponsePartition] = field(array(ProduceResponsePartition))


class ProduceResponseNodeEndpoint(Struct):
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)


class ProduceResponse(Message, api_key=0, versions="0-12", flexible="9+"):
    responses: list[ProduceResponseTopic] = field(array(ProduceResponseTopic))
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    node_endpoints: list[ProduceResponseNodeEndpoint] = field(array(ProduceResponseNodeEndpoint), versions="10+", tag=0)
