"""What the coordinator answers: one slotted class per reply, free of wire versions.

A refusal is a value with an ErrorCode; nothing here is raised. Per-partition and per-group results keep the order of
the request. Throttle times and the shapes of single versions belong to the handlers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from seamark.wire.protocol.error_codes import ErrorCode

NONE = ErrorCode.NONE


class JoinedMember(NamedTuple):
    """What the leader learns about one member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True)
class JoinReply:
    """A25. ``members`` is empty for everyone but the leader."""

    error: ErrorCode = NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: list[JoinedMember] = field(default_factory=list)
    skip_assignment: bool = False


@dataclass(slots=True)
class SyncReply:
    error: ErrorCode = NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class HeartbeatReply:
    error: ErrorCode = NONE


class LeftMember(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(slots=True)
class LeaveReply:
    error: ErrorCode = NONE
    members: list[LeftMember] = field(default_factory=list)

    @property
    def top_level_error(self) -> ErrorCode:
        """The single code of a version before v3, which removes exactly one member."""
        if self.error is NONE and self.members:
            return self.members[0].error
        return self.error


@dataclass(slots=True)
class CommitReply:
    """A8: no top-level error; each partition of each topic has its code."""

    topics: list[tuple[str, list[tuple[int, ErrorCode]]]] = field(default_factory=list)


class FetchedOffset(NamedTuple):
    """F25: offset -1, epoch -1 and empty metadata stand for "nothing committed"."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = NONE


@dataclass(slots=True)
class FetchReply:
    """One group of an OffsetFetch response; with an error ``topics`` is empty."""

    group_id: str | None
    error: ErrorCode = NONE
    topics: list[tuple[str, list[FetchedOffset]]] = field(default_factory=list)


@dataclass(slots=True)
class DeleteOffsetsReply:
    error: ErrorCode = NONE
    topics: list[tuple[str, list[tuple[int, ErrorCode]]]] = field(default_factory=list)


@dataclass(slots=True)
class DeleteGroupsReply:
    groups: list[tuple[str | None, ErrorCode]] = field(default_factory=list)


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(slots=True)
class DescribedGroup:
    group_id: str | None
    error: ErrorCode = NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: list[DescribedMember] = field(default_factory=list)


@dataclass(slots=True)
class DescribeReply:
    groups: list[DescribedGroup] = field(default_factory=list)


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(slots=True)
class ListReply:
    error: ErrorCode = NONE
    groups: list[ListedGroup] = field(default_factory=list)


@dataclass(slots=True)
class ForgetReply:
    """``removed`` counts the offsets whose tombstones are stored."""

    error: ErrorCode = NONE
    removed: int = 0


Reply = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | CommitReply
    | FetchReply
    | DeleteOffsetsReply
    | DeleteGroupsReply
    | DescribeReply
    | ListReply
    | ForgetReply
)
