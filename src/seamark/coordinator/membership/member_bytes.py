"""What the members of all groups hold in memory, and who has to leave when that is too much.

A member brings its metadata, as much as a request may have, and is kept for a session timeout, half an hour at most.
Kafka bounds how many members a group has, and no bytes. Here all members together may hold ``MAX_BYTES``. Beyond that
the principal whose members hold most loses some (where nobody logs in, the address), until it holds no more than the
next: its largest, and of those alike in size the ones that have been silent longest. So whoever fills the memory makes
room again at its own cost.

Joining adds to an upper bound; what is really held is looked up when that reaches the limit, and a quarter of it is
given back then, a few members with every one that joins. So the cost is spread over as many bytes of requests.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from heapq import heapify, heapreplace
from sys import getsizeof

from seamark.coordinator.effects import Effects
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import Member
from seamark.coordinator.membership.rebalancing import answer_join, drop_member, rebalance_or_complete
from seamark.coordinator.replies import JoinReply
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import State
from seamark.counts import counted
from seamark.wire.protocol.error_codes import ErrorCode

MAX_BYTES = 96 << 20
# The member itself with its entries in tables and timers, and those of each protocol.
_MEMBER_BYTES = 1000
_PROTOCOL_BYTES = 200
# Members that leave while one joins, if that makes enough room.
_LEAVING_AT_ONCE = 50


def size_of(member: Member) -> int:
    size = _MEMBER_BYTES + getsizeof(member.member_id) + getsizeof(member.client_id) + len(member.assignment)
    for name, metadata in member.protocols:
        size += _PROTOCOL_BYTES + len(name) + len(metadata)
    return size


def _last_heard_ms(state: ShardState, member: Member) -> int:
    given_ms = state.settings.new_member_timeout_ms if member.is_new else member.session_timeout_ms
    return member.session_deadline_ms - given_ms


class MemberBytes:
    """One for all shards of a coordinator."""

    __slots__ = ("_leaving", "_states", "at_most")

    def __init__(self) -> None:
        self._states: list[ShardState] = []
        self.at_most = 0
        # Those that have to leave, the next first, and what each gives back.
        self._leaving: deque[tuple[int, ShardState, Group, Member]] = deque()

    def count_shard(self, state: ShardState) -> None:
        self._states.append(state)

    def loaded(self, member: Member) -> None:
        """A member is there again that an earlier coordinator had taken in."""
        self.at_most += size_of(member)

    def added(self, member: Member, now_ms: int, effects: Effects) -> None:
        """A member came or brought something new."""
        self.at_most += size_of(member)
        if self.at_most > MAX_BYTES and not self._leaving:
            self._look(effects)
        if self._leaving:
            self._let_leave(now_ms, effects)

    def _all(self) -> Iterator[tuple[ShardState, Group, Member]]:
        for state in self._states:
            for group in state.groups.values():
                for member in group.members.values():
                    yield state, group, member

    def _look(self, effects: Effects) -> None:
        """See what is held, and who has to leave if it is too much."""
        by_owner: defaultdict[str, list[tuple[int, ShardState, Group, Member]]] = defaultdict(list)
        for state, group, member in self._all():
            by_owner[member.owner].append((size_of(member), state, group, member))
        totals = {owner: sum(row[0] for row in held) for owner, held in by_owner.items()}
        total = self.at_most = sum(totals.values())
        if total <= MAX_BYTES:
            return
        for held in by_owner.values():
            # Alike are those that need the same number of bits; of them, who was heard of last stays longest.
            held.sort(key=lambda row: (row[0].bit_length(), -_last_heard_ms(row[1], row[3])))
        largest = [(-held, owner) for owner, held in totals.items()]
        heapify(largest)
        left = total
        while left > MAX_BYTES * 3 // 4:
            owned, owner = largest[0]
            leaving = by_owner[owner].pop()
            self._leaving.append(leaving)
            left -= leaving[0]
            heapreplace(largest, (owned + leaving[0], owner))
        reason = f"{counted(len(self._leaving), 'member')} had to leave, because all members held"
        effects.warn("members_too_large", "", f"{reason} {counted(total, 'byte')}")

    def _let_leave(self, now_ms: int, effects: Effects) -> None:
        thinned: dict[str, tuple[ShardState, Group]] = {}
        count = 0
        while self._leaving and (count < _LEAVING_AT_ONCE or self.at_most > MAX_BYTES):
            size, state, group, member = self._leaving.popleft()
            self.at_most -= size
            count += 1
            if state.groups.get(group.group_id) is group and group.members.get(member.member_id) is member:
                answer_join(group, member, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED), effects)
                drop_member(state, group, member, effects)
                thinned[group.group_id] = state, group
        for state, group in thinned.values():
            if group.state is not State.EMPTY:
                reason = f"{counted(count, 'member')} of all groups had to leave: they held too much memory"
                rebalance_or_complete(state, group, reason, now_ms, effects)
