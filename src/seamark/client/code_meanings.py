"""Kafka's error codes in words, for sentences."""

from __future__ import annotations

from seamark.wire.protocol.error_codes import ErrorCode


def meaning_of(code: ErrorCode) -> str:
    """What a code says; of one without words, its number.

    >>> meaning_of(ErrorCode.NOT_COORDINATOR), meaning_of(ErrorCode.STALE_BROKER_EPOCH)
    ('another broker is the coordinator of the group', 'error code 77')
    """
    return _MEANINGS.get(code) or f"error code {int(code)}"


_MEANINGS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker reported an unexpected error without a reason",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is outside the log of the partition",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the broker does not have this topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition currently has no leader",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another broker is the leader of the partition",
    ErrorCode.REQUEST_TIMED_OUT: "the broker did not finish in time",
    ErrorCode.MESSAGE_TOO_LARGE: "the records are larger than the topic allows",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "the offset metadata is longer than the broker allows",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading the group",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group currently has no coordinator",
    ErrorCode.NOT_COORDINATOR: "another broker is the coordinator of the group",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic name is invalid",
    ErrorCode.ILLEGAL_GENERATION: "the group has moved on to another generation",
    ErrorCode.INVALID_GROUP_ID: "the group id is invalid",
    ErrorCode.UNKNOWN_MEMBER_ID: "the coordinator does not know this member",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside the range that the broker allows",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized for this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized for this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not authorized for this cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not support this API version",
    ErrorCode.INVALID_TIMESTAMP: "a record's timestamp is further from the broker's time than the topic allows",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic with this name already exists",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is invalid",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the replication factor is invalid",
    ErrorCode.INVALID_CONFIG: "a configuration value is invalid",
    ErrorCode.NOT_CONTROLLER: "another broker is the controller",
    ErrorCode.INVALID_REQUEST: "the broker considers the request invalid",
    ErrorCode.SECURITY_DISABLED: "no authorizer is configured on the broker",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's disk failed or is full",
    ErrorCode.NON_EMPTY_GROUP: "the group is not empty",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has reached its maximum size",
    ErrorCode.FENCED_INSTANCE_ID: "another member uses the same group.instance.id",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group is subscribed to the topic",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "an open transaction may still change the offset",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the members have no assignor or protocol type in common",
}
