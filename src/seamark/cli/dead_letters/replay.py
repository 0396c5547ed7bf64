"""Putting dead letters back: which ones, where to, and the memory of what was put back already.

The memory is a commit of a group of its own for the dead-letter topic: the first letter that was not put back is its
offset, and those put back beyond are in the done-ahead map of its metadata. So a filter may leave letters out, and what
is remembered is not put back again. Letters are stored in their topic before they are remembered, which is at least
once: a crash or a refused commit in between repeats up to ``_CHUNK`` letters, and loses none. While letters are put
back the replay is the only member of the group, so that two replays never work from the same memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.cli.dead_letters.reading import Letter, letters, open_reader, partitions_of, text_of
from seamark.counts import counted
from seamark.errors import SeamarkError, UsageError
from seamark.parallel.core.dead_letters import MAX_REPLAYS, NotReplayable, Provenance, Replay, replay
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead
from seamark.wire.offsets.done_ahead import DoneAhead

if TYPE_CHECKING:
    from seamark.client import Admin, Consumer, Producer

# Remembered so often: what a crash or a refused commit repeats at most.
_CHUNK = 500
_JOIN_S = 60.0
_MOST_BETWEEN_POLLS_MS = 1_800_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters to put back; an empty filter wants all."""

    error: str = ""
    source: str = ""
    key: str = ""
    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, letter: Letter, provenance: Provenance) -> bool:
        if self.error and self.error not in provenance.error_type and self.error not in provenance.error:
            return False
        if self.source and self.source not in (provenance.source.topic, str(provenance.source)):
            return False
        if self.key and text_of(letter.record.key) != self.key:
            return False
        if self.since_ms is not None and provenance.failed_at_ms < self.since_ms:
            return False
        return self.until_ms is None or provenance.failed_at_ms < self.until_ms


@dataclass(slots=True)
class Plan:
    """What is to be put back, in the order of the topic, and why the rest is not."""

    chosen: list[tuple[Letter, Replay]] = field(default_factory=list)
    # By the sentence: how many, and the first of them.
    left_out: dict[str, int] = field(default_factory=dict)
    # By partition: offsets that were put back before, and offsets of letters that are there and were not.
    known: dict[TopicPartition, DoneAhead] = field(default_factory=dict)
    waiting: dict[TopicPartition, list[int]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)


class NotRemembered(SeamarkError):
    """Letters were put back, and the group does not know it."""


class GroupInUse(SeamarkError):
    """The group that is to remember has other members: another replay, most likely."""


@contextmanager
def only_member(config: Mapping[str, str], group: str, topic: str) -> Iterator[Consumer]:
    """A member of the group, for commits, as long as it lasts; GroupInUse if it is not the only one.

    Who joins later finds this one, so of several at the same time at most one gets through.
    """
    from seamark.client import Admin

    # A member of an empty group has to wait for group.initial.rebalance.delay.ms, and it polls only now and then.
    patient = {**config, "max.poll.interval.ms": str(_MOST_BETWEEN_POLLS_MS)}
    with Admin(config) as admin, open_reader(patient, group) as member:
        _check_members(admin, group, most=0)
        member.subscribe([topic])
        end = time.monotonic() + _JOIN_S
        while not member.assignment():
            member.poll(0.1, max_records=1)
            _check_members(admin, group, most=1)
            if time.monotonic() > end:
                raise GroupInUse(f"group {group!r} could not be joined within {_JOIN_S:.0f} s")
        member.pause(member.assignment())
        _check_members(admin, group, most=1)
        yield member


def _check_members(admin: Admin, group: str, *, most: int) -> None:
    from seamark.client.errors import BrokerError
    from seamark.wire.protocol.error_codes import ErrorCode

    described = admin.describe_groups([group])
    error = described.errors.get(group)
    if isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return
    members = len(described[group].members)
    if members > most:
        raise GroupInUse(
            f"group {group!r}, which keeps track of replays, has {counted(members - most, 'other member')}. "
            "Another replay is running, or was killed less than a session timeout (45 s) ago. Nothing was replayed; "
            "run one replay at a time"
        )


def make_plan(
    reader: Consumer, topic: str, wanted: Wanted, *, to: str | None, limit: int, max_replays: int = MAX_REPLAYS
) -> Plan:
    """Read the topic from what is remembered on."""
    plan = Plan()
    partitions = partitions_of(reader, topic)
    starts = {}
    for partition, committed in reader.committed(partitions).items():
        starts[partition] = committed.offset if committed is not None else 0
        metadata = committed.metadata if committed is not None else ""
        plan.known[partition] = done_ahead.decode(metadata, starts[partition]) or DoneAhead(starts[partition])
        plan.waiting[partition] = []
    plan.ends = {partition: max(end, starts[partition]) for partition, end in reader.end_offsets(partitions).items()}

    def leave_out(partition: TopicPartition, offset: int) -> None:
        # It stays among those that were not put back: a reader with higher limits may still get at it.
        plan.waiting[partition].append(offset)
        reason = "in a batch that cannot be read"
        plan.left_out[reason] = plan.left_out.get(reason, 0) + 1

    for letter in letters(reader, starts, leave_out):
        if letter.record.offset in plan.known[letter.place] or letter.record.offset >= plan.ends[letter.place]:
            continue
        plan.waiting[letter.place].append(letter.record.offset)
        reason = _choose(plan, letter, wanted, to, limit, max_replays)
        if reason is not None:
            plan.left_out[reason] = plan.left_out.get(reason, 0) + 1
    return plan


def _choose(plan: Plan, letter: Letter, wanted: Wanted, to: str | None, limit: int, max_replays: int) -> str | None:
    """Take the letter into the plan, or say why not."""
    if letter.provenance is None:
        return "not written as a dead letter by Seamark"
    if not wanted.has(letter, letter.provenance):
        return "excluded by a filter"
    if limit and len(plan.chosen) >= limit:
        return "beyond --limit"
    try:
        chosen = replay(letter.record.headers, to=to, max_replays=max_replays)
    except NotReplayable:
        return f"replayed {counted(letter.provenance.replays, 'time')} already; --max-replays allows more"
    if chosen.topic == letter.record.topic:
        raise UsageError(f"{chosen.topic!r} is the dead-letter topic itself: the record would come back to it")
    plan.chosen.append((letter, chosen))
    return None


def check_memory(plan: Plan, limit: int = done_ahead.DEFAULT_LENGTH) -> None:
    """Refuse a plan that could not be remembered: UsageError."""
    for partition, (base, done) in _memory(plan, [letter for letter, _ in plan.chosen]).items():
        if done_ahead.encode(base, done, limit).dropped:
            raise UsageError(
                f"the replayed offsets of {partition} are too scattered to be recorded: "
                "replay fewer at once with --limit, or use a wider filter"
            )


def apply_plan(
    member: Consumer, producer: Producer, plan: Plan, on_chunk: Callable[[int, bool], object], *, group: str
) -> int:
    """Put the letters back and remember it in ``group``, of which ``member`` is the only one; how many were.

    ``on_chunk`` is called with how many were put back so far, and whether all of them are remembered.
    """
    done: list[Letter] = []
    for start in range(0, len(plan.chosen), _CHUNK):
        chunk = plan.chosen[start : start + _CHUNK]
        sent = [
            producer.send(target.topic, letter.record.value, key=letter.record.key, headers=target.headers)
            for letter, target in chunk
        ]
        error: Exception | None = None
        for (letter, _), delivery in zip(chunk, sent, strict=True):
            try:
                delivery.result()
            except Exception as refused:  # noqa: BLE001 - raised below, after what succeeded is remembered
                error = error or refused
            else:
                done.append(letter)
        on_chunk(len(done), False)
        _remember(member, plan, done, group)
        on_chunk(len(done), True)
        if error is not None:
            raise error
    return len(done)


def _remember(member: Consumer, plan: Plan, done: Sequence[Letter], group: str) -> None:
    from seamark.client import Offset

    if not done:
        return
    memory = {
        partition: Offset(base, done_ahead.encode(base, ahead).text)
        for partition, (base, ahead) in _memory(plan, done).items()
    }
    try:
        # Polled so that it stays a member.
        member.poll(0)
        member.commit(memory)
    except SeamarkError as error:
        raise NotRemembered(
            f"{counted(len(done), 'record')} replayed, but the commit to group {group!r} that records the last of "
            f"them was refused: {error}. The next replay repeats what the group has not recorded"
        ) from error


def _memory(plan: Plan, done: Iterable[Letter]) -> Mapping[TopicPartition, tuple[int, list[int]]]:
    """By partition: the first letter that was not put back, and the offsets beyond that were."""
    put_back: dict[TopicPartition, set[int]] = {}
    for letter in done:
        put_back.setdefault(letter.place, set()).add(letter.record.offset)
    memory = {}
    for partition, offsets in put_back.items():
        left = [offset for offset in plan.waiting[partition] if offset not in offsets]
        base = min(left, default=plan.ends[partition])
        memory[partition] = base, sorted(offset for offset in {*offsets, *plan.known[partition]} if offset > base)
    return memory
