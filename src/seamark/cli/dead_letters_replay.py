"""Putting dead letters back: which ones, where to, and the memory of what was put back already.

The memory is a commit of a group of its own for the dead-letter topic: the first letter that was not put back is its
offset, and those put back beyond are in the done-ahead map of its metadata. So a filter may leave letters out, and
nothing is put back twice. Letters are stored in their topic before they are remembered: a crash in between may repeat
the last few, and loses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.cli.dead_letters_reading import Letter, letters, partitions_of, text_of
from seamark.counts import counted
from seamark.errors import UsageError
from seamark.parallel.dead_letters import MAX_REPLAYS, NotReplayable, Provenance, Replay, replay
from seamark.topic_partition import TopicPartition
from seamark.wire import done_ahead
from seamark.wire.done_ahead import DoneAhead

if TYPE_CHECKING:
    from seamark.client import Consumer, Producer

# Remembered so often: what a crash repeats at most.
_CHUNK = 500


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
    for letter in letters(reader, starts):
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
        return "left out by a filter"
    if limit and len(plan.chosen) >= limit:
        return "beyond --limit"
    try:
        chosen = replay(letter.record.headers, to=to, max_replays=max_replays)
    except NotReplayable:
        return f"put back {counted(letter.provenance.replays, 'time')} already; --max-replays allows more"
    if chosen.topic == letter.record.topic:
        raise UsageError(f"{chosen.topic!r} is the dead-letter topic itself: letters would go round in circles")
    plan.chosen.append((letter, chosen))
    return None


def check_memory(plan: Plan, limit: int = done_ahead.DEFAULT_LENGTH) -> None:
    """Refuse a plan that could not be remembered: UsageError."""
    for partition, (base, done) in _memory(plan, [letter for letter, _ in plan.chosen]).items():
        if done_ahead.encode(base, done, limit).dropped:
            raise UsageError(
                f"what was put back of {partition} would be too scattered to be remembered: "
                "put back fewer at once with --limit, or with a wider filter"
            )


def apply_plan(reader: Consumer, producer: Producer, plan: Plan, on_chunk: Callable[[int], object]) -> int:
    """Put the letters back and remember it; how many were."""
    done: list[Letter] = []
    for start in range(0, len(plan.chosen), _CHUNK):
        chunk = plan.chosen[start : start + _CHUNK]
        sent = [
            producer.send(each.topic, letter.record.value, key=letter.record.key, headers=each.headers)
            for letter, each in chunk
        ]
        error: Exception | None = None
        for (letter, _), delivery in zip(chunk, sent, strict=True):
            try:
                delivery.result()
            except Exception as refused:  # noqa: BLE001 - raised below, after what succeeded is remembered
                error = error or refused
            else:
                done.append(letter)
        _remember(reader, plan, done)
        on_chunk(len(done))
        if error is not None:
            raise error
    return len(done)


def _remember(reader: Consumer, plan: Plan, done: Sequence[Letter]) -> None:
    from seamark.client import Offset

    if done:
        reader.commit(
            {
                partition: Offset(base, done_ahead.encode(base, ahead).text)
                for partition, (base, ahead) in _memory(plan, done).items()
            }
        )


def _memory(plan: Plan, done: Iterable[Letter]) -> Mapping[TopicPartition, tuple[int, list[int]]]:
    """By partition: the first letter that was not put back, and the offsets beyond that were."""
    put_back: dict[TopicPartition, set[int]] = {}
    for letter in done:
        put_back.setdefault(letter.place, set()).add(letter.record.offset)
    memory = {}
    for partition, offsets in put_back.items():
        left = [offset for offset in plan.waiting[partition] if offset not in offsets]
        base = min(left, default=plan.ends[partition])
        memory[partition] = base, sorted(each for each in {*offsets, *plan.known[partition]} if each > base)
    return memory
