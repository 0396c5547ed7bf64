"""A member of a consumer group, as a state machine over the coordinator protocol: no clock, no socket, no thread.

Each method is an event; it returns the effects to carry out, in order. ``poll`` means "the caller is here": only it
starts what concerns the caller (a join, a listener call). Everything else may come at any time: answers, ticks, a
coordinator found or lost. The shell calls ``poll`` again after each event for as long as the caller waits, and calls
``tick`` when ``next_tick_ms`` has come, whether or not the caller is there: heartbeats never depend on it.

One listener call is outstanding at most; until ``listener_returned`` is called, ``poll`` starts nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.assignors import Assignor, ClusterTopics, RebalanceProtocol, common_protocol
from seamark.client.core.effects import CallListener, Effect, Own, Raise, RefreshMetadata, Tickets
from seamark.client.core.membership.context import Generation, GroupMetadata, MemberContext, MemberState, Reset
from seamark.client.core.membership.handover import Handover, before_leave
from seamark.client.core.membership.heartbeats import Heartbeats, PollInterval
from seamark.client.core.membership.join import JoinLoop, JoinWaiting, no_assignor
from seamark.client.core.membership.messages import leave_request
from seamark.client.core.metrics import ConsumerMetrics
from seamark.client.core.settings import MembershipSettings
from seamark.client.group_offsets import NO_IDENTITY, GroupIdentity
from seamark.client.timing import ExponentialBackoff, RandomSource
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.leave_group import LeaveGroupResponse
from seamark.wire.schema.schema import Message


class Membership:
    def __init__(
        self,
        settings: MembershipSettings,
        assignors: Sequence[Assignor],
        *,
        tickets: Tickets,
        metrics: ConsumerMetrics,
        rng: RandomSource,
    ) -> None:
        self.settings = settings
        self._assignors = tuple(assignors)
        self.protocol = common_protocol(self._assignors) if self._assignors else RebalanceProtocol.EAGER
        self._context = MemberContext(tickets)
        self.poll_interval = PollInterval(settings.max_poll_interval_ms)
        self._heartbeats = Heartbeats(self._context, settings, self.poll_interval, metrics, self._leave)
        self._joining = JoinLoop(
            self._context,
            settings,
            self._assignors,
            self.protocol,
            self._heartbeats,
            metrics,
            ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random_source=rng),
            lambda: self._topics,
        )
        self.waiting = JoinWaiting(self._context, self._joining)
        # None while nothing is subscribed to; sorted, so that the order of a set never shows.
        self._wanted: tuple[str, ...] | None = None
        self._has_pattern = False
        self._metadata_ms: int | None = None
        self._is_refreshing = False
        self._leaving: Handover | None = None
        self._leave_ticket: int | None = None

    # -- what a member is, for others to read

    @property
    def state(self) -> MemberState:
        return self._context.state

    @property
    def generation(self) -> Generation:
        return self._context.generation

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self._context.owned

    @property
    def is_heartbeat_enabled(self) -> bool:
        return self._context.is_heartbeat_enabled

    @property
    def is_subscribed(self) -> bool:
        return self._wanted is not None

    @property
    def is_rejoin_needed(self) -> bool:
        return self._context.is_rejoin_needed

    @property
    def needs_join_prepare(self) -> bool:
        return self._context.needs_join_prepare

    @property
    def is_settled(self) -> bool:
        """Is there nothing for poll to do?"""
        return self._wanted is None or (
            self.state is MemberState.STABLE
            and not self._joining.is_needed_or_pending
            and not self.is_listener_running
            and self._joining.joined_topics == self._wanted
        )

    @property
    def is_listener_running(self) -> bool:
        return (
            self._leaving is not None
            or self._joining.preparation.handover is not None
            or self._joining.completion.calling is not None
        )

    @property
    def is_coordinator_known(self) -> bool:
        return self._context.is_coordinator_known

    @property
    def has_error(self) -> bool:
        """Is there an error that the next poll raises?"""
        return self._heartbeats.has_error

    @property
    def is_join_unanswered(self) -> bool:
        """Does the coordinator hold an answer back, and with it all that comes over the same connection?"""
        attempt = self._joining.attempt
        return attempt is not None and attempt.is_unanswered

    @property
    def is_leaving(self) -> bool:
        """Is LeaveGroup sent and not answered?"""
        return self._leave_ticket is not None

    @property
    def group_topics(self) -> frozenset[str]:
        """Topics whose metadata this member watches for the group, as its leader."""
        return self._joining.group_topics

    @property
    def group_metadata(self) -> GroupMetadata:
        generation = self._context.generation
        return GroupMetadata(
            self.settings.group_id, generation.generation_id, generation.member_id, self.settings.instance_id
        )

    def commit_identity(self) -> GroupIdentity | None:
        """What a commit carries (C24): the generation if stable, none at all for manual assignment.

        None means that the commit must not be sent; ``state`` tells which error it is.
        """
        if self._wanted is None:
            return NO_IDENTITY
        if self.state is not MemberState.STABLE:
            return None
        generation = self._context.generation
        return GroupIdentity(generation.generation_id, generation.member_id, self.settings.instance_id)

    # -- the caller

    def subscribe(self, topics: Iterable[str], *, has_pattern: bool = False) -> list[Effect]:
        """Want these topics; a member that joined with others joins again at the next poll."""
        self._wanted = tuple(sorted(set(topics)))
        if has_pattern and not self._has_pattern:
            # What is known so far may be about a few topics only; a pattern is matched against all of them.
            self._metadata_ms = None
        self._has_pattern = has_pattern
        return self._context.take_effects()

    def poll(self, now_ms: int) -> list[Effect]:
        self.poll_interval.polled(now_ms)
        if self._wanted is not None and not self.is_listener_running:
            self._poll(now_ms)
            self.waiting.look(now_ms)
        return self._context.take_effects()

    def _poll(self, now_ms: int) -> None:
        context = self._context
        if not self._assignors:
            context.emit(Raise(no_assignor()))
            return
        fenced = self._heartbeats.take_error()
        if fenced is not None:
            context.emit(Raise(fenced))
            return
        if not context.is_coordinator_known:
            context.find_coordinator()
            return
        joining = self._joining
        joining.notice_changed_cluster()
        if joining.attempt is None and joining.joined_topics not in (None, self._wanted):
            context.request_rejoin(
                f"subscription has changed from {list(joining.joined_topics or ())} at the beginning of the rebalance "
                f"to {list(self._wanted or ())}"
            )
        if not joining.is_needed_or_pending:
            return
        if joining.attempt is None and self._has_pattern and not self._is_metadata_fresh(now_ms):
            return
        joining.advance(now_ms)

    def _is_metadata_fresh(self, now_ms: int) -> bool:
        """C6: match the pattern once more before joining: one new topic must not cost a rebalance per member."""
        if self._is_refreshing:
            return False
        if self._metadata_ms is None or now_ms - self._metadata_ms >= self.settings.retry_backoff_ms:
            self._is_refreshing = True
            self._context.emit(RefreshMetadata(None))
            return False
        return True

    def listener_returned(self, error: BaseException | None, now_ms: int) -> list[Effect]:  # noqa: ARG002
        """The call of the last CallListener is over; ``error`` is what poll is to raise for it."""
        joining, context = self._joining, self._context
        if self._leaving is not None:
            self._leaving = None
            self._disown()
        elif joining.preparation.handover is not None:
            joining.preparation.listener_returned()
        elif joining.completion.calling is not None:
            error = joining.completion.listener_returned(error)
        if error is not None:
            context.emit(Raise(error))
        return context.take_effects()

    def commit_before_join_finished(self, now_ms: int) -> list[Effect]:  # noqa: ARG002
        self._joining.preparation.commit_finished()
        return self._context.take_effects()

    # -- leaving

    def prepare_leave(self, now_ms: int) -> list[Effect]:  # noqa: ARG002
        """Tell the listener what goes, before the group is left (I29)."""
        handover = before_leave(self.owned, self.generation, is_joining=self.state.is_joining)
        self._joining.preparation.abandon()
        self._joining.completion.abandon()
        if handover.call is not None:
            self._leaving = handover
            self._context.emit(CallListener(handover.call, handover.partitions))
        return self._context.take_effects()

    def leave(self, reason: str, now_ms: int, *, even_if_static: bool = False, remain: bool = False) -> list[Effect]:
        """Leave the group for good; static members stay unless told otherwise (C32)."""
        self._leave(reason, now_ms, even_if_static=even_if_static, remain=remain)
        self._disown()
        self._wanted = None
        self.waiting.forget()
        return self._context.take_effects()

    def _leave(self, reason: str, now_ms: int, *, even_if_static: bool = False, remain: bool = False) -> None:  # noqa: ARG002
        context = self._context
        # A static member is known by its instance id, also before its first join has told it a member id.
        is_known = bool(self.generation.member_id) or self.settings.is_static
        is_member = self.state is not MemberState.UNJOINED and is_known
        may_leave = even_if_static or not self.settings.is_static
        if is_member and may_leave and not remain and context.is_coordinator_known:
            self._leave_ticket = context.send(
                leave_request(self.settings, self.generation, reason),
                self.settings.request_timeout_ms,
                self._left,
                self._leave_failed,
                overtakes=self.is_join_unanswered,
            )
            context.log("info", "leaves", f"leaves the group: {reason}", reason=reason)
        self._joining.abandon()
        context.leave_generation(reason)

    def _left(self, response: Message, sent_under: Generation, now_ms: int) -> None:  # noqa: ARG002
        assert isinstance(response, LeaveGroupResponse)
        self._leave_ticket = None
        codes = [response.error_code, *(member.error_code for member in response.members)]
        if any(codes):
            self._context.log("warning", "leave_failed", f"LeaveGroup failed with error codes {codes}")

    def _leave_failed(self, error: Exception, sent_under: Generation, now_ms: int) -> None:  # noqa: ARG002
        self._leave_ticket = None
        self._context.log("warning", "leave_failed", f"LeaveGroup got no response: {error}")

    def _disown(self) -> None:
        if self._context.owned:
            self._context.owned = ()
            self._context.emit(Own(()))

    # -- the rest of the world

    def coordinator_found(self, now_ms: int) -> list[Effect]:
        self._context.is_coordinator_known = True
        self._heartbeats.coordinator_found(now_ms)
        return self._context.take_effects()

    def coordinator_lost(self, now_ms: int) -> list[Effect]:  # noqa: ARG002
        """The shell has found out by itself; heartbeats need a new one, whether or not the caller polls."""
        self._context.is_coordinator_known = False
        if self._context.is_heartbeat_enabled:
            self._context.find_coordinator()
        return self._context.take_effects()

    def metadata_changed(self, cluster: ClusterTopics, covered: frozenset[str], now_ms: int) -> list[Effect]:
        """A new picture of the cluster; ``covered`` are the topics that were asked for, existing or not."""
        self._metadata_ms = now_ms
        self._is_refreshing = False
        self._joining.metadata_changed(cluster, covered, now_ms)
        return self._context.take_effects()

    def metadata_failed(self) -> None:
        """A refresh that was asked for gave nothing: ask again with the next poll."""
        self._is_refreshing = False

    def answered(self, ticket: int, response: Message, now_ms: int) -> list[Effect]:
        self._context.answered(ticket, response, now_ms)
        return self._context.take_effects()

    def failed(self, ticket: int, error: Exception, now_ms: int) -> list[Effect]:
        self._context.failed(ticket, error, now_ms)
        return self._context.take_effects()

    def tick(self, now_ms: int) -> list[Effect]:
        self._heartbeats.tick(now_ms)
        if self._is_wait_watched:
            self.waiting.look(now_ms)
        return self._context.take_effects()

    @property
    def next_tick_ms(self) -> int | None:
        times = (self._heartbeats.next_ms, self.waiting.next_ms if self._is_wait_watched else None)
        return min((at for at in times if at is not None), default=None)

    @property
    def _is_wait_watched(self) -> bool:
        return self._wanted is not None and not self.is_listener_running

    def poll_again_ms(self, now_ms: int) -> int | None:
        """When a waiting caller should poll again though nothing has happened: a backoff or a commit has run out."""
        times = [self._joining.retry_at_ms, self._joining.preparation.retry_at_ms]
        return min((at for at in times if at is not None and at > now_ms), default=None)

    # -- what commits find out about the membership (F24)

    def request_rejoin(self, reason: str) -> list[Effect]:
        self._context.request_rejoin(reason)
        return self._context.take_effects()

    def reset(self, reset: Reset, reason: str) -> list[Effect]:
        self._context.reset(reset, reason)
        return self._context.take_effects()

    def forget_coordinator(self, reason: str) -> list[Effect]:
        self._context.forget_coordinator(reason)
        return self._context.take_effects()

    @property
    def _topics(self) -> tuple[str, ...]:
        return self._wanted or ()
