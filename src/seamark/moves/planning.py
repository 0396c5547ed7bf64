"""Makes the plan of a move: what each group has on the source, where that points on the target, what stands against it.

Nothing is changed. Groups come in portions, so any number of them can be planned in the same memory. A problem of one
partition or one group is written into the plan and never stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from seamark.client import Offset
from seamark.counts import counted
from seamark.errors import UsageError
from seamark.moves.aims import Aim, Aiming, Aims
from seamark.moves.batches import group_portions
from seamark.moves.move import GroupMove, How, PartitionMove, as_offset, good_offsets
from seamark.moves.sides import Side
from seamark.plans.progress import count, done_beyond
from seamark.portions import portions
from seamark.stores.contract import BadOffset, GroupOffsets
from seamark.topic_partition import TopicPartition

# Portions of groups are read before it is known how many offsets they have.
_GROUPS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user decided; ``names_are_given`` says that a group without offsets is worth a word.

    ``sources`` are the groups to be moved where the target is the same store: none of them may be a target as well.
    """

    to_group: str = "{group}"
    topics: frozenset[str] = frozenset()
    keep_larger: bool = False
    allow_active_source: bool = False
    names_are_given: bool = False
    sources: frozenset[str] = frozenset()


def check_names(choices: Choices, group_count: int | None, *, same_store: bool) -> None:
    """UsageError if two groups would become one, or a group itself; None stands for any number of groups."""
    has_place = "{group}" in choices.to_group
    if not has_place and group_count != 1:
        raise UsageError(
            f"--to-group {choices.to_group!r} is one name for several groups: use {{group}} for the old name"
        )
    if same_store and choices.to_group == "{group}":
        raise UsageError("source and target are the same groups: give --to-group")


def plan_groups(
    source: Side, target: Side, groups: Iterable[str], aiming: Aiming, choices: Choices
) -> Iterator[GroupMove]:
    """The groups as they would be moved, in the order given."""
    for names in portions(groups, _GROUPS_AT_ONCE):
        # What is stored is read after it is known who may be changing it.
        obstacles = source.obstacles(names)
        renamed = {name: choices.to_group.replace("{group}", name) for name in names}
        not_there = target.obstacles(renamed.values())
        for portion in group_portions(source.store.read_many(names), lambda item: len(item[1])):
            chosen = {group: _chosen(offsets, choices.topics) for group, offsets in portion}
            aims = aiming.aims(_wanted(chosen))
            before = target.read([renamed[group] for group in chosen])
            for group, offsets in chosen.items():
                if not offsets and not offsets.strays and not choices.names_are_given:
                    continue
                yield _planned(
                    group,
                    renamed[group],
                    offsets,
                    aims,
                    before[renamed[group]],
                    _obstacle(group, renamed[group], offsets, obstacles, not_there, source, choices),
                    target.store.keeps_metadata,
                    choices,
                )


def _chosen(offsets: GroupOffsets, topics: frozenset[str]) -> GroupOffsets:
    if not topics:
        return offsets
    strays = [stray for stray in offsets.strays if any(f"/{topic}/" in stray.path for topic in topics)]
    return GroupOffsets(
        {partition: offset for partition, offset in offsets.items() if partition.topic in topics}, strays
    )


def _wanted(chosen: Mapping[str, GroupOffsets]) -> dict[TopicPartition, set[int]]:
    wanted: dict[TopicPartition, set[int]] = {}
    for offsets in chosen.values():
        for partition, stored in offsets.good.items():
            wanted.setdefault(partition, set()).add(stored.offset)
    return wanted


def _obstacle(
    group: str,
    to_group: str,
    offsets: GroupOffsets,
    here: Mapping[str, str],
    there: Mapping[str, str],
    source: Side,
    choices: Choices,
) -> str:
    if not offsets and not offsets.strays:
        return f"group {group!r} has no offsets in {source.store.name}"
    if to_group in choices.sources:
        return f"group {to_group!r} is also a source of this move: move it first, separately"
    if to_group in there:
        return there[to_group]
    return "" if choices.allow_active_source else here.get(group, "")


def _planned(
    group: str,
    to_group: str,
    offsets: GroupOffsets,
    aims: Aims,
    before: GroupOffsets,
    obstacle: str,
    keeps_metadata: bool,
    choices: Choices,
) -> GroupMove:
    there = good_offsets(before)
    moves = []
    for partition in sorted(offsets):
        stored = offsets[partition]
        already = before.get(partition)
        if isinstance(stored, BadOffset):
            moves.append(PartitionMove(partition, None, there.get(partition), None, problem=str(stored)))
        elif isinstance(already, BadOffset):
            moves.append(PartitionMove(partition, as_offset(stored), None, None, problem=str(already)))
        else:
            aim = aims[partition, stored.offset]
            moves.append(_move(partition, as_offset(stored), there.get(partition), aim, keeps_metadata, choices))
    return GroupMove(group, to_group, tuple(moves), obstacle, tuple(map(str, offsets.strays)))


def _move(
    partition: TopicPartition,
    source: Offset,
    before: Offset | None,
    aim: Aim,
    keeps_metadata: bool,
    choices: Choices,
) -> PartitionMove:
    if aim.problem or aim.offset is None:
        return PartitionMove(partition, source, before, None, problem=aim.problem)
    if before is not None and before.offset > aim.offset and choices.keep_larger:
        note = f"the target is ahead, at {before.offset}, and is kept"
        return PartitionMove(partition, source, before, before, How.KEPT, note, repeated=0)
    notes = [aim.note] if aim.note else []
    if before is not None and before.offset > aim.offset:
        notes.append(f"rewound by {before.offset - aim.offset}")
    text = source.metadata if keeps_metadata and aim.keeps_text else ""
    repeated = aim.repeated
    if source.metadata and not text:
        notes.append("its metadata is dropped")
        if ahead := count(done_beyond(source)):
            notes.append(f"with it the record of {counted(ahead, 'record')} done beyond the offset, which are repeated")
            repeated = _with(aim, ahead)
    epoch = source.leader_epoch if keeps_metadata and aim.keeps_epoch else -1
    after = Offset(aim.offset, text, epoch)
    return PartitionMove(partition, source, before, after, aim.how, "; ".join(notes), repeated=repeated)


def _with(aim: Aim, ahead: int) -> int | None:
    """How many records are repeated if ``ahead`` that are done beyond the offset are among them."""
    if aim.how == How.SAME_LOG:
        return ahead
    return aim.repeated if aim.repeated is None or aim.repeats_all else aim.repeated + ahead
