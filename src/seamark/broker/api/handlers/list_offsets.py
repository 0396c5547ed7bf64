"""ListOffsets: start and end of partitions, and the first record at or after a time.

Negative times are questions: -1 the end that a consumer sees, -2 the start, -3 the record with the largest timestamp,
-4 the start of what is on local disk, -5 the last tiered offset (there is never one). Each may be asked from a
certain version on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.api.fetch_reading import epoch_error
from seamark.broker.log.partition import Partition
from seamark.broker.net.slices import lazily
from seamark.broker.sharing.reading_thread import beside
from seamark.broker.sharing.turns import Wait
from seamark.storage.errors import CorruptBatch, LogError, TornTail
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "ListOffsets"
VERSIONS = "1-10"
HAS_LONG_ANSWERS = True
MAX_ELEMENTS = 1 << 17
LEADER_EPOCHS_SINCE = 4

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def handle(
    node: Services, request: ListOffsetsRequest, context: RequestContext
) -> Generator[Wait | None, None, ListOffsetsResponse | None]:
    """Look up times, which may take long, and then answer."""
    looked_up: dict[tuple[str, int], ListOffsetsResponsePartition] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        is_allowed = context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        for each in topic.partitions:
            place = topic.name, each.partition_index
            counts[place] += 1
            yield None
            if (each.timestamp < 0 and each.timestamp != MAX_TIMESTAMP) or place in looked_up or not is_allowed:
                continue
            partition = node.cluster.partition(*place)
            if partition is not None and not _refusal(node, partition, each, context.version):
                looked_up[place] = yield from _look_up_time(node, partition, each.timestamp)
                if not context.connection.is_open:
                    return None
        yield None
    return _response(node, request, context, looked_up, counts)


def _response(
    node: Services,
    request: ListOffsetsRequest,
    context: RequestContext,
    looked_up: dict[tuple[str, int], ListOffsetsResponsePartition],
    counts: Counter[tuple[str, int]],
) -> ListOffsetsResponse:
    def answer(topic: ListOffsetsRequestTopic) -> ListOffsetsResponseTopic:
        is_allowed = context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)

        def answer_partition(wanted: ListOffsetsRequestPartition) -> ListOffsetsResponsePartition:
            partition = node.cluster.partition(topic.name, wanted.partition_index)
            if not is_allowed:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif counts[topic.name, wanted.partition_index] > 1:
                code = ErrorCode.INVALID_REQUEST
            else:
                code = _refusal(node, partition, wanted, context.version)
            if code:
                return ListOffsetsResponsePartition(partition_index=wanted.partition_index, error_code=code)
            assert partition is not None
            found = looked_up.get((topic.name, wanted.partition_index)) or _look_up(partition, wanted.timestamp)
            if context.version < LEADER_EPOCHS_SINCE:
                found.leader_epoch = -1
            return found

        # A partition that is asked for twice is refused once.
        partitions = {each.partition_index: each for each in topic.partitions}
        return ListOffsetsResponseTopic(name=topic.name, partitions=lazily(answer_partition, partitions.values()))

    return ListOffsetsResponse(topics=lazily(answer, request.topics))


def _refusal(
    node: Services, partition: Partition | None, wanted: ListOffsetsRequestPartition, version: int
) -> ErrorCode:
    if wanted.timestamp < 0 and version < _SINCE.get(wanted.timestamp, version + 1):
        return ErrorCode.UNSUPPORTED_VERSION
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = epoch_error(partition, wanted.current_leader_epoch)
    if code:
        return code
    return ErrorCode.NONE if partition.leader == node.id else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _look_up(partition: Partition, timestamp_ms: int) -> ListOffsetsResponsePartition:
    """What needs no look into the log."""
    answer = ListOffsetsResponsePartition(partition_index=partition.index)
    if timestamp_ms == LATEST:
        answer.offset = partition.high_watermark
        answer.leader_epoch = partition.leader_epoch
        return answer
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = partition.log_start
        answer.leader_epoch = partition.epochs.epoch_of(partition.log_start)
    return answer


def _look_up_time(
    node: Services, partition: Partition, timestamp_ms: int
) -> Generator[Wait | None, None, ListOffsetsResponsePartition]:
    answer = ListOffsetsResponsePartition(partition_index=partition.index)
    if not partition.is_open:
        return answer
    steps = partition.log.timestamp_steps(None if timestamp_ms == MAX_TIMESTAMP else timestamp_ms)
    try:
        found = yield from beside(node.reading_thread, steps)
    except LogError as error:
        node.note_storage_failure(partition, error)
        is_damaged = isinstance(error, CorruptBatch | TornTail)
        answer.error_code = ErrorCode.CORRUPT_MESSAGE if is_damaged else ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    if found is not None and found[0] < partition.high_watermark:
        answer.offset, answer.timestamp = found
        answer.leader_epoch = partition.epochs.epoch_of(answer.offset)
    return answer


def refuse(request: ListOffsetsRequest, version: int, code: ErrorCode) -> ListOffsetsResponse:  # noqa: ARG001
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
