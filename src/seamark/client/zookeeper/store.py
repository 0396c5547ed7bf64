"""The old store of offsets, as a consumer reaches it: ZooKeeper itself, or a broker that serves version 0 for it.

Both are asked from the I/O loop and never block it: kazoo works on a thread of its own. They read and write numbers
alone. What may pass is OffsetStorageUnavailable, which is retried like a lost connection; what will not is
OffsetStorageRefused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from seamark.client.config.config import ConsumerConfig
from seamark.client.errors import ClientError, ConnectionFailed, UnsupportedByBroker, broker_error
from seamark.client.group_offsets import (
    NO_IDENTITY,
    commit_codes,
    fetched_offsets,
    offset_commit_request,
    offset_fetch_request,
)
from seamark.client.net.client import NetworkClient
from seamark.client.records import Offset
from seamark.client.requests import Request
from seamark.client.timing import Deadline
from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_commit import OffsetCommitResponse
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchResponse
from seamark.wire.schema.schema import Message

# The version of OffsetCommit and OffsetFetch that means ZooKeeper.
_IN_ZOOKEEPER = 0

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class OffsetStorageUnavailable(ConnectionFailed):
    """ZooKeeper, or the broker that speaks for it, could not be reached; trying again may help."""


class OffsetStorageRefused(ClientError):
    """What is in ZooKeeper cannot be used, or it cannot be asked in this way."""


class OldOffsets(Protocol):
    """Owned by the I/O loop."""

    async def read(self, group_id: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """What is stored; partitions without an offset are left out."""
        ...

    async def write(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store all of them, or raise; some may have been stored then, and storing again does no harm."""
        ...

    def close(self) -> None: ...


class InZookeeper:
    """``zookeeper.connect``: kazoo, on one thread, so that what is written first is stored first."""

    def __init__(self, connect: str, timeout_s: float) -> None:
        from seamark.zookeeper.store import ZookeeperStore

        self._store = ZookeeperStore(connect, timeout=timeout_s)
        self._thread = ThreadPoolExecutor(1, "seamark-zookeeper")

    async def read(self, group_id: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        answer = await self._run(lambda: self._store.read_partitions(group_id, partitions))
        if answer.bad:
            raise OffsetStorageRefused(f"{self._store.name}: {answer.bad[0]}")
        return {partition: stored.offset for partition, stored in answer.good.items()}

    async def write(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        from seamark.stores.contract import StoredOffset

        wanted = {partition: StoredOffset(offset) for partition, offset in offsets.items()}
        outcomes = await self._run(lambda: self._store.write(group_id, wanted))
        for error in outcomes.values():
            if error is not None:
                raise self._fault(error) from error

    async def _run(self, ask: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
        except SeamarkError as error:
            raise self._fault(error) from error

    def _fault(self, error: SeamarkError) -> ClientError:
        if getattr(error, "is_retriable", False):
            return OffsetStorageUnavailable(self._store.name, str(getattr(error, "reason", error)))
        return OffsetStorageRefused(str(error))

    def close(self) -> None:
        """The session ends on its own thread, which may take a moment."""
        # Closed already.
        with contextlib.suppress(RuntimeError):
            self._thread.submit(self._store.close)
        self._thread.shutdown(wait=False)


class ThroughBrokers:
    """Without ``zookeeper.connect``: version 0 of the requests, which any broker answers."""

    def __init__(self, network: NetworkClient, timeout_s: float) -> None:
        self._network = network
        self._timeout_s = timeout_s

    async def read(self, group_id: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        response = await self._ask(offset_fetch_request({group_id: partitions}), OffsetFetchResponse)
        fetched = fetched_offsets(group_id, response)
        for partition, code in fetched.errors.items():
            # This is how version 0 says that nothing is stored.
            if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                _raise_for(code, "OffsetFetch", partition, group_id)
        return {partition: stored.offset for partition, stored in fetched.offsets.items() if stored is not None}

    async def write(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        wanted = {partition: Offset(offset) for partition, offset in offsets.items()}
        response = await self._ask(offset_commit_request(group_id, NO_IDENTITY, wanted), OffsetCommitResponse)
        for partition, code in commit_codes(response):
            _raise_for(code, "OffsetCommit", partition, group_id)

    async def _ask(self, request: Request, response: type[M]) -> M:
        try:
            return await self._network.send_to_any(
                request, response, deadline=Deadline(self._timeout_s), max_version=_IN_ZOOKEEPER
            )
        except UnsupportedByBroker as error:
            reason = f"{error}; set zookeeper.connect to access ZooKeeper without a broker"
            raise OffsetStorageRefused(reason) from error

    def close(self) -> None:
        """The network is the consumer's own."""


def old_offsets(config: ConsumerConfig, network: NetworkClient) -> OldOffsets:
    timeout_s = config.offsets_channel_socket_timeout_ms / 1000
    if config.zookeeper_connect is not None:
        return InZookeeper(config.zookeeper_connect, timeout_s)
    return ThroughBrokers(network, timeout_s)


def _raise_for(code: ErrorCode, api: str, partition: TopicPartition, group_id: str) -> None:
    if code is ErrorCode.NONE:
        return
    error = broker_error(code, api, f"{partition} of group {group_id!r} in ZooKeeper")
    if error.is_retriable:
        raise OffsetStorageUnavailable("version 0 of a broker", str(error))
    raise error
