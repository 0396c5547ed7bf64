"""OffsetFetch: the offsets of one group, from v8 on of several, each with its own error (A32, F25, L4).

Null topics ask for all that is stored, without what the client may not see. Before v2 there is no place for a group's
error but its partitions. A topic that the client may not describe has its error behind the others. What is named more
than once (a group, a topic, a partition) is answered once: its offsets and their metadata may have thousands of times
the bytes of its name. Version 0 is read from ZooKeeper where there is one, and not served elsewhere
(``groups.zookeeper``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING

from seamark.broker.groups.zookeeper import IN_ZOOKEEPER, fetch_from_zookeeper
from seamark.broker.net.slices import lazily
from seamark.broker.security.operations import Operation, ResourceType
from seamark.coordinator.commands import FetchOffsets
from seamark.coordinator.replies import FetchedOffset, FetchReply
from seamark.portions import portions
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "OffsetFetch"
VERSIONS = "1-9"
VERSIONS_WITH_ZOOKEEPER = "0-9"
HAS_LONG_ANSWERS = True
MAX_ELEMENTS = 1 << 17

# More partitions of one group are looked up in portions, between which a commit may become visible.
_PARTITIONS_AT_ONCE = 4096
_GROUP_ERROR = 2
_MANY_GROUPS = 8
_NONE = ErrorCode.NONE

Topics = list[OffsetFetchRequestTopic] | None
# What is asked of a group: topics with their partitions, or None for all that it has.
Wanted = dict[str, list[int]] | None
Found = list[tuple[str, list[FetchedOffset]]]


def handle(
    node: Services, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Generator[None, None, None]:
    version = context.version
    finish: Callable[[list[FetchReply]], OffsetFetchResponse]
    asked: list[tuple[str, Topics]]
    if version < _MANY_GROUPS:
        finish = partial(_respond_one, version, request.topics)
        asked = [(request.group_id, request.topics)]
    else:
        finish = _respond_many
        asked = [(group.group_id, group.topics) for group in request.groups]
    if not asked:
        return _respond_many([])
    context.finish = finish
    return _fetch_all(node, context, asked, request.require_stable)


def _fetch_all(
    node: Services, context: RequestContext, asked: list[tuple[str, Topics]], require_stable: bool
) -> Generator[None]:
    # All offsets of a group, and those of partitions that are named, are two questions, as for Kafka.
    merged: dict[tuple[str, bool], Wanted] = {}
    for group_id, topics in asked:
        if topics is None:
            merged[group_id, True] = None
        else:
            yield from _add(merged.setdefault((group_id, False), {}), topics)
    gathering = _Gathering(len(merged), context.reply_value)
    for number, ((group_id, _), wanted) in enumerate(merged.items()):
        yield from _fetch(node, context, require_stable, wanted, _Part(gathering, number, group_id))
        yield


def _add(wanted: Wanted, topics: list[OffsetFetchRequestTopic]) -> Generator[None]:
    assert wanted is not None
    for topic in topics:
        known = wanted.get(topic.name)
        if known is None:
            wanted[topic.name] = topic.partition_indexes
        else:
            known += topic.partition_indexes
        yield


class _Gathering:
    """The replies of all groups of a request, in its order."""

    __slots__ = ("_answer", "_left", "_replies")

    def __init__(self, count: int, answer: Callable[[list[FetchReply]], None]) -> None:
        self._answer = answer
        self._left = count
        self._replies: list[FetchReply] = [FetchReply(None)] * count

    def put(self, number: int, reply: FetchReply) -> None:
        self._replies[number] = reply
        self._left -= 1
        if not self._left:
            self._answer(self._replies)


class _Part:
    """One group of a request: puts the portions of its reply together, takes out what may not be seen, and adds what
    was refused before the coordinator.
    """

    __slots__ = ("_found", "_gathering", "_number", "denied", "group_id", "left", "may_see")

    def __init__(self, gathering: _Gathering, number: int, group_id: str) -> None:
        self._gathering = gathering
        self._number = number
        self.group_id = group_id
        # How many portions have no reply yet.
        self.left = 1
        self._found = FetchReply(group_id)
        self.denied: Found = []
        self.may_see: Callable[[str], bool] | None = None

    def reply_value(self, reply: FetchReply) -> None:
        found = self._found
        if reply.error is not _NONE:
            found.error = reply.error
        may_see, topics = self.may_see, reply.topics
        if may_see is not None:
            topics = [each for each in topics if may_see(each[0])]
        if found.topics and topics and found.topics[-1][0] == topics[0][0]:
            # A topic of which the last portion had a part.
            found.topics[-1][1].extend(topics[0][1])
            topics = topics[1:]
        found.topics += topics
        self.left -= 1
        if not self.left:
            found.topics = found.topics + self.denied if found.error is _NONE else []
            self._gathering.put(self._number, found)


def _fetch(
    node: Services, context: RequestContext, require_stable: bool, asked: Wanted, part: _Part
) -> Generator[None, None, None]:
    group_id = part.group_id
    is_restricted = not context.connection.session.is_unrestricted
    if is_restricted and not context.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        part.reply_value(FetchReply(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    may_see = partial(context.may, Operation.DESCRIBE, ResourceType.TOPIC)
    if asked is None:
        stored = node.groups.stored_partitions(group_id)
        if len(stored) <= _PARTITIONS_AT_ONCE:
            part.may_see = may_see if is_restricted else None
            node.groups.submit(FetchOffsets(group_id, None, require_stable), part)
            return
        asked = {}
        for topic, partition in stored:
            asked.setdefault(topic, []).append(partition)
            yield
        if is_restricted:
            part.may_see = may_see
        is_restricted = False
    wanted: list[tuple[str, list[int]]] = []
    for name, partitions in asked.items():
        if is_restricted and not may_see(name):
            part.denied.append((name, lazily(_denied, _once(partitions))))
        else:
            wanted.append((name, _once(partitions)))
        yield
    if context.version == IN_ZOOKEEPER:
        fetch_from_zookeeper(node, group_id, wanted, part.reply_value)
        return
    portioned = list(portions(_cut(wanted), _PARTITIONS_AT_ONCE, lambda each: len(each[1]) + 1))
    part.left = max(1, len(portioned))
    for portion in portioned or [[]]:
        node.groups.submit(FetchOffsets(group_id, portion, require_stable), part)
        yield


def _cut(wanted: list[tuple[str, list[int]]]) -> Iterator[tuple[str, list[int]]]:
    """The topics, and those with very many partitions in pieces."""
    for name, partitions in wanted:
        if len(partitions) <= _PARTITIONS_AT_ONCE:
            yield name, partitions
        else:
            for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
                yield name, partitions[start : start + _PARTITIONS_AT_ONCE]


def _once(partitions: list[int]) -> list[int]:
    return list(dict.fromkeys(partitions)) if len(partitions) > 1 else partitions


def _denied(partition: int) -> FetchedOffset:
    return FetchedOffset(partition, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _respond_one(version: int, asked: Topics, replies: list[FetchReply]) -> OffsetFetchResponse:
    reply = replies[0]
    if version < _GROUP_ERROR and reply.error is not _NONE:
        found = [
            (topic.name, lazily(lambda each: FetchedOffset(each, error=reply.error), topic.partition_indexes))
            for topic in asked or ()
        ]
        return OffsetFetchResponse(topics=_topics(found))
    return OffsetFetchResponse(error_code=reply.error, topics=_topics(reply.topics))


def _respond_many(replies: list[FetchReply]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=lazily(_group, replies))


def _group(reply: FetchReply) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=reply.group_id or "", topics=_topics(reply.topics), error_code=reply.error)


def _topics(found: Found) -> list[OffsetFetchResponseTopic]:
    return lazily(_topic, found)


def _topic(found: tuple[str, list[FetchedOffset]]) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(name=found[0], partitions=lazily(_partition, found[1]))


def _partition(found: FetchedOffset) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=found.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=found.error,
    )


def refuse(request: OffsetFetchRequest, version: int, code: ErrorCode) -> OffsetFetchResponse:
    if version < _MANY_GROUPS:
        return _respond_one(version, request.topics, [FetchReply(request.group_id, code)])
    return _respond_many([FetchReply(each, code) for each in dict.fromkeys(group.group_id for group in request.groups)])
