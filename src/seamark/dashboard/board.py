"""What one look says, as the pages show it: a row per group, the state of each partition, what happened since the last.

Made once per look, on the thread that looked, and never changed afterwards: a page of any number of viewers reads the
same board.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from seamark.counts import counted
from seamark.dashboard.wording import name_text
from seamark.monitor.history import Event
from seamark.monitor.lag_report import furthest, group_remark, remark_of
from seamark.monitor.poller import Look
from seamark.monitor.scan import GroupView, PartitionView
from seamark.monitor.watching import Watching
from seamark.rules.lag import loss_text
from seamark.rules.status import Status, worst
from seamark.rules.time_lag import TimeLag
from seamark.topic_partition import TopicPartition

# These mean that somebody should look; SLOW and NO_MEMBERS are told on the page only.
TROUBLES = frozenset({Status.STALLED, Status.STOPPED, Status.REWOUND, Status.LOST, Status.BEYOND})
_MOVING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_NAMED = 3

_EXPLAINED = {
    Status.NO_MEMBERS: "there are unread records, and the group has no members at the moment",
    Status.SLOW: "records are written faster than the group reads them",
    Status.STALLED: "there are unread records and the group has members, but its offset does not move",
    Status.STOPPED: "there are unread records, but the group has no members",
    Status.REWOUND: "its offset went back and has not returned to where it was",
}
_LOSS_CAUSES = {
    Status.LOST: "removed by the topic's retention or by DeleteRecords",
    Status.BEYOND: "the topic was recreated, or a reset was wrong",
}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """``catches_up`` in seconds: infinite if it does not, None if that cannot be told."""

    status: Status
    catches_up: float | None


_States = Mapping[tuple[str, TopicPartition], PartitionState]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group as the list shows it; ``blocked`` counts partitions whose parallel consumer is done beyond a record."""

    name: str
    type: str
    state: str
    members: int
    partitions: int
    lag: int | None
    lost: int
    unfinished: int | None
    behind: TimeLag | None
    status: Status
    blocked: int
    remark: str


@dataclass(frozen=True, slots=True)
class Board:
    look: Look
    rows: tuple[GroupRow, ...]
    views: Mapping[str, GroupView]
    states: _States
    events: tuple[Event, ...] = ()
    # The worst first; how many groups are in each state.
    counts: Mapping[Status, int] = field(default_factory=dict)


def make_board(look: Look, watching: Watching, before: Board | None) -> Board:
    states: dict[tuple[str, TopicPartition], PartitionState] = {}
    rows: list[GroupRow] = []
    events: list[Event] = []
    counts: dict[Status, int] = {}
    views: dict[str, GroupView] = {}
    for view in look.scan.groups:
        group = view.group_id
        views[group] = view
        for partition in view.partitions:
            catches_up, _ = watching.outlook(group, *partition.partition)
            status = watching.status(group, partition.partition)
            if partition.bounds.error and status not in TROUBLES:
                # What was seen of it before does not say that it is well now.
                status, catches_up = Status.UNKNOWN, None
            states[group, partition.partition] = PartitionState(status, catches_up)
        row = _row(view, look, states)
        rows.append(row)
        counts[row.status] = counts.get(row.status, 0) + 1
        if before is not None:
            events.extend(_events(view, states, before, look.at_ms))
    rows.extend(
        GroupRow(name, "", "", 0, 0, None, 0, None, None, Status.UNKNOWN, 0, str(error))
        for name, error in sorted(look.scan.failed.items())
    )
    if look.scan.failed:
        counts[Status.UNKNOWN] = counts.get(Status.UNKNOWN, 0) + len(look.scan.failed)
    return Board(look, tuple(rows), views, states, tuple(events), counts)


def findings(board: Board, group: str) -> Iterator[tuple[TopicPartition, Status, str]]:
    """What is wrong with a group, partition by partition, as sentences."""
    for partition in board.views[group].partitions:
        status = board.states[group, partition.partition].status
        if loss := loss_text(partition.lag):
            yield partition.partition, status, f"{loss}: {_LOSS_CAUSES[status]}" if status in _LOSS_CAUSES else loss
        elif status in _EXPLAINED:
            yield partition.partition, status, _EXPLAINED[status]
        elif partition.bounds.error:
            yield partition.partition, Status.UNKNOWN, remark_of(partition)


def is_blocked(view: PartitionView) -> bool:
    """Whether a parallel consumer has finished records beyond one that it has not."""
    return view.lag.done_ahead > 0


def _row(view: GroupView, look: Look, states: _States) -> GroupRow:
    description = view.description
    group = view.group_id
    status = worst(states[group, partition.partition].status for partition in view.partitions)
    if view.error:
        status = Status.UNKNOWN
    elif not view.partitions:
        status = Status.OK
    return GroupRow(
        name=group,
        type=description.type,
        state=description.state,
        members=len(description.members),
        partitions=len(view.partitions),
        lag=view.records_behind,
        lost=view.lost,
        unfinished=view.unfinished,
        behind=furthest(look.times.get((group, partition.partition)) for partition in view.partitions),
        status=status,
        blocked=sum(map(is_blocked, view.partitions)),
        remark=group_remark(view),
    )


def _events(view: GroupView, states: _States, before: Board, at_ms: int) -> Iterator[Event]:
    known = before.views.get(view.group_id)
    if known is None:
        yield Event(view.group_id, at_ms, "appeared", "the group was first seen")
        return
    if moved := _rebalance(known, view):
        yield Event(view.group_id, at_ms, "rebalance", moved)
    old = {partition.partition: partition for partition in known.partitions}
    back: list[str] = []
    turned: dict[tuple[Status, Status], list[str]] = {}
    for partition in view.partitions:
        was, now = before.states.get((view.group_id, partition.partition)), states[view.group_id, partition.partition]
        if was is None:
            continue
        earlier = old[partition.partition].committed
        if earlier and partition.committed and partition.committed.offset < earlier.offset:
            back.append(f"{partition.partition} from {earlier.offset} to {partition.committed.offset}")
        if now.status is not was.status and (now.status in TROUBLES or was.status in TROUBLES):
            turned.setdefault((was.status, now.status), []).append(str(partition.partition))
    if back:
        yield Event(view.group_id, at_ms, "rewind", f"offsets went back: {_named(back)}")
    for (was_status, now_status), names in turned.items():
        text = f"{now_status.value}, before that {was_status.value}: {_named(names)}"
        yield Event(view.group_id, at_ms, "status", text)


def _rebalance(before: GroupView, now: GroupView) -> str:
    """What changed among the members, or empty."""
    old = {member.member_id: member for member in before.description.members}
    new = {member.member_id: member for member in now.description.members}
    parts = []
    if joined := [new[member_id].client_id or member_id for member_id in new if member_id not in old]:
        parts.append(f"joined: {_named(joined)}")
    if left := [old[member_id].client_id or member_id for member_id in old if member_id not in new]:
        parts.append(f"left: {_named(left)}")
    moved = sum(
        len({*member.assignment} - {*old[member_id].assignment})
        for member_id, member in new.items()
        if member_id in old
    )
    if moved:
        parts.append(f"{counted(moved, 'partition')} moved")
    if not parts and now.description.state in _MOVING and before.description.state not in _MOVING:
        parts.append(f"the group is {now.description.state}")
    if not parts and now.description.epoch != before.description.epoch:
        parts.append(f"epoch {before.description.epoch} to {now.description.epoch}")
    return "; ".join(parts)


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED
    # Kept with the history, which must stay small whatever clients are called.
    return ", ".join(name_text(name) for name in names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
