"""What an error code of one partition in a Produce answer means for its batch: one table.

Codes of sequences are judged before (``sequences``). Everything that is neither here nor retriable fails the batch.
"""

from __future__ import annotations

from enum import Enum

from seamark.wire.protocol.error_codes import ErrorCode


class Outcome(Enum):
    STORED = "the batch is stored"
    RETRY = "send it again"
    RETRY_AND_REFRESH = "send it again to the new leader of the partition"
    SPLIT = "send it in two halves"
    FAIL = "it will never be stored"


_LEADERSHIP = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)


def outcome_of(code: ErrorCode, record_count: int) -> Outcome:
    if code is ErrorCode.NONE:
        return Outcome.STORED
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE) and record_count > 1:
        return Outcome.SPLIT
    if code in _LEADERSHIP:
        return Outcome.RETRY_AND_REFRESH
    # A corrupt batch was sound when it left us: it is worth another try.
    if code.is_retriable or code is ErrorCode.CORRUPT_MESSAGE:
        return Outcome.RETRY
    return Outcome.FAIL
