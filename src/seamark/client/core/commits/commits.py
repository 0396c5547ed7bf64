"""Commits of one consumer: in order, under the right generation, retried only where that is safe (F20 to F24, I28).

Three ways to commit share one queue. A blocking commit is retried until its deadline. An asynchronous one is sent once:
a retry could overwrite a later commit with an older offset. The commit before a join is retried too, with the positions
of the moment. While the coordinator is unknown all of them wait for it, in the order they came (B24).

``finished`` gives asynchronous commits back in the order they were started, whatever the order of their answers: the
callbacks of user code run in that order, on the caller's thread (I15). An instance id that was taken by another makes
the next commit or poll raise, before any further callback (F30).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from seamark.client.core.commits.verdict import CommitContext, Remedy, Verdict, not_sent, verdict_on
from seamark.client.core.effects import (
    Effect,
    FailedCommitLog,
    FindCoordinator,
    SendToCoordinator,
    Tickets,
    commit_failed_line,
)
from seamark.client.core.membership.context import Generation
from seamark.client.core.membership.membership import Membership
from seamark.client.core.metrics import ConsumerMetrics
from seamark.client.errors import BrokerError, ClientError, CommitTimedOut, RetriableCommitFailed
from seamark.client.group_offsets import commit_codes, offset_commit_request
from seamark.client.records import Offset
from seamark.client.timing import ExponentialBackoff, RandomSource
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.offset_commit import OffsetCommitResponse
from seamark.wire.schema.schema import Message

Offsets = Mapping[TopicPartition, Offset]


class Commit:
    """One commit, from its start until it is over; ``error`` is None once it is stored."""

    __slots__ = (
        "_failures",
        "deadline_ms",
        "error",
        "is_done",
        "is_told",
        "last_error",
        "offsets",
        "on_done",
        "renew",
        "retry_at_ms",
        "sent_ms",
        "sent_under",
        "started_ms",
        "ticket",
    )

    def __init__(self, offsets: Offsets, deadline_ms: int | None, now_ms: int) -> None:
        self.offsets = dict(offsets)
        # None: never retried.
        self.deadline_ms = deadline_ms
        self.started_ms = now_ms
        self.sent_ms = 0
        self.sent_under: Generation | None = None
        self.ticket: int | None = None
        self.retry_at_ms: int | None = None
        self.is_done = False
        self.error: ClientError | None = None
        # What the last try met, for the message of a commit that runs out of time.
        self.last_error: ClientError | None = None
        # Offsets to use for the next try, where those of the moment are wanted.
        self.renew: Callable[[], Offsets] | None = None
        self.on_done: Callable[[Commit, int], None] | None = None
        # A callback hears how it ended, and it is not for the log as well.
        self.is_told = False
        self._failures = 0

    def count_failure(self) -> int:
        self._failures += 1
        return self._failures


class Commits:
    """``group_id`` None stands for a consumer without a group, which cannot commit."""

    def __init__(
        self,
        membership: Membership,
        *,
        tickets: Tickets,
        metrics: ConsumerMetrics,
        rng: RandomSource,
    ) -> None:
        settings = membership.settings
        self._group_id = settings.group_id
        self._membership = membership
        self._tickets = tickets
        self._metrics = metrics
        self._request_timeout_ms = settings.request_timeout_ms
        self._backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random_source=rng)
        self._effects: list[Effect] = []
        # Waiting for a coordinator, in order.
        self._queue: deque[Commit] = deque()
        self._in_flight: dict[int, Commit] = {}
        # Retried later; a commit is in exactly one of the three.
        self._backing_off: list[Commit] = []
        # Asynchronous ones whose callback has not been handed out, in order.
        self._unreported: deque[Commit] = deque()
        self._fenced: BrokerError | None = None
        self._automatic_log = FailedCommitLog(is_automatic=True)
        self._log = FailedCommitLog(is_automatic=False)

    # -- starting

    def start(self, offsets: Offsets, now_ms: int, deadline_ms: int) -> Commit:
        """A commit that is retried until the deadline; the caller waits for it."""
        commit = Commit(offsets, deadline_ms, now_ms)
        self._begin(commit, now_ms)
        return commit

    def start_async(
        self,
        offsets: Offsets,
        now_ms: int,
        *,
        is_told: bool = False,
        on_done: Callable[[Commit, int], None] | None = None,
    ) -> Commit:
        """A commit that is sent once and reported by ``finished``, or by ``on_done`` the moment it ends."""
        commit = Commit(offsets, None, now_ms)
        commit.is_told = is_told
        commit.on_done = on_done
        if on_done is None:
            self._unreported.append(commit)
        self._begin(commit, now_ms)
        return commit

    def start_unreported(
        self,
        offsets: Offsets,
        now_ms: int,
        on_done: Callable[[Commit, int], None],
        *,
        deadline_ms: int | None = None,
        renew: Callable[[], Offsets] | None = None,
    ) -> Commit:
        """A commit on the consumer's own account: auto-commit, and the commit before a join."""
        commit = Commit(offsets, deadline_ms, now_ms)
        commit.on_done = on_done
        commit.renew = renew
        self._begin(commit, now_ms)
        return commit

    def abandon(self, commit: Commit) -> None:
        """Nobody waits for it any more: a try that is under way may succeed, another is not made.

        Its caller may commit again at once, and a retry of this one must not overwrite that.
        """
        commit.deadline_ms = None
        for waiting in (self._queue, self._backing_off):
            if commit in waiting:
                waiting.remove(commit)

    def _begin(self, commit: Commit, now_ms: int) -> None:
        if commit.renew is not None:
            # Before it takes its place in the queue: it must not overtake those behind it with newer offsets.
            commit.offsets = dict(commit.renew())
        if not commit.offsets:
            self._finish(commit, None, now_ms)
        elif self._queue or not self._membership.is_coordinator_known:
            self._queue.append(commit)
            self._effects.append(FindCoordinator())
        else:
            self._send(commit, now_ms)

    def _send(self, commit: Commit, now_ms: int) -> None:
        identity = self._membership.commit_identity()
        if identity is None:
            self._finish(commit, not_sent(self._group_id, tuple(commit.offsets), self._membership.state), now_ms)
            return
        commit.ticket = self._tickets.next()
        commit.sent_ms = now_ms
        commit.sent_under = self._membership.generation
        self._in_flight[commit.ticket] = commit
        request = offset_commit_request(self._group_id, identity, commit.offsets)
        self._effects.append(SendToCoordinator(commit.ticket, request, self._request_timeout_ms))

    # -- what comes back

    def answered(self, ticket: int, response: Message, now_ms: int) -> bool:
        commit = self._in_flight.pop(ticket, None)
        if commit is None:
            return False
        assert isinstance(response, OffsetCommitResponse)
        self._metrics.commits.add(now_ms - commit.sent_ms)
        membership = self._membership
        context = CommitContext(self._group_id, commit.sent_under == membership.generation, membership.state)
        codes = commit_codes(response)
        verdict = verdict_on(codes, context)
        if verdict.error is not None:
            verdict.error.partition_codes = dict(codes)
        self._carry_out(verdict)
        if verdict.remedy in (Remedy.RETRY, Remedy.REDISCOVER):
            assert verdict.error is not None
            self._try_again(commit, verdict.error, now_ms)
            return True
        if verdict.is_fenced and commit.deadline_ms is None:
            assert isinstance(verdict.error, BrokerError)
            self._fenced = verdict.error
        self._finish(commit, verdict.error, now_ms)
        return True

    def _carry_out(self, verdict: Verdict) -> None:
        membership = self._membership
        if verdict.remedy is Remedy.REDISCOVER:
            self._effects += membership.forget_coordinator(str(verdict.error))
        elif not membership.is_subscribed:
            return
        elif verdict.remedy is Remedy.REJOIN:
            self._effects += membership.request_rejoin("offset commit failed since group is already rebalancing")
        elif verdict.remedy is Remedy.RESET:
            self._effects += membership.reset(verdict.reset, "a commit was rejected")

    def failed(self, ticket: int, error: ClientError, now_ms: int) -> bool:
        """The coordinator did not answer (F21)."""
        commit = self._in_flight.pop(ticket, None)
        if commit is None:
            return False
        self._effects += self._membership.forget_coordinator(str(error))
        if error.is_retriable:
            self._try_again(commit, error, now_ms)
        else:
            self._finish(commit, error, now_ms)
        return True

    def _try_again(self, commit: Commit, error: ClientError, now_ms: int) -> None:
        commit.last_error = error
        if commit.deadline_ms is None:
            reported = RetriableCommitFailed(str(error), tuple(commit.offsets), self._group_id)
            reported.__cause__ = error
            self._finish(commit, reported, now_ms)
        elif now_ms >= commit.deadline_ms:
            self._finish(commit, self._timed_out(commit), now_ms)
        else:
            commit.retry_at_ms = now_ms + int(self._backoff.wait_ms(commit.count_failure()))
            self._backing_off.append(commit)

    def _timed_out(self, commit: Commit) -> CommitTimedOut:
        assert commit.deadline_ms is not None
        reason = f"not acknowledged within {(commit.deadline_ms - commit.started_ms) / 1000:g} s"
        if commit.last_error is not None:
            reason += f", last error: {commit.last_error}"
        error = CommitTimedOut(reason, tuple(commit.offsets), self._group_id)
        error.__cause__ = commit.last_error
        return error

    def _finish(self, commit: Commit, error: ClientError | None, now_ms: int) -> None:
        commit.is_done = True
        commit.error = error
        if not commit.is_told:
            log = self._log if commit.on_done is None else self._automatic_log
            self._effects += log.ended(commit.offsets, error, now_ms, self._metrics.rebalances.count)
        if commit.on_done is not None:
            commit.on_done(commit, now_ms)

    # -- time and coordinator

    def coordinator_found(self, now_ms: int) -> None:
        queue, self._queue = self._queue, deque()
        for commit in queue:
            self._send(commit, now_ms)

    def coordinator_refused(self, error: ClientError, now_ms: int) -> None:
        """There will be no coordinator: who waits for one is told why."""
        queue, self._queue = self._queue, deque()
        for commit in queue:
            if error.is_retriable:
                self._try_again(commit, error, now_ms)
            else:
                self._finish(commit, error, now_ms)

    def tick(self, now_ms: int) -> None:
        """Retry what is due and give up what is out of time."""
        for commit in [commit for commit in self._backing_off if _is_due(commit, now_ms)]:
            self._backing_off.remove(commit)
            commit.retry_at_ms = None
            if commit.deadline_ms is not None and now_ms >= commit.deadline_ms:
                self._finish(commit, self._timed_out(commit), now_ms)
            else:
                self._begin(commit, now_ms)
        for commit in [
            commit for commit in self._queue if commit.deadline_ms is not None and now_ms >= commit.deadline_ms
        ]:
            self._queue.remove(commit)
            self._finish(commit, self._timed_out(commit), now_ms)
        for ticket, commit in list(self._in_flight.items()):
            if commit.deadline_ms is not None and now_ms >= commit.deadline_ms:
                del self._in_flight[ticket]
                self._finish(commit, self._timed_out(commit), now_ms)

    @property
    def next_tick_ms(self) -> int | None:
        times = [commit.retry_at_ms for commit in self._backing_off]
        times += [commit.deadline_ms for commit in (*self._queue, *self._in_flight.values(), *self._backing_off)]
        return min((at for at in times if at is not None), default=None)

    # -- reporting

    def raise_if_fenced(self) -> None:
        """F30: on entry to every commit and poll, before any callback."""
        if self._fenced is not None:
            raise self._fenced

    def finished(self) -> list[Commit]:
        """Asynchronous commits whose callbacks are to run now, in the order they were started."""
        if self._fenced is not None:
            return []
        finished = []
        while self._unreported and self._unreported[0].is_done:
            finished.append(self._unreported.popleft())
        return finished

    def hand_back(self, commits: Sequence[Commit]) -> None:
        """These were given by ``finished``, and their callbacks could not be run yet."""
        self._unreported.extendleft(reversed(commits))

    def give_up(self, now_ms: int) -> None:
        """The consumer is being closed: asynchronous commits that were not answered have failed."""
        for commit in self._unreported:
            if not commit.is_done:
                self.abandon(commit)
                if commit.ticket is not None:
                    self._in_flight.pop(commit.ticket, None)
                reason = "it was not acknowledged before the consumer was closed"
                self._finish(commit, CommitTimedOut(reason, tuple(commit.offsets), self._group_id), now_ms)

    def end(self, now_ms: int) -> None:
        """No callback will be run any more: what those that are left were not told is for the log."""
        self.give_up(now_ms)
        for commit in self._unreported:
            if commit.is_told and commit.error is not None:
                self._effects.append(commit_failed_line(commit.offsets, commit.error))
        self._unreported.clear()

    @property
    def has_finished(self) -> bool:
        return self._fenced is not None or bool(self._unreported and self._unreported[0].is_done)

    @property
    def is_queued_behind_discovery(self) -> bool:
        return bool(self._queue)

    @property
    def is_idle(self) -> bool:
        return not (self._queue or self._in_flight or self._backing_off)

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _is_due(commit: Commit, now_ms: int) -> bool:
    return (commit.retry_at_ms is not None and now_ms >= commit.retry_at_ms) or (
        commit.deadline_ms is not None and now_ms >= commit.deadline_ms
    )
