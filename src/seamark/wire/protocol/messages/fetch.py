"""Fetch (1): read record batches from partitions, also for replication.

v4   isolation level and aborted transactions; v0 to v3 are gone from Kafka and not spoken here
v5   adds the log start offset
v6   KAFKA_STORAGE_ERROR is a possible answer
v7   adds fetch sessions: a request names only what changed, and what is forgotten
v8   throttling happens after the response is sent
v9   adds the leader epoch the client knows, for fencing
v10  zstd may be used
v11  adds the client's rack and the preferred replica
v12  flexible; divergence, leader and snapshot as tagged fields
v13  topic ids take the place of names
v14  OFFSET_MOVED_TO_TIERED_STORAGE is a possible answer
v15  a follower's id moves into a tagged struct with its epoch
v16  the response may give the addresses of new leaders
v17  a follower names the directory of its replica
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int8, int16, int32, int64, records, string, uuid


class FetchRequestReplicaState(Struct):
    replica_id: int = field(int32, default=-1)
    replica_epoch: int = field(int64, default=-1)


class FetchRequestPartition(Struct):
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, versions="9+", default=-1, ignorable=True)
    fetch_offset: int = field(int64)
    last_fetched_epoch: int = field(int32, versions="12+", default=-1)
    log_start_offset: int = field(int64, versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int = field(int32)
    replica_directory_id: bytes = field(uuid, versions="17+", tag=0, ignorable=True)


class FetchRequestTopic(Struct):
    topic: str = field(string, versions="0-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partitions: list[FetchRequestPartition] = field(array(FetchRequestPartition))


class FetchRequestForgottenTopic(Struct):
    topic: str = field(string, versions="0-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partitions: list[int] = field(array(int32))


class FetchRequest(Message, api_key=1, versions="4-17", flexible="12+"):
    cluster_id: str | None = field(string, versions="12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = field(int32, versions="0-14", default=-1)
    replica_state: FetchRequestReplicaState = field(FetchRequestReplicaState, versions="15+", tag=1)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, default=0x7FFFFFFF)
    isolation_level: int = field(int8)
    session_id: int = field(int32, versions="7+", ignorable=True)
    session_epoch: int = field(int32, versions="7+", default=-1, ignorable=True)
    topics: list[FetchRequestTopic] = field(array(FetchRequestTopic))
    forgotten_topics_data: list[FetchRequestForgottenTopic] = field(array(FetchRequestForgottenTopic), versions="7+")
    rack_id: str = field(string, versions="11+", ignorable=True)


class FetchResponseDivergingEpoch(Struct):
    epoch: int = field(int32, default=-1)
    end_offset: int = field(int64, default=-1)


class FetchResponseCurrentLeader(Struct):
    leader_id: int = field(int32, default=-1)
    leader_epoch: int = field(int32, default=-1)


class FetchResponseSnapshotId(Struct):
    end_offset: int = field(int64, default=-1)
    epoch: int = field(int32, default=-1)


class FetchResponseAbortedTransaction(Struct):
    producer_id: int = field(int64)
    first_offset: int = field(int64)


class FetchResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    high_watermark: int = field(int64)
    last_stable_offset: int = field(int64, default=-1)
    log_start_offset: int = field(int64, versions="5+", default=-1, ignorable=True)
    diverging_epoch: FetchResponseDivergingEpoch = field(FetchResponseDivergingEpoch, versions="12+", tag=0)
    current_leader: FetchResponseCurrentLeader = field(FetchResponseCurrentLeader, versions="12+", tag=1)
    snapshot_id: FetchResponseSnapshotId = field(FetchResponseSnapshotId, versions="12+", tag=2)
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = field(
        array(FetchResponseAbortedTransaction), nullable="0+"
    )
    preferred_read_replica: int = field(int32, versions="11+", default=-1)
    records: bytes | memoryview | None = field(records, nullable="0+")


class FetchResponseTopic(Struct):
    topic: str = field(string, versions="0-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partitions: list[FetchResponsePartition] = field(array(FetchResponsePartition))


class FetchResponseNodeEndpoint(Struct):
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)


class FetchResponse(Message, api_key=1, versions="4-17", flexible="12+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, versions="7+", ignorable=True)
    session_id: int = field(int32, versions="7+")
    responses: list[FetchResponseTopic] = field(array(FetchResponseTopic))
    node_endpoints: list[FetchResponseNodeEndpoint] = field(array(FetchResponseNodeEndpoint), versions="16+", tag=0)
