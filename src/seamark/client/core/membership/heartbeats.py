"""Heartbeats, and the member that notices for itself that it must go: what runs without the caller (C26, C31, C32).

``tick`` is called when ``next_ms`` has come; nothing here waits for the caller's thread. Heartbeats run while the
member completes a rebalance or is stable. An error in an answer counts only if the generation is still that of the
request.

``HeartbeatTiming``: at most one heartbeat is outstanding. The next is due one interval after the last was sent, one
retry backoff after one failed. The session counts from the last answer: once it has passed without one, the coordinator
has given the member up or cannot be reached, and must be looked up again.

``PollInterval`` is ``max.poll.interval.ms``: how long the caller may stay away before its member leaves the group by
itself. ``polled`` is called by every poll, before anything else (C3): a coordinator that cannot be reached does not
make the member leave for inactivity. It is the one value of the cores that the caller's thread may write while the I/O
thread reads it: a single store of an integer, by one writer.
"""

from __future__ import annotations

from collections.abc import Callable

from seamark.client.core.membership.context import Generation, MemberContext, MemberState, Reset
from seamark.client.core.membership.messages import heartbeat_request, reaction_to
from seamark.client.core.metrics import ConsumerMetrics
from seamark.client.core.settings import MembershipSettings
from seamark.client.errors import BrokerError, broker_error
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.heartbeat import HeartbeatResponse
from seamark.wire.schema.schema import Message


class PollInterval:
    __slots__ = ("_limit_ms", "last_poll_ms")

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self.last_poll_ms = 0

    def polled(self, now_ms: int) -> None:
        self.last_poll_ms = now_ms

    def is_exceeded(self, now_ms: int) -> bool:
        return now_ms >= self.until_ms

    @property
    def until_ms(self) -> int:
        return self.last_poll_ms + self._limit_ms


class HeartbeatTiming:
    """The clockwork only: whether heartbeats run at all is the membership's decision."""

    __slots__ = (
        "_due_ms",
        "_interval_ms",
        "_retry_ms",
        "_session_ms",
        "_session_until_ms",
        "is_outstanding",
        "sent_ms",
    )

    def __init__(self, interval_ms: int, session_ms: int, retry_ms: int) -> None:
        self._interval_ms = interval_ms
        self._session_ms = session_ms
        self._retry_ms = retry_ms
        self._due_ms = 0
        self._session_until_ms = 0
        self.is_outstanding = False
        self.sent_ms = 0

    def start(self, now_ms: int) -> None:
        """Begin a session: the coordinator has just heard from us."""
        self.is_outstanding = False
        self._due_ms = now_ms + self._interval_ms
        self._session_until_ms = now_ms + self._session_ms

    def sent(self, now_ms: int) -> None:
        self.is_outstanding = True
        self.sent_ms = now_ms
        self._due_ms = now_ms + self._interval_ms

    def answered(self, now_ms: int) -> None:
        self.is_outstanding = False
        self._session_until_ms = now_ms + self._session_ms

    def failed(self, now_ms: int) -> None:
        self.is_outstanding = False
        self._due_ms = now_ms + self._retry_ms

    def restart_session(self, now_ms: int) -> None:
        """A coordinator was found anew: it gets a whole session to answer in."""
        self._session_until_ms = now_ms + self._session_ms

    def is_due(self, now_ms: int) -> bool:
        return not self.is_outstanding and now_ms >= self._due_ms

    def is_session_over(self, now_ms: int) -> bool:
        return now_ms >= self._session_until_ms

    @property
    def next_ms(self) -> int:
        """When there is something to do without an answer arriving."""
        return self._session_until_ms if self.is_outstanding else min(self._due_ms, self._session_until_ms)


class Heartbeats:
    def __init__(
        self,
        context: MemberContext,
        settings: MembershipSettings,
        poll_interval: PollInterval,
        metrics: ConsumerMetrics,
        leave: Callable[[str, int], None],
    ) -> None:
        self._context = context
        self._settings = settings
        self._poll_interval = poll_interval
        self._metrics = metrics
        self._leave = leave
        self._timing = HeartbeatTiming(
            settings.heartbeat_interval_ms, settings.session_timeout_ms, settings.retry_backoff_ms
        )
        self._ticket: int | None = None
        # Thrown by the next poll: the identity of this member was taken by another (C31).
        self._fenced: BrokerError | None = None

    def enable(self, now_ms: int) -> None:
        self._give_up_outstanding()
        self._context.is_heartbeat_enabled = True
        self._timing.start(now_ms)

    def disable(self) -> None:
        self._context.is_heartbeat_enabled = False
        self._give_up_outstanding()

    def take_error(self) -> BrokerError | None:
        error, self._fenced = self._fenced, None
        return error

    @property
    def has_error(self) -> bool:
        return self._fenced is not None

    def coordinator_found(self, now_ms: int) -> None:
        self._timing.restart_session(now_ms)

    @property
    def next_ms(self) -> int | None:
        """When ``tick`` has something to do; None while the coordinator is looked for or heartbeats are off."""
        if not self._context.is_heartbeat_enabled or not self._context.is_coordinator_known:
            return None
        return min(self._timing.next_ms, self._poll_interval.until_ms)

    def tick(self, now_ms: int) -> None:
        context = self._context
        if not context.is_heartbeat_enabled:
            return
        if not context.is_coordinator_known:
            context.find_coordinator()
        elif self._timing.is_session_over(now_ms):
            self._give_up_outstanding()
            self._timing.failed(now_ms)
            context.forget_coordinator("the session expired without a response to a heartbeat")
            context.find_coordinator()
        elif self._poll_interval.is_exceeded(now_ms):
            context.log(
                "warning",
                "poll_interval_exceeded",
                f"poll was not called for max.poll.interval.ms ({self._settings.max_poll_interval_ms} ms); leaving "
                "the group: increase it, lower max.poll.records, or move the work to other threads",
            )
            self._leave("consumer poll timeout has expired", now_ms)
        elif self._timing.is_due(now_ms):
            self._timing.sent(now_ms)
            self._metrics.heartbeat_sent(now_ms)
            self._ticket = context.send(
                heartbeat_request(self._settings, context.generation),
                self._settings.request_timeout_ms,
                self._answered,
                self._failed,
            )

    def _answered(self, response: Message, sent_under: Generation, now_ms: int) -> None:
        assert isinstance(response, HeartbeatResponse)
        self._ticket = None
        self._metrics.heartbeat_answers.add(now_ms - self._timing.sent_ms)
        code = error_code(response.error_code)
        context = self._context
        if code is ErrorCode.NONE or code is ErrorCode.REBALANCE_IN_PROGRESS:
            # A rebalance does not end the session: members that beat while they finish their work are kept.
            self._timing.answered(now_ms)
            if code is not ErrorCode.NONE and context.state is MemberState.STABLE and not context.is_rejoin_needed:
                context.request_rejoin("the group is already rebalancing")
            return
        self._timing.failed(now_ms)
        reaction = reaction_to(code)
        if reaction.forgets_coordinator:
            context.forget_coordinator(f"Heartbeat failed with {code.name}")
            context.find_coordinator()
        elif reaction.reset is not Reset.NOTHING:
            if sent_under != context.generation:
                self._metrics.stale_answers += 1
                return
            context.reset(reaction.reset, f"encountered {code.name} from HEARTBEAT response")
            if code is ErrorCode.FENCED_INSTANCE_ID:
                self._fenced = broker_error(code, "Heartbeat", self._subject)
        elif code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self._fenced = broker_error(code, "Heartbeat", self._subject)
        else:
            context.log("warning", "heartbeat_failed", f"Heartbeat failed with {code.name}; retrying")

    def _failed(self, error: Exception, sent_under: Generation, now_ms: int) -> None:  # noqa: ARG002
        self._ticket = None
        self._timing.failed(now_ms)
        self._context.find_coordinator()

    def _give_up_outstanding(self) -> None:
        if self._ticket is not None:
            self._context.give_up(self._ticket)
            self._ticket = None

    @property
    def _subject(self) -> str:
        instance = f", instance {self._settings.instance_id!r}" if self._settings.is_static else ""
        return f"group {self._settings.group_id!r}{instance}"
