"""One attempt to join: from JoinGroup being sent until its assignment has been handed to the listener.

The attempt is kept until the listener has returned (C16): a poll that is interrupted there finds it again and goes on
where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from seamark.assignors import MemberAssignment, MemberSubscription
from seamark.client.core.membership.ownership import Difference


@dataclass(slots=True)
class JoinAttempt:
    """What is known of it so far."""

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
