"""Deleting on purpose: single offsets, whole groups, and the offsets of deleted topics.

Everything is removed by tombstones and only when these are stored. Offsets whose commit is still on its way to the
log are deleted too, since their records will stand before the tombstones. A group that is being deleted answers like
a dead one. If an append is refused, groups whose own tombstone is not stored are live again; of a large one some
offsets may be gone by then.
"""

from __future__ import annotations

from collections.abc import Iterator

from seamark.coordinator.commands import DeleteGroups, DeleteOffsets, ForgetTopics
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.offsets.sweeps import Sweep, begin_sweep, spare_removed, unsettled_offsets
from seamark.coordinator.replies import DeleteGroupsReply, DeleteOffsetsReply, ForgetReply
from seamark.coordinator.shard_state import Pending, ShardState
from seamark.coordinator.states import DELETE_ANSWERS
from seamark.coordinator.storing.records import GroupRemoved, OffsetRemoved, Record
from seamark.counts import some_of
from seamark.wire.protocol.error_codes import ErrorCode


def delete_offsets(state: ShardState, command: DeleteOffsets, token: Token, now_ms: int, effects: Effects) -> None:
    group = state.groups.get(command.group_id or "")
    code = _offset_delete_refusal(group)
    if group is None or code is not ErrorCode.NONE:
        effects.replies.append((token, DeleteOffsetsReply(code)))
        return
    reply = DeleteOffsetsReply()
    unsettled = unsettled_offsets(state).get(group.group_id, ())
    doomed: dict[tuple[str, int], None] = {}
    for topic, partitions in command.topics:
        if state.partition_count(topic) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif group.is_subscribed_to(topic):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            code = ErrorCode.NONE
            for key in ((topic, partition) for partition in partitions):
                if key in group.offsets or key in unsettled:
                    doomed[key] = None
        reply.topics.append((topic, [(partition, code) for partition in partitions]))
    records: list[Record] = [OffsetRemoved(group.group_id, topic, partition) for topic, partition in doomed]
    if not records:
        effects.replies.append((token, reply))
        return
    group.last_ticket = state.append(_StoredDeletion(records, token, reply, now_ms), effects)


def _offset_delete_refusal(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.is_being_removed:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    # The topics of another protocol type are not known, so nothing can be deleted while it has members.
    return ErrorCode.NONE if group.is_consumer_group else DELETE_ANSWERS[group.state]


class _StoredDeletion(Pending):
    """Tombstones of single offsets on their way to the log."""

    __slots__ = ("reply", "token")

    def __init__(self, records: list[Record], token: Token, reply: DeleteOffsetsReply, now_ms: int) -> None:
        super().__init__(records, now_ms)
        self.token = token
        self.reply = reply

    def on_stored(self, state: ShardState, _now_ms: int, effects: Effects) -> None:
        state.counters.offset_deletions += len(self.records)
        if not self.is_late:
            effects.replies.append((self.token, self.reply))

    def on_failed(self, _state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        self.on_unloaded(code, effects)

    def on_late(self, _state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        effects.replies.append((self.token, DeleteOffsetsReply(code)))

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        if not self.is_late:
            effects.replies.append((self.token, DeleteOffsetsReply(code)))


def delete_groups(state: ShardState, command: DeleteGroups, token: Token, now_ms: int, effects: Effects) -> None:
    codes: dict[str | None, ErrorCode] = {}
    doomed: list[Group] = []
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
    if not doomed:
        effects.replies.append((token, DeleteGroupsReply(list(codes.items()))))
        return
    effects.info("groups_deleted", "", f"deleting groups {some_of([group.group_id for group in doomed])}")
    begin_sweep(state, _GroupRemoval(state, doomed, codes, token), now_ms, effects)


class _Answering(Sweep):
    """A sweep that somebody waits for, who is answered once."""

    def __init__(self, state: ShardState, token: Token) -> None:
        super().__init__(state)
        self._token = token
        self._is_answered = False

    def _answer(self, code: ErrorCode, effects: Effects) -> None:
        if not self._is_answered:
            self._is_answered = True
            effects.replies.append((self._token, self._reply(code)))

    def _reply(self, code: ErrorCode) -> DeleteGroupsReply | ForgetReply:
        raise NotImplementedError

    def on_part_stored(self, offset_count: int, removed: list[Group]) -> None:  # noqa: ARG002
        self._state.counters.offset_deletions += offset_count

    def on_finished(self, effects: Effects) -> None:
        self._answer(ErrorCode.NONE, effects)

    def on_stopped(self, code: ErrorCode, effects: Effects) -> None:
        self._answer(code, effects)

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        self._answer(code, effects)

    def on_late(self, code: ErrorCode, effects: Effects) -> None:
        self._answer(code, effects)


class _GroupRemoval(_Answering):
    """Groups that are deleted; all of them are dead for everybody from the beginning."""

    def __init__(
        self, state: ShardState, doomed: list[Group], codes: dict[str | None, ErrorCode], token: Token
    ) -> None:
        super().__init__(state, token)
        self._codes = codes
        self._left = {group.group_id: group for group in doomed}
        unsettled = unsettled_offsets(state)
        # Nothing is added to a group that is being removed, so this is all there will be.
        self._keys = [(group, _all_keys(group, unsettled.get(group.group_id, {}))) for group in doomed]
        for group in doomed:
            group.is_being_removed = True

    def _walk(self, state: ShardState) -> Iterator[None]:  # noqa: ARG002
        for group, keys in self._keys:
            for topic, partition in keys:
                if self.is_full:
                    yield
                self.look()
                self.remove(OffsetRemoved(group.group_id, topic, partition), group)
            if self.is_full:
                yield
            self.look()
            self.remove(GroupRemoved(group.group_id), group)

    def _reply(self, code: ErrorCode) -> DeleteGroupsReply:
        return DeleteGroupsReply(
            [(group_id, code if group_id in self._left else old) for group_id, old in self._codes.items()]
        )

    def on_part_stored(self, offset_count: int, removed: list[Group]) -> None:
        super().on_part_stored(offset_count, removed)
        for group in removed:
            del self._left[group.group_id]

    def on_stopped(self, code: ErrorCode, effects: Effects) -> None:
        super().on_stopped(code, effects)
        spare_removed(self._state, self._left.values())


def forget_topics(state: ShardState, command: ForgetTopics, token: Token, now_ms: int, effects: Effects) -> None:
    begin_sweep(state, _Forgetting(state, frozenset(command.topics), token), now_ms, effects)


class _Forgetting(_Answering):
    """The offsets of deleted topics. Until all groups were looked at, the topics have no partitions for commits: a
    topic may have been created anew under a name, and its offsets must stay.
    """

    def __init__(self, state: ShardState, topics: frozenset[str], token: Token) -> None:
        super().__init__(state, token)
        self._topics = topics
        self._removed = 0

    def _walk(self, state: ShardState) -> Iterator[None]:
        topics = self._topics
        state.forgetting.update(topics)
        for group in list(state.groups.values()):
            if self.is_full:
                yield
            if not self.still_there(group):
                continue
            self.look()
            for key in _all_keys(group, self.unsettled.get(group.group_id, {})):
                if self.is_full:
                    yield
                    if not self.still_there(group):
                        break
                self.look()
                if key[0] in topics:
                    self.remove(OffsetRemoved(group.group_id, *key), group)
        self._release()

    def _release(self) -> None:
        forgetting = self._state.forgetting
        forgetting.subtract(self._topics)
        for topic in self._topics:
            if forgetting[topic] <= 0:
                del forgetting[topic]

    def _reply(self, code: ErrorCode) -> ForgetReply:
        return ForgetReply(code, self._removed)

    def on_part_stored(self, offset_count: int, removed: list[Group]) -> None:
        super().on_part_stored(offset_count, removed)
        self._removed += offset_count

    def on_stopped(self, code: ErrorCode, effects: Effects) -> None:
        super().on_stopped(code, effects)
        if not self.is_exhausted:
            self._release()


def _all_keys(group: Group, unsettled: dict[tuple[str, int], None]) -> list[tuple[str, int]]:
    """The partitions for which something of the group is in the log, or on its way there."""
    keys = list(group.offsets)
    keys += [key for key in unsettled if key not in group.offsets]
    return keys
