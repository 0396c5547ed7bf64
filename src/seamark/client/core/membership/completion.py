"""What a member does with its assignment: give up, take over, tell the listener of both (C16, C30).

Ownership changes after ``on_revoked`` and before ``on_assigned``: the first may still commit for what goes, the second
may already seek in what came. Partitions are fetched only when ``on_assigned`` has returned. ``on_assigned`` is called
for every assignment, also with nothing new; when it raises it is called again, with the same partitions, by the next
poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from seamark.assignors import Assignor
from seamark.client.core.effects import CallListener, ListenerCall, Own, Raise, RefreshMetadata, Release
from seamark.client.core.membership.attempt import JoinAttempt
from seamark.client.core.membership.messages import TooManyAssigned, read_assignment
from seamark.client.core.membership.ownership import after_sync
from seamark.client.core.membership.standing import Standing
from seamark.client.errors import AssignmentUnusable
from seamark.counts import counted, number_text, shortened, some_of
from seamark.errors import SeamarkError

# An assignment may know of partitions, and of topics, that were made since this member last looked: so many, and as
# many again as are known. A leader that makes up more would cost every member memory and time for each.
_UNKNOWN_PARTITIONS = 1000
# In a field of the log.
_TOPICS_NAMED = 5


class Completion:
    def __init__(
        self,
        standing: Standing,
        group_id: str,
        assignors: Mapping[str, Assignor],
        known_partitions: Callable[[Iterable[str]], int],
    ) -> None:
        self._standing = standing
        self._group_id = group_id
        self._known_partitions = known_partitions
        self._assignors = assignors
        # The call whose return is awaited, and for which attempt.
        self.calling: tuple[ListenerCall, JoinAttempt] | None = None

    def advance(self, attempt: JoinAttempt, topics: tuple[str, ...]) -> bool:
        """Do the next step; True when there is none left."""
        standing = self._standing
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
                    attempt, f"{count} of topics that have {number_text(known)} as far as is known here", topics
                )
                # If they have grown, this is how it is found out.
                standing.do(RefreshMetadata(frozenset(topics)))
                standing.request_rejoin("received assignments name more partitions than there are")
                return True
            except SeamarkError as error:
                standing.request_rejoin("the assignment could not be read")
                unusable = AssignmentUnusable(self._group_id, attempt.leader, _why(attempt.assignment, error))
                unusable.__cause__ = error
                standing.do(Raise(unusable))
                return True
            strangers = sorted({partition.topic for partition in assignment.partitions}.difference(topics))
            if strangers:
                some = some_of([shortened(name) for name in strangers])
                self._refuse(attempt, f"partitions of {some}, which is not subscribed to here", strangers)
                standing.request_rejoin(f"received assignments do not match current subscription: {some}")
                return True
            attempt.taken = assignment
            attempt.difference = after_sync(standing.owned, assignment.partitions)
        if attempt.difference.revoked and not attempt.is_revoked_called:
            self._call(ListenerCall.REVOKED, attempt)
            return False
        if not attempt.is_owned:
            taken = attempt.taken
            assert taken is not None
            assignor = self._assignors.get(standing.generation.protocol or "")
            if assignor is not None:
                try:
                    assignor.on_assignment(taken, standing.generation.generation_id)
                except Exception as error:  # noqa: BLE001 - a custom assignor's failure must not cost the assignment
                    standing.log("error", "on_assignment", f"assignor {assignor.name!r} failed: {error}")
            if not attempt.is_revoked_called or standing.owned != taken.partitions:
                standing.owned = taken.partitions
                standing.do(Own(taken.partitions))
            attempt.is_owned = True
        self._call(ListenerCall.ASSIGNED, attempt)
        return False

    def _refuse(self, attempt: JoinAttempt, what: str, topics: Sequence[str]) -> None:
        text = (
            f"the group's leader, member {shortened(attempt.leader)!r}, assigned {what}; none of the assignment is "
            "taken, and the group is joined again. If this goes on, stop that member, or use a group.id of your own"
        )
        self._standing.log(
            "warning", "assignment_refused", text, topics=tuple(topics[:_TOPICS_NAMED]), leader=attempt.leader
        )

    def _call(self, call: ListenerCall, attempt: JoinAttempt) -> None:
        assert attempt.difference is not None
        self.calling = (call, attempt)
        partitions = attempt.difference.revoked if call is ListenerCall.REVOKED else attempt.difference.added
        self._standing.do(CallListener(call, partitions))

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
            self._standing.owned = tuple(each for each in self._standing.owned if each not in gone)
            self._standing.do(Own(self._standing.owned))
            self._standing.request_rejoin("need to revoke partitions and re-join")
            return None
        first_error, attempt.listener_error = attempt.listener_error or error, None
        if error is None:
            self._standing.do(Release(attempt.difference.added))
            attempt.difference = None
        return first_error

    def abandon(self) -> None:
        self.calling = None


def _why(assignment: bytes, error: SeamarkError) -> str:
    if not assignment:
        return "is empty: it assigned nothing to this member, not even no partitions"
    return f"cannot be read ({error})"
