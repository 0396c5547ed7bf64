"""Expiration: offsets nobody uses any more, and groups without members or offsets (F29).

The retention period counts from when the group became Empty; for simple consumers, and for topics a Stable consumer
group no longer subscribes to, from the commit. A retention time sent with the commit (v2 to v4) replaces all that. An
offset with a commit on its way to the log is left for the next check.
"""

from __future__ import annotations

from collections.abc import Collection

from seamark.coordinator.deletions import bury_removed, spare_removed, unsettled_offsets
from seamark.coordinator.effects import Effects
from seamark.coordinator.groups import Group
from seamark.coordinator.pending import Pending
from seamark.coordinator.records import NO_EXPIRY, GroupRemoved, OffsetCommitted, OffsetRemoved, Record
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import State
from seamark.coordinator.timers import arm_expiry
from seamark.counts import counted
from seamark.wire.error_codes import ErrorCode

# Tombstones per append: about 100 bytes each, so a batch stays far below Kafka's default limit of 1 MiB.
_RECORDS_PER_APPEND = 1000


def fire_expiry_timer(state: ShardState, now_ms: int, effects: Effects) -> None:
    """Check every group once and arm the next check."""
    arm_expiry(state, now_ms + state.settings.retention_check_interval_ms, effects)
    unsettled = unsettled_offsets(state)
    batch = _Batch(state, now_ms, effects)
    for group in list(state.groups.values()):
        if group.is_being_removed:
            continue
        waiting = unsettled.get(group.group_id, ())
        expired = [
            OffsetRemoved(group.group_id, record.topic, record.partition)
            for record in group.offsets.values()
            if _is_expired(group, record, state.settings.retention_ms, now_ms)
            and (record.topic, record.partition) not in waiting
        ]
        for record in expired:
            batch.add(record, group)
        if _is_abandoned(group, len(expired), waiting):
            batch.add(GroupRemoved(group.group_id), group)
    batch.send()


def _is_expired(group: Group, record: OffsetCommitted, retention_ms: int, now_ms: int) -> bool:
    base_ms = _base_ms(group, record)
    if base_ms is None:
        return False
    if record.expire_ms != NO_EXPIRY:
        return now_ms >= record.expire_ms
    return now_ms - base_ms >= retention_ms


def _base_ms(group: Group, record: OffsetCommitted) -> int | None:
    """From when the retention of an offset counts; None while it is in use."""
    if group.protocol_type is None:
        return record.commit_ms
    if group.state is State.EMPTY:
        return record.commit_ms if group.state_ms < 0 else group.state_ms
    if (
        group.state is State.STABLE
        and group.is_consumer_group
        and group.subscribed is not None
        and record.topic not in group.subscribed
    ):
        return record.commit_ms
    return None


def _is_abandoned(group: Group, expired_count: int, waiting: Collection[tuple[str, int]]) -> bool:
    return group.state is State.EMPTY and not group.pending and not waiting and expired_count == len(group.offsets)


class _Batch:
    """Tombstones collected into appends of bounded size."""

    def __init__(self, state: ShardState, now_ms: int, effects: Effects) -> None:
        self.state = state
        self.now_ms = now_ms
        self.effects = effects
        self.records: list[Record] = []
        self.groups: dict[str, Group] = {}

    def add(self, record: Record, group: Group) -> None:
        self.records.append(record)
        self.groups[group.group_id] = group
        if len(self.records) >= _RECORDS_PER_APPEND:
            self.send()

    def send(self) -> None:
        if not self.records:
            return
        removed = [self.groups[record.group_id] for record in self.records if type(record) is GroupRemoved]
        ticket = self.state.append(_StoredExpiry(removed, self.records, self.now_ms), self.effects)
        for group in self.groups.values():
            group.last_ticket = ticket
        for group in removed:
            group.is_being_removed = True
        self.records = []
        self.groups = {}


class _StoredExpiry(Pending):
    """Tombstones of expired offsets and groups on their way to the log; refused ones are found by the next check."""

    __slots__ = ("removed",)

    def __init__(self, removed: list[Group], records: list[Record], now_ms: int) -> None:
        super().__init__(records, now_ms)
        self.removed = removed

    def on_stored(self, state: ShardState, now_ms: int, effects: Effects) -> None:
        count = sum(type(record) is OffsetRemoved for record in self.records)
        state.counters.offset_expirations += count
        bury_removed(state, self.removed, now_ms, effects)
        offsets, groups = counted(count, "expired offset"), counted(len(self.removed), "group")
        effects.info("expired", "", f"removed {offsets} and {groups} without members or offsets")

    def on_failed(self, state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        spare_removed(state, self.removed)
        effects.warn("expiry_not_stored", "", f"could not write {len(self.records)} tombstones: {code}")
