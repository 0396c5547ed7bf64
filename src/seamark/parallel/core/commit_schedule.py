"""When to commit: after an interval, after a number of records, at once when asked; and the schedule that runs it.

Owns what happens to a run that fails. A commit that could not be sent is logged and said again by the next run (H25). A
committer that cannot compute is another matter: the schedule ends and its owner is told, because a broken committer
that looks like a quiet one loses work or repeats it without anyone knowing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from seamark.counts import counted
from seamark.errors import ClosedError, UsageError
from seamark.parallel.core.committer import Decision, OffsetCommitter
from seamark.parallel.settings import Commit
from seamark.readable_log import readable_logger

Key = TypeVar("Key", bound=Hashable)

_log = readable_logger(__name__)


class CommitDue:
    """Whether a commit is due by the policy. ``records`` counts what ended since the last one."""

    __slots__ = ("_last", "_policy", "records")

    def __init__(self, policy: Commit, now: float) -> None:
        self._policy = policy
        self._last = now
        self.records = 0

    def is_due(self, now: float) -> bool:
        if self._policy.records is not None and self.records >= self._policy.records:
            return True
        return now - self._last >= self._policy.interval

    def next_at(self) -> float:
        """When the interval ends."""
        return self._last + self._policy.interval

    def committed(self, now: float) -> None:
        self._last = now
        self.records = 0


class Timer(Protocol):
    """Calls a function again and again, ``delay`` seconds after the end of the call before."""

    def start(self, delay: float, function: Callable[[], object], name: str) -> None: ...

    def stop(self) -> None:
        """Return when no call is under way and none will follow."""


class PeriodicCommits(Generic[Key]):
    """A committer on a schedule (H1, H27): ``run`` once, ``start`` the schedule, ``shutdown`` it with a last run."""

    def __init__(
        self,
        committer: OffsetCommitter[Key],
        publish: Callable[[Sequence[Decision[Key]]], object],
        timer: Timer,
        *,
        period: float = 1.0,
        on_broken: Callable[[BaseException], object],
        name: str = "seamark-committer",
    ) -> None:
        """``publish`` sends decisions and raises if it cannot; ``on_broken`` must stop the consumer."""
        if not period > 0:
            raise UsageError(f"the period of a committer is a time in seconds above 0, not {period!r}")
        self._committer = committer
        self._publish = publish
        self._timer = timer
        self._period = period
        self._on_broken = on_broken
        self._name = name
        self._is_over = False
        self._is_started = False
        self.failed_runs = 0

    def start(self) -> None:
        if self._is_over:
            raise ClosedError("the committer was shut down")
        if not self._is_started:
            self._is_started = True
            self._timer.start(self._period, self.run, self._name)

    def shutdown(self) -> None:
        """Stop the schedule and commit what is known; shutting down again does nothing."""
        if self._is_started:
            self._is_started = False
            self._timer.stop()
        if not self._is_over:
            self.run()
            self._is_over = True

    def run(self) -> None:
        if self._is_over:
            return
        try:
            decisions = self._committer.run()
        except BaseException as error:
            self._is_over = True
            self._on_broken(error)
            raise
        news = [decision for decision in decisions if not decision.is_repeat]
        if not news:
            return
        try:
            self._publish(news)
        except Exception:  # noqa: BLE001 - whatever the client raises, the next run tries again
            self.failed_runs += 1
            self._committer.not_published(news)
            _log.exception("Committing %s failed; the next run says them again.", counted(len(news), "offset"))
        else:
            self._committer.published(news)
