"""What the coordinator can be asked: one slotted class per request, free of wire versions.

A handler decodes a request of any version into one of these and encodes the reply value it gets back. Facts that follow
from the request's version come in as plain fields (A24): nothing below knows a version number except where Kafka's
own answer depends on it. ``group_id`` may be None, as on the wire, and is answered INVALID_GROUP_ID. A commit that only
repeats an earlier one with other offsets has a short form besides, ``CommitAgain`` in ``offsets.commit_patterns``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The member id of a first-time joiner (A26).
UNKNOWN_MEMBER = ""
NO_RETENTION = -1
REASON_NOT_GIVEN = "not provided"


class OffsetToCommit(NamedTuple):
    """One partition of a commit; a plain tuple of the same four fields does as well."""

    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class LeavingMember(NamedTuple):
    """One member to remove; a blank member id with an instance id is an administrative removal (D32)."""

    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class JoinGroup:
    """A23. ``require_known_member_id`` from v4 (ignored for static members), ``supports_skip_assignment`` from v9."""

    group_id: str | None
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    instance_id: str | None = None
    require_known_member_id: bool = True
    supports_skip_assignment: bool = True
    client_id: str = ""
    client_host: str = ""
    reason: str | None = None
    # Who is logged in; empty where nobody has to.
    principal: str = ""

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """JoinGroup v0 has no rebalance timeout and says -1; the session timeout stands in for it."""
        return self.session_timeout_ms if self.rebalance_timeout_ms < 0 else self.rebalance_timeout_ms

    @property
    def reason_text(self) -> str:
        """D9."""
        return self.reason or REASON_NOT_GIVEN


@dataclass(slots=True)
class SyncGroup:
    """A27. ``protocol_required`` from v5, where the protocol type and name are mandatory (D28)."""

    group_id: str | None
    member_id: str
    generation: int
    assignments: Sequence[tuple[str, bytes]] = ()
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    protocol_required: bool = False


@dataclass(slots=True)
class Heartbeat:
    group_id: str | None
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(slots=True)
class LeaveGroup:
    """Before v3 the request names one member and the answer is ``LeaveReply.top_level_error``."""

    group_id: str | None
    members: Sequence[LeavingMember]


@dataclass(slots=True)
class CommitOffsets:
    """``topics`` holds (topic name, partitions) pairs in the request's order.

    ``missing_group_is_not_found`` from v9: a commit with a generation to a group that does not exist is answered
    GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION. ``retention_ms`` is the legacy field of v2 to v4, -1 for none.
    ``commit_times_ms`` are the times that a client of v1 gave with its offsets, by topic and partition.
    """

    group_id: str | None
    topics: Sequence[tuple[str, Sequence[OffsetToCommit]]]
    generation: int = -1
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    retention_ms: int = NO_RETENTION
    missing_group_is_not_found: bool = True
    commit_times_ms: Mapping[tuple[str, int], int] | None = None


@dataclass(slots=True)
class FetchOffsets:
    """One group of an OffsetFetch; ``topics`` None asks for every partition with an offset."""

    group_id: str | None
    topics: Sequence[tuple[str, Sequence[int]]] | None = None
    require_stable: bool = False


@dataclass(slots=True)
class DeleteOffsets:
    group_id: str | None
    topics: Sequence[tuple[str, Sequence[int]]]


@dataclass(slots=True)
class DeleteGroups:
    group_ids: Sequence[str | None]


@dataclass(slots=True)
class DescribeGroups:
    """``missing_is_error`` from v6: an unknown group is Dead with GROUP_ID_NOT_FOUND instead of Dead without error."""

    group_ids: Sequence[str | None]
    missing_is_error: bool = True


class ListGroups:
    """Empty filters match everything; names are compared without case, and kept in small letters: once for all
    shards.
    """

    __slots__ = ("states", "types")

    def __init__(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        self.states = frozenset(map(str.lower, states))
        self.types = frozenset(map(str.lower, types))

    def __repr__(self) -> str:
        # Sorted: a simulation's transcript is the same in every process.
        return f"ListGroups(states={sorted(self.states)}, types={sorted(self.types)})"


@dataclass(slots=True)
class ForgetTopics:
    """The topics were deleted: their offsets are removed from every group, subscribed or not."""

    topics: Sequence[str]


Command = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroups
    | DescribeGroups
    | ListGroups
    | ForgetTopics
)
