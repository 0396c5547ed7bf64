"""Going back in time with a lake: what groups had committed then, and the plan that takes them there.

Offsets that a group has now but had not then are left as they are, and that is said: taking them away would leave the
choice to the consumer's reset policy. An offset gets the metadata back that was stored with it; one that its log does
not hold any more is refused, as with every reset, unless the nearest end of the log was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from seamark.cli.audit import spark as audit_spark
from seamark.cli.options.plan_workflow import make_plan
from seamark.cli.show.terminal_text import say
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from seamark.client import Admin, Offset, TopicPartition
    from seamark.plans import ClusterState, Plan

    Remembered = Mapping[str, Mapping[TopicPartition, Offset]]


def offsets_in_lake(lake: str, at_ms: int, groups: list[str] | None) -> dict[str, dict[TopicPartition, Offset]]:
    """The offsets that held at a time, of these groups or of all; groups that had none are left out."""
    audit_spark.require_spark()
    from seamark.client import Offset, TopicPartition
    from seamark.spark.lake import Lake, as_of

    opened = Lake.open(lake)
    offsets_of: dict[str, dict[TopicPartition, Offset]] = {}
    with audit_spark.spark_session("seamark audit as-of", quick=True) as spark:
        for row in as_of(spark, opened, at_ms, groups).toLocalIterator():
            epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
            offset = Offset(row["offset"], row["metadata"] or "", epoch)
            offsets_of.setdefault(row["group"], {})[TopicPartition(row["topic"], row["partition"])] = offset
    return offsets_of


def state_to_go_there(admin: Admin, groups: Iterable[str], remembered: Remembered) -> ClusterState:
    """What the cluster holds of the partitions that the groups have now, and of those that they had then."""
    from seamark.plans import read_state

    names = list(dict.fromkeys(groups))
    state = read_state(admin, dict.fromkeys(names, ()))
    then = {name: set(remembered.get(name, ())) for name in names}
    if all(then[name] <= set(state.committed.get(name, ())) for name in names):
        return state
    return read_state(admin, {name: {*then[name], *state.committed.get(name, ())} for name in names})


def plan_to_go_there(
    admin: Admin, at: str, at_ms: int, remembered: Remembered, *, clamp: bool, outside: bool
) -> tuple[Plan, ClusterState]:
    """The plan, and the state it was made from; what is left out or clamped is said on standard error."""
    from seamark.monitor.targets import Target, aim

    state = state_to_go_there(admin, remembered, remembered)
    wanted: dict[str, dict[TopicPartition, Offset | int | None]] = {}
    for group, offsets in remembered.items():
        asked = {*offsets, *state.committed.get(group, ())}
        aimed = aim(Target("lake", at_ms, at), group, asked, state, elsewhere=offsets)
        for partition, reason in aimed.refused.items():
            say(f"seamark: {partition} of group {group!r} is left unchanged: {reason}")
        wanted[group] = {partition: offsets[partition] for partition in aimed.wanted}
    plan = make_plan(state, wanted, made_by="seamark audit as-of", why=f"as of {at}", clamp=clamp, outside=outside)
    return plan, state


def check_known(groups: Iterable[str], remembered: Remembered, at: str) -> None:
    """Refuse a group that had nothing committed then: a misspelt name must not look like a plan without changes."""
    for group in groups:
        if group not in remembered:
            raise SeamarkError(f"the lake has no offset of group {group!r} at {at}")
