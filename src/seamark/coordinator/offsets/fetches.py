"""OffsetFetch: from the table of stored offsets, in every state of the group (F10, F11, F25, F27).

A plain fetch sees what is stored now. A fetch that requires stable offsets waits while an append of its group is
under way, at most ``offsets.commit.timeout.ms``, and is then answered NOT_COORDINATOR, which every client retries.
"""

from __future__ import annotations

from seamark.coordinator.commands import FetchOffsets
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.replies import FetchedOffset, FetchReply
from seamark.coordinator.shard_state import ShardState
from seamark.wire.protocol.error_codes import ErrorCode


def fetch(state: ShardState, command: FetchOffsets, token: Token, now_ms: int, effects: Effects) -> None:
    group = state.groups.get(command.group_id or "")
    if command.require_stable and group is not None:
        pending = state.in_flight.get(group.last_ticket)
        if pending is not None:
            waiter = _WaitingFetch(command, token, now_ms + state.settings.commit_timeout_ms)
            if pending.waiters is None:
                pending.waiters = [waiter]
            else:
                pending.waiters.append(waiter)
            if waiter.deadline_ms < state.append_timer_ms:
                state.arm_append_timer(waiter.deadline_ms, effects)
            return
    effects.replies.append((token, _visible_offsets(group, command)))


def _visible_offsets(group: Group | None, command: FetchOffsets) -> FetchReply:
    reply = FetchReply(command.group_id)
    if command.topics is None:
        by_topic: dict[str, list[FetchedOffset]] = {}
        for topic, partition in group.offsets if group is not None else ():
            by_topic.setdefault(topic, []).append(_visible_offset(group, topic, partition))
        reply.topics = list(by_topic.items())
    else:
        for topic, partitions in command.topics:
            reply.topics.append((topic, [_visible_offset(group, topic, partition) for partition in partitions]))
    return reply


def _visible_offset(group: Group | None, topic: str, partition: int) -> FetchedOffset:
    record = None if group is None else group.offsets.get((topic, partition))
    if record is None:
        return FetchedOffset(partition)
    return FetchedOffset(partition, record.offset, record.leader_epoch, record.metadata)


class _WaitingFetch:
    """A fetch that waits for its group's newest append."""

    __slots__ = ("command", "deadline_ms", "token")

    def __init__(self, command: FetchOffsets, token: Token, deadline_ms: int) -> None:
        self.command = command
        self.token = token
        self.deadline_ms = deadline_ms

    def release(self, state: ShardState, effects: Effects) -> None:
        group = state.groups.get(self.command.group_id or "")
        effects.replies.append((self.token, _visible_offsets(group, self.command)))

    def give_up(self, effects: Effects) -> None:
        effects.replies.append((self.token, FetchReply(self.command.group_id, ErrorCode.NOT_COORDINATOR)))
