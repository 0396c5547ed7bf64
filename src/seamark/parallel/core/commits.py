"""Commits: when one is due, which decisions were sent with which ticket, what the answer means, and when to give up.

A commit is due after an interval or a number of records. One periodic commit is under way at a time, so that an older
one can never overtake a newer one. A refused commit is said again by the next run; commits that fail for too long stop
the consumer, which would else work on in vain. A committer that cannot compute stops it too: one that looks quiet and
is broken loses work or repeats it without anyone knowing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from seamark.parallel.core.committer import Decision, OffsetCommitter
from seamark.parallel.core.ports import MetadataTooLong, ToCommit
from seamark.parallel.core.work import CommitOffsets, StopReason
from seamark.parallel.settings import Commit
from seamark.topic_partition import TopicPartition

# Kafka's default for max.poll.interval.ms: after that long without progress a member counts as stuck.
GIVE_UP_AFTER_S = 300.0


class RefusedCommit(NamedTuple):
    """The last commit of a partition in a term, which was not accepted."""

    term: int
    offset: int
    error: BaseException | None


class CommitTickets:
    def __init__(self, committer: OffsetCommitter[TopicPartition], policy: Commit, now: float) -> None:
        self._committer = committer
        self._due = CommitDue(policy, now)
        self._under_way: dict[int, list[Decision[TopicPartition]]] = {}
        self._next_ticket = 1
        self._failing_since: float | None = None
        self.refused = 0
        self.accepted = 0
        self.last_error: BaseException | None = None
        # By partition, if what was last said of it was refused.
        self.refused_last: dict[TopicPartition, RefusedCommit] = {}

    @property
    def is_under_way(self) -> bool:
        return bool(self._under_way)

    @property
    def may_hurry(self) -> bool:
        """Whether a commit may be sent before it is due. After a refusal not: asking at once would be a busy loop."""
        return not self._under_way and self._failing_since is None

    def failing_for(self, now: float) -> float:
        """Seconds since commits have failed without one that was accepted; 0.0 while all is well."""
        return 0.0 if self._failing_since is None else now - self._failing_since

    def has(self, ticket: int) -> bool:
        """Whether the answer to ``ticket`` is still owed."""
        return ticket in self._under_way

    def ended(self, records: int) -> None:
        """So many more records are over."""
        self._due.records += records

    def is_due(self, now: float) -> bool:
        return not self._under_way and self._due.is_due(now)

    def next_at(self) -> float:
        """When the next commit is due; never while one is under way, as its answer comes first."""
        return math.inf if self._under_way else self._due.next_at()

    def make(self, now: float, *, must_wait: bool = False) -> CommitOffsets | None:
        """Run the committer; None if there is nothing new to say. Raises InvariantViolation if it cannot compute."""
        self._due.committed(now)
        news = [decision for decision in self._committer.run() if not decision.is_repeat]
        if not news:
            return None
        ticket = self._next_ticket
        self._next_ticket += 1
        self._under_way[ticket] = news
        offsets = {
            decision.key: ToCommit(decision.offset, decision.metadata, decision.leader_epoch) for decision in news
        }
        return CommitOffsets(ticket, offsets, must_wait)

    def finished(
        self, ticket: int, results: Mapping[TopicPartition, BaseException | None], now: float
    ) -> StopReason | None:
        """The answer came; a partition that it does not mention was refused. The reason to stop, if there is one."""
        sent = self._under_way.pop(ticket, [])
        good = [decision for decision in sent if decision.key in results and results[decision.key] is None]
        bad = [decision for decision in sent if decision not in good]
        self._committer.published(good)
        self._committer.not_published(bad)
        self.accepted += len(good)
        self.refused += len(bad)
        for decision in good:
            self.refused_last.pop(decision.key, None)
        for decision in bad:
            error = results.get(decision.key)
            self.refused_last[decision.key] = RefusedCommit(decision.term, decision.offset, error)
        if bad:
            self.last_error = results.get(bad[0].key)
        if any(isinstance(results.get(decision.key), MetadataTooLong) for decision in bad):
            self._committer.shorten_metadata()
        if good or not bad:
            self._failing_since = None
            return None
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since < GIVE_UP_AFTER_S:
            return None
        error = results.get(bad[0].key)
        seconds = now - self._failing_since
        return StopReason(f"no commit was accepted for {seconds:.0f} s; last error, for {bad[0].key}: {error}", error)


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
        # Not the difference: its rounding may say that it is too early at the very moment that ``next_at`` named.
        return now >= self.next_at()

    def next_at(self) -> float:
        """When the interval ends."""
        return self._last + self._policy.interval

    def committed(self, now: float) -> None:
        self._last = now
        self.records = 0
