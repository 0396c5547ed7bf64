"""Lanes: which records may start now, so that a key's records run one after the other and nothing else waits.

Owns order and concurrency. The invariant: of one lane at most one handler call is under way, and its records go to
handlers in offset order. A lane exists only while a record of it is held; it is an entry in a dict, and gets a queue
only when a second record waits behind the first. So an idle key costs nothing and millions of keys are fine.

Partitions take turns: each in its turn gives one record, so that a full partition does not starve the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

from seamark.errors import UsageError
from seamark.parallel.work import Where, Work
from seamark.topic_partition import TopicPartition


class _PartitionLanes:
    """One partition's ``ready`` records, which may start, and its ``lanes``: what waits behind each one's holder."""

    __slots__ = ("is_in_turn", "lanes", "ready")

    def __init__(self) -> None:
        self.ready: deque[Work] = deque()
        self.lanes: dict[Hashable, deque[Work] | None] = {}
        self.is_in_turn = False


class Lanes:
    """Add what was polled, take what may start, say what ended. Never more than ``concurrency`` calls are under way."""

    def __init__(self, concurrency: int) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency is a number above 0, not {concurrency}")
        self.concurrency = concurrency
        self._partitions: dict[TopicPartition, _PartitionLanes] = {}
        self._turns: deque[_PartitionLanes] = deque()
        self._running: dict[Work, None] = {}
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
        """Whether records of the partition could still be started."""
        partition = self._partitions.get(name)
        return partition is not None and bool(partition.ready or any(partition.lanes.values()))

    def lane_count(self) -> int:
        """Lanes that exist now."""
        return sum(len(partition.lanes) for partition in self._partitions.values())

    def running(self) -> list[Work]:
        return list(self._running)

    def add(self, works: Iterable[Work]) -> None:
        """Records in offset order, as polled."""
        for work in works:
            self._waiting_count += 1
            partition = self._partition(work.partition)
            lane = work.lane
            if lane is not None:
                if lane in partition.lanes:
                    queue = partition.lanes[lane]
                    if queue is None:
                        partition.lanes[lane] = deque((work,))
                    else:
                        queue.append(work)
                    continue
                partition.lanes[lane] = None
            self._make_ready(partition, work)

    def take(self) -> Work | None:
        """One record to run in a call of its own, or None if nothing may start."""
        batch = self.take_batch(1)
        return batch[0] if batch else None

    def take_batch(self, limit: int) -> list[Work]:
        """Up to ``limit`` records for one handler call; empty if nothing may start.

        Records of one lane that follow each other may come in one batch, side by side: the handler gets them in order.
        """
        batch: list[Work] = []
        if self._calls >= self.concurrency:
            return batch
        while len(batch) < limit and self._turns:
            partition = self._turns.popleft()
            work = partition.ready[0]
            if work.alone and batch:
                # It starts a call of its own, the next one.
                self._turns.appendleft(partition)
                break
            partition.ready.popleft()
            self._ready_count -= 1
            if partition.ready:
                self._turns.append(partition)
            else:
                partition.is_in_turn = False
            batch.append(work)
            if work.alone:
                break
            if work.lane is not None and len(batch) < limit:
                self._take_followers(partition, work.lane, batch, limit)
        if batch:
            self._calls += 1
            self._waiting_count -= len(batch)
            for work in batch:
                work.where = Where.RUNNING
                self._running[work] = None
        return batch

    def finish(self, batch: Sequence[Work]) -> None:
        """The handler call with these records is over, and so are they; what waited behind them may start."""
        self._end_call(batch)
        self.release(batch)

    def hold(self, batch: Sequence[Work]) -> None:
        """The handler call is over, but the records are not: their lanes stay closed until ``retry`` or ``release``."""
        self._end_call(batch)

    def release(self, works: Sequence[Work]) -> None:
        """Records that are held, not running, are over: open their lanes."""
        previous = None
        for work in works:
            if work.lane is None or (work.lane, work.partition) == previous:
                continue
            # Records of one lane stand side by side in a batch, and the lane is opened once.
            previous = work.lane, work.partition
            self._open(work)

    def retry(self, works: Sequence[Work]) -> None:
        """Held records of partitions that are still there may run again, each before what waits in its lane."""
        seen: dict[tuple[Hashable, TopicPartition], list[Work]] = {}
        for work in works:
            work.where = Where.WAITING
            self._waiting_count += 1
            if work.lane is None:
                self._make_ready(self._partition(work.partition), work)
            else:
                seen.setdefault((work.lane, work.partition), []).append(work)
        for (lane, name), lane_works in seen.items():
            partition = self._partition(name)
            self._make_ready(partition, lane_works[0])
            if len(lane_works) > 1:
                partition.lanes[lane] = deque(chain(lane_works[1:], partition.lanes.get(lane) or ()))

    def drop(self, name: TopicPartition) -> list[Work]:
        """Forget what waits of a partition that went away; the records that were forgotten and not running.

        A lane whose record is running stays closed until that call ends: the same key may come back with the partition,
        and two calls for one key must not be under way.
        """
        partition = self._partitions.get(name)
        if partition is None:
            return []
        dropped = list(partition.ready)
        for queue in partition.lanes.values():
            if queue:
                dropped.extend(queue)
        self._ready_count -= len(partition.ready)
        self._waiting_count -= len(dropped)
        partition.ready.clear()
        if partition.is_in_turn:
            partition.is_in_turn = False
            self._turns.remove(partition)
        partition.lanes = {
            work.lane: None for work in self._running if work.partition == name and work.lane is not None
        }
        if not partition.lanes:
            del self._partitions[name]
        return dropped

    def _partition(self, name: TopicPartition) -> _PartitionLanes:
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = _PartitionLanes()
        return partition

    def _take_followers(self, partition: _PartitionLanes, lane: Hashable, batch: list[Work], limit: int) -> None:
        queue = partition.lanes[lane]
        while queue and len(batch) < limit and not queue[0].alone:
            batch.append(queue.popleft())
        if not queue:
            partition.lanes[lane] = None

    def _end_call(self, batch: Sequence[Work]) -> None:
        for work in batch:
            if self._running.pop(work, work) is not None:
                raise UsageError(f"{work!r} ended, but it was not running")
        self._calls -= 1

    def _open(self, work: Work) -> None:
        partition = self._partitions.get(work.partition)
        if partition is None or work.lane not in partition.lanes:
            return
        queue = partition.lanes[work.lane]
        if queue:
            following = queue.popleft()
            if not queue:
                partition.lanes[work.lane] = None
            self._make_ready(partition, following)
        else:
            del partition.lanes[work.lane]

    def _make_ready(self, partition: _PartitionLanes, work: Work) -> None:
        partition.ready.append(work)
        self._ready_count += 1
        if not partition.is_in_turn:
            partition.is_in_turn = True
            self._turns.append(partition)
