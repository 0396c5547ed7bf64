"""What an error code of one partition in a Fetch answer means: one table, Kafka's own rules.

``OUTCOMES`` maps a code to what happens next; codes that are not in it are raised to the caller as they are.
"""

from __future__ import annotations

from enum import Enum

from seamark.wire.protocol.error_codes import ErrorCode


class Outcome(Enum):
    DATA = "records, perhaps none"
    REFRESH = "what is known of the leader is wrong: ask for metadata, then again"
    AGAIN = "the node will know soon: ask again after the backoff"
    OUT_OF_RANGE = "the log does not hold the position"
    RAISE = "the caller must hear of it"


OUTCOMES: dict[ErrorCode, Outcome] = {
    ErrorCode.NONE: Outcome.DATA,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Outcome.REFRESH,
    ErrorCode.REPLICA_NOT_AVAILABLE: Outcome.REFRESH,
    ErrorCode.KAFKA_STORAGE_ERROR: Outcome.REFRESH,
    ErrorCode.FENCED_LEADER_EPOCH: Outcome.REFRESH,
    ErrorCode.OFFSET_NOT_AVAILABLE: Outcome.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Outcome.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: Outcome.REFRESH,
    ErrorCode.INCONSISTENT_TOPIC_ID: Outcome.REFRESH,
    ErrorCode.LEADER_NOT_AVAILABLE: Outcome.REFRESH,
    # The node has not heard of the leader epoch yet that we know.
    ErrorCode.UNKNOWN_LEADER_EPOCH: Outcome.AGAIN,
    ErrorCode.UNKNOWN_SERVER_ERROR: Outcome.AGAIN,
    ErrorCode.OFFSET_OUT_OF_RANGE: Outcome.OUT_OF_RANGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Outcome.RAISE,
    ErrorCode.CORRUPT_MESSAGE: Outcome.RAISE,
}


def outcome_of(code: ErrorCode) -> Outcome:
    return OUTCOMES.get(code, Outcome.AGAIN if code.is_retriable else Outcome.RAISE)
