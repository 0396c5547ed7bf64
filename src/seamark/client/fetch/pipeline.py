"""The fetcher that users get: keeps requests under way on the I/O thread, and hands out what has arrived.

Next requests go out when an answer has come, not when the caller wants more, so the next fetch is under way while the
caller works; ``fetch_planning`` bounds what may wait. An answer becomes chunks, which the caller's thread decodes.

Threads: everything runs on the I/O thread except the ``take`` and ``show`` methods and ``has_something``. They share
with it deques, whose ends are safe to use from both sides, and counters that only one side writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from seamark.client.config.config import ConsumerConfig
from seamark.client.core import lasting_failures
from seamark.client.core.assignment_state import Position
from seamark.client.core.fetch_port import FailureKind, Moved, Taken, TakenColumns
from seamark.client.core.positions.messages import READ_COMMITTED
from seamark.client.errors import ClientError, CorruptRecords, broker_error
from seamark.client.fetch.backoff import FetchBackoff
from seamark.client.fetch.chunks import AbortedBatches, Chunk, end_of, plausible_end
from seamark.client.fetch.messages import (
    FetchLimits,
    FetchOutcome,
    answered_partitions,
    fetch_request,
    outcome_of,
    version_cap,
)
from seamark.client.fetch.metrics import FetchMetrics
from seamark.client.fetch.planning import FetchPlanning, NodeWork, PartitionFetch
from seamark.client.fetch.records import ReadLimits
from seamark.client.fetch.sessions import FetchSession, FetchTarget, SessionRequest, Verdict
from seamark.client.fetch.taking import RecordTaking
from seamark.client.fetch.waits import FetchWaits
from seamark.client.net.client import Lane, NetworkClient
from seamark.client.net.client_log import ClientLog
from seamark.client.serde.deserializers import load_deserializer
from seamark.client.timing import now_ms
from seamark.errors import ClosedError, SeamarkError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.fetch import FetchResponse, FetchResponsePartition

# How long closing waits for brokers to hear that their sessions are over.
_CLOSE_PATIENCE_S = 1.0
_SESSION_LOST = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


def make_fetcher(
    config: ConsumerConfig, network: NetworkClient, key: object = bytes, value: object = bytes
) -> Pipeline:
    return Pipeline(config, network, key=key, value=value)


class Pipeline:
    """Implements ``consumer_fetching.Fetcher``."""

    def __init__(
        self, config: ConsumerConfig, network: NetworkClient, *, key: object = bytes, value: object = bytes
    ) -> None:
        self._config = config
        self._network = network
        self._log = ClientLog(config)
        self._waits = FetchWaits(self._log)
        self._limits = FetchLimits.from_config(config)
        self._read_limits = ReadLimits.from_config(config)
        self._planning = FetchPlanning(
            budget_bytes=config.prefetch_max_bytes, partition_bytes=config.max_partition_fetch_bytes
        )
        self._sessions: dict[int, FetchSession] = {}
        self._backoff = FetchBackoff(config)
        self._metrics = FetchMetrics(now_ms(), read_committed=self._limits.isolation_level == READ_COMMITTED)
        # One entry per chunk: the partition whose turn it is. Appended by the I/O thread, consumed by the caller's.
        self._ready: deque[PartitionFetch] = deque()
        self._taking = RecordTaking(
            self._ready,
            self._metrics,
            self._wants_more,
            key=load_deserializer("key", key),
            value=load_deserializer("value", value),
            limits=self._read_limits,
        )
        self._on_arrival: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._plan_is_due = False
        self._is_closed = False

    # -- what to fetch

    def start(self, partition: TopicPartition, position: Position, term: int) -> None:
        self._planning.start(partition, position, term)
        self._plan_soon()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        stopped = list(partitions)
        self._planning.stop(stopped)
        for partition in stopped:
            self._waits.forget(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self._planning.partitions.get(partition)
            if state is not None:
                state.is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self._planning.partitions.get(partition)
            if state is not None and state.is_paused:
                state.is_paused = False
                # Its turns may have been passed over.
                self._ready.extend([state] * len(state.chunks))
        self._plan_soon()
        if self.has_something:
            self._on_arrival()

    def metadata_changed(self) -> None:
        self._plan_soon()

    # -- the caller's thread

    def take(self, max_records: int) -> Taken:
        return self._taking.take(max_records)

    def take_columns(self, max_bytes: int) -> TakenColumns:
        return self._taking.take_columns(max_bytes)

    def show(self, max_records: int) -> Taken:
        return self._taking.show(max_records)

    def take_shown(self, count: int) -> Moved:
        return self._taking.take_shown(count)

    @property
    def has_something(self) -> bool:
        return any(state.chunks and not state.is_paused for state in list(self._planning.partitions.values()))

    def _wants_more(self) -> None:
        """On the caller's thread: bytes were taken, so there may be room for another request."""
        if self._loop is not None and not self._is_closed and not self._plan_is_due:
            self._plan_is_due = True
            self._loop.call_soon_threadsafe(self._plan)

    def on_arrival(self, function: Callable[[], None]) -> None:
        self._on_arrival = function

    def metrics(self) -> Mapping[str, float]:
        states = list(self._planning.partitions.values())
        return self._metrics.snapshot(states, sum(state.queued_bytes for state in states), now_ms())

    # -- requests

    def _plan_soon(self) -> None:
        """Plan once after the events of this moment: a new assignment starts many partitions in a row."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if not self._plan_is_due and not self._is_closed:
            self._plan_is_due = True
            self._loop.call_soon(self._plan)

    def _plan(self) -> None:
        self._plan_is_due = False
        if self._is_closed:
            return
        now = now_ms()
        for work in self._planning.plan(self._network.view, now):
            self._send(work)
        if self._planning.leaderless:
            self._network.request_refresh()
        self._arm(now)

    def _arm(self, now: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at_ms = self._planning.next_retry_ms(now)
        if at_ms is not None and self._loop is not None:
            self._timer = self._loop.call_later((at_ms - now + 1) / 1000, self._plan_soon)

    def _send(self, work: NodeWork) -> None:
        session = self._sessions.get(work.node_id)
        if session is None:
            session = self._sessions[work.node_id] = FetchSession(work.node_id)
        request = session.build(work.targets)
        # The states as they are now: a seek replaces them, and the answer to this request is then of no use (terms).
        asked = {
            partition: (self._planning.partitions[partition], target) for partition, target in work.targets.items()
        }
        # Marked before anything can complete (K9).
        self._planning.pending.add(work.node_id)
        assert self._loop is not None
        task = self._loop.create_task(self._exchange(session, request, asked, work.max_bytes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(
        self,
        session: FetchSession,
        request: SessionRequest,
        asked: dict[TopicPartition, tuple[PartitionFetch, FetchTarget]],
        max_bytes: int,
    ) -> None:
        node_id = session.node_id
        started = now_ms()

        assert self._loop is not None
        patience_s = (self._limits.max_wait_ms + lasting_failures.AFTER_MS) / 1000
        overdue = self._loop.call_later(patience_s, self._waits.node_failed, node_id, "no response yet", started)
        try:
            response, version = await self._network.exchange(
                node_id,
                fetch_request(request, self._limits, max_bytes),
                FetchResponse,
                timeout_ms=self._config.request_timeout_ms + self._limits.max_wait_ms,
                max_version=version_cap(request),
            )
            self._waits.node_answered(node_id)
            self._answered(session, request, asked, response, version, started)
            self._metrics.fetches.add(now_ms() - started)
        except ClosedError:
            self._is_closed = True
        except SeamarkError as error:
            self._failed(session, asked, error, started)
        finally:
            overdue.cancel()
            # Last, whatever happened: the node must be fetchable again (K15).
            self._planning.pending.discard(node_id)
            self._plan_soon()

    def _failed(
        self,
        session: FetchSession,
        asked: Mapping[TopicPartition, tuple[PartitionFetch, FetchTarget]],
        error: SeamarkError,
        started_ms: int,
    ) -> None:
        session.failed()
        self._metrics.failed_fetches += 1
        failures = self._backoff.node_failed(session.node_id)
        text = f"a fetch from node {session.node_id} failed: {error}"
        self._log.say(logging.INFO, "fetch_failed", text, node=session.node_id, reason=str(error))
        if isinstance(error, ClientError) and error.is_retriable:
            self._waits.node_failed(session.node_id, error, started_ms)
            self._backoff.later([state for state, _ in asked.values()], failures)
            self._network.request_refresh()
            return
        for state, target in asked.values():
            if self._is_current(state, target):
                self._arrive(state, Chunk(state.partition, target.offset, failure_kind=FailureKind.ERROR, error=error))
        self._on_arrival()

    # -- answers

    def _answered(
        self,
        session: FetchSession,
        request: SessionRequest,
        asked: Mapping[TopicPartition, tuple[PartitionFetch, FetchTarget]],
        response: FetchResponse,
        version: int,
        started_ms: int,
    ) -> None:
        if self._sessions.get(session.node_id) is not session:
            # K10: nobody keeps a session with this node any more.
            text = f"dropped a fetch response from node {session.node_id}, whose session is closed"
            self._log.say(logging.ERROR, "fetch_unexpected", text, node=session.node_id)
            return
        by_partition = answered_partitions(response, version, session.partitions)
        verdict = session.answered(
            request, error_code(response.error_code), response.session_id, by_partition, response.throttle_time_ms
        )
        if verdict is not Verdict.ACCEPTED:
            self._metrics.rejected_answers += 1
            text = f"dropped a fetch response from node {session.node_id}: {session.problem}"
            self._log.say(logging.INFO, "fetch_dropped", text, node=session.node_id, reason=session.problem)
            if verdict is Verdict.REJECTED_REFRESH:
                self._network.request_refresh()
            failures = self._backoff.node_failed(session.node_id)
            if failures == 1 and error_code(response.error_code) in _SESSION_LOST:
                # A node forgets sessions when it starts and when it has too many: a new one is opened at once.
                return
            self._backoff.later([state for state, _ in asked.values()], failures)
            for state, target in asked.values():
                self._waits.partition_failed(state.partition, target.offset, session.problem)
            return
        is_empty = not any(answer.records or answer.error_code for answer in by_partition.values())
        states = (state for state, _ in asked.values())
        self._backoff.node_answered(session.node_id, states, started_ms, is_empty=is_empty)
        has_arrived = False
        for unchanged in asked.keys() - by_partition.keys():
            # A session leaves out what has nothing new.
            self._waits.partition_goes_on(unchanged)
        for partition, answer in by_partition.items():
            if partition is not None and partition in asked:
                state, target = asked[partition]
                if self._is_current(state, target):
                    has_arrived |= self._take_in(state, target, answer)
        if has_arrived:
            self._on_arrival()

    def _is_current(self, state: PartitionFetch, target: FetchTarget) -> bool:
        return state.is_alive and not state.has_failed and state.next_offset == target.offset

    def _take_in(self, state: PartitionFetch, target: FetchTarget, answer: FetchResponsePartition) -> bool:
        """Apply one partition's answer; says whether there is something for the caller."""
        code = error_code(answer.error_code)
        outcome = outcome_of(code)
        if outcome is FetchOutcome.DATA:
            self._note_answer(state, target, answer)
            return self._take_in_records(state, target, answer)
        if outcome is FetchOutcome.OUT_OF_RANGE and not state.forget_replica():
            return self._arrive(state, Chunk(state.partition, target.offset, failure_kind=FailureKind.OUT_OF_RANGE))
        if outcome is FetchOutcome.RAISE:
            error: ClientError = broker_error(code, "Fetch", f"{state.partition} at offset {target.offset}")
            if code is ErrorCode.CORRUPT_MESSAGE:
                reason = "the broker reports that its log is corrupt there (CORRUPT_MESSAGE)"
                error = CorruptRecords(state.partition, target.offset, reason)
            return self._arrive(
                state, Chunk(state.partition, target.offset, failure_kind=FailureKind.ERROR, error=error)
            )
        self._waits.partition_failed(
            state.partition, target.offset, broker_error(code, "Fetch", f"{state.partition} at offset {target.offset}")
        )
        state.forget_replica()
        self._backoff.partition_failed(state)
        if outcome is FetchOutcome.REFRESH:
            self._network.request_refresh()
        return False

    def _note_answer(self, state: PartitionFetch, target: FetchTarget, answer: FetchResponsePartition) -> None:
        """An answer without an error; one that never has records although the log does is a failure all the same."""
        replica = answer.preferred_read_replica
        if not answer.records and replica >= 0 and replica not in self._network.view.brokers:
            # The leader is asked again, and says the same until one of us knows better.
            self._backoff.partition_failed(state)
            self._network.request_refresh()
        ends = (answer.high_watermark, answer.last_stable_offset)
        end = ends[1] if self._limits.isolation_level == READ_COMMITTED else ends[0]
        if not answer.records and answer.diverging_epoch.end_offset < 0 and end > target.offset:
            # Once or twice that is how a broker shares out the bytes of an answer.
            reason = (
                f"the broker returns no records from offset {target.offset} on, although it reports that the "
                f"log ends at {end}"
            )
            self._waits.partition_failed(state.partition, target.offset, reason)
        else:
            self._waits.partition_goes_on(state.partition)

    def _take_in_records(self, state: PartitionFetch, target: FetchTarget, answer: FetchResponsePartition) -> bool:
        diverging = answer.diverging_epoch
        if diverging.end_offset >= target.offset:
            reason = (
                f"the broker reports that the log was truncated to offset {diverging.end_offset}, which is not "
                "below the position"
            )
            self._waits.partition_failed(state.partition, target.offset, reason)
            self._backoff.partition_failed(state)
            return False
        if diverging.end_offset >= 0:
            return self._arrive(
                state,
                Chunk(
                    state.partition,
                    diverging.end_offset,
                    failure_kind=FailureKind.DIVERGED,
                    leader_epoch=diverging.epoch,
                ),
            )
        # -1 means that the answer does not know: a session leaves out what has not changed.
        for name in ("high_watermark", "last_stable_offset"):
            if (known := getattr(answer, name)) >= 0:
                setattr(state, name, known)
        if answer.log_start_offset >= 0:
            state.log_start = answer.log_start_offset
        if answer.preferred_read_replica >= 0:
            state.replica = answer.preferred_read_replica
            state.replica_until_ms = now_ms() + self._config.metadata_max_age_ms
        records = answer.records
        if not records:
            return False
        next_offset, end = end_of(records, target.offset)
        next_offset = plausible_end(next_offset, target.offset, answer.high_watermark, len(records))
        state.next_offset = next_offset
        aborted = None
        if self._limits.isolation_level == READ_COMMITTED and answer.aborted_transactions:
            aborted = AbortedBatches(
                (transaction.producer_id, transaction.first_offset) for transaction in answer.aborted_transactions
            )
        # Without a whole batch the rest is kept: what is wrong with it is found, and told, when it is decoded.
        whole = memoryview(records)[:end] if end else records
        chunk = Chunk(
            state.partition,
            target.offset,
            whole,
            end_offset=next_offset,
            aborted=aborted,
            limits=self._read_limits,
        )
        return self._arrive(state, chunk)

    def _arrive(self, state: PartitionFetch, chunk: Chunk) -> bool:
        if state.next_offset <= chunk.offset:
            # The bytes lead no further: fetched again they would be the same, without end.
            chunk.is_last = True
        state.has_failed = chunk.is_last
        if chunk.is_last:
            self._backoff.partition_failed(state)
        else:
            state.failures = 0
        state.arrived_bytes += chunk.byte_count
        state.chunks.append(chunk)
        self._ready.append(state)
        return not state.is_paused

    # -- the end

    async def close(self) -> None:
        """End sessions and requests; brokers are told if they can be told at once."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        farewells = [self._say_goodbye(session) for session in self._sessions.values() if session.is_open]
        self._sessions = {}
        self._planning.stop(list(self._planning.partitions))
        if farewells:
            await asyncio.gather(*farewells, return_exceptions=True)

    async def _say_goodbye(self, session: FetchSession) -> None:
        """Free the session at its broker, on a connection where no fetch waits for records in front of it."""
        request, network, node_id = session.closing_request(), self._network, session.node_id
        if request is None or network.is_closed or not network.connection_to(node_id).is_ready:
            return
        closing = fetch_request(request, FetchLimits(max_wait_ms=0, min_bytes=0), 1)
        lane: Lane = "coordinator" if network.connection_to(node_id, "coordinator").is_ready else "leaving"
        await asyncio.wait_for(network.send(node_id, closing, FetchResponse, lane=lane), _CLOSE_PATIENCE_S)
