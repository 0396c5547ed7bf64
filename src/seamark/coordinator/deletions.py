"""Deleting on purpose: single offsets, whole groups, and the offsets of deleted topics.

Everything is removed by tombstones and only when these are stored. Offsets whose commit is still on its way to the
log are deleted too, since their records will stand before the tombstones. A group whose tombstone is under way
answers like a dead one; if the append is refused it is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from seamark.coordinator.commands import DeleteGroups, DeleteOffsets, ForgetTopics
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.groups import Group
from seamark.coordinator.pending import Pending
from seamark.coordinator.pending_members import forget_pending_member
from seamark.coordinator.records import GroupRemoved, OffsetCommitted, OffsetRemoved, Record
from seamark.coordinator.replies import DeleteGroupsReply, DeleteOffsetsReply, ForgetReply, Reply
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import DELETE_ANSWERS, State
from seamark.counts import some_of
from seamark.wire.error_codes import ErrorCode


def delete_offsets(state: ShardState, command: DeleteOffsets, token: Token, now_ms: int, effects: Effects) -> None:
    group = state.groups.get(command.group_id or "")
    code = _offset_delete_refusal(group)
    if group is None or code is not ErrorCode.NONE:
        effects.replies.append((token, DeleteOffsetsReply(code)))
        return
    reply = DeleteOffsetsReply()
    known = {*group.offsets, *unsettled_offsets(state).get(group.group_id, ())}
    doomed: dict[tuple[str, int], None] = {}
    for topic, partitions in command.topics:
        if state.partition_count(topic) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif group.is_subscribed_to(topic):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            code = ErrorCode.NONE
            doomed.update(dict.fromkeys((topic, each) for each in partitions if (topic, each) in known))
        reply.topics.append((topic, [(each, code) for each in partitions]))
    records: list[Record] = [OffsetRemoved(group.group_id, topic, partition) for topic, partition in doomed]
    if not records:
        effects.replies.append((token, reply))
        return

    def refuse(code: ErrorCode) -> Reply:
        return DeleteOffsetsReply(code)

    group.last_ticket = state.append(_StoredDeletion([], records, token, reply, refuse, now_ms), effects)


def _offset_delete_refusal(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.is_being_removed:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    # The topics of another protocol type are not known, so nothing can be deleted while it has members.
    return ErrorCode.NONE if group.is_consumer_group else DELETE_ANSWERS[group.state]


def delete_groups(state: ShardState, command: DeleteGroups, token: Token, now_ms: int, effects: Effects) -> None:
    codes: dict[str | None, ErrorCode] = {}
    records: list[Record] = []
    doomed: list[Group] = []
    unsettled = unsettled_offsets(state)
    for group_id in dict.fromkeys(command.group_ids):
        group = None if group_id is None else state.groups.get(group_id)
        if group_id is None:
            codes[group_id] = ErrorCode.INVALID_GROUP_ID
        elif group is None:
            codes[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.is_being_removed:
            # Whether it is gone is not decided yet; the caller has to ask again.
            codes[group_id] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            codes[group_id] = DELETE_ANSWERS[group.state]
            if codes[group_id] is ErrorCode.NONE:
                doomed.append(group)
                records += tombstones_of(group, unsettled.get(group_id, ()))
    reply = DeleteGroupsReply(list(codes.items()))
    if not doomed:
        effects.replies.append((token, reply))
        return
    effects.info("groups_deleted", "", f"deleting groups {some_of([group.group_id for group in doomed])}")

    def refuse(code: ErrorCode) -> Reply:
        return DeleteGroupsReply([(each, code if old is ErrorCode.NONE else old) for each, old in codes.items()])

    ticket = state.append(_StoredDeletion(doomed, records, token, reply, refuse, now_ms), effects)
    for group in doomed:
        group.is_being_removed = True
        group.last_ticket = ticket


def forget_topics(state: ShardState, command: ForgetTopics, token: Token, now_ms: int, effects: Effects) -> None:
    topics = frozenset(command.topics)
    unsettled = unsettled_offsets(state)
    records: list[Record] = []
    touched: list[Group] = []
    for group in state.groups.values():
        if group.is_being_removed:
            continue
        gone = [each for each in group.offsets if each[0] in topics]
        if group.group_id in unsettled:
            gone += [each for each in unsettled[group.group_id] if each[0] in topics]
        if gone:
            touched.append(group)
            records += [OffsetRemoved(group.group_id, topic, partition) for topic, partition in sorted(set(gone))]
    reply = ForgetReply(removed=len(records))
    if not records:
        effects.replies.append((token, reply))
        return

    def refuse(code: ErrorCode) -> Reply:
        return ForgetReply(code)

    ticket = state.append(_StoredDeletion([], records, token, reply, refuse, now_ms), effects)
    for group in touched:
        group.last_ticket = ticket


def unsettled_offsets(state: ShardState) -> dict[str, set[tuple[str, int]]]:
    """By group, the partitions for which a commit is on its way to the log."""
    unsettled: dict[str, set[tuple[str, int]]] = {}
    for pending in state.in_flight.values():
        for record in pending.records:
            if type(record) is OffsetCommitted:
                unsettled.setdefault(record.group_id, set()).add((record.topic, record.partition))
    return unsettled


def tombstones_of(group: Group, unsettled: Iterable[tuple[str, int]]) -> list[Record]:
    """Everything to write so that nothing of the group is left."""
    known = sorted({*group.offsets, *unsettled})
    records: list[Record] = [OffsetRemoved(group.group_id, topic, partition) for topic, partition in known]
    records.append(GroupRemoved(group.group_id))
    return records


def bury_removed(state: ShardState, groups: Iterable[Group], now_ms: int, effects: Effects) -> None:
    """After the tombstones were replayed: the group is dead and gone, unless offsets of it are left in the log."""
    for group in groups:
        for member_id in list(group.pending):
            forget_pending_member(state, group, member_id, effects)
        if group.offsets:
            group.become_simple()
        else:
            group.move_to(State.DEAD, now_ms)
            group.is_being_removed = False
            state.groups.pop(group.group_id, None)


def spare_removed(state: ShardState, groups: Iterable[Group]) -> None:
    """The tombstones were refused: the groups are as they were."""
    for group in groups:
        group.is_being_removed = False
        state.drop_if_hollow(group)


class _StoredDeletion(Pending):
    """Tombstones somebody asked for, on their way to the log; ``groups`` are those that go as a whole."""

    __slots__ = ("groups", "refuse", "reply", "token")

    def __init__(
        self,
        groups: list[Group],
        records: list[Record],
        token: Token,
        reply: Reply,
        refuse: Callable[[ErrorCode], Reply],
        now_ms: int,
    ) -> None:
        super().__init__(records, now_ms)
        self.groups = groups
        self.token = token
        self.reply = reply
        self.refuse = refuse

    def on_stored(self, state: ShardState, now_ms: int, effects: Effects) -> None:
        state.counters.offset_deletions += sum(type(record) is OffsetRemoved for record in self.records)
        bury_removed(state, self.groups, now_ms, effects)
        if not self.is_late:
            effects.replies.append((self.token, self.reply))

    def on_failed(self, state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        spare_removed(state, self.groups)
        if not self.is_late:
            effects.replies.append((self.token, self.refuse(code)))

    def on_late(self, _state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        effects.replies.append((self.token, self.refuse(code)))

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        if not self.is_late:
            effects.replies.append((self.token, self.refuse(code)))
