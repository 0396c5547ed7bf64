"""A shard: all groups and offsets of one partition of the offsets topic, as a machine without I/O.

Every call takes the time, in milliseconds that the caller vouches for, and returns effects to carry out. The caller
appends what ``Effects.appends`` asks for, in order, and reports each outcome once with ``stored`` or ``failed``; it
keeps the timers and calls ``fire``. One thread at a time. Replies that rest on records leave with the effects of
``stored``.

>>> from seamark.coordinator.commands import CommitOffsets, FetchOffsets
>>> shard = Shard(0, Settings(), partition_count=lambda topic: 1, make_id=iter("abc").__next__)
>>> _ = shard.load([], now_ms=0)
>>> effects = shard.handle(CommitOffsets("g", [("t", [(0, 42, -1, "")])]), token="commit", now_ms=1)
>>> effects.replies, effects.appends[0].ticket
([], 0)
>>> [token for token, reply in shard.stored(0, now_ms=2).replies]
['commit']
>>> [(token, reply)] = shard.handle(FetchOffsets("g"), token="fetch", now_ms=3).replies
>>> reply.topics[0][1][0].offset
42
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from seamark.coordinator import commands
from seamark.coordinator.effects import Effects, TimerKey, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.heartbeats import fire_session_timer, heartbeat
from seamark.coordinator.membership.joining import join
from seamark.coordinator.membership.leaving import leave
from seamark.coordinator.membership.member_bytes import MemberBytes
from seamark.coordinator.membership.rebalancing import fire_join_timer
from seamark.coordinator.membership.syncing import fire_sync_timer, sync
from seamark.coordinator.membership.timers import EXPIRY_TIMER, JOIN_TIMER, SESSION_TIMER, SYNC_TIMER, move_deadlines
from seamark.coordinator.metrics import gauges
from seamark.coordinator.offsets.commit_patterns import CommitAgain
from seamark.coordinator.offsets.commits import commit, commit_again
from seamark.coordinator.offsets.deletions import delete_groups, delete_offsets, forget_topics
from seamark.coordinator.offsets.expiry import fire_expiry_timer
from seamark.coordinator.offsets.fetches import fetch
from seamark.coordinator.offsets.sweeps import fire_sweep_timer
from seamark.coordinator.refusals import invalidity, refuse
from seamark.coordinator.settings import Settings
from seamark.coordinator.shard_state import (
    APPEND_TIMER,
    SWEEP_TIMER,
    MakeId,
    PartitionCount,
    PendingMembers,
    ShardState,
)
from seamark.coordinator.storing.loading import Revival, give_up_groups
from seamark.coordinator.storing.records import Record, RecordKey
from seamark.coordinator.storing.replay import replay, stored_state
from seamark.coordinator.storing.settling import fire_append_timer, settle_failed, settle_stored
from seamark.coordinator.views import describe, list_groups
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode

_RULES: dict[type, Callable[[ShardState, Any, Token, int, Effects], None]] = {
    commands.JoinGroup: join,
    commands.SyncGroup: sync,
    commands.Heartbeat: heartbeat,
    commands.LeaveGroup: leave,
    commands.CommitOffsets: commit,
    CommitAgain: commit_again,
    commands.FetchOffsets: fetch,
    commands.DeleteOffsets: delete_offsets,
    commands.DeleteGroups: delete_groups,
    commands.DescribeGroups: describe,
    commands.ListGroups: list_groups,
    commands.ForgetTopics: forget_topics,
}


class Status(Enum):
    """Whether the shard's groups are here: only an active shard serves them."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    ACTIVE = "active"


# Looking a member of an enumeration up costs as much as a function call; these are on the path of every request.
_NONE = ErrorCode.NONE
_ACTIVE = Status.ACTIVE


class Shard:
    """The groups whose ids hash to one offsets partition.

    ``partition_count`` answers how many partitions a topic has, None if it does not exist; ``make_id`` makes the random
    end of a member id. ``member_bytes`` and ``pending_members`` are shared by the shards of a coordinator. A new shard
    is unloaded: ``load`` it first.
    """

    __slots__ = ("_revival", "_state", "status")

    def __init__(
        self,
        partition: int,
        settings: Settings,
        *,
        partition_count: PartitionCount,
        make_id: MakeId,
        member_bytes: MemberBytes | None = None,
        pending_members: PendingMembers | None = None,
    ) -> None:
        member_bytes = member_bytes or MemberBytes()
        pending_members = pending_members or PendingMembers()
        self._state = ShardState(partition, settings, partition_count, make_id, member_bytes, pending_members)
        member_bytes.count_shard(self._state)
        self.status = Status.UNLOADED
        self._revival: Revival | None = None

    @property
    def partition(self) -> int:
        return self._state.partition

    def handle(self, command: commands.Command | CommitAgain, token: Token, now_ms: int) -> Effects:
        """Decide a request. Its one reply comes with these effects or with those of a later call."""
        code = invalidity(command, self._state.settings)
        if code is _NONE:
            return self.decide(command, token, now_ms)
        effects = Effects()
        effects.replies.append((token, refuse(command, code, self._state.partition_count)))
        return effects

    def decide(self, command: commands.Command | CommitAgain, token: Token, now_ms: int) -> Effects:
        """Decide a request in which ``invalidity`` has found nothing wrong."""
        effects = Effects()
        state = self._state
        if self.status is _ACTIVE:
            _RULES[type(command)](state, command, token, now_ms, effects)
        else:
            is_loading = self.status is Status.LOADING
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR
            effects.replies.append((token, refuse(command, code, state.partition_count)))
        return effects

    def stored(self, ticket: int, now_ms: int) -> Effects:
        """The append is acknowledged: its records are replayed and what waited for them is answered."""
        effects = Effects()
        settle_stored(self._state, ticket, now_ms, effects)
        return effects

    def all_stored(self, tickets: Iterable[int], now_ms: int) -> Effects:
        """As ``stored``, for appends that were acknowledged together."""
        effects = Effects()
        state = self._state
        for ticket in tickets:
            settle_stored(state, ticket, now_ms, effects)
        return effects

    def failed(self, ticket: int, code: ErrorCode, now_ms: int) -> Effects:
        """The append was refused with the log's own code.

        After REQUEST_TIMED_OUT the outcome is open and must be reported later; every other code is final.
        """
        effects = Effects()
        settle_failed(self._state, ticket, code, now_ms, effects)
        return effects

    def move_deadlines(self, by_ms: int) -> None:
        """The time that the caller tells was set ahead; it moves its timers for this shard by as much."""
        move_deadlines(self._state, by_ms)

    def fire(self, key: TimerKey, now_ms: int) -> Effects:
        """A timer is due. One that is early, cancelled or of a former life does no harm."""
        effects = Effects()
        if self.status is not Status.ACTIVE:
            return effects
        state = self._state
        _, kind, group_id, member_id = key
        if kind == APPEND_TIMER:
            fire_append_timer(state, now_ms, effects)
        elif kind == EXPIRY_TIMER:
            fire_expiry_timer(state, now_ms, effects)
        elif kind == SWEEP_TIMER:
            fire_sweep_timer(state, now_ms, effects)
        else:
            group = state.groups.get(group_id)
            if group is None:
                return effects
            if kind == SESSION_TIMER:
                fire_session_timer(state, group, member_id, now_ms, effects)
            elif kind == JOIN_TIMER:
                fire_join_timer(state, group, now_ms, effects)
            elif kind == SYNC_TIMER:
                fire_sync_timer(state, group, now_ms, effects)
        return effects

    def begin_load(self) -> None:
        """Start over with no groups; until ``finish_load`` requests are answered as by a loading coordinator."""
        if self.status is not Status.UNLOADED:
            raise UsageError(
                f"offsets partition {self.partition} is {self.status.value}, only an unloaded one can load"
            )
        self.status = Status.LOADING

    def replay(self, records: Iterable[Record]) -> None:
        """Apply records read from the log, oldest first; any number of calls while loading."""
        if self.status is not Status.LOADING:
            raise UsageError(f"offsets partition {self.partition} is {self.status.value}, only a loading one replays")
        self._revival = None
        replay(self._state.groups, records)

    def revive(self, count: int) -> bool:
        """After the last ``replay``: make so many groups ready, and tell whether there may be more.

        What is not ready yet ``finish_load`` makes ready, all at once.
        """
        if self.status is not Status.LOADING:
            raise UsageError(f"offsets partition {self.partition} is {self.status.value}, no load is under way")
        if self._revival is None:
            self._revival = Revival(self._state)
        return self._revival.take(count)

    def finish_load(self, now_ms: int) -> Effects:
        """The log is read to its end: serve the groups."""
        if self.status is not Status.LOADING:
            raise UsageError(f"offsets partition {self.partition} is {self.status.value}, no load is under way")
        self.status = Status.ACTIVE
        effects = Effects()
        revival, self._revival = self._revival or Revival(self._state), None
        revival.finish(now_ms, effects)
        return effects

    def load(self, records: Iterable[Record], now_ms: int) -> Effects:
        """All three steps of a load at once."""
        self.begin_load()
        self.replay(records)
        return self.finish_load(now_ms)

    def unload(self, now_ms: int) -> Effects:
        """Give the partition up, from whatever status: every waiting request is answered NOT_COORDINATOR."""
        effects = Effects()
        self._revival = None
        give_up_groups(self._state, now_ms, effects)
        self.status = Status.UNLOADED
        return effects

    def stored_state(self) -> dict[RecordKey, Record]:
        """What is stored, as a map from key to last record: equal to that of a replayed log at any moment."""
        return stored_state(self._state.groups)

    @property
    def groups(self) -> dict[str, Group]:
        """The live groups by id, to be read only."""
        return self._state.groups

    @property
    def has_sweeps(self) -> bool:
        """Whether a removal can go on at once: firing the sweep timer takes its next step."""
        return bool(self._state.sweeps)

    @property
    def tickets_in_flight(self) -> list[int]:
        """The appends whose outcome is open, oldest first."""
        return list(self._state.in_flight)

    def gauges(self) -> dict[str, int]:
        return gauges(self._state.groups.values())

    def counters(self) -> dict[str, int]:
        return self._state.counters.read()
