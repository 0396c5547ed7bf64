"""How records end: done, tried again, written to the dead-letter topic, parked, skipped, or stopping everything.

Owns what waits for a second attempt or a decision, and the copies on their way to the dead-letter topic. Whatever the
end, it happens once: the frontier hears of it, the bytes are given back, and the lane is opened when nothing of the
record is running any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seamark.errors import SeamarkError, UsageError
from seamark.parallel.core.actions import StopReason, WriteDeadLetter
from seamark.parallel.core.budget import Budget
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.lanes import Lanes
from seamark.parallel.core.retries import (
    FailureRatio,
    ParkRecord,
    RetryQueue,
    RunAgain,
    SendToDeadLetters,
    SkipRecord,
    decide,
)
from seamark.parallel.core.tally import Tally
from seamark.parallel.core.work import Where, Work
from seamark.parallel.settings import Retry, Then
from seamark.topic_partition import TopicPartition


class GivenUpByCall(SeamarkError):
    """Somebody asked for the record to be given up; no handler failed."""


class Endings:
    """Methods that can end everything return the reason, else None."""

    def __init__(
        self,
        committer: OffsetCommitter[TopicPartition],
        lanes: Lanes,
        budget: Budget,
        tally: Tally,
        *,
        retry: Retry,
        then: Then,
        chance: Callable[[], float],
    ) -> None:
        self._committer = committer
        self._lanes = lanes
        self._budget = budget
        self._tally = tally
        self._retry = retry
        self._then = then
        self._chance = chance
        self._ratio = FailureRatio(then)
        self.retries = RetryQueue()
        self.parked: dict[Work, None] = {}
        # With the bytes of the copy.
        self.dead_lettering: dict[Work, int] = {}

    def done(self, works: Sequence[Work]) -> int:
        """How many records that were; all are of one partition and term."""
        over = Where.OVER
        for work in works:
            work.where = over
        offsets = [work.offset for work in works]
        if any(work.offsets is not None for work in works):
            offsets = [offset for work in works for offset in work.offsets or (work.offset,)]
        count = len(offsets)
        self._committer.done(works[0].partition, works[0].term, offsets)
        self._tally.done += count
        self._ratio.succeeded(count)
        return count

    def judge(self, work: Work, error: BaseException, now: float, letters: list[WriteDeadLetter]) -> StopReason | None:
        """An attempt failed: decide what follows."""
        if work in self.dead_lettering:
            # It was given up by call while it ran; the copy on its way decides.
            work.where = Where.DEAD_LETTERING
            return None
        verdict = decide(work, error, self._retry, self._then, self._chance, len(self.parked))
        if isinstance(verdict, RunAgain):
            work.where = Where.RETRYING
            self.retries.add(now + verdict.delay, work)
            self._tally.retried += 1
            return None
        if isinstance(verdict, SendToDeadLetters):
            work.where = Where.DEAD_LETTERING
            letters.append(self.send(work, verdict.topic, error))
            return None
        if isinstance(verdict, SkipRecord):
            # Held, as if it had been parked for a moment.
            work.where = Where.PARKED
            return self.skip(work)
        self.park(work)
        return None if isinstance(verdict, ParkRecord) else StopReason(verdict.reason, error)

    def park(self, work: Work) -> None:
        work.where = Where.PARKED
        self.parked[work] = None

    def skip(self, work: Work) -> StopReason | None:
        self._tally.skipped += 1
        return self._give_up(work)

    def send(self, work: Work, topic: str, error: BaseException | None = None) -> WriteDeadLetter:
        if work in self.dead_lettering:
            raise UsageError(f"{work.partition} offset {work.offset} is being written to a dead-letter topic already")
        if work.where is not Where.RUNNING:
            self._no_longer_waits(work)
            work.where = Where.DEAD_LETTERING
        # The copy counts as long as it is on its way.
        self.dead_lettering[work] = work.size_bytes
        self._budget.hold(work.partition, work.size_bytes, 0)
        return WriteDeadLetter(work, topic, error or work.error or GivenUpByCall("it was given up by call"))

    def written(self, work: Work, error: BaseException | None, *, is_live: bool) -> StopReason | None:
        """The dead letter is stored, or ``error`` says why not: then the record is kept and everything stops."""
        size = self.dead_lettering.pop(work, None)
        if size is None:
            raise UsageError(f"{work!r} was not on its way to a dead-letter topic")
        self._budget.give_back(work.partition, size, 0)
        if not is_live:
            if work.where is Where.DEAD_LETTERING:
                self._budget.give_back(work.partition, work.size_bytes, work.count)
            return None
        if error is not None:
            if work.where is Where.DEAD_LETTERING:
                self.park(work)
            text = f"{work.partition} offset {work.offset} could not be written to its dead-letter topic: {error}"
            return StopReason(text, error)
        self._tally.dead_lettered += 1
        return self._give_up(work)

    def parked_at(self, partition: TopicPartition, offset: int) -> Work | None:
        return next((each for each in self.parked if (each.partition, each.offset) == (partition, offset)), None)

    def held(self, partition: TopicPartition) -> list[Work]:
        """What waits for an attempt, for a decision or for its copy to be written."""
        return [work for work in (*self.retries, *self.parked, *self.dead_lettering) if work.partition == partition]

    def drop(self, partition: TopicPartition, since: int = 0) -> list[Work]:
        """Forget what waits for an attempt or a decision of a partition that goes, or is read again from ``since``."""
        dropped = self.retries.drop(lambda work: work.partition == partition and work.offset >= since)
        dropped += [work for work in self.parked if work.partition == partition and work.offset >= since]
        for work in dropped:
            self.parked.pop(work, None)
            # Nobody can decide about it any more.
            work.where = Where.WAITING
        return dropped

    def release_orphans(self, partition: TopicPartition, since: int) -> None:
        """The partition is read again from ``since``: its lanes no longer wait for copies of records from there on."""
        for work in self.dead_lettering:
            if work.partition == partition and work.offset >= since and work.where is Where.DEAD_LETTERING:
                self._lanes.release([work])
                work.lane = None

    def decidable(self, partition: TopicPartition, offset: int, is_live: Callable[[Work], bool]) -> Work:
        """The record that somebody wants to give up; UsageError if that cannot be."""
        frontier = self._committer.frontiers().get(partition)
        work: Work | None = frontier.item(offset) if frontier is not None else None
        # At most once nothing is in flight, and a parked record is over for the group.
        work = work or self.parked_at(partition, offset)
        if work is None or not is_live(work):
            raise UsageError(f"{partition} offset {offset} is not in flight here")
        if work.offsets is not None:
            # Also one row alone: when its call fails it is replaced by a record, which a copy under way would miss.
            raise UsageError(f"{partition} offset {offset} runs in columns with {work.count - 1} others")
        if work.where not in (Where.RUNNING, Where.RETRYING, Where.PARKED):
            raise UsageError(f"{partition} offset {offset} cannot be given up: it is {work.where.value}")
        return work

    def _give_up(self, work: Work) -> StopReason | None:
        """The record will not be done, and the frontier may pass it."""
        if work.where is Where.OVER:
            return None
        where = work.where
        self._no_longer_waits(work)
        self._over([work])
        if where is Where.WAITING:
            # Its batch failed while its copy was on its way; unless its partition goes, it waits for its turn.
            if self._lanes.withdraw(work):
                self._budget.give_back(work.partition, work.size_bytes, work.count)
        elif where is not Where.RUNNING:
            # A running one keeps its lane and its bytes until its call ends.
            self._lanes.release([work])
            self._budget.give_back(work.partition, work.size_bytes, work.count)
        self._ratio.ended(is_given_up=True)
        text = self._ratio.exceeded()
        return None if text is None else StopReason(text, work.error)

    def _no_longer_waits(self, work: Work) -> None:
        if work.where is Where.RETRYING:
            self.retries.drop(lambda each: each is work)
        self.parked.pop(work, None)

    def _over(self, works: Sequence[Work]) -> int:
        ends: dict[tuple[TopicPartition, int], list[int]] = {}
        count = 0
        for work in works:
            work.where = Where.OVER
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
