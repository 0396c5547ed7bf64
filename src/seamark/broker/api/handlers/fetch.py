"""Fetch: read batches, at once or when there are enough of them.

A request with an error, without partitions or with enough bytes is answered at once. Any other waits until its
partitions have been given ``min_bytes``, one of them changed hands, or ``max_wait_ms`` is over; then everything is
read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING

from seamark.broker.api.fetch_reading import FetchRead, PartitionReader, ends_early, failed_partition
from seamark.broker.api.leader_hints import endpoints_of
from seamark.broker.log.partition import Partition
from seamark.broker.net.context import LONG_REQUEST_BYTES
from seamark.broker.net.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
    PartitionKey,
)
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseNodeEndpoint,
    FetchResponsePartition,
    FetchResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.clock import Timer
    from seamark.broker.net.context import RequestContext

API = "Fetch"
VERSIONS = "4-17"
# More partitions than this are read in slices.
_MOST_AT_ONCE = 20
SESSIONS_SINCE = 7
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
ENDPOINTS_SINCE = 16

_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


def handle(node: Services, request: FetchRequest, context: RequestContext) -> FetchResponse | None:
    version = context.version
    replica_id = request.replica_state.replica_id if version >= REPLICA_STATE_SINCE else request.replica_id
    if replica_id >= 0:
        # All nodes share one store, so nobody here is a follower of anything.
        return refuse(request, version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    asked = _asked(request, version)
    session: FetchSession | None = None
    is_incremental = False
    if version >= SESSIONS_SINCE:
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                node.fetch_sessions.close(request.session_id)
            if request.session_epoch == INITIAL_EPOCH:
                session = node.fetch_sessions.open(asked, uses_topic_ids=version >= TOPIC_IDS_SINCE)
        else:
            existing = node.fetch_sessions.find(
                request.session_id, request.session_epoch, uses_topic_ids=version >= TOPIC_IDS_SINCE
            )
            if isinstance(existing, ErrorCode):
                return FetchResponse(error_code=existing)
            if not node.fetch_sessions.update(existing, asked, _forgotten(request, version)):
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if existing.partitions:
                session, is_incremental = existing, True
                session.count_request()
            else:
                node.fetch_sessions.close(existing.id)
    fetch = _Fetch(node, request, context, asked, session, replica_id, is_incremental=is_incremental)
    if fetch.is_long:
        context.take_turns(fetch.read_in_slices(fetch.begun))
        return None
    return fetch.begin()


def _asked(request: FetchRequest, version: int) -> list[FetchedPartition]:
    uses_ids = version >= TOPIC_IDS_SINCE
    asked = [
        FetchedPartition(
            topic.topic_id if uses_ids else topic.topic,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    if len(asked) > 1:
        # As in Kafka, of a partition that is named more than once the last counts.
        asked = list({partition.key: partition for partition in asked}.values())
    return asked


def _forgotten(request: FetchRequest, version: int) -> list[PartitionKey]:
    uses_ids = version >= TOPIC_IDS_SINCE
    return [
        (topic.topic_id if uses_ids else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


class _Fetch:
    """One request; while it waits it is among the ``waiters`` of its partitions."""

    def __init__(
        self,
        node: Services,
        request: FetchRequest,
        context: RequestContext,
        asked: list[FetchedPartition],
        session: FetchSession | None,
        replica_id: int,
        *,
        is_incremental: bool,
    ) -> None:
        self._node = node
        self._context = context
        self._asked = asked
        self._session = session
        self._is_incremental = is_incremental
        self._max_bytes = min(request.max_bytes, node.settings["fetch.max.bytes"])
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._max_wait_seconds = request.max_wait_ms / 1000
        self._reader = PartitionReader(node, context, request.isolation_level, replica_id)
        self._watched: list[Partition] = []
        self._seen_bytes = 0
        self._held_bytes = 0
        self._timer: Timer | None = None
        self._is_done = False

    @property
    def is_long(self) -> bool:
        """Whether reading the partitions, or writing the answer, is too much for one turn of the event loop."""
        return len(self._wanted) > _MOST_AT_ONCE or self._context.request_bytes > LONG_REQUEST_BYTES

    def read_in_slices(self, done: Callable[[FetchRead], None]) -> Generator[None]:
        """Read, and hold what was read against other fetches, until the answer is with the connection."""
        read = FetchRead(self._max_bytes)
        budget, context = self._node.fetch_budget, self._context
        context.on_end = self._let_go
        for partition in list(self._wanted):
            read.shorten(budget.room(read.left))
            before = read.byte_count
            self._reader.add(read, partition)
            self._held_bytes += read.byte_count - before
            budget.held_bytes += read.byte_count - before
            yield
            if not context.connection.is_open:
                self._let_go()
                return
        done(read)

    def _let_go(self) -> None:
        self._node.fetch_budget.held_bytes -= self._held_bytes
        self._held_bytes = 0

    def begun(self, read: FetchRead) -> None:
        """``begin``, for partitions that were read in slices."""
        response = self._respond_or_wait(read)
        if response is not None:
            self._context.reply(response)

    def begin(self) -> FetchResponse | None:
        return self._respond_or_wait(self._read())

    def _respond_or_wait(self, read: FetchRead) -> FetchResponse | None:
        if self._max_wait_seconds <= 0 or not read.outcomes or read.is_final or self._is_enough(read):
            return self._respond(read)
        # What was read is dropped, and read again when there is enough.
        self._let_go()
        self._seen_bytes = read.byte_count
        self._watched = read.partitions
        for partition in read.partitions:
            partition.waiters[self] = None
        self._timer = self._node.timers.call_after(self._max_wait_seconds, self._finish)
        self._context.on_abandoned = self._unwatch
        return None

    def _is_enough(self, read: FetchRead) -> bool:
        return (
            read.byte_count >= self._min_bytes
            or (read.is_shortened and read.byte_count > 0)
            or any(
                ends_early(outcome.records, outcome.high_watermark) for _, outcome in read.outcomes if outcome.records
            )
        )

    @property
    def _wanted(self) -> Collection[FetchedPartition]:
        return self._session.partitions.values() if self._is_incremental and self._session else self._asked

    def _read(self) -> FetchRead:
        room = self._node.fetch_budget.room(self._max_bytes)
        return self._reader.read(list(self._wanted), self._max_bytes, room)

    # -- as a waiter

    def records_arrived(self, byte_count: int) -> None:
        self._seen_bytes += byte_count
        if self._seen_bytes >= self._min_bytes:
            self._finish_soon()

    def partition_changed(self) -> None:
        self._finish_soon()

    def _finish_soon(self) -> None:
        """In the next turn of the loop: what arrives in this one is answered together."""
        if not self._is_done:
            self._unwatch()
            self._node.loop.call_soon(self._reply)

    def _finish(self) -> None:
        if not self._is_done:
            self._unwatch()
            self._reply()

    def _unwatch(self) -> None:
        self._is_done = True
        for partition in self._watched:
            partition.waiters.pop(self, None)
        self._watched = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _reply(self) -> None:
        if not self._context.connection.is_open:
            return
        # Always in the client's share: one write may wake any number of them.
        self._context.take_turns(self.read_in_slices(lambda read: self._context.reply(self._respond(read))))

    # -- the answer

    def _respond(self, read: FetchRead) -> FetchResponse:
        outcomes = read.outcomes
        if self._session is not None:
            told = [pair for pair in outcomes if _tell(*pair) or not self._is_incremental]
            for wanted, outcome in told:
                if outcome.records and wanted.key in self._session.partitions:
                    self._session.partitions.move_to_end(wanted.key)
            outcomes = told
        response = FetchResponse(session_id=NO_SESSION if self._session is None else self._session.id)
        uses_ids = self._context.version >= TOPIC_IDS_SINCE
        topics: dict[str | bytes, FetchResponseTopic] = {}
        for wanted, outcome in outcomes:
            topic = topics.get(wanted.topic)
            if topic is None:
                topic = topics[wanted.topic] = (
                    FetchResponseTopic(topic_id=wanted.topic) if uses_ids else FetchResponseTopic(topic=wanted.topic)  # type: ignore[arg-type]
                )
                response.responses.append(topic)
            topic.partitions.append(outcome)
        if read.moved and self._context.version >= ENDPOINTS_SINCE:
            response.node_endpoints = [
                FetchResponseNodeEndpoint(node_id=leader.id, host=address.host, port=address.port, rack=leader.rack)
                for leader, address in endpoints_of(self._node, read.moved, self._context)
            ]
        return response


def _tell(wanted: FetchedPartition, outcome: FetchResponsePartition) -> bool:
    """Remember what the client is told; False when it is nothing that it does not know."""
    is_news = bool(outcome.records) or outcome.diverging_epoch.end_offset >= 0
    if outcome.high_watermark != wanted.told_high_watermark:
        wanted.told_high_watermark = outcome.high_watermark
        is_news = True
    if outcome.log_start_offset != wanted.told_log_start:
        wanted.told_log_start = outcome.log_start_offset
        is_news = True
    if outcome.error_code:
        # Told again and again, and once more when it is over.
        wanted.told_high_watermark = -1
        is_news = True
    return is_news


def refuse(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """Errors of sessions, and those of requests that name no partition, are the whole response's; others each
    partition's.
    """
    if version >= SESSIONS_SINCE and (code in _SESSION_ERRORS or not request.topics):
        return FetchResponse(error_code=code)
    return FetchResponse(
        responses=[
            FetchResponseTopic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[failed_partition(partition.partition, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )
