"""What becomes of a commit, by the answer's error codes: one table (C24, F20 to F24).

The first partition that failed decides, in the order of the answer; topics one may not write to are collected first, so
that one error names them all. "Log and retry anything else", as clients of the 0.8 era did, is not done: a code
that nobody expects is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from seamark.client.core.membership.context import MemberState, Reset
from seamark.client.errors import (
    ClientError,
    CommitFailed,
    CommitMetadataTooLarge,
    RebalanceInProgress,
    broker_error,
)
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

_API = "OffsetCommit"
_RETRY = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_REDISCOVER = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT})
_GENERATION_OVER = {
    ErrorCode.ILLEGAL_GENERATION: Reset.KEEP_MEMBER_ID,
    ErrorCode.UNKNOWN_MEMBER_ID: Reset.EVERYTHING,
}


class Remedy(Enum):
    NONE = "none"
    RETRY = "retry with the same coordinator"
    REDISCOVER = "look the coordinator up again, then retry"
    REJOIN = "the group is rebalancing: rejoin"
    RESET = "the generation is over: join again"


class Verdict(NamedTuple):
    """``error`` is None for a commit that is stored; ``reset`` says what a RESET leaves of the generation."""

    error: ClientError | None
    remedy: Remedy = Remedy.NONE
    reset: Reset = Reset.NOTHING
    is_fenced: bool = False


class CommitContext(NamedTuple):
    """Who judges: the group, and whether the member is still the one that sent the commit."""

    group_id: str
    is_same_generation: bool
    state: MemberState


def verdict_on(codes: Sequence[tuple[TopicPartition, ErrorCode]], context: CommitContext) -> Verdict:
    group = f"group {context.group_id!r}"
    unauthorized: list[str] = []
    for partition, code in codes:
        if code is ErrorCode.NONE:
            continue
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            unauthorized.append(partition.topic)
            continue
        if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return Verdict(broker_error(code, _API, group))
        if code is ErrorCode.OFFSET_METADATA_TOO_LARGE:
            too_large = [where for where, reported in codes if reported is code]
            return Verdict(
                CommitMetadataTooLarge(
                    "the offset metadata is longer than the broker allows", too_large, context.group_id
                )
            )
        if code in _RETRY:
            return Verdict(broker_error(code, _API, f"{partition}, {group}"), Remedy.RETRY)
        if code in _REDISCOVER:
            return Verdict(broker_error(code, _API, group), Remedy.REDISCOVER)
        return _about_the_member(code, partition, codes, context)
    if unauthorized:
        topics = ", ".join(sorted(set(unauthorized)))
        return Verdict(broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _API, f"topics {topics}, {group}"))
    return Verdict(None)


def _about_the_member(
    code: ErrorCode,
    partition: TopicPartition,
    codes: Sequence[tuple[TopicPartition, ErrorCode]],
    context: CommitContext,
) -> Verdict:
    partitions = [where for where, reported in codes if reported is code]
    group = context.group_id
    if code is ErrorCode.REBALANCE_IN_PROGRESS:
        return Verdict(
            RebalanceInProgress("the group is rebalancing; poll, then commit again", partitions, group), Remedy.REJOIN
        )
    if code is ErrorCode.FENCED_INSTANCE_ID and context.is_same_generation:
        return Verdict(broker_error(code, _API, f"group {group!r}"), is_fenced=True)
    if code is ErrorCode.FENCED_INSTANCE_ID or code in _GENERATION_OVER:
        if not context.is_same_generation and context.state.is_joining:
            reason = "the member is joining a later generation; poll, then commit again"
            return Verdict(RebalanceInProgress(reason, partitions, group))
        error = CommitFailed(_left_behind(code), partitions, group)
        if not context.is_same_generation:
            return Verdict(error)
        return Verdict(error, Remedy.RESET, _GENERATION_OVER.get(code, Reset.NOTHING))
    return Verdict(broker_error(code, _API, f"{partition}, group {group!r}"))


def not_sent(group_id: str, partitions: Sequence[TopicPartition], state: MemberState) -> ClientError:
    """Why a commit of a member that is not stable is not even sent (C24)."""
    if state.is_joining:
        return RebalanceInProgress("the member is joining the group; poll, then commit again", partitions, group_id)
    return CommitFailed(
        "this consumer is currently not a member of the group, and its partitions may be assigned to another; "
        "either the time between polls exceeded max.poll.interval.ms, or the coordinator removed the member",
        partitions,
        group_id,
    )


def _left_behind(code: ErrorCode) -> str:
    return (
        f"the group has rebalanced without this member ({code.name}); either the time between polls exceeded "
        "max.poll.interval.ms, or another client uses the group id"
    )
