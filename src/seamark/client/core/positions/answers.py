"""What an answer about offsets means for each partition: found, nothing there, try again, or raise (F14, F22 to F25).

One rule per API; the positions of a consumer and the blocking queries of its caller read answers by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from seamark.client.core.assignment_state import Position
from seamark.client.core.commits.messages import fetched_offsets
from seamark.client.core.positions.requests import epoch_ends, listed_offsets
from seamark.client.errors import ClientError, broker_error
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.list_offsets import ListOffsetsResponse
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchResponse
from seamark.wire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_WAIT = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT})


class Outcome(Enum):
    FOUND = "found"
    NOTHING = "nothing"
    # At the same broker, after a backoff (F14, F22).
    RETRY = "retry"
    # At another coordinator.
    REDISCOVER = "rediscover"
    # At another leader, perhaps.
    RETRY_AND_REFRESH = "retry and refresh"
    RAISE = "raise"


class Answer(NamedTuple):
    outcome: Outcome
    position: Position | None = None
    error: ClientError | None = None
    metadata: str = ""
    timestamp_ms: int = -1


def committed_answers(
    group_id: str, response: OffsetFetchResponse, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Answer]:
    fetched = fetched_offsets(group_id, response)
    group = f"group {group_id!r}"
    if fetched.error is not ErrorCode.NONE:
        answer = _committed_error(fetched.error, group)
        return dict.fromkeys(partitions, answer)
    codes = dict(fetched.codes)
    answers = {}
    for partition in partitions:
        code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        if code is not ErrorCode.NONE:
            answers[partition] = _committed_error(code, f"{partition}, {group}")
        elif (offset := fetched.offsets[partition]) is None:
            answers[partition] = Answer(Outcome.NOTHING)
        else:
            position = Position(offset.offset, offset.leader_epoch)
            answers[partition] = Answer(Outcome.FOUND, position, metadata=offset.metadata)
    return answers


def _committed_error(code: ErrorCode, subject: str) -> Answer:
    error = broker_error(code, "OffsetFetch", subject)
    if code in _MOVED:
        return Answer(Outcome.REDISCOVER, error=error)
    return Answer(Outcome.RETRY if code in _WAIT else Outcome.RAISE, error=error)


def offset_answers(response: ListOffsetsResponse, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Answer]:
    listed = listed_offsets(response)
    answers = {}
    for partition in partitions:
        found = listed.get(partition)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if found is None else found.error
        if found is None or code is not ErrorCode.NONE:
            answers[partition] = _leader_error(code, "ListOffsets", partition)
        elif found.offset < 0:
            answers[partition] = Answer(Outcome.NOTHING)
        else:
            position = Position(found.offset, found.leader_epoch)
            answers[partition] = Answer(Outcome.FOUND, position, timestamp_ms=found.timestamp_ms)
    return answers


def epoch_answers(
    response: OffsetForLeaderEpochResponse, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Answer]:
    ends = epoch_ends(response)
    answers = {}
    for partition in partitions:
        end = ends.get(partition)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if end is None else end.error
        if end is None or code is not ErrorCode.NONE:
            answers[partition] = _leader_error(code, "OffsetForLeaderEpoch", partition)
        elif end.end_offset < 0 or end.leader_epoch < 0:
            answers[partition] = Answer(Outcome.NOTHING)
        else:
            answers[partition] = Answer(Outcome.FOUND, Position(end.end_offset, end.leader_epoch))
    return answers


def _leader_error(code: ErrorCode, api: str, partition: TopicPartition) -> Answer:
    error = broker_error(code, api, f"partition {partition}")
    # A damaged log does not heal, although Kafka counts the code among the retriable ones.
    is_passing = code.is_retriable and code is not ErrorCode.CORRUPT_MESSAGE
    return Answer(Outcome.RETRY_AND_REFRESH if is_passing else Outcome.RAISE, error=error)
