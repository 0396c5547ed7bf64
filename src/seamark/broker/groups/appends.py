"""The coordinator's records on their way into the offsets topic: one batch per partition and turn of the event loop.

Appends of one turn are collected and written together, in ticket order. Each ticket's outcome is reported exactly
once, after its bytes count as stored by the broker's durability. A log's failure becomes the code that Kafka's own
log would give (F28); what a member then sees is for the coordinator to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.broker.groups.batches import GroupBatch
from seamark.coordinator.effects import Append
from seamark.errors import ClosedError, EncodeError, SeamarkError
from seamark.readable_log import readable_logger
from seamark.storage import LogError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.compression import Codec

if TYPE_CHECKING:
    from seamark.broker.log.partition import Partition

_log = readable_logger("seamark.broker.groups")

_NONE = ErrorCode.NONE

# Called once per batch with the partition, the tickets in it and the outcome.
Outcome = Callable[[int, list[int], ErrorCode], None]


class GroupAppends:
    """Owned by the event loop's thread. ``led`` gives a partition of the offsets topic that this node leads."""

    def __init__(
        self,
        led: Callable[[int], Partition | None],
        report: Outcome,
        now_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
        codec: Codec = Codec.NONE,
    ) -> None:
        self._led = led
        self._report = report
        self._now_ms = now_ms
        self._call_soon = call_soon
        self._codec = codec
        self._waiting: dict[int, list[Append]] = {}
        self._is_scheduled = False

    def add(self, append: Append) -> None:
        waiting = self._waiting.get(append.partition)
        if waiting is None:
            self._waiting[append.partition] = [append]
            if not self._is_scheduled:
                self._is_scheduled = True
                self._call_soon(self._run)
        else:
            waiting.append(append)

    def drop(self, partition: int) -> None:
        """The partition is no longer ours: what waits for it was answered by the coordinator."""
        self._waiting.pop(partition, None)

    def flush(self) -> None:
        """Write all that was collected, now and not at the end of the turn."""
        while self._waiting:
            self._write_collected()

    def _run(self) -> None:
        self._is_scheduled = False
        self._write_collected()

    def _write_collected(self) -> None:
        # Answers that leave meanwhile may bring in the next requests; theirs belong to the next turn.
        collected, self._waiting = self._waiting, {}
        now_ms = self._now_ms()
        for partition, appends in collected.items():
            self._write(partition, appends, now_ms)

    def _write(self, partition: int, appends: list[Append], now_ms: int) -> None:
        target = self._led(partition)
        if target is None:
            self._report(partition, [append.ticket for append in appends], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        limit = target.topic.config.max_message_bytes
        batch = GroupBatch(limit)
        tickets: list[int] = []
        for append in appends:
            try:
                while not batch.add(append.records):
                    self._send(target, partition, tickets, batch, now_ms)
                    batch, tickets = GroupBatch(limit), []
            except EncodeError as error:
                _log.warning("a record cannot be stored: %s", error)
                self._report(partition, [append.ticket], ErrorCode.UNKNOWN_SERVER_ERROR)
                continue
            tickets.append(append.ticket)
        if tickets:
            self._send(target, partition, tickets, batch, now_ms)

    def _send(self, target: Partition, partition: int, tickets: list[int], batch: GroupBatch, now_ms: int) -> None:
        if batch.size > batch.limit:
            self._report(partition, tickets, ErrorCode.RECORD_LIST_TOO_LARGE)
            return

        def settle(error: SeamarkError | None) -> None:
            self._report(partition, tickets, _NONE if error is None else code_of(error))

        try:
            log = target.log
            if log.settings.log_append_time:
                end_offset = target.append(batch.encode(now_ms, self._codec), now_ms).last_offset + 1
            else:
                base_offset = log.log_end
                end_offset = base_offset + batch.count
                encoded = batch.encode(now_ms, self._codec, base_offset, target.leader_epoch)
                target.append_prebuilt(encoded, end_offset, now_ms, now_ms)
        except (LogError, ClosedError) as error:
            settle(error)
        else:
            target.when_acknowledged(end_offset, settle)


def code_of(error: SeamarkError) -> ErrorCode:
    """The code Kafka's log gives where ours raises."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if isinstance(error, ClosedError) else ErrorCode.KAFKA_STORAGE_ERROR
