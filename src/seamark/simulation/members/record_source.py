"""Where a simulated consumer gets its records: fetched ahead from the partition's log, handed out when taken.

Implements the client's ``Fetcher``. How records are fetched over the wire is not simulated; that they are held back,
dropped and started anew exactly as the core says, is. A flow that was stopped hands nothing out, whatever it had.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from seamark.client.core.assignment_state import Position
from seamark.client.core.fetch_port import Moved, Taken, TakenColumns
from seamark.client.records import Record
from seamark.simulation.world.topic_logs import PartitionRecords, TopicLogs
from seamark.simulation.world.virtual_loop import VirtualLoop
from seamark.topic_partition import TopicPartition

_AHEAD = 12


class Flow:
    """One partition being fetched: records below ``fetched_until`` are here, ``next_offset`` is the next to go."""

    __slots__ = ("fetched_until", "next_offset", "records", "term")

    def __init__(self, records: PartitionRecords, offset: int, term: int) -> None:
        self.records = records
        self.next_offset = offset
        self.fetched_until = offset
        self.term = term


class RecordSource:
    def __init__(
        self,
        loop: VirtualLoop,
        rng: random.Random,
        logs: TopicLogs,
        on_start: Callable[[TopicPartition, int, int], None],
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._logs = logs
        self._on_start = on_start
        self._arrived: Callable[[], None] = _nobody
        self._flows: dict[TopicPartition, Flow] = {}
        self._turn = 0
        self._shown: tuple[TopicPartition, Flow] | None = None

    def start(self, partition: TopicPartition, position: Position, term: int) -> None:
        self._on_start(partition, position.offset, term)
        flow = self._flows[partition] = Flow(self._logs.partitions[partition], position.offset, term)
        self._fetch_later(partition, flow)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._flows.pop(partition, None)

    def _fetch_later(self, partition: TopicPartition, flow: Flow) -> None:
        if self._flows.get(partition) is flow:
            self._loop.call_later((1 + int(self._rng.random() * 15)) / 1000, self._fetch, partition, flow)

    def _fetch(self, partition: TopicPartition, flow: Flow) -> None:
        if self._flows.get(partition) is not flow:
            return
        end = flow.records.end
        if end == flow.next_offset:
            flow.records.readers.append(lambda: self._loop.enter(self._fetch_later, partition, flow))
            return
        flow.fetched_until = min(end, flow.next_offset + _AHEAD)
        self._arrived()

    def take(self, max_records: int) -> Taken:
        records: list[Record] = []
        positions: dict[TopicPartition, tuple[int, Position]] = {}
        for partition, flow in self._in_turn():
            if some := _next_records(partition, flow, max_records - len(records)):
                records += some
                positions[partition] = self._hand_out(partition, flow, len(some))
        return Taken(records, positions)

    def show(self, max_records: int) -> Taken:
        for partition, flow in self._in_turn():
            if some := _next_records(partition, flow, max_records):
                self._shown = partition, flow
                return Taken(some)
        return Taken()

    def take_shown(self, count: int) -> Moved:
        assert self._shown is not None
        partition, flow = self._shown
        if self._flows.get(partition) is not flow:
            return {}
        return {partition: self._hand_out(partition, flow, count)}

    def _in_turn(self) -> list[tuple[TopicPartition, Flow]]:
        """Each time another partition is the first, so that none starves."""
        flows = list(self._flows.items())
        self._turn += 1
        start = self._turn % len(flows) if flows else 0
        return flows[start:] + flows[:start]

    def _hand_out(self, partition: TopicPartition, flow: Flow, count: int) -> tuple[int, Position]:
        flow.next_offset += count
        if flow.next_offset == flow.fetched_until:
            self._fetch_later(partition, flow)
        return flow.term, Position(flow.next_offset, flow.records.epoch_of(flow.next_offset - 1))

    @property
    def has_something(self) -> bool:
        return any(flow.next_offset < flow.fetched_until for flow in self._flows.values())

    def on_arrival(self, function: Callable[[], None]) -> None:
        self._arrived = function

    def metadata_changed(self) -> None:
        """Records are there whoever leads."""

    def metrics(self) -> Mapping[str, float]:
        return {}

    def pause(self, partitions: Iterable[TopicPartition]) -> NoReturn:
        raise AssertionError(f"no application here pauses {partitions}")

    def resume(self, partitions: Iterable[TopicPartition]) -> NoReturn:
        raise AssertionError(f"no application here resumes {partitions}")

    def take_columns(self, max_bytes: int) -> TakenColumns:
        raise AssertionError(f"no application here reads columns of {max_bytes} bytes")

    async def close(self) -> None:
        self._flows.clear()


def _next_records(partition: TopicPartition, flow: Flow, most: int) -> list[Record]:
    epoch_of = flow.records.epoch_of
    offsets = range(flow.next_offset, min(flow.fetched_until, flow.next_offset + most))
    return [Record(*partition, offset, leader_epoch=epoch_of(offset)) for offset in offsets]


def _nobody() -> None:
    pass
