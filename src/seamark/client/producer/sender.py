"""The producer's shell on the I/O thread: sends ready batches to their leaders, and settles what came of it.

One request per node carries at most one batch of each partition; a node has at most
``max.in.flight.requests.per.connection`` requests outstanding. Batches keep their order within a partition through
retries: with idempotence by their sequences, without it as far as one request in flight guarantees it.

Threads: everything here runs on the I/O loop, except what says otherwise. ``lock`` guards the accumulator, which
callers append to; it is never held while anything waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from seamark.client.cluster_view import ClusterView
from seamark.client.config.config import ProducerConfig
from seamark.client.errors import BrokerError, ClientError, DeliveryTimedOut, OperationTimedOut, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.producer.answers import Outcome, outcome_of
from seamark.client.producer.batches import ProducerBatch
from seamark.client.producer.delivery import NO_OFFSET, DeliveryThread
from seamark.client.producer.delivery_failures import UntoldFailures
from seamark.client.producer.program_end import unclosed
from seamark.client.producer.record_accumulator import RecordAccumulator
from seamark.client.producer.sequences import Decision, Sequences
from seamark.client.timing import Deadline, ExponentialBackoff, now_ms
from seamark.errors import ClosedError, MadeBeforeFork, SeamarkError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from seamark.wire.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from seamark.wire.records.compression import Codec

# Record batches of format 2, the only one written here, came with this version.
_LEAST_VERSION = 3
_ZSTD_VERSION = 7
_NO_TRANSACTION_TIMEOUT = 2**31 - 1


class ProducerSender:
    def __init__(self, config: ProducerConfig, network: NetworkClient) -> None:
        self._config = config
        self.network = network
        self.accumulator = RecordAccumulator(
            batch_bytes=config.batch_size,
            linger_ms=config.linger_ms,
            buffer_bytes=config.buffer_memory,
            delivery_timeout_ms=config.delivery_timeout_ms,
        )
        self.lock = threading.Lock()
        self.delivery_thread = DeliveryThread()
        # The facade's.
        self.lanes: dict[str, Any] = {}
        # Called without the lock whenever bytes became free; appended to under the lock.
        self.room_waiters: list[Callable[[], None]] = []
        self.sequences = Sequences() if config.enable_idempotence else None
        self._codec = Codec[config.compression_type.upper()]
        self._level = config.compression_level
        self._least_version = _ZSTD_VERSION if self._codec is Codec.ZSTD else _LEAST_VERSION
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.io = IoThread.get()
        self.failures = UntoldFailures(self.io)
        self.delivery_timeout_s = config.delivery_timeout_ms / 1000
        self._pending: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._identifying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turns = 0
        # Written by any thread: a turn is scheduled already.
        self._is_nudged = False
        self._is_closed = False
        self.counts = {"records": 0, "batches": 0, "requests": 0, "retries": 0, "failed_records": 0, "bytes": 0}
        unclosed.add(self)

    def nudge(self) -> None:
        """From any thread: there may be something to send."""
        if not self._is_nudged:
            self._is_nudged = True
            self.io.loop.call_soon_threadsafe(self._turn)

    # -- sending

    def _turn(self) -> None:
        self._is_nudged = False
        if self._is_closed:
            return
        now = now_ms()
        self._expire(now)
        if self.sequences is not None and (self.sequences.check_epochs() or self.sequences.needs_identity):
            with self.lock:
                is_empty = self.accumulator.is_empty
            if not is_empty and self._identifying is None:
                self._identifying = self._spawn(self._identify())
        while self._send_round(now):
            pass
        self._arm(now)

    def _send_round(self, now: int) -> bool:
        """One request for each node that has room for it; says whether there was any."""
        work: dict[int, list[ProducerBatch]] = {}
        sizes: dict[int, int] = {}
        leaderless = False
        view = self.network.view
        self._turns += 1
        with self.lock:
            ready = self.accumulator.ready_partitions(now)
            # Begin elsewhere each time: where a request is full, it is not always the same partitions that wait.
            shift = self._turns % len(ready) if ready else 0
            for partition in (*ready[shift:], *ready[:shift]):
                leader = view.leader(partition)
                if leader is None:
                    leaderless = True
                    continue
                if self._pending.get(leader.id, 0) >= self._config.max_in_flight_requests_per_connection:
                    continue
                batch = self.accumulator.first(partition)
                assert batch is not None
                size = sizes.get(leader.id, 0)
                if size and size + batch.byte_count > self._config.max_request_size:
                    continue
                if not self._may_send(batch):
                    continue
                self.accumulator.take(partition)
                if self.sequences is not None:
                    self.sequences.assign(batch)
                sizes[leader.id] = size + batch.byte_count
                work.setdefault(leader.id, []).append(batch)
        if leaderless:
            self.network.request_refresh()
        for node_id, batches in work.items():
            self._pending[node_id] = self._pending.get(node_id, 0) + 1
            self._spawn(self._exchange(node_id, batches))
        return bool(work)

    def _may_send(self, batch: ProducerBatch) -> bool:
        if self.sequences is None:
            return True
        in_flight = self.accumulator.in_flight_count(batch.partition)
        return self.sequences.may_send(batch, in_flight, self._config.max_in_flight_requests_per_connection)

    async def _exchange(self, node_id: int, batches: list[ProducerBatch]) -> None:
        self.counts["requests"] += 1
        try:
            # A broker does not answer where nobody asks for an acknowledgement.
            kind = ProduceResponse if self._config.acks else None
            response = await self.network.send_in_order(
                node_id, self._request(batches), kind, min_version=self._least_version
            )
            if response is None:
                for batch in batches:
                    self._settle(batch, NO_OFFSET, -1, None)
            else:
                self._answered(batches, response)
        except ClosedError:
            for batch in batches:
                self._settle(batch, NO_OFFSET, -1, OperationTimedOut("closing the producer", 0.0))
        except SeamarkError as error:
            self._failed(batches, error)
        finally:
            self._pending[node_id] -= 1
            self.nudge()

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        """One request with these batches, at most one of each partition."""
        topics: dict[str, ProduceRequestTopic] = {}
        for batch in batches:
            sealed = batch.sealed(self._codec, self._level)
            self.counts["bytes"] += len(sealed)
            name, index = batch.partition
            entry = topics.get(name)
            if entry is None:
                entry = topics[name] = ProduceRequestTopic(name=name)
            entry.partition_data.append(ProduceRequestPartition(index=index, records=sealed))
        return ProduceRequest(
            acks=self._config.acks, timeout_ms=self._config.request_timeout_ms, topic_data=list(topics.values())
        )

    # -- answers

    def _answered(self, batches: list[ProducerBatch], response: ProduceResponse) -> None:
        answers = {
            TopicPartition(topic.name, answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                answer = ProduceResponsePartition(
                    index=batch.partition.partition, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, base_offset=NO_OFFSET
                )
            self._judge(batch, answer)

    def _judge(self, batch: ProducerBatch, answer: ProduceResponsePartition) -> None:
        code = error_code(answer.error_code)
        outcome = outcome_of(code, batch.count)
        if self.sequences is not None and code is not ErrorCode.NONE:
            decision = self.sequences.judge(batch, code)
            if decision is Decision.DELIVERED:
                outcome = Outcome.STORED
            elif decision is Decision.RETRY:
                outcome = Outcome.RETRY
        if outcome is Outcome.STORED:
            self._settle(batch, answer.base_offset, answer.log_append_time_ms, None)
        elif outcome is Outcome.SPLIT and not batch.outcome.is_done:
            self._split(batch)
        else:
            error = broker_error(code, "Produce", f"partition {batch.partition}", answer.error_message)
            if outcome is Outcome.RETRY_AND_REFRESH:
                self.network.request_refresh()
            if outcome is Outcome.FAIL:
                self._settle(batch, NO_OFFSET, -1, error)
            else:
                self._retry(batch, error)

    def _failed(self, batches: list[ProducerBatch], error: SeamarkError) -> None:
        """No answer: the batches may or may not have been stored."""
        is_retriable = isinstance(error, ClientError) and error.is_retriable
        if is_retriable:
            self.network.request_refresh()
        for batch in batches:
            if is_retriable:
                self._retry(batch, error)
            else:
                self._settle(batch, NO_OFFSET, -1, _as_client_error(error))

    def _retry(self, batch: ProducerBatch, error: Exception) -> None:
        batch.last_error = error
        batch.attempts += 1
        if batch.outcome.is_done or batch.attempts > self._config.retries:
            self._settle(batch, NO_OFFSET, -1, _as_client_error(error))
            return
        self.counts["retries"] += 1
        with self.lock:
            self.accumulator.put_back(batch, now_ms() + int(self._backoff.wait_ms(batch.attempts)))

    def _split(self, batch: ProducerBatch) -> None:
        halves = batch.split(now_ms())
        if self.sequences is not None:
            self.sequences.replace(batch, halves)
        with self.lock:
            self.accumulator.replace(batch, halves)
        batch.release()

    def _settle(self, batch: ProducerBatch, base_offset: int, append_time_ms: int, error: ClientError | None) -> None:
        """The batch's story is over; if its outcome was set before, only its bytes are freed."""
        is_late = batch.outcome.is_done
        if self.sequences is not None:
            if error is None and not is_late:
                self.sequences.delivered(batch)
            else:
                self.sequences.failed(batch)
        with self.lock:
            self.accumulator.finish(batch)
            waiters: list[Callable[[], None]] = []
            if self.accumulator.is_room_worth_telling:
                waiters, self.room_waiters = self.room_waiters, []
        if not is_late:
            self._tell(batch, base_offset, append_time_ms, error)
        for waiter in waiters:
            waiter()

    def _tell(self, batch: ProducerBatch, base_offset: int, append_time_ms: int, error: ClientError | None) -> None:
        self.counts["batches"] += 1
        if error is None:
            self.counts["records"] += batch.count
            self.failures.delivered(batch.count)
        else:
            self.counts["failed_records"] += batch.count
            told = [index for index, _ in batch.callbacks]
            batch.outcome.failure = self.failures.failed(batch.partition.topic, batch.count, error, told)
        if batch.callbacks:
            # Handed over before anybody can see the outcome: a flush then waits for them.
            self.delivery_thread.run(batch.outcome, batch.callbacks)
        batch.outcome.finish(base_offset, append_time_ms, error)

    def _expire(self, now: int) -> None:
        with self.lock:
            expired = self.accumulator.expired(now)
        for batch in expired:
            error = DeliveryTimedOut(batch.partition, batch.count, self.delivery_timeout_s, batch.last_error)
            with self.lock:
                is_in_flight = self.accumulator.is_in_flight(batch)
            if is_in_flight:
                # Its answer is still awaited: what follows it must not be sent under a new epoch before.
                if self.sequences is not None:
                    self.sequences.failed(batch)
                self._tell(batch, NO_OFFSET, -1, error)
            else:
                self._settle(batch, NO_OFFSET, -1, error)

    # -- identity

    async def _identify(self) -> None:
        """Get a producer id; what waits fails if we may not have one."""
        assert self.sequences is not None
        failures = 0
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT)
        try:
            while not self._is_closed:
                try:
                    answer = await self.network.send_to_any(
                        request, InitProducerIdResponse, deadline=Deadline(self._config.request_timeout_ms / 1000)
                    )
                    code = error_code(answer.error_code)
                    if code is ErrorCode.NONE:
                        self.sequences.identified(answer.producer_id, answer.producer_epoch)
                        return
                    error: ClientError = broker_error(code, "InitProducerId", "an idempotent producer")
                except ClientError as raised:
                    error = raised
                if not error.is_retriable:
                    with self.lock:
                        waiting = self.accumulator.take_all()
                    for batch in waiting:
                        self._settle(batch, NO_OFFSET, -1, error)
                    return
                failures += 1
                text = f"no producer id yet, retrying: {error}"
                self.network.log.say(logging.INFO, "producer_id_failed", text, reason=str(error))
                with self.lock:
                    for batch in self.accumulator.unfinished(close=False):
                        batch.last_error = error
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
        finally:
            self._identifying = None
            self.nudge()

    # -- metadata

    async def topic_ready(self, topic: str, deadline: Deadline) -> None:
        """Wait until the topic's partitions are known; OperationTimedOut, or Refused for one we may not see."""
        self.network.allow_topic_creation(True)

        def flaw(view: ClusterView) -> ErrorCode:
            return ErrorCode.NONE if view.topics[topic].partitions else ErrorCode.LEADER_NOT_AVAILABLE

        try:
            operation = f"finding the partitions of topic {topic!r}"
            await self.network.wait_for_topic(topic, flaw, f"topic {topic!r}", operation, deadline)
        except BrokerError:
            self.network.metadata.drop_topics([topic])
            raise

    # -- time and life

    def _arm(self, now: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self.lock:
            times = (self.accumulator.next_ready_ms(now), self.accumulator.next_expiry_ms())
        known = [at for at in times if at is not None]
        if known and not self._is_closed:
            delay_s = max(1, min(known) - now) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._turn)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            text = "a task of the producer failed, which is a bug in seamark"
            self.network.log.fault(text, error)

    def unfinished(self) -> list[ProducerBatch]:
        """From any thread: the batches without an outcome; those that were open take no more records."""
        with self.lock:
            return self.accumulator.unfinished()

    def stop_accepting(self) -> list[ProducerBatch]:
        """From any thread: records are refused from now on; gives the batches of all that were accepted before."""
        with self.lock:
            accepted = self.accumulator.close()
            waiters, self.room_waiters = self.room_waiters, []
        for waiter in waiters:
            waiter()
        return accepted

    def hurry(self) -> None:
        """From any thread: nothing lingers from now on."""
        with self.lock:
            self.accumulator.is_urgent += 1
        self.nudge()

    async def retire(self) -> None:
        """Deliver what is here and end: the producer was dropped without being closed."""
        self.hurry()
        for batch in self.stop_accepting():
            await batch.outcome.wait_async()
        self.failures.log_rest()
        await self.shut(OperationTimedOut("a producer that was never closed", self.delivery_timeout_s))

    async def shut(self, reason: OperationTimedOut) -> None:
        """End everything at once; what has no outcome fails for this reason and what stood in the batch's way."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        left = [batch for batch in self.stop_accepting() if not batch.outcome.is_done]
        with self.lock:
            self.accumulator.take_all()
        for batch in left:
            error = OperationTimedOut(reason.operation, reason.seconds, batch.last_error)
            self._settle(batch, NO_OFFSET, -1, error)
        self.delivery_thread.close()
        unclosed.discard(self)
        await self.network.close()

    def disown(self) -> None:
        """In a forked child, where neither the thread nor its locks can be used: who waits here is told at once."""
        error = _as_client_error(MadeBeforeFork("Producer"))
        for batch in self.accumulator.unfinished(close=False):
            batch.outcome.error, batch.outcome.is_done = error, True
        self.lanes.clear()


def _as_client_error(error: Exception) -> ClientError:
    if isinstance(error, ClientError):
        return error
    made = ClientError(f"the batch could not be sent: {error}")
    made.__cause__ = error
    return made
