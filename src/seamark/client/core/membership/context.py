"""Where a member is with its group: state, generation, the wish to join again, and who waits for which answer.

A generation is what commits and heartbeats are made under. It is replaced, never edited: an answer is judged by
comparing the generation of its request with the one held now. ``NO_GENERATION`` is the answer to "who am I" before the
first join and after every reset.

``MemberContext`` is shared by the parts of one membership (the join loop, the heartbeats, leaving), each of which
changes it through its verbs. Resetting and asking for a rejoin are separate on purpose: a rebalance announced by a
heartbeat leaves the generation valid, so that commits made before joining again are still accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from seamark.client.core.effects import (
    Effect,
    FindCoordinator,
    ForgetCoordinator,
    LogLine,
    SendToCoordinator,
    Tickets,
)
from seamark.client.requests import Request
from seamark.topic_partition import TopicPartition
from seamark.wire.schema.schema import Message

UNKNOWN_GENERATION_ID = -1
UNKNOWN_MEMBER_ID = ""


class MemberState(Enum):
    """Where a member stands.

    UNJOINED: no request of a rebalance is under way and none has succeeded since the last reset. No heartbeats.
    PREPARING_REBALANCE: JoinGroup is sent, its answer is awaited. No heartbeats: the parked request stands for them.
    COMPLETING_REBALANCE: JoinGroup is answered, SyncGroup is not. Heartbeats run.
    STABLE: the assignment is known. Heartbeats run, and only here commits carry the generation.
    """

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing_rebalance"
    COMPLETING_REBALANCE = "completing_rebalance"
    STABLE = "stable"

    @property
    def is_joining(self) -> bool:
        return self in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)


class Generation(NamedTuple):
    generation_id: int
    member_id: str
    protocol: str | None = None

    @property
    def is_reset(self) -> bool:
        """Would the group not recognise it?"""
        return self.generation_id == UNKNOWN_GENERATION_ID or self.member_id == UNKNOWN_MEMBER_ID

    def without_id(self) -> Generation:
        """The same member, not in any generation."""
        return Generation(UNKNOWN_GENERATION_ID, self.member_id)


NO_GENERATION = Generation(UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID)


class GroupMetadata(NamedTuple):
    """The consumer's place in its group, as ``group_metadata`` shows it."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None


class Reset(Enum):
    """What becomes of the generation, provided it is still the one the request was sent under."""

    NOTHING = "nothing"
    # The member id may still be good; joining with it spares the group the wait for the old member to expire.
    KEEP_MEMBER_ID = "keep the member id"
    EVERYTHING = "everything"


OnAnswer = Callable[[Message, Generation, int], None]
OnFailure = Callable[[Exception, Generation, int], None]


class _Waiting(NamedTuple):
    on_answer: OnAnswer
    on_failure: OnFailure
    # Answers are judged by the generation they were asked under.
    generation: Generation


class MemberContext:
    def __init__(self, tickets: Tickets) -> None:
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.is_heartbeat_enabled = False
        self.is_coordinator_known = False
        # True from the start: a member that has never joined needs to (C5).
        self.is_rejoin_needed = True
        self.rejoin_reason = "the member has not joined yet"
        # Guards the work before a join: no JoinGroup while it is set (C13, C14).
        self.needs_join_prepare = True
        self.owned: tuple[TopicPartition, ...] = ()
        self._effects: list[Effect] = []
        self._tickets = tickets
        self._waiting: dict[int, _Waiting] = {}

    # -- effects

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def log(self, level: str, event: str, text: str, **fields: object) -> None:
        self._effects.append(LogLine(level, event, text, tuple(fields.items())))

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # -- requests

    def send(
        self,
        request: Request,
        timeout_ms: int,
        on_answer: OnAnswer,
        on_failure: OnFailure,
        *,
        overtakes: bool = False,
    ) -> int:
        ticket = self._tickets.next()
        self._waiting[ticket] = _Waiting(on_answer, on_failure, self.generation)
        self.emit(SendToCoordinator(ticket, request, timeout_ms, overtakes))
        return ticket

    def answered(self, ticket: int, response: Message, now_ms: int) -> bool:
        """Hand an answer to who waits for it; False if nobody does any more."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            return False
        waiting.on_answer(response, waiting.generation, now_ms)
        return True

    def failed(self, ticket: int, error: Exception, now_ms: int) -> bool:
        """No answer: whoever coordinates the group, this connection does not lead to it (B10, F21)."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            return False
        self.forget_coordinator(str(error))
        waiting.on_failure(error, waiting.generation, now_ms)
        return True

    def give_up(self, ticket: int) -> None:
        """Whatever comes for this ticket is nobody's business any more."""
        self._waiting.pop(ticket, None)

    # -- changes

    def want_rejoin(self, reason: str) -> None:
        """Join again, without a word: who calls this says why."""
        self.is_rejoin_needed = True
        # Kafka's own words where it has any: the coordinator logs it.
        self.rejoin_reason = reason

    def request_rejoin(self, reason: str) -> None:
        self.want_rejoin(reason)
        self.log("info", "rejoin", f"has to join the group: {reason}")

    def reset(self, reset: Reset, reason: str) -> None:
        """Forget the generation and join again, preparing anew: what is owned is lost."""
        if reset is Reset.NOTHING:
            return
        self.leave_generation(reason, keeps_member_id=reset is Reset.KEEP_MEMBER_ID)
        self.log("info", "rejoin", f"has to join the group: {reason}")

    def leave_generation(self, reason: str, *, keeps_member_id: bool = False) -> None:
        """Forget the generation; a later join prepares anew and names the reason."""
        self.state = MemberState.UNJOINED
        self.is_heartbeat_enabled = False
        self.generation = self.generation.without_id() if keeps_member_id else NO_GENERATION
        self.needs_join_prepare = True
        self.want_rejoin(reason)

    def forget_coordinator(self, reason: str) -> None:
        if self.is_coordinator_known:
            self.is_coordinator_known = False
            self.emit(ForgetCoordinator(reason))

    def find_coordinator(self) -> None:
        self.emit(FindCoordinator())
