"""Static members that come back with a blank id: the new id takes over the place of the old one (D33).

The old id is fenced at once. In a Stable group whose protocol stays the same nobody else notices: the group is stored
with the new id and the current generation returned, from v9 with the hint to skip the assignment. A refused append
takes the change back.
"""

from __future__ import annotations

from seamark.coordinator.commands import JoinGroup
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import Member, Protocols
from seamark.coordinator.membership.rebalancing import (
    answer_join,
    answer_sync,
    complete_if_all_joined,
    generation_reply,
    prepare_rebalance,
)
from seamark.coordinator.membership.timers import restart_session, stop_session
from seamark.coordinator.replies import JoinReply, SyncReply
from seamark.coordinator.shard_state import Pending, ShardState
from seamark.coordinator.states import State
from seamark.wire.protocol.error_codes import ErrorCode


def replace_static_member(
    state: ShardState,
    group: Group,
    command: JoinGroup,
    protocols: Protocols,
    new_id: str,
    token: Token,
    now_ms: int,
    effects: Effects,
) -> None:
    member = group.members[group.static_ids[command.instance_id or ""]]
    before = _Identity(member, group.leader)
    effects.info(
        "static_member_replaced",
        group.group_id,
        f"static member {command.instance_id} of group {group.group_id} returns as {new_id}, "
        f"replacing {before.member_id}",
    )
    answer_join(group, member, JoinReply(ErrorCode.FENCED_INSTANCE_ID, before.member_id), effects)
    answer_sync(member, SyncReply(ErrorCode.FENCED_INSTANCE_ID), effects)
    _take_identity(state, group, member, new_id, effects)
    group.change_protocols(member, protocols)
    member.client_id = command.client_id
    member.client_host = command.client_host
    member.principal = command.principal
    member.session_timeout_ms = command.session_timeout_ms
    member.rebalance_timeout_ms = command.effective_rebalance_timeout_ms
    # From here on it has an id to send heartbeats with, whatever the replaced one was.
    member.is_new = False
    member.join_token = token
    group.waiting_joins += 1
    restart_session(state, group, member, now_ms, effects)
    reason = f"static member {command.instance_id} joined as {new_id}; client reason: {command.reason_text}"
    if group.state is State.PREPARING:
        complete_if_all_joined(state, group, now_ms, effects)
    elif group.state is State.STABLE and group.select_protocol() == group.protocol:
        pending = _StoredReplacement(group, member, before, token, command.supports_skip_assignment, now_ms)
        group.last_ticket = state.append(pending, effects)
    else:
        prepare_rebalance(state, group, reason, now_ms, effects)
    state.member_bytes.added(member, now_ms, effects)


class _Identity:
    """What a static member was before it was replaced."""

    __slots__ = (
        "client_host",
        "client_id",
        "leader",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(self, member: Member, leader: str | None) -> None:
        self.member_id = member.member_id
        self.leader = leader
        self.protocols = member.protocols
        self.client_id = member.client_id
        self.client_host = member.client_host
        self.session_timeout_ms = member.session_timeout_ms
        self.rebalance_timeout_ms = member.rebalance_timeout_ms


def _take_identity(state: ShardState, group: Group, member: Member, new_id: str, effects: Effects) -> None:
    stop_session(state, group, member, effects)
    group.rename(member, new_id)


class _StoredReplacement(Pending):
    """A Stable group with one member's new id, on its way to the log."""

    __slots__ = ("before", "generation", "group", "member", "new_id", "skips_assignment", "token")

    def __init__(
        self, group: Group, member: Member, before: _Identity, token: Token, skips_assignment: bool, now_ms: int
    ) -> None:
        assignments = {held.member_id: held.assignment for held in group.members.values()}
        super().__init__([group.to_store(assignments)], now_ms)
        self.group = group
        self.generation = group.generation
        self.member = member
        self.new_id = member.member_id
        self.before = before
        self.token = token
        self.skips_assignment = skips_assignment

    @property
    def _is_waiting(self) -> bool:
        """Whether the join has not been answered meanwhile, by a rebalance or by yet another replacement."""
        return self.member.join_token is self.token

    @property
    def _is_current(self) -> bool:
        group = self.group
        return (
            group.state is State.STABLE
            and group.generation == self.generation
            and group.members.get(self.new_id) is self.member
        )

    def on_stored(self, state: ShardState, now_ms: int, effects: Effects) -> None:
        if not self._is_waiting or not self._is_current:
            return
        reply = generation_reply(self.group, self.member)
        if self.skips_assignment:
            reply.skip_assignment = self.group.leader == self.new_id
        else:
            # Before v9 there is no such hint: told that its old id leads, the member acts as a follower.
            reply.leader = self.before.leader or ""
            reply.members = []
        answer_join(self.group, self.member, reply, effects)
        restart_session(state, self.group, self.member, now_ms, effects)

    def on_failed(self, state: ShardState, code: ErrorCode, now_ms: int, effects: Effects) -> None:
        effects.warn(
            "static_member_not_stored",
            self.group.group_id,
            f"could not store {self.new_id} in group {self.group.group_id} ({code}); {self.before.member_id} stays",
        )
        if not self._is_current:
            return
        if self._is_waiting:
            answer_join(self.group, self.member, JoinReply(code), effects)
        _take_identity(state, self.group, self.member, self.before.member_id, effects)
        self.group.change_protocols(self.member, self.before.protocols)
        self.member.client_id = self.before.client_id
        self.member.client_host = self.before.client_host
        self.member.session_timeout_ms = self.before.session_timeout_ms
        self.member.rebalance_timeout_ms = self.before.rebalance_timeout_ms
        restart_session(state, self.group, self.member, now_ms, effects)

    def on_late(self, state: ShardState, code: ErrorCode, now_ms: int, effects: Effects) -> None:
        # The new id may still become stored, so it stays; only the joiner stops waiting.
        if self._is_waiting and self._is_current:
            answer_join(self.group, self.member, JoinReply(code), effects)
            restart_session(state, self.group, self.member, now_ms, effects)
