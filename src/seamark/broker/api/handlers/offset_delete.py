"""OffsetDelete: forget a group's offsets of partitions that it no longer subscribes to.

Topics that the client may not read and partitions that do not exist are refused first; the group is asked even if
nothing is left. A refusal of the group stands at the top and alone. The group is asked for some partitions at a time;
if it refuses those behind, the ones before are deleted.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.net.slices import lazily
from seamark.coordinator.commands import DeleteOffsets
from seamark.coordinator.replies import DeleteOffsetsReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "OffsetDelete"
VERSIONS = "0"
_PARTITIONS_PER_STEP = 1000

Results = dict[str, list[tuple[int, ErrorCode]]]


def handle(
    node: Services, request: OffsetDeleteRequest, context: RequestContext
) -> Generator[None, None, OffsetDeleteResponse | None]:
    if not context.may(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return refuse(request, context.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: Results = {}
    wanted: list[tuple[str, list[int]]] = []
    for topic in request.topics:
        partitions = [each.partition_index for each in topic.partitions]
        if not context.may(Operation.READ, ResourceType.TOPIC, topic.name):
            code, missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED, partitions
        else:
            count = node.cluster.partition_count(topic.name) or 0
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            missing = [each for each in partitions if not 0 <= each < count]
        if missing:
            refused.setdefault(topic.name, []).extend((each, code) for each in missing)
        if len(missing) < len(partitions):
            unknown = set(missing)
            wanted.append((topic.name, [each for each in partitions if each not in unknown]))
        yield
    context.finish = _response
    _Deletion(node, request.group_id, wanted, refused, context).begin()
    return None


class _Deletion:
    """Asks the coordinator for some partitions, and for the next ones when these are gone and others had their turn."""

    def __init__(
        self,
        node: Services,
        group_id: str,
        wanted: list[tuple[str, list[int]]],
        refused: Results,
        context: RequestContext,
    ) -> None:
        self._node = node
        self._group_id = group_id
        self._parts = _parts_of(wanted)
        self._results = refused
        self._context = context

    def begin(self) -> None:
        self._ask(next(self._parts, []))

    def _ask(self, part: list[tuple[str, list[int]]]) -> None:
        self._node.groups.submit(DeleteOffsets(self._group_id, part), self)

    def reply_value(self, reply: DeleteOffsetsReply) -> None:
        if reply.error is not ErrorCode.NONE:
            self._context.reply_value(reply)
            return
        for topic, codes in reply.topics:
            self._results.setdefault(topic, []).extend(codes)
        part = next(self._parts, None)
        if part is None:
            self._context.reply_value(DeleteOffsetsReply(topics=list(self._results.items())))
        else:
            self._node.turns.later(self._context.connection.share, partial(self._ask, part))


def _parts_of(wanted: list[tuple[str, list[int]]]) -> Iterator[list[tuple[str, list[int]]]]:
    """The same partitions, some at a time."""
    pairs = ((topic, partition) for topic, partitions in wanted for partition in partitions)
    while chunk := list(islice(pairs, _PARTITIONS_PER_STEP)):
        yield [(topic, [each for _, each in group]) for topic, group in groupby(chunk, key=itemgetter(0))]


def _response(reply: DeleteOffsetsReply) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=reply.error, topics=lazily(_topic, reply.topics))


def _topic(result: tuple[str, list[tuple[int, ErrorCode]]]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(name=result[0], partitions=lazily(_partition, result[1]))


def _partition(result: tuple[int, ErrorCode]) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=result[0], error_code=result[1])


def refuse(request: OffsetDeleteRequest, version: int, code: ErrorCode) -> OffsetDeleteResponse:  # noqa: ARG001
    return OffsetDeleteResponse(error_code=code)
