"""Each promise is kept by a check that can fail: a core broken on purpose does not live through a few lifetimes."""

import pytest

from seamark.coordinator import shard_state
from seamark.coordinator.membership import rebalancing, static_members, syncing
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.offsets import commits
from seamark.coordinator.storing import replay, settling
from seamark.simulation import LifetimeFailed, run_lifetime
from seamark.storage import log
from seamark.storage.compaction import compaction
from seamark.storage.segments import segment
from seamark.wire.protocol.error_codes import ErrorCode


def accept_anybody(monkeypatch):
    monkeypatch.setattr(commits, "_refusal", lambda *_: ErrorCode.NONE)


def fence_nobody(monkeypatch):
    monkeypatch.setattr(
        Group,
        "refusal_of",
        lambda group, member_id, instance_id: (
            ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
        ),
    )
    monkeypatch.setattr(static_members, "_take_identity", lambda state, group, member, new_id, effects: None)


def reply_before_stored(monkeypatch):
    original = commits.commit

    def commit(state, command, token, now_ms, effects):
        original(state, command, token, now_ms, effects)
        if effects.appends:
            waiting = state.in_flight[effects.appends[0].ticket]
            effects.replies.append((token, waiting.reply))
            waiting.is_late = True

    from seamark.coordinator import commands, shard

    monkeypatch.setitem(shard._RULES, commands.CommitOffsets, commit)


def show_before_stored(monkeypatch):
    original = shard_state.ShardState.append

    def append(state, waiting, effects):
        replay.replay(state.groups, waiting.records)
        return original(state, waiting, effects)

    monkeypatch.setattr(shard_state.ShardState, "append", append)


def answer_twice(monkeypatch):
    def answer(member, reply, effects):
        if member.sync_token is not None:
            effects.replies.append((member.sync_token, reply))
            effects.replies.append((member.sync_token, reply))
            member.sync_token = None

    monkeypatch.setattr(rebalancing, "answer_sync", answer)


def forget_a_waiting_sync(monkeypatch):
    def wait(member, token, effects):
        if member.sync_token is None:
            member.sync_token = token

    monkeypatch.setattr(syncing, "_wait", wait)


def forget_records(monkeypatch):
    original = settling.replay
    monkeypatch.setattr(settling, "replay", lambda groups, records: original(groups, list(records)[1:]))


def keep_old_generation(monkeypatch):
    original = Group.next_generation

    def next_generation(group, now_ms):
        original(group, now_ms)
        group.generation = max(group.generation - 1, 1)

    monkeypatch.setattr(Group, "next_generation", next_generation)


def never_sync(monkeypatch):
    monkeypatch.setattr("seamark.storage.sync.PendingSync.run", lambda pending: None)


def never_sync_files_that_were_given_up(monkeypatch):
    monkeypatch.setattr(segment.Segment, "_sync_by_name", lambda segment: None)


def compact_away(monkeypatch):
    monkeypatch.setattr(
        compaction.Survivors, "of_dirty", lambda survivors, content: iter(((b"", True),) if content else ())
    )


def lose_an_append(monkeypatch):
    original = log.Log._write
    count = 0

    def write(self, *arguments):
        nonlocal count
        count += 1
        original(self, *arguments)
        if count % 20 == 0 and self._segments.active.file is not None:
            self._segments.active.file.truncate(max(0, self._segments.active.size - 1))

    monkeypatch.setattr(log.Log, "_write", write)


@pytest.mark.parametrize(
    ("scenario", "break_it"),
    [
        ("zombies", accept_anybody),
        ("static-members", fence_nobody),
        ("calm", reply_before_stored),
        ("bad-disk", show_before_stored),
        ("calm", answer_twice),
        ("bad-network", forget_a_waiting_sync),
        ("calm", forget_records),
        ("calm", keep_old_generation),
        ("commit-durability", never_sync),
        ("commit-durability", never_sync_files_that_were_given_up),
        ("random", compact_away),
        ("crashes", lose_an_append),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_core_is_caught(monkeypatch, scenario, break_it):
    def run_some():
        for seed in range(60):
            run_lifetime(seed, scenario)

    break_it(monkeypatch)
    with pytest.raises(LifetimeFailed) as caught:
        run_some()
    assert caught.value.transcript
    assert caught.value.step > 0
