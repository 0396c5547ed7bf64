"""The join loop: what poll does while a rejoin is needed or pending (C12 to C20, C30).

    prepare: commit, listener        start: JoinGroup         lead or follow: SyncGroup       complete: listener
    needs_join_prepare is set        PREPARING_REBALANCE      COMPLETING_REBALANCE            STABLE

Only ``advance`` starts a step that involves the caller, and only poll calls it; answers that arrive in between just
move the attempt on. So a caller that runs out of time leaves the attempt pending and finds it again with the next poll.

After ``advance`` without success the member is in one of three places (C20): UNJOINED, the attempt having failed, no
heartbeats; PREPARING_REBALANCE, JoinGroup unanswered, no heartbeats; COMPLETING_REBALANCE, SyncGroup unanswered,
heartbeats on.

``JoinWaiting`` is what the log says while a member cannot get into its group: what it waits for, since when, and when
that is over. It is looked after with every poll and when ``next_ms`` has come. A member that only waits for its
caller's next poll is not spoken of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from seamark.assignors import Assignments, Assignor, ClusterTopics, RebalanceProtocol
from seamark.client.core.effects import Raise, RefreshMetadata
from seamark.client.core.lasting_failures import LastingFailures
from seamark.client.core.membership.context import UNKNOWN_GENERATION_ID, Generation, MemberContext, MemberState, Reset
from seamark.client.core.membership.handover import Completion, JoinAttempt, Preparation
from seamark.client.core.membership.heartbeats import Heartbeats
from seamark.client.core.membership.leader import ClusterSeen, assign, read_subscriptions, topics_of
from seamark.client.core.membership.messages import PROTOCOL_TYPE, Next, join_request, reaction_to, sync_request
from seamark.client.core.metrics import ConsumerMetrics
from seamark.client.core.settings import MembershipSettings
from seamark.client.errors import BrokerError, broker_error
from seamark.client.timing import ExponentialBackoff
from seamark.errors import SeamarkError, UsageError
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.join_group import JoinGroupResponse
from seamark.wire.protocol.messages.sync_group import SyncGroupResponse
from seamark.wire.schema.schema import Message

# JoinGroup is parked by the coordinator for up to the rebalance timeout; the answer then needs a moment to travel.
JOIN_TIMEOUT_LAPSE_MS = 5_000
# A new member is told its id, a member of an old generation that it has to come anew, and the group may move on in
# between. Whoever is told to join again more often than that waits for the backoff.
_JOINS_AT_ONCE = 3
# A line of the log each.
_MEMBERS_NAMED = 5

_JOINING = "joining the group"


class JoinLoop:
    def __init__(
        self,
        context: MemberContext,
        settings: MembershipSettings,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
        heartbeats: Heartbeats,
        metrics: ConsumerMetrics,
        backoff: ExponentialBackoff,
        topics: Callable[[], tuple[str, ...]],
    ) -> None:
        self._context = context
        self._settings = settings
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = protocol
        self._heartbeats = heartbeats
        self._metrics = metrics
        self._backoff = backoff
        self._topics = topics
        # In a row, and of those the ones that were followed by another join at once.
        self._failures = 0
        self._joins_at_once = 0
        self._rebalance_started_ms: int | None = None
        # What the last attempt met, until one succeeds; None also for what is part of every join.
        self.last_error: Exception | None = None
        self.preparation = Preparation(context, settings, protocol)
        self.completion = Completion(context, settings.group_id, self._assignors, self._known_partitions)
        self.attempt: JoinAttempt | None = None
        self.retry_at_ms = 0
        # The topics of the last JoinGroup; joining with others is a reason to join again (C22).
        self.joined_topics: tuple[str, ...] | None = None
        # What the leader assigned by; None for everyone else.
        self.seen: ClusterSeen | None = None
        self.group_topics: frozenset[str] = frozenset()
        self._cluster = ClusterTopics({})
        self._covered: frozenset[str] = frozenset()

    @property
    def is_needed_or_pending(self) -> bool:
        return self._context.is_rejoin_needed or self.attempt is not None

    # -- the caller is here

    def advance(self, now_ms: int) -> None:
        context = self._context
        while self.is_needed_or_pending:
            if not context.is_coordinator_known:
                context.find_coordinator()
                return
            if self.attempt is None:
                if now_ms < self.retry_at_ms:
                    return
                if context.needs_join_prepare and not self.preparation.advance(self._topics(), now_ms):
                    return
                self._start(now_ms)
            if self.attempt is None or not self.attempt.is_done:
                return
            if self.attempt.error is not None:
                if not self._judge_failure(self.attempt.error, self.attempt.ended_ms):
                    return
            elif not self._complete(self.attempt, now_ms):
                return

    def _start(self, now_ms: int) -> None:
        context = self._context
        self._heartbeats.disable()
        context.state = MemberState.PREPARING_REBALANCE
        if self._rebalance_started_ms is None:
            self._rebalance_started_ms = now_ms
        self.joined_topics = self._topics()
        self.seen = None
        self.group_topics = frozenset()
        self.attempt = JoinAttempt(now_ms)
        try:
            request = join_request(
                self._settings,
                tuple(self._assignors.values()),
                self.joined_topics,
                context.owned,
                context.generation,
                context.rejoin_reason,
            )
        except Exception as error:  # noqa: BLE001 - a custom assignor's user data may fail in any way
            self._end_with(error, now_ms)
            return
        self.attempt.ticket = context.send(
            request,
            max(self._settings.request_timeout_ms, self._settings.max_poll_interval_ms + JOIN_TIMEOUT_LAPSE_MS),
            self._joined,
            self._failed,
        )

    def _judge_failure(self, error: Exception, failed_ms: int) -> bool:
        """C17: True to go round again at once."""
        context = self._context
        self.attempt = None
        kind = error.code.name if isinstance(error, BrokerError) else type(error).__name__
        context.want_rejoin(f"rebalance failed due to {kind}")
        # With MEMBER_ID_REQUIRED nothing has failed: every new member is told its id that way.
        if not (isinstance(error, BrokerError) and error.code is ErrorCode.MEMBER_ID_REQUIRED):
            context.log("info", "rebalance_failed", f"joining the group failed: {error}", reason=str(error))
        following = self._following(error)
        if following is Next.RAISE:
            # A caller that polls on in spite of it does not send a request with every poll.
            self._join_at_once(error, failed_ms)
            context.emit(Raise(error))
            return False
        if following is Next.JOIN_AT_ONCE:
            self._join_at_once(error, failed_ms)
        else:
            self._back_off(error, failed_ms)
        # The next turn starts the join if the backoff has passed, and returns if it has not.
        return True

    def _join_at_once(self, error: Exception, failed_ms: int) -> None:
        """Join without waiting, unless that was done before and led nowhere."""
        if self._joins_at_once < _JOINS_AT_ONCE:
            self._joins_at_once += 1
        else:
            self._back_off(error, failed_ms)

    def _back_off(self, error: Exception, failed_ms: int) -> None:
        self.last_error = error
        self._failures += 1
        self.retry_at_ms = failed_ms + int(self._backoff.wait_ms(self._failures))

    def _following(self, error: Exception) -> Next:
        if isinstance(error, BrokerError):
            return reaction_to(error.code).next
        return Next.JOIN_AFTER_BACKOFF if getattr(error, "is_retriable", False) else Next.RAISE

    def _complete(self, attempt: JoinAttempt, now_ms: int) -> bool:
        """C16: True when the attempt is over, however it ended."""
        context = self._context
        generation, state = context.generation, context.state
        if generation.is_reset or state is not MemberState.STABLE:
            self.attempt = None
            reason = (
                f"the rebalance was superseded: generation {generation.generation_id} of member "
                f"{generation.member_id!r} in state {state.value}"
            )
            context.reset(Reset.EVERYTHING, reason)
            self._join_at_once(SeamarkError(reason), now_ms)
            return True
        if not self.completion.advance(attempt, self._topics()):
            return False
        self.attempt = None
        context.needs_join_prepare = True
        if attempt.difference is None and not attempt.is_owned:
            # It could not be taken: the subscription has changed meanwhile, or the leader does not know it.
            self._join_at_once(SeamarkError(context.rejoin_reason), now_ms)
        else:
            self._joins_at_once = self._failures = 0
            self.last_error = None
        return True

    # -- answers, whenever they come

    def _joined(self, response: Message, sent_under: Generation, now_ms: int) -> None:
        assert isinstance(response, JoinGroupResponse)
        attempt, context = self._current(), self._context
        code = error_code(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            # The coordinator holds this id for us; the next JoinGroup brings it back.
            context.generation = Generation(UNKNOWN_GENERATION_ID, response.member_id)
        if code is not ErrorCode.NONE:
            self._refused(code, "JoinGroup", sent_under, now_ms)
            return
        self._metrics.joins.add(now_ms - attempt.started_ms)
        if response.protocol_type is not None and response.protocol_type != PROTOCOL_TYPE:
            self._end_with(self._inconsistent(f"the group has protocol type {response.protocol_type!r}"), now_ms)
            return
        if context.state is not MemberState.PREPARING_REBALANCE:
            # The generation was reset while the request was under way: what it joined is not what we are.
            self._end_with(broker_error(ErrorCode.ILLEGAL_GENERATION, "JoinGroup", self._subject), now_ms)
            return
        context.state = MemberState.COMPLETING_REBALANCE
        context.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        self._heartbeats.enable(now_ms)
        attempt.leader = response.leader
        if response.leader != response.member_id:
            self._send_sync({}, now_ms)
            return
        attempt.members, unreadable = read_subscriptions(response.members)
        for member_id, problem in list(unreadable.items())[:_MEMBERS_NAMED]:
            text = f"member {member_id} is assigned no partitions: its subscription cannot be decoded ({problem})"
            context.log("warning", "subscription_unreadable", text, member_id=member_id)
        # A leader that may skip the assignment still watches the metadata (KIP-814), so it needs to know the topics.
        self.group_topics = topics_of(attempt.members)
        if response.skip_assignment:
            attempt.members = None
            self._watch()
            self._send_sync({}, now_ms)
        elif self.group_topics <= self._covered:
            self._lead(now_ms)
        else:
            context.emit(RefreshMetadata(self.group_topics | frozenset(self._topics())))

    def metadata_changed(self, cluster: ClusterTopics, covered: frozenset[str], now_ms: int) -> None:
        self._cluster = cluster
        self._covered = covered
        attempt = self.attempt
        if attempt is not None and attempt.members is not None and self.group_topics <= covered:
            self._lead(now_ms)
        else:
            self._watch()
            self.notice_changed_cluster()

    def notice_changed_cluster(self) -> None:
        """C22: what this leader assigned by may be no longer true; a pending attempt is left alone."""
        if self.seen is None or self.attempt is not None:
            return
        now = self._see()
        if now != self.seen:
            before, self.seen = self.seen, None
            self._context.request_rejoin(
                f"cached metadata has changed from {dict(before.partition_counts)} at the beginning of the rebalance "
                f"to {dict(now.partition_counts)}"
            )

    def _known_partitions(self, topics: Iterable[str]) -> int:
        return sum(self._cluster.known(topics).values())

    def _watch(self) -> None:
        """Begin to watch what another has assigned by, as soon as all of it is known here."""
        if self.seen is None and self.group_topics and self.group_topics <= self._covered:
            self.seen = self._see()

    def _see(self) -> ClusterSeen:
        return ClusterSeen.of(self._cluster, self.group_topics, with_racks=self._settings.rack is not None)

    def _lead(self, now_ms: int) -> None:
        attempt, context = self._current(), self._context
        assert attempt.members is not None
        members, attempt.members = attempt.members, None
        if context.state is not MemberState.COMPLETING_REBALANCE:
            # A heartbeat has told that the group goes on without us while the metadata was awaited.
            self._end_with(broker_error(ErrorCode.ILLEGAL_GENERATION, "JoinGroup", self._subject), now_ms)
            return
        name = context.generation.protocol
        assignor = self._assignors.get(name or "")
        if assignor is None:
            self._end_with(self._inconsistent(f"this member does not have the group's assignor {name!r}"), now_ms)
            return
        try:
            assignments = assign(assignor, self._cluster, members, self._protocol)
        except Exception as error:  # noqa: BLE001 - a custom assignor may fail in any way; its user hears of it in poll
            self._end_with(error, now_ms)
            return
        self.seen = self._see()
        self._send_sync(assignments, now_ms)

    def _send_sync(self, assignments: Assignments, now_ms: int) -> None:
        attempt = self._current()
        attempt.sync_started_ms = now_ms
        attempt.ticket = self._context.send(
            sync_request(self._settings, self._context.generation, assignments),
            self._settings.request_timeout_ms,
            self._synced,
            self._failed,
        )

    def _synced(self, response: Message, sent_under: Generation, now_ms: int) -> None:
        assert isinstance(response, SyncGroupResponse)
        attempt, context = self._current(), self._context
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            self._refused(code, "SyncGroup", sent_under, now_ms)
            return
        self._metrics.syncs.add(now_ms - attempt.sync_started_ms)
        if response.protocol_type is not None and response.protocol_type != PROTOCOL_TYPE:
            self._end_with(self._inconsistent(f"the group has protocol type {response.protocol_type!r}"), now_ms)
        elif response.protocol_name is not None and response.protocol_name != context.generation.protocol:
            self._end_with(
                self._inconsistent(f"the SyncGroup response is for assignor {response.protocol_name!r}"), now_ms
            )
        elif context.generation.is_reset or context.state is not MemberState.COMPLETING_REBALANCE:
            self._end_with(broker_error(ErrorCode.ILLEGAL_GENERATION, "SyncGroup", self._subject), now_ms)
        else:
            context.state = MemberState.STABLE
            context.is_rejoin_needed = False
            if self._rebalance_started_ms is not None:
                self._metrics.rebalanced(now_ms - self._rebalance_started_ms, now_ms)
                self._rebalance_started_ms = None
            attempt.assignment = response.assignment
            number, member_id, _ = context.generation
            text = f"joined generation {number} as {member_id}"
            context.log("info", "joined", text, generation=number, member_id=member_id)

    def _refused(self, code: ErrorCode, api: str, sent_under: Generation, now_ms: int) -> None:
        context = self._context
        reaction = reaction_to(code)
        if reaction.forgets_coordinator:
            context.forget_coordinator(f"{api} failed with {code.name}")
        # An instance id that is fenced here was taken before we came: joining with a blank id would only take it back.
        if sent_under == context.generation and code is not ErrorCode.FENCED_INSTANCE_ID:
            context.reset(reaction.reset, f"encountered {code.name} from {api} response")
        self._end_with(broker_error(code, api, self._subject), now_ms)

    def _failed(self, error: Exception, sent_under: Generation, now_ms: int) -> None:  # noqa: ARG002
        self._end_with(error, now_ms)

    def _end_with(self, error: Exception, now_ms: int) -> None:
        """The attempt failed; the caller hears of it, or tries again, in ``advance``."""
        self._metrics.failed_rebalances += 1
        self._context.state = MemberState.UNJOINED
        self._heartbeats.disable()
        attempt = self._current()
        attempt.members = None
        attempt.error = error
        attempt.ended_ms = now_ms

    def abandon(self) -> None:
        """The member leaves: whatever is under way is not for it any more."""
        if self.attempt is not None:
            self._context.give_up(self.attempt.ticket)
        self.attempt = None
        # A listener that runs at this moment is heard out: what it was told is not told again.
        self.preparation.forget_commit()
        self._heartbeats.disable()
        self._rebalance_started_ms = None
        self.seen = None
        self.group_topics = frozenset()
        self.joined_topics = None
        self.retry_at_ms = 0
        self._joins_at_once = self._failures = 0
        self.last_error = None

    def _current(self) -> JoinAttempt:
        assert self.attempt is not None
        return self.attempt

    def _inconsistent(self, why: str) -> BrokerError:
        return broker_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "JoinGroup", self._subject, why)

    @property
    def _subject(self) -> str:
        instance = f", instance {self._settings.instance_id!r}" if self._settings.is_static else ""
        return f"group {self._settings.group_id!r}{instance}"


def no_assignor() -> UsageError:
    """C2, E14."""
    return UsageError("subscribe() requires an assignor, but partition.assignment.strategy is empty")


class JoinWaiting:
    def __init__(self, context: MemberContext, joining: JoinLoop) -> None:
        self._context = context
        self._joining = joining
        self._lasting: LastingFailures[str] = LastingFailures("has not succeeded", "has succeeded")
        # What the look-up of the coordinator has met so far, if anything.
        self.coordinator_problem: Callable[[], object] = lambda: None

    def look(self, now_ms: int) -> None:
        if (reason := self._reason()) is not None:
            if (line := self._lasting.failed(_JOINING, reason, now_ms)) is not None:
                self._context.log("warning", "join_waits", line, reason=reason)
        elif self._is_in_group and (line := self._lasting.succeeded(_JOINING, now_ms)) is not None:
            self._context.log("warning", "join_succeeds", line)

    def forget(self) -> None:
        """It does not want to join any more."""
        self._lasting.forget(_JOINING)

    @property
    def next_ms(self) -> int | None:
        return None if self._reason() is None else self._lasting.due_ms(_JOINING)

    @property
    def _is_in_group(self) -> bool:
        return self._context.state is MemberState.STABLE and not self._joining.is_needed_or_pending

    def _reason(self) -> str | None:
        """What keeps it out; None if nothing does, or only the caller can tell."""
        context, error = self._context, self._joining.last_error
        if self._is_in_group:
            return None
        if not context.is_coordinator_known:
            problem = self.coordinator_problem()
            return f"the coordinator is unknown{'' if problem is None else f': {problem}'}"
        if error is not None:
            return str(error)
        if context.state is MemberState.PREPARING_REBALANCE:
            return "no response to JoinGroup yet; the coordinator waits until the other members poll"
        if context.state is MemberState.COMPLETING_REBALANCE:
            return "no response to SyncGroup yet; the group leader has not assigned the partitions yet"
        return None
