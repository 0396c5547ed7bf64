"""The requests of a member, the assignments in them, and what to do about an error code in an answer (C17, C31).

One subscription is offered per assignor, in order of preference, in the newest format; the coordinator picks the
protocol by the members' votes. An eager member has given up everything before it joins and claims nothing; a
cooperative one claims what it keeps, with the generation it got it in, so that a leader can tell whose claim is newer
(KIP-792).

Three questions per code: what becomes of the generation, is the coordinator still the coordinator, and what comes next.
A code that the table does not have leaves the generation alone; whether it is retried follows from Kafka's own list of
retriable codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from seamark.assignors import Assignments, Assignor, MemberAssignment
from seamark.client.core.membership.context import Generation, Reset
from seamark.client.core.settings import MembershipSettings
from seamark.client.requests import VersionedRequest
from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
# The broker keeps reasons in its log; Kafka cuts them there, and so do we.
MAX_REASON_CHARS = 255
# The first version of LeaveGroup with a list of members.
MEMBER_LIST = 3


def join_request(
    settings: MembershipSettings,
    assignors: Sequence[Assignor],
    topics: Sequence[str],
    owned: Sequence[TopicPartition],
    generation: Generation,
    reason: str,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=generation.member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=encode_subscription(
                    Subscription(
                        topics=list(topics),
                        user_data=assignor.subscription_user_data(topics),
                        owned_partitions=by_topic(owned),
                        generation_id=generation.generation_id,
                        rack_id=settings.rack,
                    )
                ),
            )
            for assignor in assignors
        ],
        reason=reason[:MAX_REASON_CHARS],
    )


def sync_request(settings: MembershipSettings, generation: Generation, assignments: Assignments) -> SyncGroupRequest:
    """The leader's carries everyone's assignment, every other member's none."""
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment_bytes(assignments[member_id]))
            for member_id in sorted(assignments)
        ],
    )


def heartbeat_request(settings: MembershipSettings, generation: Generation) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=settings.instance_id,
    )


def leave_request(settings: MembershipSettings, generation: Generation, reason: str) -> VersionedRequest:
    """Versions up to 2 have a field for the one member, later ones a list."""

    def make(version: int) -> LeaveGroupRequest:
        if version < MEMBER_LIST:
            return LeaveGroupRequest(group_id=settings.group_id, member_id=generation.member_id)
        member = LeaveGroupRequestMember(
            member_id=generation.member_id, group_instance_id=settings.instance_id, reason=reason[:MAX_REASON_CHARS]
        )
        return LeaveGroupRequest(group_id=settings.group_id, members=[member])

    return VersionedRequest(LeaveGroupRequest, make)


def assignment_bytes(assignment: MemberAssignment) -> bytes:
    return encode_assignment(
        Assignment(assigned_partitions=by_topic(assignment.partitions), user_data=assignment.user_data)
    )


class TooManyAssigned(SeamarkError):
    """An assignment names so many partitions that it cannot be true; ``count`` of them."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{counted(count, 'partition')} are assigned")
        self.count = count


def read_assignment(assignment: bytes, most: int) -> MemberAssignment:
    """What SyncGroup answered; raises SeamarkError for bytes that are no assignment, or one of more than ``most``.

    A partition that is named twice is assigned once, as in Kafka's client.
    """
    decoded = decode_assignment(assignment)
    # Four bytes each on the wire, and far more in a consumer.
    if (count := sum(len(entry.partitions) for entry in decoded.assigned_partitions)) > most:
        raise TooManyAssigned(count)
    assigned = {
        TopicPartition(entry.topic, index) for entry in decoded.assigned_partitions for index in entry.partitions
    }
    partitions = tuple(sorted(assigned))
    if impossible := next((partition for partition in partitions if partition.partition < 0), None):
        raise SeamarkError(f"it contains the invalid partition {impossible.partition} of topic {impossible.topic!r}")
    return MemberAssignment(partitions=partitions, user_data=decoded.user_data)


def by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """One entry per topic, topics and partitions in ascending order."""
    grouped: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        grouped.setdefault(partition.topic, []).append(partition.partition)
    return [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in grouped.items()]


class Next(Enum):
    """What the join loop does after a failed attempt."""

    JOIN_AT_ONCE = "join at once"
    JOIN_AFTER_BACKOFF = "join after the retry backoff"
    RAISE = "raise"


class Reaction(NamedTuple):
    reset: Reset
    forgets_coordinator: bool
    next: Next


_AT_ONCE = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
}
_FORGETS_COORDINATOR = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_RESETS = {
    ErrorCode.UNKNOWN_MEMBER_ID: Reset.EVERYTHING,
    ErrorCode.FENCED_INSTANCE_ID: Reset.EVERYTHING,
    ErrorCode.ILLEGAL_GENERATION: Reset.KEEP_MEMBER_ID,
}


def reaction_to(code: ErrorCode) -> Reaction:
    """How a member reacts to ``code``.

    >>> reaction_to(ErrorCode.ILLEGAL_GENERATION).reset.name, reaction_to(ErrorCode.NOT_COORDINATOR).next.name
    ('KEEP_MEMBER_ID', 'JOIN_AFTER_BACKOFF')
    """
    if code in _AT_ONCE:
        following = Next.JOIN_AT_ONCE
    elif code.is_retriable:
        following = Next.JOIN_AFTER_BACKOFF
    else:
        following = Next.RAISE
    return Reaction(_RESETS.get(code, Reset.NOTHING), code in _FORGETS_COORDINATOR, following)
