"""Bugs of one line, written on purpose: each breaks one rule that a reviewer could easily break by accident.

``old`` stands in its file exactly once; where the line alone would not, ``after`` is the line before it.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """Replace ``old`` by ``new`` in a file below src/seamark."""

    file: str
    old: str
    new: str
    why: str
    after: str = ""


BUGS = (
    Bug(
        "coordinator/offsets/commits.py",
        "    if generation != group.generation:",
        "    if generation > group.generation:",
        "commits of an old generation are accepted",
    ),
    Bug(
        "coordinator/membership/groups.py",
        "            if current != member_id:",
        "            if current is member_id and member_id not in self.members:",
        "a superseded static member is not fenced",
    ),
    Bug(
        "coordinator/membership/groups.py",
        "        return _NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID",
        "        return _NONE if self.members else ErrorCode.UNKNOWN_MEMBER_ID",
        "a member that is gone is taken for one of the group",
    ),
    Bug(
        "coordinator/offsets/commits.py",
        "    group.last_ticket = state.append(_StoredCommit(group, records, token, reply, rejected, now_ms), effects)",
        "    group.last_ticket = state.append(_StoredCommit(group, records, token, reply, rejected, now_ms), effects); "
        "group.offsets.update({(r.topic, r.partition): r for r in records})",
        "offsets are visible before they are stored",
    ),
    Bug(
        "coordinator/offsets/deletions.py",
        "    keys += [key for key in unsettled if key not in group.offsets]",
        "    keys += [key for key in unsettled if key not in group.offsets][:0]",
        "an offset whose commit is under way outlives the tombstones of its group",
    ),
    Bug(
        "coordinator/membership/rebalancing.py",
        "    silent = [member for member in group.members.values() "
        "if member.join_token is None and not member.is_static]",
        "    silent = [member for member in group.members.values() if member.join_token is None and member.is_new]",
        "dynamic members that did not rejoin stay",
    ),
    Bug(
        "coordinator/membership/syncing.py",
        "    if group.state is State.STABLE:",
        "    if group.state is State.STABLE or group.sync_ticket is not None:",
        "a SyncGroup is answered before the assignment is stored",
    ),
    Bug(
        "coordinator/storing/settling.py",
        "    if ticket != state.oldest_ticket:",
        "    if ticket < state.oldest_ticket:",
        "acknowledgements are applied in the order they come",
    ),
    Bug(
        "coordinator/offsets/expiry.py",
        "        return record.commit_ms if group.state_ms < 0 else group.state_ms",
        "        return record.commit_ms",
        "retention counts from the commit instead of from the group's emptiness",
    ),
    Bug(
        "coordinator/offsets/expiry.py",
        "        return group.offsets.get(key) is record and key not in self.unsettled.get(group.group_id, ())",
        "        return group.offsets.get(key) is record",
        "an offset expires while its next commit is under way",
    ),
    Bug(
        "coordinator/membership/heartbeats.py",
        "    if command.generation != group.generation:",
        "    if command.generation < 0:",
        "heartbeats of an old generation keep a member alive",
    ),
    Bug(
        "coordinator/offsets/commits.py",
        "    restart_session(state, group, group.members[command.member_id], now_ms, effects)",
        "    pass",
        "an accepted commit is no sign of life",
    ),
    Bug(
        "coordinator/storing/loading.py",
        "            answer_sync(member, SyncReply(code), effects)",
        "            member.sync_token = None",
        "a waiting SyncGroup is forgotten at an unload",
    ),
    Bug(
        "coordinator/membership/groups.py",
        "        return self.waiting_joins == len(self.members) and not self.pending",
        "        return self.waiting_joins == len(self.members)",
        "the join phase does not wait for pending members",
    ),
    Bug(
        "coordinator/membership/groups.py",
        "        self.generation = self.generation + 1 if self.generation < _LAST_GENERATION else 0",
        "        self.generation = self.generation if self.generation else 1",
        "a new generation has the number of the old one",
    ),
    Bug(
        "coordinator/states.py",
        "    State.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,",
        "    State.COMPLETING: ErrorCode.NONE,",
        "commits are accepted between the end of the joins and the assignment",
    ),
    Bug(
        "coordinator/membership/static_members.py",
        "    answer_join(group, member, JoinReply(ErrorCode.FENCED_INSTANCE_ID, before.member_id), effects)",
        "    pass",
        "the waiting join of a replaced static member is never answered",
    ),
    Bug(
        "coordinator/offsets/fetches.py",
        "    if command.require_stable and group is not None:",
        "    if command.require_stable and group is None:",
        "a stable fetch does not wait",
    ),
    Bug(
        "coordinator/storing/replay.py",
        "                group.offsets.pop((record.topic, record.partition), None)",
        "                group.offsets.pop((record.topic, record.partition + 1), None)",
        "a tombstone removes another partition's offset",
    ),
    Bug(
        "storage/log.py",
        "        self._durable_end = max(self._durable_end, pending.end_offset)",
        "        self._durable_end = self._log_end",
        "what was written during a sync counts as synced",
    ),
    Bug(
        "storage/log.py",
        "            active.file.truncate(active.size)",
        "            active.file.size()",
        "a failed write is not undone",
    ),
    Bug(
        "storage/recovery/checkpoint.py",
        "        file.sync()",
        "        file.size()",
        "a checkpoint takes its name before its bytes are durable",
    ),
    Bug(
        "storage/log.py",
        "        synced = [segment for segment in self._segments.sealed if segment not in self._unsynced]",
        "        synced = [segment for segment in self._segments.sealed if segment is not self._unsynced]",
        "compaction drops a value in favour of one that is not durable",
    ),
    Bug(
        "storage/compaction/survivors.py",
        "                yield (yield from self._rebuild(content, position, stays))",
        "                yield content[position:end], False",
        "compaction keeps an old value of an already compacted segment behind a newer one",
    ),
    Bug(
        "storage/segments/scan.py",
        "                    check_crc(chunk, position, header)",
        "                    header.size_bytes",
        "recovery takes damaged batches for sound ones",
    ),
    Bug(
        "storage/log.py",
        "                    self._check_writable()",
        "                    self._refusal()",
        "a compaction changes the files of a log that was opened again",
        after="                    # Once writes are stopped another log may have the files, and they are not ours "
        "to change.",
    ),
    Bug(
        "broker/groups/appends.py",
        "            target.when_acknowledged(end_offset, settle)",
        "            settle(None)",
        "an append counts as stored when it is written",
    ),
    Bug(
        "broker/groups/appends.py",
        "            self._report(partition, tickets, _NONE if error is None else code_of(error))",
        "            self._report(partition, tickets, _NONE)",
        "the appends of a batch that failed are reported as stored",
    ),
    Bug(
        "broker/groups/appends.py",
        "                    batch, tickets = GroupBatch(limit), []",
        "                    batch = GroupBatch(limit)",
        "the appends of a full batch are reported once more with the next",
    ),
    Bug(
        "broker/groups/appends.py",
        "        self._is_scheduled = False",
        "        self._is_scheduled = True",
        "only the first turn of the loop writes what was collected",
        after="    def _run(self) -> None:",
    ),
    Bug(
        "broker/groups/appends.py",
        "                end_offset = base_offset + batch.count",
        "                end_offset = base_offset + batch.count - 1",
        "a batch counts as stored before its last record is",
    ),
    Bug(
        "broker/groups/batches.py",
        "            return self.add_again(template, records.offsets, records.commit_ms)",
        "            return self.add_again(template, sorted(records.offsets), records.commit_ms)",
        "the offsets of a repeated commit are stored in another order",
    ),
    Bug(
        "broker/groups/loading.py",
        "            offset = max(offset, outline.next_offset)",
        "            offset = max(offset, outline.next_offset + 1)",
        "a load leaves out a batch behind the end of its buffer",
    ),
    Bug(
        "broker/groups/loading.py",
        "            self._current[1].close()",
        "            return",
        "a load under way goes on after the partition was given up",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        if coordinator is not self.coordinator:",
        "        if (coordinator := self.coordinator) is None:",
        "the outcome of a write is reported to the coordinator of the next life",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        self._appends.drop(partition)",
        "        self._appends",
        "what was collected is written after leadership was lost and won again",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        self._loads.drop(partition)",
        "        self._loads",
        "a load that waits goes on after the partition was given up",
    ),
    Bug(
        "broker/groups/runtime.py",
        "            if self._armed_ms <= earliest_ms:",
        "            if self._armed_ms:",
        "the loop's timer stays armed for a later deadline",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        if now_ms > self._told_ms:",
        "        if now_ms > self._told_ms or now_ms % 7 == 0 and (now_ms := now_ms - 9):",
        "the coordinator is told a time before the one that it knows",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        self._timers.move(by_ms)",
        "        self._timers",
        "deadlines are not moved with a clock that was set ahead",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        self._give_up(led.index)",
        "        return",
        "a log that was opened again is written to and not loaded",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        for ticket in tickets:",
        "        for ticket in tickets[:1]:",
        "only the first append of a batch that failed is reported",
    ),
    Bug(
        "broker/groups/runtime.py",
        "        if led.high_watermark < led.log_end:",
        "        if led.high_watermark < 0:",
        "groups show what the former leader has written and not synced",
    ),
    Bug(
        "broker/groups/timers.py",
        "            del self._keys[armed[1]]",
        "            self._deadlines",
        "a timer that was cancelled comes up",
    ),
    Bug(
        "broker/groups/timers.py",
        "            if ahead > _JUMP_MS:",
        "            if abs(ahead) > _JUMP_MS:",
        "the clock goes back with that of the machine",
    ),
    Bug(
        "broker/log/partition.py",
        "        if self.log.acknowledged_end >= end_offset:",
        "        if self.log.log_end >= end_offset:",
        "what is written counts as stored where it should be synced first",
    ),
    Bug(
        "broker/log/storage.py",
        "            if error is not None or end_offset <= end:",
        "            if error is not None or end_offset <= partition.log.log_end:",
        "a sync acknowledges what was written after it began",
    ),
)
