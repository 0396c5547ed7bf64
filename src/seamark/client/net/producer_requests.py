"""Produce requests to one node after the other: written in the order they were made, answered whenever.

A connection whose socket is full lets writers wait, and those who come later could find it writable first. Batches of
one partition must not overtake each other, so each node has a queue for writing, and only for writing.

Owned by the I/O loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from seamark.client.config.config import ProducerConfig
from seamark.client.deadline import Deadline
from seamark.client.errors import ConnectionFailed
from seamark.client.net.client import NetworkClient
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)


def produce_request(batches: Iterable[tuple[TopicPartition, bytes]], config: ProducerConfig) -> ProduceRequest:
    """One request with these batches, at most one of each partition."""
    topics: dict[str, ProduceRequestTopic] = {}
    for (name, index), sealed in batches:
        entry = topics.get(name)
        if entry is None:
            entry = topics[name] = ProduceRequestTopic(name=name)
        entry.partition_data.append(ProduceRequestPartition(index=index, records=sealed))
    return ProduceRequest(acks=config.acks, timeout_ms=config.request_timeout_ms, topic_data=list(topics.values()))


class OrderedRequests:
    def __init__(self, config: ProducerConfig, network: NetworkClient, min_version: int) -> None:
        self._timeout_s = config.request_timeout_ms / 1000
        self._network = network
        self._min_version = min_version
        # Waiters of asyncio's lock are served in their order.
        self._turns: dict[int, asyncio.Lock] = {}

    async def send(self, node_id: int, request: ProduceRequest) -> ProduceResponse | None:
        """The answer, or None to a request that has none; NetworkError when there should be one and is not."""
        turn = self._turns.get(node_id)
        if turn is None:
            turn = self._turns[node_id] = asyncio.Lock()
        async with turn:
            connection = await self._network.connection_to(node_id).ready(Deadline(self._timeout_s))
            made, version = self._network.exchanges.made(connection, request, self._min_version, None)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._network.exchanges.unmuted(connection)
            except TimeoutError:
                reason = f"Produce was not sent within {self._timeout_s:g} s: {connection.throttle}"
                raise ConnectionFailed(connection.address, reason) from None
            if request.acks == 0:
                await connection.send_only(made, version)
                return None
            answer = await connection.start(made, ProduceResponse, version, self._timeout_s)
        return await answer
