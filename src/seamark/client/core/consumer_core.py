"""A whole consumer without its shell: subscription, membership, commits and positions, wired together.

Pure like its parts: every method is an event at a time, and what is to be done by others piles up in two places. The
``outbox`` is for the shell: requests, look-ups, what to fetch, lines to log. The rest is for the caller: a listener to
call (``listener_call``), an error to raise (``take_error``), callbacks of finished commits (``commits.finished``). A
simulation drives it with virtual time exactly as the I/O thread does with real time.

``poll`` means that the caller is here. Its order is fixed (C1): subscription, callbacks, membership, auto-commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from seamark.assignors import ClusterTopics
from seamark.client.cluster_view import ClusterView
from seamark.client.core.assignment_state import AssignmentState, Position
from seamark.client.core.commits.auto_commit import AutoCommit
from seamark.client.core.commits.commits import Commit, Commits
from seamark.client.core.effects import (
    CallListener,
    CommitBeforeJoin,
    Effect,
    ForgetCoordinator,
    HoldBack,
    Own,
    Raise,
    Release,
    StopFetching,
    Tickets,
    handover_line,
    topics_refused_line,
)
from seamark.client.core.fetch_port import FetchFailure
from seamark.client.core.listener import Listener
from seamark.client.core.membership.context import MemberState
from seamark.client.core.membership.membership import Membership
from seamark.client.core.metrics import ConsumerMetrics
from seamark.client.core.positions.positions import Positions, as_offset
from seamark.client.core.settings import ConsumerSettings
from seamark.client.core.subscriptions import Subscription, SubscriptionKind
from seamark.client.core.topic_waits import TopicWaits
from seamark.client.errors import ClientError, broker_error
from seamark.client.records import Offset
from seamark.client.timing import RandomSource
from seamark.counts import some_of
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.schema.schema import Message

# Effects of a membership's poll after which it may have more to do at once.
_PROGRESS = (Own, CommitBeforeJoin)
_REFUSED_TOPIC = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class ConsumerCore:
    def __init__(
        self, settings: ConsumerSettings, *, now_ms: int, rng: RandomSource, wall_ms: Callable[[], int]
    ) -> None:
        member = settings.membership
        self.settings = settings
        self.metrics = ConsumerMetrics(now_ms)
        self.subscription = Subscription(excludes_internal=settings.excludes_internal_topics)
        self.assignment = AssignmentState()
        tickets = Tickets()
        self.membership = Membership(member, settings.assignors, tickets=tickets, metrics=self.metrics, rng=rng)
        self.commits = Commits(self.membership, tickets=tickets, metrics=self.metrics, rng=rng)
        self.auto_commit = AutoCommit(
            is_enabled=member.auto_commit and settings.has_group,
            interval_ms=settings.auto_commit_interval_ms,
            retry_ms=member.retry_backoff_ms,
            now_ms=now_ms,
        )
        self.positions = Positions(
            self.assignment,
            group_id=member.group_id or None,
            policy=settings.reset_policy,
            isolation_level=settings.isolation_level,
            request_timeout_ms=member.request_timeout_ms,
            retry_backoff_ms=member.retry_backoff_ms,
            retry_backoff_max_ms=member.retry_backoff_max_ms,
            tickets=tickets,
            rng=rng,
            wall_ms=wall_ms,
        )
        self.outbox: list[Effect] = []
        self.listener_call: CallListener | None = None
        self._errors: deque[BaseException] = deque()
        self._topic_waits = TopicWaits()
        self._refused_version = -1
        self._refused_to_others: list[str] = []
        # Under way; more than one if a join was given up while its commit was not answered.
        self._commits_before_join = 0
        # What had been handed out when the caller last came: a retry of that commit may find it busy with more.
        self._processed: dict[TopicPartition, Offset] = {}

    # -- what to read

    def subscribe(self, wanted: object, listener: Listener, now_ms: int) -> None:
        if not self.settings.has_group:
            raise UsageError("subscribe() requires a group.id; without one, use assign()")
        self.subscription.subscribe(wanted, listener)
        self.subscription.match(self.positions.view)
        self._look_for_topics()
        self._want_topics()
        self._settle(now_ms)

    def _want_topics(self) -> None:
        has_pattern = self.subscription.kind is SubscriptionKind.PATTERN
        self._route(self.membership.subscribe(self.subscription.topics, has_pattern=has_pattern))

    def assign(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Read these partitions; nothing is looked up before the first poll (B22).

        No rebalance will commit what was read of those that go, so it is done here.
        """
        was_assigned = self.subscription.kind is SubscriptionKind.ASSIGNED
        self.subscription.assign()
        if was_assigned and self.auto_commit.is_enabled:
            self._auto_commit(now_ms)
        self._own(tuple(partitions))
        self._settle(now_ms)

    def prepare_leave(self, now_ms: int) -> None:
        """First half of unsubscribing and closing: the listener hears what goes."""
        if self.subscription.is_group:
            self._route(self.membership.prepare_leave(now_ms))
        self._settle(now_ms)

    def leave(self, reason: str, now_ms: int, *, even_if_static: bool = False, remain: bool = False) -> None:
        """Second half: read nothing any more, and leave the group."""
        if self.subscription.is_group:
            self._route(self.membership.leave(reason, now_ms, even_if_static=even_if_static, remain=remain))
        self._own(())
        self.subscription.clear()
        self._look_for_topics()
        self.listener_call = None
        self._settle(now_ms)

    @property
    def wanted_topics(self) -> frozenset[str]:
        """Topics whose metadata is needed, also for others: by the leader of a group."""
        return self._own_topics | self.membership.group_topics

    @property
    def _own_topics(self) -> frozenset[str]:
        return frozenset(partition.topic for partition in self.assignment.partitions).union(self.subscription.topics)

    # -- the caller

    def poll(self, now_ms: int) -> None:
        """One pass of C1; called again after every event for as long as the caller waits."""
        self.membership.poll_interval.polled(now_ms)
        self.assignment.came_back()
        if self._commits_before_join:
            self._processed = self.processed_offsets()
        self._check_topics()
        self.outbox += self._topic_waits.look(now_ms)
        if self.subscription.is_group:
            self._poll_membership(now_ms)
        elif self.subscription.kind is SubscriptionKind.ASSIGNED:
            self.assignment.hold(self.assignment.partitions, is_held=False)
        self.positions.caller_is_here(now_ms)
        if self.auto_commit.is_due(now_ms):
            self._auto_commit(now_ms)
        self._settle(now_ms)

    def _poll_membership(self, now_ms: int) -> None:
        """Let it go on for as long as it can without an answer from outside or from the caller."""
        while self.listener_call is None and not self._errors:
            effects = self.membership.poll(now_ms)
            self._route(effects)
            self._settle(now_ms)
            if not any(isinstance(effect, _PROGRESS) for effect in effects):
                return

    def _check_topics(self) -> None:
        view = self.positions.view
        if view.version == self._refused_version:
            return
        self._refused_version = view.version
        own = self._own_topics
        others = self.membership.group_topics - own
        for code in _REFUSED_TOPIC:
            if refused := _with_error(own, view, code):
                self._errors.append(broker_error(code, "Metadata", f"topics {some_of(refused)}"))
        # Any member may name any topic: what only others want is no error of the leader's.
        refused = [name for code in _REFUSED_TOPIC for name in _with_error(others, view, code)]
        if refused and refused != self._refused_to_others:
            self.outbox.append(topics_refused_line(refused))
        self._refused_to_others = refused

    def _look_for_topics(self) -> None:
        """Which topics that were subscribed to by name the cluster does not have."""
        view = self.positions.view
        by_name = self.subscription.topics if self.subscription.kind is SubscriptionKind.TOPICS else ()
        missing = {name: view.topics[name].error for name in by_name if name in view.topics and view.topics[name].error}
        self._topic_waits.saw(missing, frozenset(by_name))

    def _auto_commit(self, now_ms: int) -> None:
        self.auto_commit.restart(now_ms)
        is_member = not self.membership.is_subscribed or self.membership.state is MemberState.STABLE
        if is_member and (offsets := self.processed_offsets()):
            self.commits.start_unreported(offsets, now_ms, self._auto_committed)

    def _auto_committed(self, commit: Commit, now_ms: int) -> None:
        if commit.error is not None and commit.error.is_retriable:
            self.auto_commit.failed(now_ms)

    def commit(self, offsets: Mapping[TopicPartition, Offset], now_ms: int, deadline_ms: int) -> Commit:
        commit = self.commits.start(offsets, now_ms, deadline_ms)
        self._settle(now_ms)
        return commit

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, Offset],
        now_ms: int,
        *,
        is_told: bool = False,
        on_done: Callable[[Commit, int], None] | None = None,
    ) -> Commit:
        commit = self.commits.start_async(offsets, now_ms, is_told=is_told, on_done=on_done)
        self._settle(now_ms)
        return commit

    def give_up_commits(self, now_ms: int) -> None:
        """Asynchronous commits that were not answered have failed: nobody waits for them any longer."""
        self.commits.give_up(now_ms)
        self._settle(now_ms)

    def consumed_offsets(self) -> dict[TopicPartition, Offset]:
        """Behind everything that was handed out: what the caller means by a commit without offsets."""
        return {partition: as_offset(position) for partition, position in self.assignment.positions().items()}

    def processed_offsets(self) -> dict[TopicPartition, Offset]:
        """Behind everything that the caller has come back for: all that is committed without being asked."""
        return {partition: as_offset(position) for partition, position in self.assignment.processed().items()}

    def take_listener_call(self) -> CallListener | None:
        """The listener to call now; whoever takes it reports with ``listener_returned``."""
        call, self.listener_call = self.listener_call, None
        return call

    def listener_returned(self, error: BaseException | None, now_ms: int) -> None:
        self._route(self.membership.listener_returned(error, now_ms))
        self._settle(now_ms)

    def look_up(self, partition: TopicPartition, now_ms: int) -> None:
        """The caller wants to know the position, without polling."""
        state = self.assignment.require(partition)
        if self.subscription.kind is SubscriptionKind.ASSIGNED:
            state.is_held = False
        self._settle(now_ms)

    def seek(self, partition: TopicPartition, position: Position, now_ms: int) -> None:
        self.positions.seek(self.assignment.require(partition), position)
        self._settle(now_ms)

    def seek_to_time(self, partitions: Iterable[TopicPartition], timestamp: int, now_ms: int) -> None:
        """Read from the offset for a timestamp, or for one of the special ones of ListOffsets; found out lazily."""
        states = [self.assignment.require(partition) for partition in partitions]
        for state in states:
            self.positions.reset(state, timestamp)
        self._settle(now_ms)

    def fetch_failed(self, failure: FetchFailure, now_ms: int) -> None:
        self.positions.fetch_failed(failure, now_ms)
        self._settle(now_ms)

    def take_error(self) -> BaseException | None:
        if self._errors:
            return self._errors.popleft()
        return self.positions.take_error()

    @property
    def has_error(self) -> bool:
        return bool(self._errors) or self.positions.has_error

    def fail(self, error: BaseException) -> None:
        """Raise this from the caller's next poll."""
        self._errors.append(error)

    @property
    def wants_caller(self) -> bool:
        """Is there anything for poll to do besides handing out records?"""
        return bool(
            self.listener_call is not None
            or self.has_error
            or (self.subscription.is_group and not self.membership.is_settled)
            or self.membership.has_error
            or self.commits.has_finished
            or self.positions.wants_caller
        )

    # -- the rest of the world

    def coordinator_found(self, now_ms: int) -> None:
        self._route(self.membership.coordinator_found(now_ms))
        self.commits.coordinator_found(now_ms)
        self._settle(now_ms)

    def coordinator_lost(self, now_ms: int) -> None:
        self._route(self.membership.coordinator_lost(now_ms))
        self._settle(now_ms)

    def coordinator_refused(self, error: ClientError, now_ms: int) -> None:
        """The look-up ended with an error that time does not heal: whoever needs a coordinator hears it."""
        self.commits.coordinator_refused(error, now_ms)
        self._errors.append(error)
        self._settle(now_ms)

    def metadata_changed(self, view: ClusterView, now_ms: int) -> None:
        """A new view, or the confirmation of the old one that was asked for."""
        self.positions.view = view
        self._look_for_topics()
        if self.subscription.match(view):
            self._want_topics()
        usable = [name for name, topic in view.topics.items() if topic.error is ErrorCode.NONE]
        cluster = ClusterTopics(view.partition_counts(usable), view.replica_racks(usable))
        self._route(self.membership.metadata_changed(cluster, frozenset(view.topics), now_ms))
        self._settle(now_ms)

    def metadata_failed(self) -> None:
        """A refresh that was asked for gave nothing; who needs one asks again with the next poll."""
        self.membership.metadata_failed()

    def answered(self, ticket: int, response: Message, now_ms: int) -> None:
        if not self.commits.answered(ticket, response, now_ms) and not self.positions.answered(
            ticket, response, now_ms
        ):
            self._route(self.membership.answered(ticket, response, now_ms))
        self._settle(now_ms)

    def failed(self, ticket: int, error: ClientError, now_ms: int) -> None:
        if not self.commits.failed(ticket, error, now_ms) and not self.positions.failed(ticket, error, now_ms):
            self._route(self.membership.failed(ticket, error, now_ms))
        self._settle(now_ms)

    def tick(self, now_ms: int) -> None:
        self._route(self.membership.tick(now_ms))
        self.outbox += self._topic_waits.look(now_ms)
        self.commits.tick(now_ms)
        self._settle(now_ms)

    def next_tick_ms(self, now_ms: int) -> int | None:
        """When ``tick`` must be called, whether or not the caller is here."""
        times = (
            self.membership.next_tick_ms,
            self._topic_waits.next_ms(),
            self.commits.next_tick_ms,
            self.positions.next_tick_ms(now_ms),
        )
        return min((at for at in times if at is not None), default=None)

    # -- wiring

    def _settle(self, now_ms: int) -> None:
        """Ask for missing positions and gather what the parts want done, until they want nothing more."""
        self.positions.advance(now_ms, is_coordinator_known=self.membership.is_coordinator_known)
        while effects := [*self.commits.take_effects(), *self.positions.take_effects()]:
            self._route(effects)

    def _route(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Own(partitions):
                    self._own(partitions)
                case HoldBack(partitions):
                    self.assignment.hold(partitions, is_held=True)
                    self.outbox.append(StopFetching(partitions))
                case Release(partitions):
                    self.assignment.hold(partitions, is_held=False)
                    self.auto_commit.restart(self.membership.poll_interval.last_poll_ms)
                case CommitBeforeJoin(deadline_ms):
                    self._commit_before_join(deadline_ms)
                case CallListener():
                    self.listener_call = effect
                    self.outbox.append(handover_line(effect))
                case Raise(error):
                    self._errors.append(error)
                case ForgetCoordinator(reason):
                    # Whoever notices, the membership keeps what is known of the coordinator.
                    self._route([other for other in self.membership.forget_coordinator(reason) if other != effect])
                    self.outbox.append(effect)
                case _:
                    self.outbox.append(effect)

    def _own(self, partitions: tuple[TopicPartition, ...]) -> None:
        gone = self.assignment.own(partitions, is_held=True)
        if gone:
            self.outbox.append(StopFetching(tuple(gone)))
        self.metrics.assigned_partitions = len(self.assignment)

    def _commit_before_join(self, deadline_ms: int) -> None:
        now_ms = self.membership.poll_interval.last_poll_ms
        self._commits_before_join += 1
        self._processed = self.processed_offsets()
        self.commits.start_unreported(
            self._processed,
            now_ms,
            self._committed_before_join,
            deadline_ms=deadline_ms,
            renew=lambda: self._processed,
        )

    def _committed_before_join(self, commit: Commit, now_ms: int) -> None:  # noqa: ARG002
        self._commits_before_join -= 1
        self._route(self.membership.commit_before_join_finished(now_ms))

    def take_outbox(self) -> list[Effect]:
        outbox, self.outbox = self.outbox, []
        return outbox


def _with_error(topics: Iterable[str], view: ClusterView, code: ErrorCode) -> list[str]:
    return sorted(name for name in topics if name in view.topics and view.topics[name].error is code)
