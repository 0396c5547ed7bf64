"""One member of a group as the coordinator knows it while the shard is loaded.

``join_token`` and ``sync_token`` are the member's waiting requests, or None; a member waits in at most one of each.
``session_deadline_ms`` moves with every sign of life, while ``armed_ms`` is the deadline the shell was last told: the
timer is armed again only when it would come too late, so a heartbeat or commit usually costs no timer work.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.coordinator.effects import Token
from seamark.coordinator.storing.records import StoredMember

NEVER_MS = 2**63 - 1
Protocols = tuple[tuple[str, bytes], ...]


class Member:
    """A member; written by the rules of its own group only."""

    __slots__ = (
        "armed_ms",
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "principal",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
        principal: str = "",
    ) -> None:
        self.member_id = member_id
        # Who is logged in; not known of a member that was loaded.
        self.principal = principal
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        self.session_deadline_ms = NEVER_MS
        self.armed_ms = NEVER_MS

    @property
    def owner(self) -> str:
        """Who answers for what the member holds."""
        return self.principal or self.client_host

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def counts_as_alive(self) -> bool:
        """A waiting request keeps the member in the group, unless it never had an id to send heartbeats with (D30)."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        """The member's most preferred protocol of those that everyone supports (D26)."""
        return next(name for name, _ in self.protocols if name in candidates)

    def to_store(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )


def member_from_store(stored: StoredMember, protocol: str | None) -> Member:
    """A member as it was stored; of its protocols only the selected one is known then."""
    rebalance_timeout_ms = stored.rebalance_timeout_ms
    if rebalance_timeout_ms < 0:  # records of value version 0 have no rebalance timeout
        rebalance_timeout_ms = stored.session_timeout_ms
    return Member(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        rebalance_timeout_ms,
        stored.session_timeout_ms,
        ((protocol or "", stored.subscription),),
        stored.assignment,
    )


def distinct_protocols(protocols: Iterable[tuple[str, bytes]]) -> Protocols:
    """The offered protocols in order of preference, each name once."""
    first: dict[str, bytes] = {}
    for name, metadata in protocols:
        first.setdefault(name, metadata)
    return tuple(first.items())
