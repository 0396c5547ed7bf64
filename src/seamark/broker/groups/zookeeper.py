"""Offsets of the oldest clients, in ZooKeeper: what OffsetCommit and OffsetFetch version 0 store and read (G3, G4).

``offsets.zookeeper.connect`` turns it on; without it version 0 is not served. The two stores know nothing of each
other: what version 0 commits, later versions do not see (G9). There are no members and no generations here, so any node
answers, and nobody is fenced.

ZooKeeper is asked on a thread of its own, in the order of the requests; the event loop never waits for it. While it
cannot be reached, requests are answered COORDINATOR_NOT_AVAILABLE, which clients retry.

The rules of the two requests are Kafka's: the topic and partition must exist, the metadata must not be too long and is
then forgotten, since ZooKeeper keeps the number alone. A partition for which nothing is stored is answered
UNKNOWN_TOPIC_OR_PARTITION with offset -1; later versions answer it without an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from seamark.broker.config.settings import BrokerSettings
from seamark.broker.log.partition import Partition
from seamark.coordinator.replies import CommitReply, FetchedOffset, FetchReply
from seamark.errors import ConfigError, SeamarkError
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from seamark.zookeeper.nodes import why_not_a_node

if TYPE_CHECKING:
    from seamark.zookeeper.store import ZookeeperStore

_log = readable_logger("seamark.broker")

SETTING = "offsets.zookeeper.connect"
# The version that is kept in ZooKeeper; every later one is the coordinator's.
IN_ZOOKEEPER = 0
# Below request.timeout.ms of any client: it shall hear that ZooKeeper is away, not nothing.
_PATIENCE_S = 6.0
# Requests that may wait for ZooKeeper; one connection has at most one of them.
_MOST_WAITING = 10_000

_NONE = ErrorCode.NONE
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
_UNREADABLE = ErrorCode.UNKNOWN_SERVER_ERROR
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

T = TypeVar("T")


class ZookeeperOffsets:
    """Owned by the event loop's thread; only ``_work`` runs on the other one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connect: object) -> None:
        from seamark.zookeeper.store import ZookeeperStore

        self._loop = loop
        try:
            self._store: ZookeeperStore = ZookeeperStore(str(connect), timeout=_PATIENCE_S)
        except ConfigError as error:
            raise ConfigError(SETTING, connect, error.reason) from None
        self._thread = ThreadPoolExecutor(1, "seamark-zookeeper")
        self._waiting = 0
        self._is_closed = False
        # Written by the other thread: until when requests that came have waited for a ZooKeeper that did not answer.
        self._away_until = 0.0
        # The last complaint, which is not repeated.
        self._told = ""

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        done: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Store offsets; ``done`` is called on the event loop with a code for each."""

        def write() -> dict[TopicPartition, ErrorCode]:
            from seamark.stores.contract import StoredOffset

            wanted = {partition: StoredOffset(offset) for partition, offset in offsets.items()}
            outcomes = self._store.write(group, wanted)
            for error in outcomes.values():
                if error is not None:
                    self._note(error)
            return {each: _code(error) for each, error in outcomes.items()}

        self._submit(write, done, lambda code: dict.fromkeys(offsets, code))

    def fetch(
        self,
        group: str,
        partitions: list[TopicPartition],
        done: Callable[[dict[TopicPartition, int | ErrorCode]], None],
    ) -> None:
        """Read offsets; ``done`` is called on the event loop with what is stored, or the code that says why not."""

        def read() -> dict[TopicPartition, int | ErrorCode]:
            from seamark.stores.contract import BadOffset

            found: dict[TopicPartition, int | ErrorCode] = {}
            for partition, stored in self._store.read_partitions(group, partitions).items():
                if isinstance(stored, BadOffset):
                    _log.error("group %r: %s", group, stored)
                    found[partition] = _UNREADABLE
                else:
                    found[partition] = stored.offset
            return found

        self._submit(read, done, lambda code: dict.fromkeys(partitions, code))

    def _submit(self, ask: Callable[[], T], done: Callable[[T], None], failed: Callable[[ErrorCode], Any]) -> None:
        if self._is_closed or self._waiting >= _MOST_WAITING:
            done(failed(_AWAY))
            return
        self._waiting += 1
        self._thread.submit(self._work, ask, done, failed, time.monotonic())

    def _work(
        self, ask: Callable[[], T], done: Callable[[T], None], failed: Callable[[ErrorCode], Any], came: float
    ) -> None:
        answer: Any
        if came < self._away_until:
            # It waited as long as the one before it, which found ZooKeeper away.
            answer = failed(_AWAY)
        else:
            try:
                answer = ask()
            except SeamarkError as error:
                answer = failed(_code(error))
                self._note(error)
            except Exception:  # noqa: BLE001 - the edge where a bug becomes an answer, as in dispatch
                _log.exception("ZooKeeper is unavailable")
                answer = failed(ErrorCode.UNKNOWN_SERVER_ERROR)
        # The loop is gone when the broker was closed meanwhile, and with it who asked.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish, done, answer)

    def _note(self, error: SeamarkError) -> None:
        if _code(error) is _AWAY:
            self._away_until = time.monotonic()
        if str(error) != self._told:
            self._told = str(error)
            _log.warning("%s", error)

    def _finish(self, done: Callable[[Any], None], answer: Any) -> None:
        self._waiting -= 1
        done(answer)

    def close(self) -> None:
        """Answer nobody any more; the session ends on its own thread, which may take a moment."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self._store.close)
            self._thread.shutdown(wait=False)


def _code(error: SeamarkError | None) -> ErrorCode:
    if error is None:
        return _NONE
    return _AWAY if getattr(error, "is_retriable", False) else _UNREADABLE


class PartitionLookup(Protocol):
    """The cluster, as far as it is asked whether a partition exists."""

    def partition(self, topic_name: str, index: int) -> Partition | None: ...


class OffsetsNode(Protocol):
    """What these requests use of the node that serves them."""

    @property
    def cluster(self) -> PartitionLookup: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def zookeeper_offsets(self) -> ZookeeperOffsets | None: ...


def commit_to_zookeeper(
    node: OffsetsNode, group: str, topics: list[OffsetCommitRequestTopic], answer: Callable[[CommitReply], None]
) -> None:
    """Store what can be stored and answer for all, in the order of the request."""
    asked = [(TopicPartition(topic.name, each.partition_index), each) for topic in topics for each in topic.partitions]
    codes = {partition: _why_not(node, group, partition, each) for partition, each in asked}

    def done(stored: dict[TopicPartition, ErrorCode]) -> None:
        codes.update(stored)
        reply = CommitReply()
        reply.topics = [
            (
                topic.name,
                [(each.partition_index, codes[TopicPartition(topic.name, each.partition_index)])
                 for each in topic.partitions],
            )
            for topic in topics
            if topic.partitions
        ]  # fmt: skip
        answer(reply)

    wanted = {partition: each.committed_offset for partition, each in asked if codes[partition] is _NONE}
    if wanted:
        assert node.zookeeper_offsets is not None
        node.zookeeper_offsets.commit(group, wanted, done)
    else:
        done({})


def _why_not(
    node: OffsetsNode, group: str, partition: TopicPartition, asked: OffsetCommitRequestPartition
) -> ErrorCode:
    if node.cluster.partition(*partition) is None:
        return _UNKNOWN
    if why_not_a_node(group) is not None:
        return ErrorCode.INVALID_GROUP_ID
    if len((asked.committed_metadata or "").encode()) > node.settings.coordinator.metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.OFFSET_OUT_OF_RANGE if asked.committed_offset < 0 else _NONE


def fetch_from_zookeeper(
    node: OffsetsNode, group: str, topics: list[tuple[str, list[int]]], answer: Callable[[FetchReply], None]
) -> None:
    """Read what is stored of these partitions."""
    wanted = [
        TopicPartition(name, each)
        for name, partitions in topics
        for each in partitions
        if node.cluster.partition(name, each) is not None
    ]

    def done(found: dict[TopicPartition, int | ErrorCode]) -> None:
        reply = FetchReply(group)
        reply.topics = [
            (name, [_fetched(each, found.get(TopicPartition(name, each))) for each in partitions])
            for name, partitions in topics
        ]
        answer(reply)

    if wanted:
        assert node.zookeeper_offsets is not None
        node.zookeeper_offsets.fetch(group, wanted, done)
    else:
        done({})


def _fetched(partition: int, found: int | ErrorCode | None) -> FetchedOffset:
    if found is None:
        return FetchedOffset(partition, error=_UNKNOWN)
    if isinstance(found, ErrorCode):
        return FetchedOffset(partition, error=found)
    return FetchedOffset(partition, found)
