"""Fetch sessions: the broker remembers what a consumer reads, so that a request names only what changed (K16).

Epoch 0 opens a session, further requests count 1, 2, … (behind the largest int32 comes 1), -1 closes. A session is
named by a random id and lives in a cache of ``max.incremental.fetch.session.cache.slots``: when that is full, the one
that was used least recently gives way if it is older than two minutes, and otherwise the newcomer gets no session and
stays with full requests. What sessions hold is bounded in bytes too, each by ``MAX_SESSION_BYTES`` and all of a node by
``MAX_BYTES``; one that grows beyond that is no longer known, and its consumer goes on with full requests.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from seamark.broker.clock import BrokerClock
from seamark.broker.config.settings import BrokerSettings
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.record_batch import INT32_MAX

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EVICT_AFTER_SECONDS = 120.0
# About 18,000 partitions, and 140,000 in all sessions.
MAX_SESSION_BYTES = 8 << 20
MAX_BYTES = 64 << 20
# What a partition takes in a session, apart from its topic's name.
_PARTITION_BYTES = 450

# What a partition is called in a request: its topic, by name or by id, and its index.
PartitionKey = tuple[str | bytes, int]


class FetchedPartition:
    """A partition as a consumer asked for it, and what it was last told about it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "told_high_watermark",
        "told_log_start",
        "topic",
    )

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
    ) -> None:
        self.topic = topic
        self.index = index
        self.told_high_watermark = -1
        self.told_log_start = -1
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.index

    def ask_again(self, other: FetchedPartition) -> None:
        """Take over what a later request says."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch


class FetchSession:
    """``partitions`` in the order they are served: one that gave records goes to the end, so that all get their
    turn.
    """

    __slots__ = ("byte_count", "epoch", "id", "last_used", "partitions", "uses_topic_ids")

    def __init__(self, session_id: int, partitions: Iterable[FetchedPartition], *, uses_topic_ids: bool) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used = 0.0
        self.partitions: OrderedDict[PartitionKey, FetchedPartition] = OrderedDict((p.key, p) for p in partitions)
        self.byte_count = sum(map(_size_of, self.partitions))

    def update(self, asked: Iterable[FetchedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Apply an incremental request."""
        for partition in asked:
            key = partition.key
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
                self.byte_count += _size_of(key)
            else:
                known.ask_again(partition)
        for key in forgotten:
            if self.partitions.pop(key, None) is not None:
                self.byte_count -= _size_of(key)

    def count_request(self) -> None:
        self.epoch = 1 if self.epoch == INT32_MAX else self.epoch + 1


def _size_of(key: PartitionKey) -> int:
    return _PARTITION_BYTES + len(key[0])


class FetchingNode(Protocol):
    """What sessions use of their node."""

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def settings(self) -> BrokerSettings: ...


class FetchSessions:
    """The sessions of one node."""

    def __init__(self, node: FetchingNode) -> None:
        self._node = node
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._random = random.Random()
        # What all of them hold.
        self.byte_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        self._sessions.clear()
        self.byte_count = 0

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.byte_count -= session.byte_count

    def update(
        self, session: FetchSession, asked: Iterable[FetchedPartition], forgotten: Iterable[PartitionKey]
    ) -> bool:
        """Apply an incremental request; False if the session has grown too large, and is closed."""
        self.byte_count -= session.byte_count
        session.update(asked, forgotten)
        self.byte_count += session.byte_count
        if session.byte_count <= MAX_SESSION_BYTES and self.byte_count <= MAX_BYTES:
            return True
        self.close(session.id)
        return False

    def find(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession | ErrorCode:
        """Return the session that an incremental request continues, or why it cannot."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.last_used = self._node.clock.monotonic()
        self._sessions.move_to_end(session_id)
        return session

    def open(self, partitions: list[FetchedPartition], *, uses_topic_ids: bool) -> FetchSession | None:
        """Begin a session; None when there is no room."""
        slots = self._node.settings["max.incremental.fetch.session.cache.slots"]
        now = self._node.clock.monotonic()
        if slots == 0:
            return None
        session = FetchSession(0, partitions, uses_topic_ids=uses_topic_ids)
        if session.byte_count > MAX_SESSION_BYTES:
            return None
        while len(self._sessions) >= slots or self.byte_count + session.byte_count > MAX_BYTES:
            oldest = next(iter(self._sessions.values()))
            if now - oldest.last_used < _EVICT_AFTER_SECONDS:
                return None
            self.close(oldest.id)
        session_id = self._random.randint(1, INT32_MAX)
        while session_id in self._sessions:
            session_id = self._random.randint(1, INT32_MAX)
        session.id = session_id
        session.last_used = now
        self.byte_count += session.byte_count
        self._sessions[session_id] = session
        return session
