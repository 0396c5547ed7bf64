"""Sweeps: removals of more than one append may hold, done a part at a time (expired offsets, groups, deleted topics).

A step looks at a bounded number of offsets and makes one append of tombstones at most; the next step comes when that
is stored, after the shell has served others. A group's own tombstone is the last of its parts, so a crash in between
leaves a group that is there with the offsets that are left. What a step needs to know it looks up again, because
anything may have happened since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from seamark.coordinator.effects import Arm, Effects
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.pending_members import forget_pending_member
from seamark.coordinator.shard_state import SWEEP_TIMER, Pending, ShardState
from seamark.coordinator.states import State
from seamark.coordinator.storing.records import GroupRemoved, OffsetCommitted, OffsetRemoved, Record
from seamark.wire.protocol.error_codes import ErrorCode

# The characters in the names of one part: at most three bytes each, and half of Kafka's default limit for a batch.
_CHARACTERS_PER_PART = 150_000

UnsettledOffsets = dict[str, dict[tuple[str, int], None]]


class Sweep:
    """One removal under way. Subclasses walk over what is to go: ``_walk`` yields wherever ``is_full`` says so."""

    def __init__(self, state: ShardState) -> None:
        self.is_exhausted = False
        self.records: list[Record] = []
        self.groups: dict[str, Group] = {}
        self.now_ms = 0
        self.unsettled: UnsettledOffsets = {}
        self._state = state
        self._looked_at = 0
        self._most = 0
        self._characters = 0
        self._steps = self._walk(state)

    def _walk(self, state: ShardState) -> Iterator[None]:
        raise NotImplementedError

    @property
    def is_full(self) -> bool:
        """Whether this step has done its share."""
        return self._looked_at >= self._most or self._characters >= _CHARACTERS_PER_PART

    def look(self) -> None:
        """Count one thing that was looked at."""
        self._looked_at += 1

    def remove(self, record: OffsetRemoved | GroupRemoved, group: Group) -> None:
        """Add a tombstone to this part."""
        self.records.append(record)
        self.groups[group.group_id] = group
        self._characters += len(record.group_id)
        if type(record) is OffsetRemoved:
            self._characters += len(record.topic)

    def still_there(self, group: Group) -> bool:
        """Whether a group that was met before is still to be looked at."""
        return not group.is_being_removed and self._state.groups.get(group.group_id) is group

    def take_turn(self, now_ms: int, effects: Effects) -> None:
        """Take a step of the usual size."""
        _take_step(self._state, self, self._state.settings.sweep_size, now_ms, effects)

    def step(self, now_ms: int, most: int) -> None:
        """Collect the next part."""
        self.now_ms = now_ms
        self.unsettled = unsettled_offsets(self._state)
        self.records = []
        self.groups = {}
        self._looked_at = 0
        self._characters = 0
        self._most = most
        self.is_exhausted = next(self._steps, self) is self

    def on_part_stored(self, offset_count: int, removed: list[Group]) -> None:
        """A part is stored and replayed."""

    def on_finished(self, effects: Effects) -> None:
        """All parts are stored."""

    def on_stopped(self, code: ErrorCode, effects: Effects) -> None:
        """A part was refused: nothing more is removed."""

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        """The shard is given up, and with it everything the sweep was about."""

    def on_late(self, code: ErrorCode, effects: Effects) -> None:
        """A part takes longer than the commit timeout. It may still be stored, and the sweep goes on then."""


def begin_sweep(state: ShardState, sweep: Sweep, now_ms: int, effects: Effects) -> None:
    """Take a first step at once. It is a short one: all shards may be asked in one turn."""
    _take_step(state, sweep, max(1, state.settings.sweep_size // 10), now_ms, effects)


def fire_sweep_timer(state: ShardState, now_ms: int, effects: Effects) -> None:
    """Take one step of the sweep whose turn it is."""
    if state.sweeps:
        state.sweeps.popleft().take_turn(now_ms, effects)
    if state.sweeps:
        _arm(state, now_ms, effects)


def _take_step(state: ShardState, sweep: Sweep, most: int, now_ms: int, effects: Effects) -> None:
    sweep.step(now_ms, most)
    if sweep.records:
        removed = [sweep.groups[record.group_id] for record in sweep.records if type(record) is GroupRemoved]
        ticket = state.append(_StoredPart(sweep, removed, now_ms), effects)
        for group in sweep.groups.values():
            group.last_ticket = ticket
        for group in removed:
            group.is_being_removed = True
    else:
        _go_on(state, sweep, now_ms, effects)


def _go_on(state: ShardState, sweep: Sweep, now_ms: int, effects: Effects) -> None:
    if sweep.is_exhausted:
        sweep.on_finished(effects)
        return
    state.sweeps.append(sweep)
    if len(state.sweeps) == 1:
        _arm(state, now_ms, effects)


def _arm(state: ShardState, now_ms: int, effects: Effects) -> None:
    effects.timers.append(Arm((state.partition, SWEEP_TIMER, "", ""), now_ms))


class _StoredPart(Pending):
    """The tombstones of one step on their way to the log; ``removed`` are the groups that are gone with them."""

    __slots__ = ("removed", "sweep")

    def __init__(self, sweep: Sweep, removed: list[Group], now_ms: int) -> None:
        super().__init__(sweep.records, now_ms)
        self.sweep = sweep
        self.removed = removed

    def on_stored(self, state: ShardState, now_ms: int, effects: Effects) -> None:
        bury_removed(state, self.removed, now_ms, effects)
        self.sweep.on_part_stored(len(self.records) - len(self.removed), self.removed)
        _go_on(state, self.sweep, now_ms, effects)

    def on_failed(self, state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        spare_removed(state, self.removed)
        self.sweep.on_stopped(code, effects)

    def on_late(self, _state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        self.sweep.on_late(code, effects)

    def on_unloaded(self, code: ErrorCode, effects: Effects) -> None:
        self.sweep.on_unloaded(code, effects)


def unsettled_offsets(state: ShardState) -> UnsettledOffsets:
    """By group, the partitions for which a commit is on its way to the log."""
    unsettled: UnsettledOffsets = {}
    for pending in state.in_flight.values():
        for record in pending.records:
            if type(record) is OffsetCommitted:
                unsettled.setdefault(record.group_id, {})[record.topic, record.partition] = None
    return unsettled


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
