"""Lanes: which records may start now, so that a key's records run one after the other and nothing else waits.

Owns order and concurrency. A record's lane says what it must not overtake: under Order.KEY a key within a partition, as
Kafka promises order for nothing else; a record without a key has no lane. The invariant: of one lane at most one call
of the handler is under way, and its records go to handlers in offset order. A lane exists only while a record of it is
held; it is an entry in a dict, and gets a queue only when a second record waits behind the first. So an idle key costs
nothing and millions of keys are fine.

Partitions take turns: each in its turn gives one record, so that a full partition does not starve the others. Calls
start at once for single records, and for batches when one is full or has waited long enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

from seamark.errors import UsageError
from seamark.parallel.core.work import InFlightRecord, RecordState, StartCall, calls_of_one
from seamark.parallel.settings import Batch, Order
from seamark.topic_partition import TopicPartition

# Not a lane, unlike None, which is a lane with nothing behind its first record.
_NONE: Any = object()


class _PartitionLanes:
    """One partition's ``ready`` records, which may start, and its ``lanes``: what waits behind each one's holder."""

    __slots__ = ("is_in_turn", "lanes", "ready")

    def __init__(self) -> None:
        self.ready: deque[InFlightRecord] = deque()
        self.lanes: dict[Hashable, deque[InFlightRecord] | None] = {}
        self.is_in_turn = False


class Lanes:
    """Add what was polled, take what may start, say what ended. Never more than ``concurrency`` calls are under way."""

    def __init__(self, concurrency: int) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency must be > 0, got {concurrency}")
        self.concurrency = concurrency
        self._partitions: dict[TopicPartition, _PartitionLanes] = {}
        self._turns: deque[_PartitionLanes] = deque()
        self._running: dict[InFlightRecord, None] = {}
        self._calls = 0
        self._ready_count = 0
        self._waiting_count = 0

    @property
    def calls(self) -> int:
        """Handler calls under way."""
        return self._calls

    @property
    def ready_count(self) -> int:
        """Records that could start if there were a free handler."""
        return self._ready_count

    @property
    def waiting_count(self) -> int:
        """Records that are neither running nor held, those behind others in their lanes included."""
        return self._waiting_count

    def has_waiting(self, name: TopicPartition) -> bool:
        """Whether records of the partition can be started; those behind a running or a parked one cannot."""
        partition = self._partitions.get(name)
        return partition is not None and bool(partition.ready)

    def lane_count(self) -> int:
        """Lanes that exist now."""
        return sum(len(partition.lanes) for partition in self._partitions.values())

    def running(self) -> list[InFlightRecord]:
        return list(self._running)

    def held(self, name: TopicPartition) -> list[InFlightRecord]:
        """All that waits or runs of the partition."""
        works = [work for work in self._running if work.partition == name]
        partition = self._partitions.get(name)
        if partition is not None:
            works += partition.ready
            works += chain.from_iterable(queue for queue in partition.lanes.values() if queue)
        return works

    def add(self, works: Iterable[InFlightRecord]) -> None:
        """Records in offset order, as polled."""
        name: TopicPartition | None = None
        count = ready_count = 0
        for work in works:
            count += work.count
            if work.partition is not name:
                name = work.partition
                partition = self._partition(name)
                lanes, ready = partition.lanes, partition.ready
            lane = work.lane
            if lane is not None:
                if lane in lanes:
                    queue = lanes[lane]
                    if queue is None:
                        lanes[lane] = deque((work,))
                    else:
                        queue.append(work)
                    continue
                lanes[lane] = None
            ready.append(work)
            ready_count += 1
            if not partition.is_in_turn:
                partition.is_in_turn = True
                self._turns.append(partition)
        self._ready_count += ready_count
        self._waiting_count += count

    def take_singles(self, now: float) -> list[StartCall]:
        """All that may start, each record in a call of its own."""
        free = min(self._ready_count, self.concurrency - self._calls)
        if free <= 0:
            return []
        works: list[InFlightRecord] = []
        turns, running, state = self._turns, self._running, RecordState.RUNNING
        for _ in range(free):
            partition = turns.popleft()
            ready = partition.ready
            work = ready.popleft()
            if ready:
                turns.append(partition)
            else:
                partition.is_in_turn = False
            work.state = state
            if work.started is None:
                work.started = now
            running[work] = None
            works.append(work)
        self._ready_count -= free
        self._waiting_count -= free
        self._calls += free
        return calls_of_one(works)

    def take(self, now: float = 0.0) -> InFlightRecord | None:
        """One record to run in a call of its own, or None if nothing may start."""
        batch = self.take_batch(1, now)
        return batch[0] if batch else None

    def take_batch(self, limit: int, now: float = 0.0) -> list[InFlightRecord]:
        """Up to ``limit`` records for one handler call; empty if nothing may start.

        Records of one lane that follow each other may come in one batch, side by side: the handler gets them in order.
        """
        batch: list[InFlightRecord] = []
        if self._calls >= self.concurrency:
            return batch
        room = limit
        turns = self._turns
        taken = 0
        while room > 0 and turns:
            partition = turns.popleft()
            ready = partition.ready
            work = ready[0]
            if batch and (work.alone or work.count > room):
                # It starts a call of its own, the next one.
                turns.appendleft(partition)
                break
            ready.popleft()
            taken += 1
            if ready:
                turns.append(partition)
            else:
                partition.is_in_turn = False
            batch.append(work)
            room -= work.count
            if work.alone:
                break
            # Nearly always nothing waits behind the first of a lane.
            if work.lane is not None and room > 0 and partition.lanes[work.lane]:
                room = self._take_followers(partition, work.lane, batch, room)
        self._ready_count -= taken
        if batch:
            self._calls += 1
            self._waiting_count -= limit - room
            state, running = RecordState.RUNNING, self._running
            for work in batch:
                work.state = state
                if work.started is None:
                    work.started = now
                running[work] = None
        return batch

    def finish(self, batch: Sequence[InFlightRecord]) -> None:
        """The handler call with these records is over, and so are they; what waited behind them may start."""
        self._end_call(batch)
        self.release(batch)

    def hold(self, batch: Sequence[InFlightRecord]) -> None:
        """The handler call is over, but the records are not: their lanes stay closed until ``retry`` or ``release``."""
        self._end_call(batch)

    def end_calls(self, calls: Iterable[StartCall]) -> dict[TopicPartition, list[InFlightRecord]]:
        """As ``hold`` for each; gives their records by partition."""
        by_partition: dict[TopicPartition, list[InFlightRecord]] = {}
        running = self._running
        for call in calls:
            for work in call.works:
                if running.pop(work, work) is not None:
                    raise UsageError(f"{work!r} ended, but it was not running")
                works = by_partition.get(work.partition)
                if works is None:
                    by_partition[work.partition] = [work]
                else:
                    works.append(work)
            self._calls -= 1
        return by_partition

    def release(self, works: Sequence[InFlightRecord]) -> None:
        """Records that are held, not running, are over: open their lanes."""
        previous: Hashable = None
        name: TopicPartition | None = None
        partition: _PartitionLanes | None = None
        for work in works:
            lane = work.lane
            if lane is None:
                continue
            if work.partition is not name and work.partition != name:
                name, previous = work.partition, None
                partition = self._partitions.get(name)
            # Records of one lane stand side by side in a batch, and the lane is opened once.
            if partition is None or lane == previous:
                continue
            previous = lane
            lanes = partition.lanes
            queue = lanes.get(lane, _NONE)
            if queue is _NONE:
                continue
            if queue:
                following = queue.popleft()
                if not queue:
                    lanes[lane] = None
                self._make_ready(partition, following)
            else:
                del lanes[lane]

    def retry(self, works: Sequence[InFlightRecord]) -> None:
        """Held records of partitions that are still there may run again, each before what waits in its lane."""
        seen: dict[tuple[Hashable, TopicPartition], list[InFlightRecord]] = {}
        for work in works:
            work.state = RecordState.WAITING
            self._waiting_count += work.count
            if work.lane is None:
                self._make_ready(self._partition(work.partition), work)
            else:
                seen.setdefault((work.lane, work.partition), []).append(work)
        for (lane, name), lane_works in seen.items():
            partition = self._partition(name)
            self._make_ready(partition, lane_works[0])
            if len(lane_works) > 1:
                partition.lanes[lane] = deque(chain(lane_works[1:], partition.lanes.get(lane) or ()))

    def drop(self, name: TopicPartition, since: int = 0) -> list[InFlightRecord]:
        """Forget what waits of a partition that went away; the records that were forgotten and not running.

        A lane whose record is running stays closed until that call ends: the same key may come back with the partition,
        and two calls for one key must not be under way. With ``since`` only what stands at that offset or behind is
        forgotten, and lanes of held records are left to ``release``.
        """
        partition = self._partitions.get(name)
        if partition is None:
            return []
        dropped = [work for work in partition.ready if work.offset >= since]
        # A lane without its first record is empty: what waits in it comes behind.
        gone = {work.lane for work in dropped}
        running = {work.lane for work in self._running if work.partition == name}
        lanes: dict[Hashable, deque[InFlightRecord] | None] = {}
        for lane, queue in partition.lanes.items():
            dropped.extend(work for work in queue or () if work.offset >= since)
            if lane in running or (since and lane not in gone):
                lanes[lane] = deque(work for work in queue or () if work.offset < since) or None
        partition.lanes = lanes
        ready_before = len(partition.ready)
        partition.ready = deque(work for work in partition.ready if work.offset < since)
        self._ready_count -= ready_before - len(partition.ready)
        self._waiting_count -= sum(work.count for work in dropped)
        if partition.is_in_turn and not partition.ready:
            partition.is_in_turn = False
            self._turns.remove(partition)
        if not partition.lanes and not partition.ready:
            del self._partitions[name]
        return dropped

    def withdraw(self, work: InFlightRecord) -> bool:
        """Take out a record that waits, as it is over; False if it does not wait here."""
        partition = self._partitions.get(work.partition)
        if partition is None:
            return False
        queue = partition.lanes.get(work.lane) if work.lane is not None else None
        if work in partition.ready:
            partition.ready.remove(work)
            self._ready_count -= 1
            if not partition.ready:
                partition.is_in_turn = False
                self._turns.remove(partition)
            self.release([work])
        elif queue and work in queue:
            queue.remove(work)
            partition.lanes[work.lane] = queue or None
        else:
            return False
        self._waiting_count -= work.count
        return True

    def forget_rows(self, count: int) -> None:
        """So many rows of waiting works are no longer theirs."""
        self._waiting_count -= count

    def _partition(self, name: TopicPartition) -> _PartitionLanes:
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = _PartitionLanes()
        return partition

    def _take_followers(
        self, partition: _PartitionLanes, lane: Hashable, batch: list[InFlightRecord], room: int
    ) -> int:
        """Add what waits behind; gives the room that is left."""
        queue = partition.lanes[lane]
        while queue and room > 0 and queue[0].count <= room and not queue[0].alone:
            work = queue.popleft()
            batch.append(work)
            room -= work.count
        if not queue:
            partition.lanes[lane] = None
        return room

    def _end_call(self, batch: Sequence[InFlightRecord]) -> None:
        for work in batch:
            if self._running.pop(work, work) is not None:
                raise UsageError(f"{work!r} ended, but it was not running")
        self._calls -= 1

    def _make_ready(self, partition: _PartitionLanes, work: InFlightRecord) -> None:
        partition.ready.append(work)
        self._ready_count += 1
        if not partition.is_in_turn:
            partition.is_in_turn = True
            self._turns.append(partition)


# Stands for the partition itself.
WHOLE_PARTITION = ""


def lane_of(order: Order) -> Callable[[Any], Hashable]:
    """The function that gives a key's lane inside its partition; None is no lane."""
    if order is Order.KEY:
        return _lane_of_key
    if order is Order.PARTITION:
        return _whole_partition
    return _no_lane


def _lane_of_key(key: Any) -> Hashable:
    try:
        hash(key)
    except TypeError:
        # A deserializer may make lists and dicts; what prints the same is taken for the same key.
        return repr(key)
    lane: Hashable = key
    return lane


def _whole_partition(key: Any) -> Hashable:  # noqa: ARG001 - one signature for all orders
    return WHOLE_PARTITION


def _no_lane(key: Any) -> Hashable:  # noqa: ARG001 - one signature for all orders
    return None


class Starts:
    def __init__(self, lanes: Lanes, batch: Batch | None) -> None:
        self._lanes = lanes
        self._is_single = batch is None
        self._size = batch.records if batch else 1
        self._wait = batch.wait if batch else 0.0
        # When records that could start were first left waiting for a fuller batch.
        self._filling_since: float | None = None

    def calls(self, now: float) -> list[StartCall]:
        """The calls that start now."""
        lanes = self._lanes
        if self._is_single:
            return lanes.take_singles(now)
        started: list[StartCall] = []
        while lanes.ready_count and lanes.calls < lanes.concurrency:
            if lanes.waiting_count < self._size:
                if self._filling_since is None:
                    self._filling_since = now
                if now < self._filling_since + self._wait:
                    return started
            self._filling_since = None
            started.append(StartCall(lanes.take_batch(self._size, now)))
        self._filling_since = None
        return started

    def next_at(self) -> float | None:
        """When a batch that is filling starts as it is."""
        return None if self._filling_since is None else self._filling_since + self._wait
