"""Partitions that change hands: who is told what and when, the eager and the cooperative way (C13, C16, C30, I29).

Eager members give up everything before they join. Cooperative members keep what they have while the group rebalances,
give up afterwards what went to others, and join once more so that those can have it. A member that the group no longer
knows has lost its partitions: another may own them already, so nothing may be committed for them any more.

``Preparation`` is what a member does before it joins: commit what it has done, then tell the listener what it gives up.

``Completion`` is what it does with its assignment: give up, take over, tell the listener of both. Ownership changes
after ``on_revoked`` and before ``on_assigned``: the first may still commit for what goes, the second may already seek
in what came. Partitions are fetched only when ``on_assigned`` has returned. ``on_assigned`` is called for every
assignment, also with nothing new; when it raises it is called again, with the same partitions, by the next poll.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seamark.assignors import Assignor, MemberAssignment, MemberSubscription, RebalanceProtocol
from seamark.client.core.effects import (
    CallListener,
    CommitBeforeJoin,
    HoldBack,
    ListenerCall,
    Own,
    Raise,
    RefreshMetadata,
    Release,
)
from seamark.client.core.membership.context import Generation, MemberContext
from seamark.client.core.membership.messages import TooManyAssigned, read_assignment
from seamark.client.core.settings import MembershipSettings
from seamark.client.errors import AssignmentUnusable
from seamark.counts import counted, number_text, shortened, some_of
from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition

Partitions = tuple[TopicPartition, ...]

# An assignment may know of partitions, and of topics, that were made since this member last looked: so many, and as
# many again as are known. A leader that makes up more would cost every member memory and time for each.
_UNKNOWN_PARTITIONS = 1000
# In a field of the log.
_TOPICS_NAMED = 5


class Handover(NamedTuple):
    """One step: which listener method hears of which partitions (none if ``call`` is None), and what is kept."""

    call: ListenerCall | None
    partitions: Partitions
    kept: Partitions


class Difference(NamedTuple):
    """What an assignment changes for a cooperative member; an eager one owned nothing, so that all is added."""

    revoked: Partitions
    added: Partitions


def before_join(
    protocol: RebalanceProtocol, owned: Partitions, topics: Collection[str], generation: Generation
) -> Handover:
    if generation.is_reset:
        return Handover(ListenerCall.LOST if owned else None, owned, ())
    if protocol is RebalanceProtocol.EAGER:
        return Handover(ListenerCall.REVOKED, owned, ())
    unwanted = tuple(partition for partition in owned if partition.topic not in topics)
    kept = tuple(partition for partition in owned if partition.topic in topics)
    return Handover(ListenerCall.REVOKED if unwanted else None, unwanted, kept)


def before_leave(owned: Partitions, generation: Generation, *, is_joining: bool) -> Handover:
    if not owned:
        return Handover(None, (), ())
    return Handover(ListenerCall.LOST if generation.is_reset or is_joining else ListenerCall.REVOKED, owned, ())


def after_sync(owned: Iterable[TopicPartition], assigned: Partitions) -> Difference:
    had = set(owned)
    got = set(assigned)
    return Difference(revoked=tuple(sorted(had - got)), added=tuple(sorted(got - had)))


@dataclass(slots=True)
class JoinAttempt:
    """One attempt to join, from JoinGroup being sent until its assignment has been handed to the listener.

    It is kept until the listener has returned (C16): a poll that is interrupted there finds it again and goes on where
    it stopped.
    """

    started_ms: int
    ticket: int = 0
    # The member id of the group's leader, once JoinGroup was answered.
    leader: str = ""
    sync_started_ms: int = 0
    # As leader, the members to assign to while the metadata of their topics is awaited.
    members: list[MemberSubscription] | None = None
    # Exactly one of the two is set when the attempt is over.
    assignment: bytes | None = None
    error: Exception | None = None
    ended_ms: int = 0
    # The assignment as it was read, and how far the completion has got.
    taken: MemberAssignment | None = None
    difference: Difference | None = None
    is_revoked_called: bool = False
    is_owned: bool = False
    listener_error: BaseException | None = field(default=None)

    @property
    def is_done(self) -> bool:
        return self.assignment is not None or self.error is not None

    @property
    def is_unanswered(self) -> bool:
        """Does the coordinator hold JoinGroup or SyncGroup back?"""
        return not self.is_done and self.members is None


class Preparation:
    """``advance`` answers whether the join may start.

    The flag of the context is cleared before the listener runs, so that one that raises is not called again; it is set
    again while the commit is awaited.
    """

    def __init__(self, context: MemberContext, settings: MembershipSettings, protocol: RebalanceProtocol) -> None:
        self._context = context
        self._settings = settings
        self._protocol = protocol
        # None before the commit was started.
        self._commit_until_ms: int | None = None
        self._is_committed = False
        self.handover: Handover | None = None

    def advance(self, topics: tuple[str, ...], now_ms: int) -> bool:
        context = self._context
        context.needs_join_prepare = False
        if self._is_commit_awaited(now_ms):
            context.needs_join_prepare = True
            return False
        self.abandon()
        handover = before_join(self._protocol, context.owned, topics, context.generation)
        if handover.call is None:
            self._keep(handover)
            return True
        self.handover = handover
        context.emit(CallListener(handover.call, handover.partitions))
        return False

    def _is_commit_awaited(self, now_ms: int) -> bool:
        context = self._context
        if not self._settings.auto_commit or not context.owned or self._is_committed:
            return False
        if self._commit_until_ms is None:
            if self._protocol is RebalanceProtocol.EAGER:
                context.emit(HoldBack(context.owned))
            self._commit_until_ms = now_ms + self._settings.max_poll_interval_ms
            context.emit(CommitBeforeJoin(self._commit_until_ms))
        if now_ms < self._commit_until_ms:
            return True
        context.log("warning", "commit_before_join", "the commit before joining timed out; joining without it")
        return False

    @property
    def retry_at_ms(self) -> int | None:
        return self._commit_until_ms

    def commit_finished(self) -> None:
        """Well or not: what went wrong with it has been logged where it is known."""
        if self._commit_until_ms is not None:
            self._is_committed = True

    def listener_returned(self) -> None:
        handover, self.handover = self.handover, None
        assert handover is not None
        self._keep(handover)

    def abandon(self) -> None:
        self.forget_commit()
        self.handover = None

    def forget_commit(self) -> None:
        self._commit_until_ms = None
        self._is_committed = False

    def _keep(self, handover: Handover) -> None:
        # Also when nothing changes: what was held back is fetched again only once it is owned anew.
        if self._context.owned != handover.kept:
            self._context.owned = handover.kept
            self._context.emit(Own(handover.kept))


class Completion:
    def __init__(
        self,
        context: MemberContext,
        group_id: str,
        assignors: Mapping[str, Assignor],
        known_partitions: Callable[[Iterable[str]], int],
    ) -> None:
        self._context = context
        self._group_id = group_id
        self._known_partitions = known_partitions
        self._assignors = assignors
        # The call whose return is awaited, and for which attempt.
        self.calling: tuple[ListenerCall, JoinAttempt] | None = None

    def advance(self, attempt: JoinAttempt, topics: tuple[str, ...]) -> bool:
        """Do the next step; True when there is none left."""
        context = self._context
        assert attempt.assignment is not None
        if attempt.is_owned and attempt.difference is None:
            return True
        if attempt.difference is None:
            known = self._known_partitions(topics)
            try:
                assignment = read_assignment(attempt.assignment, 2 * known + _UNKNOWN_PARTITIONS)
            except TooManyAssigned as error:
                count = counted(error.count, "partition")
                self._refuse(
                    attempt,
                    f"{count} of topics that have {number_text(known)} according to this member's metadata",
                    topics,
                )
                # If they have grown, this is how it is found out.
                context.emit(RefreshMetadata(frozenset(topics)))
                context.request_rejoin("received assignments contain more partitions than exist")
                return True
            except SeamarkError as error:
                context.request_rejoin("the assignment could not be read")
                unusable = AssignmentUnusable(self._group_id, attempt.leader, _why(attempt.assignment, error))
                unusable.__cause__ = error
                context.emit(Raise(unusable))
                return True
            strangers = sorted({partition.topic for partition in assignment.partitions}.difference(topics))
            if strangers:
                some = some_of([shortened(name) for name in strangers])
                self._refuse(attempt, f"partitions of {some}, to which this member is not subscribed", strangers)
                context.request_rejoin(f"received assignments do not match current subscription: {some}")
                return True
            attempt.taken = assignment
            attempt.difference = after_sync(context.owned, assignment.partitions)
        if attempt.difference.revoked and not attempt.is_revoked_called:
            self._call(ListenerCall.REVOKED, attempt)
            return False
        if not attempt.is_owned:
            taken = attempt.taken
            assert taken is not None
            assignor = self._assignors.get(context.generation.protocol or "")
            if assignor is not None:
                try:
                    assignor.on_assignment(taken, context.generation.generation_id)
                except Exception as error:  # noqa: BLE001 - a custom assignor's failure must not cost the assignment
                    context.log("error", "on_assignment", f"assignor {assignor.name!r} failed: {error}")
            if not attempt.is_revoked_called or context.owned != taken.partitions:
                context.owned = taken.partitions
                context.emit(Own(taken.partitions))
            attempt.is_owned = True
        self._call(ListenerCall.ASSIGNED, attempt)
        return False

    def _refuse(self, attempt: JoinAttempt, what: str, topics: Sequence[str]) -> None:
        text = (
            f"the group's leader, member {shortened(attempt.leader)!r}, assigned {what}; the whole assignment is "
            "ignored, and this member joins the group again. If this continues, stop that member, or use another "
            "group.id"
        )
        self._context.log(
            "warning", "assignment_refused", text, topics=tuple(topics[:_TOPICS_NAMED]), leader=attempt.leader
        )

    def _call(self, call: ListenerCall, attempt: JoinAttempt) -> None:
        assert attempt.difference is not None
        self.calling = (call, attempt)
        partitions = attempt.difference.revoked if call is ListenerCall.REVOKED else attempt.difference.added
        self._context.emit(CallListener(call, partitions))

    def listener_returned(self, error: BaseException | None) -> BaseException | None:
        """What to raise from poll, if anything, now that the awaited call is over."""
        assert self.calling is not None
        (call, attempt), self.calling = self.calling, None
        assert attempt.difference is not None
        if call is ListenerCall.REVOKED:
            attempt.is_revoked_called = True
            attempt.listener_error = error
            # At once: if the group goes on without us from here, these are not lost a second time.
            gone = frozenset(attempt.difference.revoked)
            self._context.owned = tuple(partition for partition in self._context.owned if partition not in gone)
            self._context.emit(Own(self._context.owned))
            self._context.request_rejoin("need to revoke partitions and re-join")
            return None
        first_error, attempt.listener_error = attempt.listener_error or error, None
        if error is None:
            self._context.emit(Release(attempt.difference.added))
            attempt.difference = None
        return first_error

    def abandon(self) -> None:
        self.calling = None


def _why(assignment: bytes, error: SeamarkError) -> str:
    if not assignment:
        return "is empty: it does not even contain an empty list of partitions"
    return f"cannot be read ({error})"
