"""OffsetCommit: whose commit counts, and when it does (F4 to F11, F18, F19, F26 to F28).

First each partition must exist; what is left must be allowed by the group; then each partition's metadata must fit.
The rest is one append. The reply leaves and the offsets become visible when that is acknowledged, never before. Kafka
does not enforce forward movement, and neither does this: the last write counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.coordinator.commands import NO_RETENTION, CommitOffsets, OffsetToCommit
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.timers import restart_session
from seamark.coordinator.offsets.commit_patterns import CommitAgain, CommitPattern
from seamark.coordinator.replies import CommitReply
from seamark.coordinator.shard_state import PartitionCount, Pending, ShardState
from seamark.coordinator.states import COMMIT_ANSWERS, State
from seamark.coordinator.storing.records import NO_EXPIRY, OffsetCommitted, Record
from seamark.wire.protocol.error_codes import ErrorCode

_EMPTY = State.EMPTY
_STABLE = State.STABLE
_NONE = ErrorCode.NONE
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE
_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_MAX_INT64 = 2**63 - 1

TopicsToCommit = Sequence[tuple[str, Sequence[OffsetToCommit]]]


def commit(state: ShardState, command: CommitOffsets, token: Token, now_ms: int, effects: Effects) -> None:
    group_id = command.group_id or ""
    group = state.groups.get(group_id)
    reply = CommitReply()
    rejected = False
    refusal: ErrorCode | None = None
    records: list[Record] = []
    partition_count = state.partition_count
    forgetting = state.forgetting
    safe_length = state.settings.metadata_max_bytes // 2
    expire_ms = _expiry(command.retention_ms, now_ms)
    times_ms = command.commit_times_ms
    for topic, partitions in command.topics:
        count = 0 if topic in forgetting else partition_count(topic) or 0
        codes: list[tuple[int, ErrorCode]] = []
        reply.topics.append((topic, codes))
        for partition, offset, leader_epoch, metadata in partitions:
            if not 0 <= partition < count:
                codes.append((partition, _UNKNOWN_PARTITION))
                rejected = True
                continue
            if refusal is None:
                refusal = _refusal(state, group, command, now_ms, effects)
            if refusal is not _NONE:
                codes.append((partition, refusal))
            elif (
                metadata and len(metadata) > safe_length and _is_too_large(metadata, state.settings.metadata_max_bytes)
            ):
                codes.append((partition, _TOO_LARGE))
            else:
                codes.append((partition, _NONE))
                epoch = leader_epoch if expire_ms == NO_EXPIRY else -1
                at_ms = now_ms if times_ms is None else times_ms.get((topic, partition), now_ms)
                records.append(
                    OffsetCommitted(group_id, topic, partition, offset, epoch, metadata or "", at_ms, expire_ms)
                )
    if not records:
        effects.replies.append((token, reply))
        return
    if group is None:
        group = state.groups[group_id] = Group(group_id)
    group.last_ticket = state.append(_StoredCommit(group, records, token, reply, rejected, now_ms), effects)


def commit_again(state: ShardState, command: CommitAgain, token: Token, now_ms: int, effects: Effects) -> None:
    """Decide a repeated commit as ``commit`` would, at once where nothing stands against it."""
    pattern = command.pattern
    group = state.groups.get(pattern.group_id)
    partition_count = state.partition_count
    forgetting = state.forgetting
    is_plain = group is not None and pattern.longest_metadata <= state.settings.metadata_max_bytes
    for topic, least in pattern.partition_counts:
        if (partition_count(topic) or 0) < least or topic in forgetting:
            is_plain = False
    if group is None or not is_plain or _refusal(state, group, pattern, now_ms, effects) is not _NONE:
        commit(state, command.spelled_out(), token, now_ms, effects)
        return
    records = pattern.records_of(command.offsets, now_ms)
    group.last_ticket = state.append(_StoredCommit(group, records, token, pattern.reply, False, now_ms), effects)


def refuse_commit(command: CommitOffsets, partition_count: PartitionCount, code: ErrorCode) -> CommitReply:
    """The reply when the group cannot be asked: unknown partitions keep their own code."""
    reply = CommitReply()
    for topic, partitions in command.topics:
        count = partition_count(topic) or 0
        reply.topics.append(
            (topic, [(entry[0], code if 0 <= entry[0] < count else _UNKNOWN_PARTITION) for entry in partitions])
        )
    return reply


def _refusal(
    state: ShardState, group: Group | None, command: CommitOffsets | CommitPattern, now_ms: int, effects: Effects
) -> ErrorCode:
    """The group's word on the commit (F26, F27); an accepted commit of a member is a sign of life."""
    generation = command.generation
    if group is None:
        if generation < 0:
            return _NONE
        # From v9 on, a member of any group protocol understands that the group is gone.
        return ErrorCode.GROUP_ID_NOT_FOUND if command.missing_group_is_not_found else ErrorCode.ILLEGAL_GENERATION
    if group.is_being_removed:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is _EMPTY:
        return _NONE
    if generation < 0 and not command.member_id and command.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.refusal_of(command.member_id, command.instance_id)
    if code is not _NONE:
        return code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is not _STABLE:
        code = COMMIT_ANSWERS[group.state]
        if code is not _NONE:
            return code
    restart_session(state, group, group.members[command.member_id], now_ms, effects)
    return _NONE


def _is_too_large(metadata: str, limit: int) -> bool:
    """The limit counts UTF-16 code units, as a Java string's length does (F18)."""
    return len(metadata) > limit or len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit


def _expiry(retention_ms: int, now_ms: int) -> int:
    """When a commit with a retention time of its own expires; kept inside what the record can hold."""
    if retention_ms == NO_RETENTION:
        return NO_EXPIRY
    return min(max(now_ms + retention_ms, 0), _MAX_INT64)


class _StoredCommit(Pending):
    """One commit on its way to the log."""

    __slots__ = ("group", "rejected", "reply", "token")

    def __init__(
        self, group: Group, records: list[Record], token: Token, reply: CommitReply, rejected: bool, now_ms: int
    ) -> None:
        self.records = records
        self.decided_ms = now_ms
        self.is_acknowledged = False
        self.is_late = False
        self.waiters = None
        self.group = group
        self.token = token
        self.reply = reply
        self.rejected = rejected

    def on_stored(self, state: ShardState, _now_ms: int, effects: Effects) -> None:
        state.counters.offset_commits += len(self.records)
        if not self.is_late:
            effects.replies.append((self.token, self.reply))

    def on_failed(self, state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        self._refuse(code, effects)
        state.drop_if_hollow(self.group)

    def on_late(self, _state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        effects.replies.append((self.token, self._with_code(code)))

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        self._refuse(code, effects)

    def _refuse(self, code: ErrorCode, effects: Effects) -> None:
        if not self.is_late:
            effects.replies.append((self.token, self._with_code(code)))

    def _with_code(self, code: ErrorCode) -> CommitReply:
        """F28: all partitions that reached the group get the code."""
        if not self.rejected:
            return CommitReply([(topic, [(entry[0], code) for entry in codes]) for topic, codes in self.reply.topics])
        return CommitReply(
            [
                (topic, [(part, old if old is _UNKNOWN_PARTITION else code) for part, old in codes])
                for topic, codes in self.reply.topics
            ]
        )
