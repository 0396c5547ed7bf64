"""What becomes of a record whose handler failed: a pure decision from the policy, the error and the attempts so far.

Owns the delays and the ratio limit. Chance is passed in. An error of any kind gets a decision, also those that would
end a program: a handler that calls ``sys.exit`` must not end the consumer silently.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple, TypeAlias

from seamark.counts import counted
from seamark.parallel.core.work import Work
from seamark.parallel.settings import DeadLetter, GivingUp, Park, Retry, Skip, Then


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
    work: Work, error: BaseException, retry: Retry, then: Then, chance: Callable[[], float], parked_count: int = 0
) -> Verdict:
    """What to do with ``work`` after its latest attempt, which ``work.attempts`` already counts, ended in ``error``."""
    policy = policy_for(retry, error)
    if policy is not None and work.attempts < policy.attempts:
        return RunAgain(delay_before(policy, work.attempts, chance()))
    return give_up(work, error, then, parked_count)


def give_up(work: Work, error: BaseException, then: Then, parked_count: int = 0) -> Verdict:
    if isinstance(then, DeadLetter):
        return SendToDeadLetters(then.topic_for(work.partition.topic))
    if isinstance(then, Skip):
        return SkipRecord()
    if isinstance(then, Park):
        if parked_count < then.records:
            return ParkRecord()
        return StopConsumer(f"{counted(parked_count, 'record')} parked already, and {_failed(work, error)}")
    return StopConsumer(_failed(work, error))


def _failed(work: Work, error: BaseException) -> str:
    times = "once" if work.attempts == 1 else f"{work.attempts} times"
    return f"{work.partition} offset {work.offset} failed {times}: {type(error).__name__}: {error}"


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
        self._heap: list[tuple[float, int, Work]] = []
        # Equal times come out in the order they went in.
        self._number = count()

    def add(self, due: float, work: Work) -> None:
        heapq.heappush(self._heap, (due, next(self._number), work))

    def take_due(self, now: float) -> list[Work]:
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def next_at(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def drop(self, should_drop: Callable[[Work], bool]) -> list[Work]:
        dropped = [work for _, _, work in self._heap if should_drop(work)]
        if dropped:
            self._heap = [entry for entry in self._heap if not should_drop(entry[2])]
            heapq.heapify(self._heap)
        return dropped

    def __iter__(self) -> Iterator[Work]:
        return (work for _, _, work in self._heap)

    def __len__(self) -> int:
        return len(self._heap)
