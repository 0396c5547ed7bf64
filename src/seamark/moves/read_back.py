"""Compares what a store holds with what it should hold, after a change and at any later time.

``unmade`` is the check behind every write; ``verify`` reads both sides of a whole plan and says where they differ from
it. Verifying changes nothing and may be done as often as wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from seamark.client import Offset
from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.moves.batches import group_portions
from seamark.moves.move import GroupMove, PartitionMove, good_offsets
from seamark.moves.move_file import MoveFile
from seamark.moves.sides import Side
from seamark.plans.decisions import describe
from seamark.plans.errors import some
from seamark.plans.plan import Change, is_same
from seamark.stores.contract import GroupOffsets, Outcomes
from seamark.stores.errors import StoreUnavailable
from seamark.topic_partition import TopicPartition


def unmade(changes: Sequence[Change], stored: GroupOffsets, outcomes: Outcomes, failure: SeamarkError | None) -> str:
    """What was not made of a group's changes, as one sentence; empty if all was."""
    committed = good_offsets(stored)
    missing = []
    for change in changes:
        now = committed.get(change.partition)
        if is_same(now, change.after):
            continue
        error = outcomes.get(change.partition) or failure
        why = str(error) if error is not None else "another client set it at the same time"
        missing.append(f"{change.partition} is at {describe(now)}, not at {describe(change.after)}: {why}")
    if not missing:
        return ""
    return f"{len(missing)} of {counted(len(changes), 'offset')} not set: {some(missing)}"


def lost_connection(outcomes: Outcomes) -> SeamarkError | None:
    """The error, if nothing of a group was done because the store did not answer."""
    errors = list(outcomes.values())
    first = errors[0] if errors else None
    return first if all(isinstance(error, StoreUnavailable) for error in errors) else None


class Verified(NamedTuple):
    """One partition as it is now on both sides; ``difference`` is empty where it is as planned."""

    group: str
    to_group: str
    partition: TopicPartition
    source: Offset | None
    target: Offset | None
    difference: str


def verify(plan: MoveFile, source: Side, target: Side) -> Iterator[Verified]:
    """Read both sides back, for every partition of the plan."""
    source.check_is(plan.header.source)
    target.check_is(plan.header.target)
    for portion in group_portions(plan, lambda move: len(move.moves)):
        here = source.read([move.group for move in portion])
        there = target.read([move.to_group for move in portion])
        for move in portion:
            yield from _compared(move, good_offsets(here[move.group]), good_offsets(there[move.to_group]))


def _compared(
    move: GroupMove, here: Mapping[TopicPartition, Offset], there: Mapping[TopicPartition, Offset]
) -> Iterator[Verified]:
    for partition_move in move.moves:
        now = here.get(partition_move.partition), there.get(partition_move.partition)
        yield Verified(
            move.group, move.to_group, partition_move.partition, *now, _difference(move, partition_move, *now)
        )


def _difference(move: GroupMove, partition_move: PartitionMove, source: Offset | None, target: Offset | None) -> str:
    if partition_move.problem or partition_move.after is None:
        return f"not moved: {partition_move.problem}"
    differences = []
    if not is_same(target, partition_move.after):
        moved = is_same(target, partition_move.before)
        differences.append(
            f"not moved{f': {move.problem}' if move.problem else ''}"
            if moved
            else f"the target is at {describe(target)}, not at {describe(partition_move.after)}"
        )
    if not is_same(source, partition_move.source):
        differences.append(f"the source is at {describe(source)}, not at {describe(partition_move.source)}")
    return "; ".join(differences)
