"""Exact ranges of a partition as Arrow columns, for readers that plan their offsets themselves, such as Spark's tasks.

No group, no position, no session: ``fetch_columns(partition, start, end)`` gives the records from ``start`` up to but
not including ``end``, in order, each once. The next request is on its way while the columns of the last answer are
decoded on the caller's thread; connections are kept for the next range. Leaders that move are followed. What the log
does not hold any more raises ``RangeGone``; a range that reaches beyond the end of the log is waited for, as long as
something arrives within ``default.api.timeout.ms``.

    with ColumnReader(bootstrap_servers="localhost:9092") as reader:
        for batch in reader.fetch_columns(TopicPartition("orders", 0), 0, 1_000_000):
            ...
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from seamark.client.config.config import ConsumerConfig
from seamark.client.core.positions.messages import READ_COMMITTED
from seamark.client.errors import ClientError, CorruptRecords, RangeGone, broker_error, unreadable
from seamark.client.fetch.arrow import MOST_ROWS
from seamark.client.fetch.chunks import end_of, plausible_end
from seamark.client.fetch.messages import (
    FetchLimits,
    FetchOutcome,
    answered_partitions,
    fetch_request,
    outcome_of,
    version_cap,
)
from seamark.client.fetch.records import ReadLimits
from seamark.client.fetch.sessions import CLOSING, NO_SESSION, FetchTarget, SessionRequest
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline, ExponentialBackoff, now_ms
from seamark.errors import ClosedError, DecodeError, UsageError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.fetch import FetchResponse, FetchResponsePartition

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_COLUMNS = ("key", "value", "offset", "timestamp")
# Large enough that the costs of a request do not count, small enough for the processor's caches.
DEFAULT_FETCH_BYTES = 2 << 20


class _Piece(NamedTuple):
    """What one answer holds: bytes from ``offset`` up to ``next_offset``."""

    offset: int
    next_offset: int
    records: memoryview
    aborted: list[tuple[int, int]]


class ColumnReader:
    """Configured as a Consumer is, but for the group; safe to use from one thread at a time."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self.config = ConsumerConfig.from_options(config, keywords)
        self._network = NetworkClient(self.config)
        self._io = IoThread.get()
        self._is_closed = False

    def fetch_columns(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        columns: Iterable[str] = DEFAULT_COLUMNS,
        timestamp_unit: Literal["ms", "us"] = "ms",
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """The records of the range as record batches, none of them empty; see ``seamark.wire.columns`` for columns."""
        self._io.check_owner(type(self).__name__)
        if self._is_closed:
            raise ClosedError("the reader is closed")
        return fetch_columns(
            self._network,
            self.config,
            partition,
            start,
            end,
            columns=columns,
            timestamp_unit=timestamp_unit,
            fetch_bytes=fetch_bytes,
        )

    def close(self) -> None:
        if not self._is_closed and self._io.owner_is_here:
            self._is_closed = True
            self._io.run(self._network.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def fetch_columns(
    network: NetworkClient,
    config: ConsumerConfig,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    columns: Iterable[str] = DEFAULT_COLUMNS,
    timestamp_unit: Literal["ms", "us"] = "ms",
    fetch_bytes: int = DEFAULT_FETCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """As ``ColumnReader.fetch_columns``, over the connections of another client."""
    if not 0 <= start <= end:
        raise UsageError(f"the end of a range must not be below its start, got {start} to {end}")
    from seamark.wire.columns.columns import columns_schema, decode_columns

    wanted = tuple(columns)
    columns_schema(wanted, timestamp_unit=timestamp_unit)
    pieces = _RangeFetch(network, config, TopicPartition(*partition), fetch_bytes)

    limits = ReadLimits.from_config(config)

    def batches() -> Iterator[pa.RecordBatch]:
        for piece in pieces.pieces(start, end):
            at, stop = piece.offset, min(piece.next_offset, end)
            stop_bytes = limits.poll_bytes
            while at < stop:
                try:
                    decoded = decode_columns(
                        piece.records,
                        columns=wanted,
                        start=at,
                        end=end,
                        verify=limits.verify,
                        aborted=piece.aborted,
                        timestamp_unit=timestamp_unit,
                        log_end=piece.next_offset,
                        max_batch_bytes=limits.batch_bytes,
                        max_headers=limits.record_headers,
                        stop_bytes=stop_bytes,
                        stop_rows=MOST_ROWS,
                    )
                except DecodeError as error:
                    if stop_bytes == 0:
                        raise unreadable(pieces.partition, at, error, piece.records) from error
                    # Batch by batch: what stands before the one that cannot be read is given, and its offset told.
                    stop_bytes = 0
                    continue
                if decoded.row_count:
                    yield decoded.batch
                if decoded.next_offset is None or decoded.next_offset <= at:
                    raise CorruptRecords(pieces.partition, at, "the broker returned no batch at or after this offset")
                at = decoded.next_offset

    return batches()


class _RangeFetch:
    """The requests for one range, one under way at a time."""

    def __init__(self, network: NetworkClient, config: ConsumerConfig, partition: TopicPartition, size: int) -> None:
        self.partition = partition
        self._network = network
        self._config = config
        self._io = IoThread.get()
        self._limits = replace(FetchLimits.from_config(config), max_bytes=size, max_partition_bytes=size)
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def pieces(self, start: int, end: int) -> Iterator[_Piece]:
        under_way: concurrent.futures.Future[_Piece] | None = None
        if start < end:
            under_way = self._io.submit(self._fetch(start))
        try:
            while under_way is not None:
                piece = under_way.result()
                # Sent before the caller decodes what has come.
                under_way = self._io.submit(self._fetch(piece.next_offset)) if piece.next_offset < end else None
                yield piece
        finally:
            if under_way is not None:
                under_way.cancel()

    async def _fetch(self, offset: int) -> _Piece:
        """The next bytes of the partition; waits for them, and follows the leader."""
        deadline = Deadline(self._config.default_api_timeout_ms / 1000)
        operation = f"fetching {self.partition} from offset {offset}"
        failures = 0
        last: ClientError | None = None
        while True:
            asked_ms = now_ms()
            try:
                piece = await self._ask(offset, deadline)
            except ClientError as error:
                if not error.is_retriable:
                    raise
                last = error
                failures += 1
                self._network.request_refresh()
            else:
                if piece is not None:
                    return piece
                last = None
                # A broker waits before it says that there is nothing yet; one that does not is waited for.
                is_hasty = now_ms() - asked_ms < self._limits.max_wait_ms // 2
                failures = failures + 1 if is_hasty else 0
            deadline.check(operation, last)
            if failures:
                await asyncio.sleep(deadline.at_most(self._backoff.wait_ms(failures) / 1000))

    async def _ask(self, offset: int, deadline: Deadline) -> _Piece | None:
        leader = await self._network.leader_of(self.partition, deadline)
        view = self._network.view
        topic_id = view.topic_id(self.partition.topic)
        target = FetchTarget(topic_id, offset, view.leader_epoch(self.partition), self._limits.max_partition_bytes)
        # Outside of any session: this request stands for itself.
        request = SessionRequest(NO_SESSION, CLOSING, {self.partition: target})
        response, version = await self._network.exchange(
            leader.id,
            fetch_request(request, self._limits, self._limits.max_bytes),
            FetchResponse,
            timeout_ms=self._config.request_timeout_ms + self._limits.max_wait_ms,
            max_version=version_cap(request),
        )
        self._raise_for(error_code(response.error_code), offset)
        answer = answered_partitions(response, version, request.send).get(self.partition)
        if answer is None:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Fetch", f"partition {self.partition}")
        self._raise_for(error_code(answer.error_code), offset)
        return self._piece(answer, offset)

    def _raise_for(self, code: ErrorCode, offset: int) -> None:
        if code is ErrorCode.NONE:
            return
        if outcome_of(code) is FetchOutcome.OUT_OF_RANGE:
            raise RangeGone(self.partition, offset)
        raise broker_error(code, "Fetch", f"partition {self.partition}")

    def _piece(self, answer: FetchResponsePartition, offset: int) -> _Piece | None:
        if not answer.records:
            return None
        records = memoryview(answer.records)
        next_offset, size = end_of(records, offset)
        next_offset = plausible_end(next_offset, offset, answer.high_watermark, size)
        if next_offset <= offset:
            raise CorruptRecords(
                self.partition, offset, "the broker returned no complete batch at or after this offset"
            )
        aborted: list[tuple[int, int]] = []
        if self._limits.isolation_level == READ_COMMITTED and answer.aborted_transactions:
            aborted = [
                (transaction.producer_id, transaction.first_offset) for transaction in answer.aborted_transactions
            ]
        return _Piece(offset, next_offset, records[:size], aborted)
