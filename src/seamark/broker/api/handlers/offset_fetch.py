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

from seamark.acls import Operation, ResourceType
from seamark.broker.groups.zookeeper import IN_ZOOKEEPER, fetch_from_zookeeper
from seamark.broker.net.slices import lazily
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
        yield from _fetch(node, context, require_stable, group_id, wanted, _Place(gathering, number))
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
    """Replies in the order in which they were asked for: of all groups of a request, or of all portions of a group."""

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


class _Place:
    """The place of one reply among those that are gathered, as the coordinator's asker."""

    __slots__ = ("_gathering", "_number")

    def __init__(self, gathering: _Gathering, number: int) -> None:
        self._gathering = gathering
        self._number = number

    def reply_value(self, reply: FetchReply) -> None:
        self._gathering.put(self._number, reply)


def _joined(
    group_id: str, may_see: Callable[[str], bool] | None, denied: Found, replies: list[FetchReply]
) -> FetchReply:
    """One reply for a group, of its portions; without what may not be seen, and with what was refused before."""
    error = next((reply.error for reply in replies if reply.error is not _NONE), _NONE)
    if error is not _NONE:
        return FetchReply(group_id, error)
    topics: Found = []
    for reply in replies:
        for name, offsets in reply.topics:
            if topics and topics[-1][0] == name:
                # The last portion ended inside this topic.
                topics[-1][1].extend(offsets)
            elif may_see is None or may_see(name):
                topics.append((name, offsets))
    return FetchReply(group_id, topics=topics + denied)


def _fetch(
    node: Services, context: RequestContext, require_stable: bool, group_id: str, asked: Wanted, place: _Place
) -> Generator[None, None, None]:
    may_see: Callable[[str], bool] | None = None
    if not context.connection.session.is_unrestricted:
        if not context.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            place.reply_value(FetchReply(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        may_see = partial(context.may, Operation.DESCRIBE, ResourceType.TOPIC)
    denied: Found = []
    wanted: list[tuple[str, list[int]]] = []
    portioned: list[list[tuple[str, list[int]]] | None] = []
    if asked is None:
        stored = node.groups.stored_partitions(group_id)
        if len(stored) <= _PARTITIONS_AT_ONCE:
            portioned = [None]
        else:
            by_topic: dict[str, list[int]] = {}
            for topic, partition in stored:
                by_topic.setdefault(topic, []).append(partition)
                yield
            wanted = list(by_topic.items())
    else:
        for name, partitions in asked.items():
            if may_see is not None and not may_see(name):
                denied.append((name, lazily(_denied, _once(partitions))))
            else:
                wanted.append((name, _once(partitions)))
            yield
        # What is left may be seen.
        may_see = None
    if context.version == IN_ZOOKEEPER:
        fetch_from_zookeeper(
            node, group_id, wanted, lambda reply: place.reply_value(_joined(group_id, None, denied, [reply]))
        )
        return
    portioned = portioned or [*portions(_cut(wanted), _PARTITIONS_AT_ONCE, lambda each: len(each[1]) + 1)] or [[]]
    gathering = _Gathering(
        len(portioned), lambda replies: place.reply_value(_joined(group_id, may_see, denied, replies))
    )
    for number, portion in enumerate(portioned):
        node.groups.submit(FetchOffsets(group_id, portion, require_stable), _Place(gathering, number))
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
