"""Records for tests that need some: written with one request, without a producer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from seamark.client.config.config import ClientConfig
from seamark.client.errors import broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from seamark.wire.records import Record as WireRecord
from seamark.wire.records import encode_batch

_DAY_MS = 86_400_000


def produce(
    bootstrap: str, partition: TopicPartition, values: list[bytes], timestamp_ms: int | Sequence[int] | None = None
) -> int:
    """Append the values to the partition as one batch; gives the offset of the first.

    They are a millisecond apart, or each has its own time. Unless told otherwise they are a day old: a broker may
    delete at any moment what is older than its retention time.
    """
    if timestamp_ms is None:
        timestamp_ms = int(time.time() * 1000) - _DAY_MS
    times = [timestamp_ms + index for index in range(len(values))] if isinstance(timestamp_ms, int) else timestamp_ms
    batch = encode_batch(
        [WireRecord(index, at_ms, value=value) for index, (value, at_ms) in enumerate(zip(values, times, strict=True))]
    )
    data = ProduceRequestPartition(index=partition.partition, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[ProduceRequestTopic(name=partition.topic, partition_data=[data])]
    )

    async def send():
        network = NetworkClient(ClientConfig.from_options({"bootstrap.servers": bootstrap}))
        try:
            for _ in range(100):
                leader = await network.leader_of(partition, Deadline(20))
                response = await network.send(leader.id, request, ProduceResponse, deadline=Deadline(20))
                answer = response.responses[0].partition_responses[0]
                if answer.error_code == 0:
                    return answer.base_offset
                network.request_refresh()
                await asyncio.sleep(0.1)
            raise broker_error(answer.error_code, "Produce", str(partition))
        finally:
            await network.close()

    return IoThread.get().run(send())
