"""Produce: append batches; the answer comes when they are as durable as the broker promises.

Every partition has its own outcome. With acks 0 there is no answer, so an error closes the connection, which makes
the client look up the leaders again, as in Kafka. Batches that take long to check are checked in turns with other work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.api.leader_hints import current_leader_of, endpoints_of
from seamark.broker.api.produce_rules import NobodyWaits, check_head, check_records
from seamark.broker.log.partition import Partition
from seamark.broker.net.dispatch import answer_refused
from seamark.broker.refusals import RecordsRefused, RefusedByLog, RequestRefused, ToldRefusal
from seamark.broker.sharing.turns import Steps, Wait
from seamark.errors import DecodeError
from seamark.readable_log import readable_logger
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceResponse,
    ProduceResponseCurrentLeader,
    ProduceResponseNodeEndpoint,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from seamark.broker.api.services import Services
    from seamark.broker.cluster.topics import Topic
    from seamark.broker.net.context import RequestContext

_log = readable_logger("seamark.broker")

API = "Produce"
# Versions up to 2 are advertised for clients that look for them; as in Kafka, using one ends the connection.
VERSIONS = "0-12"
OLDEST_SERVED = 3
LEADER_HINTS_SINCE = 10
NO_ACKS, LEADER_ACKS, ALL_ACKS = 0, 1, -1

# A client of this name may write to internal topics, as in Kafka.
_ADMIN_CLIENT = "__admin_client"


def handle(node: Services, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    if context.version < OLDEST_SERVED:
        context.hang_up(f"produced in version {context.version}, whose message sets are not taken any more")
        return None
    refusal = _refusal(request)
    if refusal is not ErrorCode.NONE:
        if request.acks == NO_ACKS:
            context.hang_up(f"produced without acks and was refused: {refusal.name}")
            return None
        return refuse(request, context.version, refusal)
    producing = _Producing(node, request, context)
    context.take_turns(producing.steps(), producing.fail)
    return None


def _refusal(request: ProduceRequest) -> ErrorCode:
    if request.transactional_id is not None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.acks not in (NO_ACKS, LEADER_ACKS, ALL_ACKS):
        return ErrorCode.INVALID_REQUIRED_ACKS
    return ErrorCode.NONE


class _Producing:
    """One request on its way; what is not checked yet and ``_unsynced`` partitions keep the answer back."""

    def __init__(self, node: Services, request: ProduceRequest, context: RequestContext) -> None:
        self._node = node
        self._request = request
        self._context = context
        self._now_ms = node.clock.now_ms()
        self._unsynced = 0
        self._is_parked = False
        self._moved: list[Partition] = []
        self._response = ProduceResponse()

    def steps(self) -> Steps:
        try:
            yield from self._append_all()
        except NobodyWaits:
            return
        response = self._finished()
        if response is not None and self._context.connection.is_open:
            self._context.reply(response)

    def fail(self) -> None:
        if not self._context.is_answered:
            answer_refused(self._request, self._context, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _append_all(self) -> Steps:
        cluster, context = self._node.cluster, self._context
        is_first = True
        for wanted in self._request.topic_data:
            outcome = ProduceResponseTopic(name=wanted.name)
            self._response.responses.append(outcome)
            code = ErrorCode.NONE
            topic = cluster.topics.get(wanted.name)
            if not context.may(Operation.WRITE, ResourceType.TOPIC, wanted.name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for each in wanted.partition_data:
                if not is_first:
                    yield None
                    if not self._is_wanted():
                        return
                is_first = False
                if code is ErrorCode.NONE:
                    assert topic is not None
                    outcome.partition_responses.append((yield from self._append(topic, each)))
                else:
                    outcome.partition_responses.append(_failed(each.index, code))
        if self._moved and context.version >= LEADER_HINTS_SINCE:
            self._response.node_endpoints = [
                ProduceResponseNodeEndpoint(node_id=each.id, host=address.host, port=address.port, rack=each.rack)
                for each, address in endpoints_of(self._node, self._moved, context)
            ]

    def _is_wanted(self) -> bool:
        """Once the client has gone away nobody will learn what became of the rest, and may well send it again."""
        return self._context.connection.is_open or self._request.acks == NO_ACKS

    def _finished(self) -> ProduceResponse | None:
        """All is appended that will be: the answer, unless it waits for a sync."""
        if self._unsynced:
            self._is_parked = True
            return None
        return self._answer()

    def _answer(self) -> ProduceResponse | None:
        if self._request.acks != NO_ACKS:
            return self._response
        codes = {p.error_code for topic in self._response.responses for p in topic.partition_responses}
        if codes <= {ErrorCode.NONE}:
            self._context.no_reply()
        else:
            names = sorted(ErrorCode(code).name for code in codes if code)
            self._context.hang_up(f"produced without acks and failed: {', '.join(names)}")
        return None

    def _append(
        self, topic: Topic, wanted: ProduceRequestPartition
    ) -> Generator[Wait | None, None, ProduceResponsePartition]:
        partition = topic.partition(wanted.index)
        if partition is None or partition.is_deleted:
            return _failed(wanted.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != self._node.id:
            return self._not_leader(partition)
        if topic.is_internal and self._context.client_id != _ADMIN_CLIENT:
            return _failed(wanted.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if self._request.acks == ALL_ACKS:
            # More than there are replicas cannot be asked for.
            needed = min(topic.config.min_insync_replicas, len(partition.replicas))
            if len(partition.running_replicas) < needed:
                return _failed(wanted.index, ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            return (yield from self._append_batch(partition, wanted))
        except RecordsRefused as refusal:
            failed = self._refused(partition, refusal)
            failed.error_message = refusal.reason
            failed.record_errors = [
                ProduceResponseRecordError(batch_index=number, batch_index_error_message=why)
                for number, why in refusal.records
            ]
            return failed
        except ToldRefusal as refusal:
            failed = self._refused(partition, refusal)
            failed.error_message = refusal.reason
            return failed
        except RequestRefused as refusal:
            return self._refused(partition, refusal)
        except DecodeError as error:
            return self._refused(partition, RequestRefused(ErrorCode.CORRUPT_MESSAGE, str(error)))
        except StorageFailed as error:
            self._node.note_storage_failure(partition, error)
            return _failed(wanted.index, ErrorCode.KAFKA_STORAGE_ERROR)

    def _append_batch(
        self, partition: Partition, wanted: ProduceRequestPartition
    ) -> Generator[Wait | None, None, ProduceResponsePartition]:
        head = check_head(wanted.records, partition, self._context.version)
        batch = yield from check_records(head, partition, self._now_ms, self._node, self._is_wanted)
        # Others had their turn in the meantime.
        if partition.is_deleted:
            return _failed(wanted.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.leader != self._node.id:
            return self._not_leader(partition)
        producer_id = batch.producer_id
        if producer_id >= 0:
            written = partition.producers.check(
                producer_id, batch.producer_epoch, batch.first_sequence, batch.record_count
            )
            if written is not None:
                return self._acknowledged(
                    partition, wanted.index, written.first_offset, written.last_offset, written.timestamp_ms
                )
        result = partition.append(batch.content, self._now_ms)
        if producer_id >= 0:
            stamp = result.log_append_time_ms if result.log_append_time_ms >= 0 else batch.max_timestamp_ms
            partition.producers.note(
                producer_id,
                batch.producer_epoch,
                batch.first_sequence,
                batch.record_count,
                result.base_offset,
                result.last_offset,
                stamp,
            )
        return self._acknowledged(
            partition, wanted.index, result.base_offset, result.last_offset, result.log_append_time_ms
        )

    def _acknowledged(
        self, partition: Partition, index: int, base_offset: int, last_offset: int, append_time_ms: int
    ) -> ProduceResponsePartition:
        outcome = ProduceResponsePartition(
            index=index,
            base_offset=base_offset,
            log_append_time_ms=append_time_ms,
            log_start_offset=partition.log_start,
        )
        if partition.high_watermark <= last_offset:
            self._unsynced += 1
            partition.when_acknowledged(last_offset + 1, lambda error: self._synced(partition, outcome, error))
        return outcome

    def _synced(self, partition: Partition, outcome: ProduceResponsePartition, error: StorageFailed | None) -> None:
        self._unsynced -= 1
        if error is not None:
            self._node.note_storage_failure(partition, error)
            outcome.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            outcome.base_offset = -1
        if not self._unsynced and self._is_parked and self._context.connection.is_open:
            response = self._answer()
            if response is not None:
                self._context.reply(response)

    def _refused(self, partition: Partition, refusal: RequestRefused) -> ProduceResponsePartition:
        """As in Kafka, only records that spoil their batch are told in words; the others are in the broker's log."""
        _log.debug("%s: a batch of %s was refused: %s", partition.name, self._context.client_id, refusal)
        failed = _failed(partition.index, refusal.code)
        if isinstance(refusal, RefusedByLog):
            failed.log_start_offset = partition.log_start
        return failed

    def _not_leader(self, partition: Partition) -> ProduceResponsePartition:
        failed = _failed(partition.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._context.version >= LEADER_HINTS_SINCE:
            self._moved.append(partition)
            failed.current_leader = ProduceResponseCurrentLeader(**current_leader_of(partition))
        return failed


def _failed(index: int, code: ErrorCode) -> ProduceResponsePartition:
    return ProduceResponsePartition(index=index, error_code=code, base_offset=-1)


def refuse(request: ProduceRequest, version: int, code: ErrorCode) -> ProduceResponse:  # noqa: ARG001
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=topic.name,
                partition_responses=[_failed(each.index, code) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
