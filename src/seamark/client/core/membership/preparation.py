"""What a member does before it joins: commit what it has done, then tell the listener what it gives up (C13, C30).

``advance`` answers whether the join may start. The flag of the standing is cleared before the listener runs, so that
one that raises is not called again; it is set again while the commit is awaited.
"""

from __future__ import annotations

from seamark.assignors import RebalanceProtocol
from seamark.client.core.effects import CallListener, CommitBeforeJoin, HoldBack, Own
from seamark.client.core.membership.ownership import Handover, before_join
from seamark.client.core.membership.standing import Standing
from seamark.client.core.membership_settings import MembershipSettings


class Preparation:
    def __init__(self, standing: Standing, settings: MembershipSettings, protocol: RebalanceProtocol) -> None:
        self._standing = standing
        self._settings = settings
        self._protocol = protocol
        # None before the commit was started.
        self._commit_until_ms: int | None = None
        self._is_committed = False
        self.handover: Handover | None = None

    def advance(self, topics: tuple[str, ...], now_ms: int) -> bool:
        standing = self._standing
        standing.needs_join_prepare = False
        if self._is_commit_awaited(now_ms):
            standing.needs_join_prepare = True
            return False
        self.abandon()
        handover = before_join(self._protocol, standing.owned, topics, standing.generation)
        if handover.call is None:
            self._keep(handover)
            return True
        self.handover = handover
        standing.do(CallListener(handover.call, handover.partitions))
        return False

    def _is_commit_awaited(self, now_ms: int) -> bool:
        standing = self._standing
        if not self._settings.auto_commit or not standing.owned or self._is_committed:
            return False
        if self._commit_until_ms is None:
            if self._protocol is RebalanceProtocol.EAGER:
                standing.do(HoldBack(standing.owned))
            self._commit_until_ms = now_ms + self._settings.max_poll_interval_ms
            standing.do(CommitBeforeJoin(self._commit_until_ms))
        if now_ms < self._commit_until_ms:
            return True
        standing.log("warning", "commit_before_join", "the commit before joining was not answered in time; joining")
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
        if self._standing.owned != handover.kept:
            self._standing.owned = handover.kept
            self._standing.do(Own(handover.kept))
