"""Expiration: offsets nobody uses any more, and groups without members or offsets (F29).

The retention period counts from when the group became Empty; for simple consumers, and for topics a Stable consumer
group no longer subscribes to, from the commit. A retention time sent with the commit (v2 to v4) replaces all that. An
offset with a commit on its way to the log is left for the next check.
"""

from __future__ import annotations

from collections.abc import Iterator

from seamark.coordinator.effects import Effects
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.timers import arm_expiry
from seamark.coordinator.offsets.sweeps import Sweep, begin_sweep
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import State
from seamark.coordinator.storing.records import NO_EXPIRY, GroupRemoved, OffsetCommitted, OffsetRemoved
from seamark.counts import counted
from seamark.wire.protocol.error_codes import ErrorCode


def fire_expiry_timer(state: ShardState, now_ms: int, effects: Effects) -> None:
    """Begin to check every group, unless the last check is still under way, and arm the next check."""
    arm_expiry(state, now_ms + state.settings.retention_check_interval_ms, effects)
    if not state.is_checking_expiry:
        state.is_checking_expiry = True
        begin_sweep(state, _ExpiryCheck(state), now_ms, effects)


class _ExpiryCheck(Sweep):
    """One check of all groups; tombstones that are refused are found by the next one."""

    def __init__(self, state: ShardState) -> None:
        super().__init__(state)
        self._offsets_removed = 0
        self._groups_removed = 0

    def _walk(self, state: ShardState) -> Iterator[None]:
        retention_ms = state.settings.retention_ms
        for group in list(state.groups.values()):
            if self.is_full:
                yield
            if not self.still_there(group):
                continue
            self.look()
            expired_count = 0
            for record in list(group.offsets.values()):
                if self.is_full:
                    yield
                    if not self.still_there(group):
                        break
                    # Those of the parts before are gone from the group.
                    expired_count = 0
                self.look()
                if _is_expired(group, record, retention_ms, self.now_ms) and self._is_settled(group, record):
                    self.remove(OffsetRemoved(group.group_id, record.topic, record.partition), group)
                    expired_count += 1
            else:
                if self._is_abandoned(group, expired_count):
                    self.remove(GroupRemoved(group.group_id), group)

    def _is_settled(self, group: Group, record: OffsetCommitted) -> bool:
        """Whether the record still is the group's last word on its partition."""
        key = (record.topic, record.partition)
        return group.offsets.get(key) is record and key not in self.unsettled.get(group.group_id, ())

    def _is_abandoned(self, group: Group, expired_count: int) -> bool:
        return (
            group.state is State.EMPTY
            and not group.pending
            and group.group_id not in self.unsettled
            and expired_count == len(group.offsets)
        )

    def on_part_stored(self, offset_count: int, removed: list[Group]) -> None:
        self._state.counters.offset_expirations += offset_count
        self._offsets_removed += offset_count
        self._groups_removed += len(removed)

    def on_finished(self, effects: Effects) -> None:
        self._state.is_checking_expiry = False
        if self._offsets_removed or self._groups_removed:
            offsets, groups = counted(self._offsets_removed, "expired offset"), counted(self._groups_removed, "group")
            effects.info("expired", "", f"removed {offsets} and {groups} without members or offsets")

    def on_stopped(self, code: ErrorCode, effects: Effects) -> None:
        self.on_finished(effects)
        effects.warn("expiry_not_stored", "", f"could not write {len(self.records)} tombstones: {code}")


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
