"""How records end: done, tried again, written to the dead-letter topic, parked, skipped, or stopping everything.

Owns what waits for a second attempt or a decision, and the copies on their way to the dead-letter topic. Whatever the
end, it happens once: the frontier hears of it, the bytes are given back, and the lane is opened when nothing of the
record is running any more.

What becomes of a record whose handler failed is a pure decision from the policy, the error and the attempts so far.
Chance is passed in. An error of any kind gets a decision, also those that would end a program: a handler that calls
``sys.exit`` must not end the consumer silently.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple, TypeAlias

from seamark.counts import counted
from seamark.errors import SeamarkError, UsageError, error_text
from seamark.parallel.core.budget import Budget
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.lanes import Lanes
from seamark.parallel.core.work import Counters, InFlightRecord, RecordState, StopReason, WriteDeadLetter
from seamark.parallel.settings import DeadLetter, GivingUp, Park, Retry, Skip, Then
from seamark.topic_partition import TopicPartition


class GivenUpByCall(SeamarkError):
    """Somebody asked for the record to be given up; no handler failed."""


class RecordOutcomes:
    """Methods that can end everything return the reason, else None."""

    def __init__(
        self,
        committer: OffsetCommitter[TopicPartition],
        lanes: Lanes,
        budget: Budget,
        counters: Counters,
        *,
        retry: Retry,
        then: Then,
        chance: Callable[[], float],
    ) -> None:
        self._committer = committer
        self._lanes = lanes
        self._budget = budget
        self._counters = counters
        self._retry = retry
        self._then = then
        self._chance = chance
        self._ratio = FailureRatio(then)
        self.retries = RetryQueue()
        self.parked: dict[InFlightRecord, None] = {}
        # With the bytes of the copy.
        self.dead_lettering: dict[InFlightRecord, int] = {}

    def done(self, works: Sequence[InFlightRecord]) -> int:
        """How many records that were; all are of one partition and term."""
        over = RecordState.OVER
        for work in works:
            work.state = over
        offsets = [work.offset for work in works]
        if any(work.offsets is not None for work in works):
            offsets = [offset for work in works for offset in work.offsets or (work.offset,)]
        count = len(offsets)
        self._committer.done(works[0].partition, works[0].term, offsets)
        self._counters.done += count
        self._ratio.succeeded(count)
        return count

    def judge(
        self, work: InFlightRecord, error: BaseException, now: float, letters: list[WriteDeadLetter]
    ) -> StopReason | None:
        """An attempt failed: decide what follows."""
        if work in self.dead_lettering:
            # It was given up by call while it ran; the copy on its way decides.
            work.state = RecordState.DEAD_LETTERING
            return None
        verdict = decide(work, error, self._retry, self._then, self._chance, len(self.parked))
        if isinstance(verdict, RunAgain):
            work.state = RecordState.RETRYING
            self.retries.add(now + verdict.delay, work)
            self._counters.retried += 1
            return None
        if isinstance(verdict, SendToDeadLetters):
            work.state = RecordState.DEAD_LETTERING
            letters.append(self.send(work, verdict.topic, error))
            return None
        if isinstance(verdict, SkipRecord):
            # Held, as if it had been parked for a moment.
            work.state = RecordState.PARKED
            return self.skip(work)
        self.park(work)
        return None if isinstance(verdict, ParkRecord) else StopReason(verdict.reason, error)

    def park(self, work: InFlightRecord) -> None:
        work.state = RecordState.PARKED
        self.parked[work] = None

    def skip(self, work: InFlightRecord) -> StopReason | None:
        self._counters.skipped += 1
        return self._give_up(work)

    def send(self, work: InFlightRecord, topic: str, error: BaseException | None = None) -> WriteDeadLetter:
        if work in self.dead_lettering:
            raise UsageError(f"{work.partition} offset {work.offset} is already being written to a dead-letter topic")
        if work.state is not RecordState.RUNNING:
            self._no_longer_waits(work)
            work.state = RecordState.DEAD_LETTERING
        # The copy counts as long as it is on its way.
        self.dead_lettering[work] = work.size_bytes
        self._budget.hold(work.partition, work.size_bytes, 0)
        return WriteDeadLetter(work, topic, error or work.error or GivenUpByCall("given up by a call of dead_letter()"))

    def written(self, work: InFlightRecord, error: BaseException | None, *, is_live: bool) -> StopReason | None:
        """The dead letter is stored, or ``error`` says why not: then the record is kept and everything stops."""
        size = self.dead_lettering.pop(work, None)
        if size is None:
            raise UsageError(f"{work!r} was not being written to a dead-letter topic")
        self._budget.give_back(work.partition, size, 0)
        if not is_live:
            if work.state is RecordState.DEAD_LETTERING:
                self._budget.give_back(work.partition, work.size_bytes, work.count)
            return None
        if error is not None:
            if work.state is RecordState.DEAD_LETTERING:
                self.park(work)
            text = f"{work.partition} offset {work.offset} could not be written to its dead-letter topic: {error}"
            return StopReason(text, error)
        self._counters.dead_lettered += 1
        return self._give_up(work)

    def parked_at(self, partition: TopicPartition, offset: int) -> InFlightRecord | None:
        return next((work for work in self.parked if (work.partition, work.offset) == (partition, offset)), None)

    def held(self, partition: TopicPartition) -> list[InFlightRecord]:
        """What waits for an attempt, for a decision or for its copy to be written."""
        return [work for work in (*self.retries, *self.parked, *self.dead_lettering) if work.partition == partition]

    def drop(self, partition: TopicPartition, since: int = 0) -> list[InFlightRecord]:
        """Forget what waits for an attempt or a decision of a partition that goes, or is read again from ``since``."""
        dropped = self.retries.drop(lambda work: work.partition == partition and work.offset >= since)
        dropped += [work for work in self.parked if work.partition == partition and work.offset >= since]
        for work in dropped:
            self.parked.pop(work, None)
            # Nobody can decide about it any more.
            work.state = RecordState.WAITING
        return dropped

    def release_orphans(self, partition: TopicPartition, since: int) -> None:
        """The partition is read again from ``since``: its lanes no longer wait for copies of records from there on."""
        for work in self.dead_lettering:
            if work.partition == partition and work.offset >= since and work.state is RecordState.DEAD_LETTERING:
                self._lanes.release([work])
                work.lane = None

    def decidable(
        self, partition: TopicPartition, offset: int, is_live: Callable[[InFlightRecord], bool]
    ) -> InFlightRecord:
        """The record that somebody wants to give up; UsageError if that cannot be."""
        frontier = self._committer.frontiers().get(partition)
        work: InFlightRecord | None = frontier.item(offset) if frontier is not None else None
        # At most once nothing is in flight, and a parked record is over for the group.
        work = work or self.parked_at(partition, offset)
        if work is None or not is_live(work):
            raise UsageError(f"{partition} offset {offset} is not in flight here")
        if work.offsets is not None:
            # Also one row alone: when its call fails it is replaced by a record, which a copy under way would miss.
            raise UsageError(f"{partition} offset {offset} runs in one Arrow batch with {work.count - 1} others")
        if work.state not in (RecordState.RUNNING, RecordState.RETRYING, RecordState.PARKED):
            raise UsageError(f"{partition} offset {offset} cannot be given up: it is {work.state.value}")
        return work

    def _give_up(self, work: InFlightRecord) -> StopReason | None:
        """The record will not be done, and the frontier may pass it."""
        if work.state is RecordState.OVER:
            return None
        state = work.state
        self._no_longer_waits(work)
        self._over([work])
        if state is RecordState.WAITING:
            # Its batch failed while its copy was on its way; unless its partition goes, it waits for its turn.
            if self._lanes.withdraw(work):
                self._budget.give_back(work.partition, work.size_bytes, work.count)
        elif state is not RecordState.RUNNING:
            # A running one keeps its lane and its bytes until its call ends.
            self._lanes.release([work])
            self._budget.give_back(work.partition, work.size_bytes, work.count)
        self._ratio.ended(is_given_up=True)
        text = self._ratio.exceeded()
        return None if text is None else StopReason(text, work.error)

    def _no_longer_waits(self, work: InFlightRecord) -> None:
        if work.state is RecordState.RETRYING:
            self.retries.drop(lambda waiting: waiting is work)
        self.parked.pop(work, None)

    def _over(self, works: Sequence[InFlightRecord]) -> int:
        ends: dict[tuple[TopicPartition, int], list[int]] = {}
        count = 0
        for work in works:
            work.state = RecordState.OVER
            offsets = ends.get((work.partition, work.term))
            if offsets is None:
                offsets = ends[work.partition, work.term] = []
            if work.offsets is None:
                offsets.append(work.offset)
            else:
                offsets += work.offsets
        for (partition, term), offsets in ends.items():
            count += len(offsets)
            self._committer.done(partition, term, offsets)
        return count


class RunAgain(NamedTuple):
    delay: float


class SendToDeadLetters(NamedTuple):
    topic: str


class ParkRecord(NamedTuple):
    pass


class SkipRecord(NamedTuple):
    pass


class StopConsumer(NamedTuple):
    reason: str


Verdict: TypeAlias = RunAgain | SendToDeadLetters | ParkRecord | SkipRecord | StopConsumer


def policy_for(retry: Retry, error: BaseException) -> Retry | None:
    """The policy of the most derived class that has one; None if this error is never tried again."""
    for kind in type(error).__mro__:
        if kind in retry.by_type:
            return retry.by_type[kind]
    return retry


def delay_before(retry: Retry, attempts: int, chance: float) -> float:
    """Seconds to wait after ``attempts`` runs; ``chance`` is from 0 to 1.

    Jitter only shortens, so that ``max_delay`` holds; without it all records that failed together come back together.
    """
    try:
        delay = retry.delay * retry.factor ** (attempts - 1)
    except OverflowError:
        delay = retry.max_delay
    return min(delay, retry.max_delay) * (1 - retry.jitter * chance)


def decide(
    work: InFlightRecord,
    error: BaseException,
    retry: Retry,
    then: Then,
    chance: Callable[[], float],
    parked_count: int = 0,
) -> Verdict:
    """What to do with ``work`` after its latest attempt, which ``work.attempts`` already counts, ended in ``error``."""
    policy = policy_for(retry, error)
    if policy is not None and work.attempts < policy.attempts:
        return RunAgain(delay_before(policy, work.attempts, chance()))
    return give_up(work, error, then, parked_count)


def give_up(work: InFlightRecord, error: BaseException, then: Then, parked_count: int = 0) -> Verdict:
    if isinstance(then, DeadLetter):
        return SendToDeadLetters(then.topic_for(work.partition.topic))
    if isinstance(then, Skip):
        return SkipRecord()
    if isinstance(then, Park):
        if parked_count < then.records:
            return ParkRecord()
        return StopConsumer(f"{counted(parked_count, 'record')} already parked, and {_failed(work, error)}")
    return StopConsumer(_failed(work, error))


def _failed(work: InFlightRecord, error: BaseException) -> str:
    times = "once" if work.attempts == 1 else f"{work.attempts} times"
    return f"{work.partition} offset {work.offset} failed {times}: {error_text(error)}"


class FailureRatio:
    """Whether so many of the last records were given up that the fault must lie elsewhere."""

    __slots__ = ("_given_up", "_last", "_policy")

    def __init__(self, then: Then) -> None:
        self._policy = then if isinstance(then, GivingUp) and then.max_ratio is not None else None
        self._last: deque[bool] = deque(maxlen=self._policy.window if self._policy else 0)
        self._given_up = 0

    def ended(self, *, is_given_up: bool) -> None:
        if self._policy is None:
            return
        if len(self._last) == self._policy.window:
            self._given_up -= self._last[0]
        self._last.append(is_given_up)
        self._given_up += is_given_up

    def succeeded(self, records: int) -> None:
        """As ``ended`` for each; more than a window of them says no more than a window does."""
        if self._policy is not None:
            for _ in range(min(records, self._policy.window)):
                self.ended(is_given_up=False)

    def exceeded(self) -> str | None:
        """The reason to stop; never before a whole window has ended."""
        policy = self._policy
        if policy is None or policy.max_ratio is None or len(self._last) < policy.window:
            return None
        if self._given_up <= policy.max_ratio * policy.window:
            return None
        return (
            f"{self._given_up} of the last {counted(policy.window, 'record')} were given up, more than the limit of "
            f"{policy.max_ratio:.0%}"
        )


class RetryQueue:
    """Records that wait for their next attempt, by the time it is due."""

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, InFlightRecord]] = []
        # Equal times come out in the order they went in.
        self._number = count()

    def add(self, due: float, work: InFlightRecord) -> None:
        heapq.heappush(self._heap, (due, next(self._number), work))

    def take_due(self, now: float) -> list[InFlightRecord]:
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def next_at(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def drop(self, should_drop: Callable[[InFlightRecord], bool]) -> list[InFlightRecord]:
        dropped = [work for _, _, work in self._heap if should_drop(work)]
        if dropped:
            self._heap = [entry for entry in self._heap if not should_drop(entry[2])]
            heapq.heapify(self._heap)
        return dropped

    def __iter__(self) -> Iterator[InFlightRecord]:
        return (work for _, _, work in self._heap)

    def __len__(self) -> int:
        return len(self._heap)
