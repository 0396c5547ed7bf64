"""What the log says while a member cannot get into its group: what it waits for, since when, and when that is over.

A pure core, looked after with every poll and when ``next_ms`` has come. A member that only waits for its caller's next
poll is not spoken of.
"""

from __future__ import annotations

from collections.abc import Callable

from seamark.client.core.lasting_failures import LastingFailures
from seamark.client.core.membership.generation import MemberState
from seamark.client.core.membership.join import JoinLoop
from seamark.client.core.membership.standing import Standing

_JOINING = "joining the group"


class JoinWaiting:
    def __init__(self, standing: Standing, joining: JoinLoop) -> None:
        self._standing = standing
        self._joining = joining
        self._lasting: LastingFailures[str] = LastingFailures("has not succeeded", "has succeeded")
        # What the look-up of the coordinator has met so far, if anything.
        self.coordinator_problem: Callable[[], object] = lambda: None

    def look(self, now_ms: int) -> None:
        if (reason := self._reason()) is not None:
            if (line := self._lasting.failed(_JOINING, reason, now_ms)) is not None:
                self._standing.log("warning", "join_waits", line, reason=reason)
        elif self._is_in_group and (line := self._lasting.succeeded(_JOINING, now_ms)) is not None:
            self._standing.log("warning", "join_succeeds", line)

    def forget(self) -> None:
        """It does not want to join any more."""
        self._lasting.forget(_JOINING)

    @property
    def next_ms(self) -> int | None:
        return None if self._reason() is None else self._lasting.due_ms(_JOINING)

    @property
    def _is_in_group(self) -> bool:
        return self._standing.state is MemberState.STABLE and not self._joining.is_needed_or_pending

    def _reason(self) -> str | None:
        """What keeps it out; None if nothing does, or only the caller can tell."""
        standing, error = self._standing, self._joining.last_error
        if self._is_in_group:
            return None
        if not standing.is_coordinator_known:
            problem = self.coordinator_problem()
            return f"its coordinator is not known{'' if problem is None else f': {problem}'}"
        if error is not None:
            return str(error)
        if standing.state is MemberState.PREPARING_REBALANCE:
            return "JoinGroup is not answered so far; the coordinator waits until the other members have come to poll"
        if standing.state is MemberState.COMPLETING_REBALANCE:
            return "SyncGroup is not answered so far; the leader of the group has not assigned the partitions yet"
        return None
