"""How old the first unread record of a partition is, from the header of the batch that holds it.

The header tells the times of its first and its newest record, so nothing has to be unpacked: the time of a record in
between is taken to be in proportion to its offset. One small fetch per partition, all at once. A partition that gives
no answer is left out: the age of records is for people to look at, never for decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from seamark.client.config import ConsumerConfig
from seamark.client.deadline import Deadline
from seamark.client.errors import ClientError
from seamark.client.fetch_requests import FetchLimits, answered_partitions, fetch_request, version_cap
from seamark.client.fetch_sessions import CLOSING, NO_SESSION, Ask, SessionRequest
from seamark.client.network import NetworkClient
from seamark.client.requests import ByVersion
from seamark.errors import WireError
from seamark.topic_partition import TopicPartition
from seamark.wire.messages.fetch import FetchRequest, FetchResponse
from seamark.wire.record_batch import LOG_APPEND_TIME, BatchHeader, read_header
from seamark.wire.schema import Message

# The broker sends one whole batch however small this is.
_ONE_BATCH = FetchLimits(max_wait_ms=0, min_bytes=0, max_bytes=1, max_partition_bytes=1)


async def first_unread_times(
    network: NetworkClient, config: ConsumerConfig, positions: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int]:
    """The time in ms of the record at each position, as far as it can be told."""
    asked = [(partition, offset) for partition, offset in positions.items()]
    answers = await asyncio.gather(*(_time_at(network, config, each, offset, deadline) for each, offset in asked))
    return {partition: answer for (partition, _), answer in zip(asked, answers, strict=True) if answer is not None}


async def _time_at(
    network: NetworkClient, config: ConsumerConfig, partition: TopicPartition, offset: int, deadline: Deadline
) -> int | None:
    try:
        leader = await network.leader_of(partition, deadline)
        view = network.view
        ask = Ask(view.topic_id(partition.topic), offset, view.leader_epoch(partition), 1)
        request = SessionRequest(NO_SESSION, CLOSING, {partition: ask})
        version = 0

        def make(chosen: int) -> Message:
            nonlocal version
            version = chosen
            return fetch_request(request, _ONE_BATCH, 1).make(chosen)

        response = await network.send(
            leader.id,
            ByVersion(FetchRequest, make),
            FetchResponse,
            deadline=deadline,
            timeout_ms=config.request_timeout_ms,
            max_version=version_cap(request),
        )
        answer = answered_partitions(response, version, request.send).get(partition)
        if answer is None or answer.error_code or not answer.records:
            return None
        return time_in_batch(read_header(answer.records, 0), offset)
    except (ClientError, WireError):
        return None


def time_in_batch(header: BatchHeader, offset: int) -> int | None:
    """The time of the record at ``offset``, in proportion between the batch's first and newest."""
    newest = header.max_timestamp_ms
    if newest < 0:
        return None
    if header.attributes & LOG_APPEND_TIME or header.last_offset_delta == 0 or header.base_timestamp_ms < 0:
        return newest
    passed = min(max(0, offset - header.base_offset), header.last_offset_delta)
    return header.base_timestamp_ms + (newest - header.base_timestamp_ms) * passed // header.last_offset_delta
