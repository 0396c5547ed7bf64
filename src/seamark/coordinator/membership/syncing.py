"""SyncGroup: the leader's assignment is stored, then everyone gets their part of it (D27, D28).

Until the append is acknowledged all SyncGroups of the generation wait, the leader's too. The generation is stored
once: what the leader sends again meanwhile is not written a second time. If the members change while the append is
under way, the record still counts as stored but its assignment is handed to nobody.
"""

from __future__ import annotations

from seamark.coordinator.commands import SyncGroup
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import Member
from seamark.coordinator.membership.rebalancing import answer_sync, answer_waiting_syncs, drop_member, prepare_rebalance
from seamark.coordinator.membership.timers import arm_sync, stop_sync
from seamark.coordinator.replies import SyncReply
from seamark.coordinator.shard_state import Pending, ShardState
from seamark.coordinator.states import SYNC_ANSWERS, State
from seamark.counts import counted, some_of
from seamark.wire.protocol.error_codes import ErrorCode


def sync(state: ShardState, command: SyncGroup, token: Token, now_ms: int, effects: Effects) -> None:
    group = state.groups.get(command.group_id or "")
    code = _refusal(group, command)
    if group is None or code is not ErrorCode.NONE:
        effects.replies.append((token, SyncReply(code)))
        return
    member = group.members[command.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        stop_sync(state, group, effects)
    if group.state is State.STABLE:
        effects.replies.append(
            (token, SyncReply(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment))
        )
        return
    _wait(member, token, effects)
    if group.leader == member.member_id and group.sync_ticket is None:
        _store_assignment(state, group, command, now_ms, effects)


def _refusal(group: Group | None, command: SyncGroup) -> ErrorCode:
    if group is None or group.effective_state is State.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.effective_state is State.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.refusal_of(command.member_id, command.instance_id)
    if code is not ErrorCode.NONE:
        return code
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(command.protocol_type, group.protocol_type) or _differs(command.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ANSWERS[group.state]


def _differs(given: str | None, current: str | None) -> bool:
    return given is not None and current is not None and given != current


def _wait(member: Member, token: Token, effects: Effects) -> None:
    # A second SyncGroup replaces the first, which is answered so that no request waits for ever.
    answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), effects)
    member.sync_token = token


def _store_assignment(state: ShardState, group: Group, command: SyncGroup, now_ms: int, effects: Effects) -> None:
    given = {member_id: assignment for member_id, assignment in command.assignments if member_id in group.members}
    missing = [member_id for member_id in group.members if member_id not in given]
    effects.info(
        "assignment_received",
        group.group_id,
        f"assignment received from leader {command.member_id} of group {group.group_id} for generation "
        f"{group.generation} with {counted(len(group.members), 'member')}, {len(group.static_ids)} of them static",
    )
    if missing:
        effects.warn(
            "assignment_incomplete",
            group.group_id,
            f"leader {command.member_id} of group {group.group_id} assigned nothing to {some_of(missing)}",
        )
    ticket = state.append(_StoredAssignment(group, given, now_ms), effects)
    group.last_ticket = group.sync_ticket = ticket


class _StoredAssignment(Pending):
    """The assignment of one generation on its way to the log."""

    __slots__ = ("assignments", "generation", "group")

    def __init__(self, group: Group, assignments: dict[str, bytes], now_ms: int) -> None:
        super().__init__([group.to_store(assignments)], now_ms)
        self.group = group
        self.generation = group.generation
        self.assignments = assignments

    @property
    def _is_current(self) -> bool:
        return self.group.state is State.COMPLETING and self.group.generation == self.generation

    def on_stored(self, state: ShardState, now_ms: int, effects: Effects) -> None:
        if not self._is_current:
            return
        group = self.group
        for member in group.members.values():
            member.assignment = self.assignments.get(member.member_id, b"")
        answer_waiting_syncs(state, group, ErrorCode.NONE, now_ms, effects)
        group.sync_ticket = None
        group.move_to(State.STABLE, now_ms)
        state.counters.completed_rebalances += 1

    def on_failed(self, state: ShardState, code: ErrorCode, now_ms: int, effects: Effects) -> None:
        self._start_over(state, code, now_ms, effects)

    def on_late(self, state: ShardState, code: ErrorCode, now_ms: int, effects: Effects) -> None:
        self._start_over(state, code, now_ms, effects)

    def _start_over(self, state: ShardState, code: ErrorCode, now_ms: int, effects: Effects) -> None:
        if self._is_current:
            answer_waiting_syncs(state, self.group, code, now_ms, effects)
            reason = f"{code} while storing the assignment of generation {self.generation}"
            prepare_rebalance(state, self.group, reason, now_ms, effects)


def fire_sync_timer(state: ShardState, group: Group, now_ms: int, effects: Effects) -> None:
    """D27: members that never sent SyncGroup are removed, static ones too, and the group rebalances."""
    if group.sync_deadline_ms is None:
        return
    if now_ms < group.sync_deadline_ms:
        arm_sync(state, group, group.sync_deadline_ms, effects)
        return
    group.sync_deadline_ms = None
    silent = [member for member_id, member in group.members.items() if member_id in group.pending_sync]
    if not silent:
        return
    for member in silent:
        drop_member(state, group, member, effects)
    names = ", ".join(member.member_id for member in silent)
    prepare_rebalance(state, group, f"removing {names}, which sent no SyncGroup in time", now_ms, effects)
