"""The time of the first record at or beyond an offset, read from the log itself.

Nothing but the record can tell: producers set the times, so those of other records, or of the batch's header, say
nothing about it. One fetch brings one batch, however small its limit. Batches of transaction markers, and those whose
records from the offset on were compacted away, are passed over. Some places are asked for at a time, because each
answer may be as large as the largest batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seamark.client.arguments import read_items
from seamark.client.errors import ClientError, CorruptRecords, PeerProtocolError, broker_error, unreadable
from seamark.client.fetch.messages import FetchLimits, answered_partitions, fetch_request, version_cap
from seamark.client.fetch.sessions import CLOSING, NO_SESSION, FetchTarget, SessionRequest
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import Results, retry_each
from seamark.client.timing import Deadline
from seamark.errors import DecodeError, OverLimit
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.fetch import FetchResponse, FetchResponsePartition
from seamark.wire.records import RecordSlices, scan_batches

# The broker sends one whole batch however small this is.
_ONE_BATCH = FetchLimits(max_wait_ms=0, min_bytes=0, max_bytes=1, max_partition_bytes=1)
_AT_ONCE = 8
# Batches without a record that are passed over before it is given up.
_MOST_BATCHES = 16
# Records that are walked over in one batch, half a second of work, and how many are in memory at a time.
_MOST_RECORDS = 1_000_000
_RECORDS_AT_ONCE = 1_000


class LogPlace(NamedTuple):
    """An offset of a log."""

    partition: TopicPartition
    offset: int


async def record_times(
    network: NetworkClient, places: Iterable[LogPlace], deadline: Deadline
) -> Results[LogPlace, int | None]:
    """Per place the time in ms of the first record at or beyond it; None if there is none up to the log's end."""
    asked = read_items("places", places, LogPlace)
    room = asyncio.Semaphore(_AT_ONCE)
    # What batches unfold to is in memory once, however many are asked for.
    decoding = asyncio.Lock()

    async def ask(place: LogPlace) -> int | ClientError | None:
        async with room:
            try:
                return await _time_at(network, place, deadline, decoding)
            except ClientError as error:
                if error.is_retriable:
                    network.metadata.mark_stale()
                return error

    async def attempt(some: Sequence[LogPlace]) -> dict[LogPlace, int | ClientError | None]:
        return dict(zip(some, await asyncio.gather(*map(ask, some)), strict=True))

    return await retry_each(
        asked, attempt, operation="reading record timestamps", config=network.config, deadline=deadline
    )


async def _time_at(network: NetworkClient, place: LogPlace, deadline: Deadline, decoding: asyncio.Lock) -> int | None:
    partition, offset = place
    for _ in range(_MOST_BATCHES):
        answer = await _fetch(network, partition, offset, deadline)
        if answer.error_code:
            raise broker_error(answer.error_code, "Fetch", f"partition {partition}")
        try:
            # In a thread: what a few bytes unfold to must not hold up the connections of everybody else.
            async with decoding:
                time_ms, offset = await asyncio.to_thread(_first_time, answer.records or b"", offset)
        except DecodeError as error:
            raise unreadable(partition, offset, error, answer.records or b"") from None
        if time_ms is not None or offset >= answer.high_watermark:
            return time_ms
    raise CorruptRecords(partition, offset, f"the {_MOST_BATCHES} batches before it contain no records")


def _first_time(records: bytes | memoryview, offset: int) -> tuple[int | None, int]:
    """The time of the first record at or beyond ``offset``, or None and the offset to go on from."""
    for header, start in scan_batches(records):
        if not header.is_control and header.last_offset >= offset:
            if header.record_count > _MOST_RECORDS:
                reason = (
                    f"the batch has {header.record_count} records, more than the {_MOST_RECORDS} that are "
                    "searched for a timestamp"
                )
                raise OverLimit("record_count", start, reason)
            batch = RecordSlices(records, start, header)
            while batch.left:
                for record in batch.read(_RECORDS_AT_ONCE, _RECORDS_AT_ONCE):
                    if record.offset >= offset:
                        return record.timestamp_ms, offset
        offset = max(offset, header.last_offset + 1)
    return None, offset


async def _fetch(
    network: NetworkClient, partition: TopicPartition, offset: int, deadline: Deadline
) -> FetchResponsePartition:
    leader = await network.leader_of(partition, deadline)
    view = network.view
    asked = FetchTarget(view.topic_id(partition.topic), offset, view.leader_epoch(partition), 1)
    request = SessionRequest(NO_SESSION, CLOSING, {partition: asked})
    response, version = await network.exchange(
        leader.id,
        fetch_request(request, _ONE_BATCH, 1),
        FetchResponse,
        deadline=deadline,
        max_version=version_cap(request),
    )
    if response.error_code:
        raise broker_error(response.error_code, "Fetch", f"partition {partition}")
    answer = answered_partitions(response, version, request.send).get(partition)
    if answer is None:
        raise PeerProtocolError(leader.address, f"the Fetch response does not include {partition}")
    return answer
