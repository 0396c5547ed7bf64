"""Kafka's error codes in words, for sentences."""

from __future__ import annotations

from seamark.wire.protocol.error_codes import ErrorCode


def meaning_of(code: ErrorCode) -> str:
    """What a code says; of one without words, its number.

    >>> meaning_of(ErrorCode.NOT_COORDINATOR), meaning_of(ErrorCode.STALE_BROKER_EPOCH)
    ('another broker coordinates the group', 'error code 77')
    """
    return _MEANINGS.get(code) or f"error code {int(code)}"


_MEANINGS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker met an error that it did not explain",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition does not hold this offset",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the broker does not have this topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another broker leads the partition",
    ErrorCode.REQUEST_TIMED_OUT: "the broker could not finish in time",
    ErrorCode.MESSAGE_TOO_LARGE: "the records are larger than the topic allows",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "the metadata of the offset is longer than the broker allows",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading the group",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no broker coordinates the group at the moment",
    ErrorCode.NOT_COORDINATOR: "another broker coordinates the group",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic's name is not allowed",
    ErrorCode.ILLEGAL_GENERATION: "the group has moved on to another generation",
    ErrorCode.INVALID_GROUP_ID: "the group's id is not allowed",
    ErrorCode.UNKNOWN_MEMBER_ID: "the coordinator does not know this member",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside what the broker allows",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not allowed for this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed for this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not allowed on this cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not speak this version",
    ErrorCode.INVALID_TIMESTAMP: "a record's timestamp is further from the broker's time than the topic allows",
    ErrorCode.TOPIC_ALREADY_EXISTS: "there is a topic with this name already",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is not allowed",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the replication factor is not possible",
    ErrorCode.INVALID_CONFIG: "a setting is not allowed",
    ErrorCode.NOT_CONTROLLER: "another broker is the controller",
    ErrorCode.INVALID_REQUEST: "the broker finds the request malformed",
    ErrorCode.SECURITY_DISABLED: "the broker has no authorizer",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's disk failed or is full",
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full",
    ErrorCode.FENCED_INSTANCE_ID: "another member uses the same group.instance.id",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group is subscribed to the topic",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "an open transaction may still change the offset",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the members share no assignor or protocol type",
}
