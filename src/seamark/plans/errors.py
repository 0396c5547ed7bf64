"""Why a plan cannot be read, made or applied; ``str()`` of each is one sentence, its fields are values.

    SeamarkError
    +- PlanError
       +- BadPlan            a file that is not a plan, is damaged, or was made by a newer release
       +- PlanRefused        the cluster is not as the plan says: nothing was changed
       |  +- WrongCluster  GroupInUse  PlanStale  TopicChanged  OutsideLog
       +- PlanIncomplete     some changes were made and some were not

A refusal is raised before the first change. What goes wrong later is in the report, per partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition

# How many partitions or members a sentence names before it says how many more there are.
_NAMED = 5


class PlanError(SeamarkError):
    """Everything about plans that is not a mistake in the call."""


class BadPlan(PlanError):
    """The text is not a plan that can be trusted; ``source`` is the file it came from."""

    def __init__(self, source: Path | str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = str(source)
        self.reason = reason


class PlanRefused(PlanError):
    """The plan does not fit what the cluster holds now; nothing was changed."""


class WrongCluster(PlanRefused):
    """The plan was made for another cluster."""

    def __init__(self, planned: str, found: str) -> None:
        super().__init__(f"the plan is for cluster {planned!r}, this is cluster {found!r}: nothing was changed")
        self.planned = planned
        self.found = found


class GroupInUse(PlanRefused):
    """The group has members that commit: offsets set from outside would be refused or overwritten."""

    def __init__(self, group: str, state: str, members: Sequence[str]) -> None:
        who = f" with {counted(len(members), 'member')} ({some(members)})" if members else ""
        super().__init__(f"group {group!r} is {state}{who}: stop the members first; nothing was changed")
        self.group = group
        self.state = state
        self.members = tuple(members)


class PlanStale(PlanRefused):
    """Offsets are no longer what they were when the plan was made; ``partitions`` has group and partition of each."""

    def __init__(self, partitions: Iterable[tuple[str, TopicPartition, str]]) -> None:
        stale = list(partitions)
        self.partitions = tuple((group, partition) for group, partition, _ in stale)
        shown = some([f"{partition} of group {group!r} {how}" for group, partition, how in stale])
        super().__init__(f"the plan is stale: {shown}; nothing was changed; make a new plan")


class TopicChanged(PlanRefused):
    """A topic of the plan was deleted or recreated, or has fewer partitions."""


class OutsideLog(PlanRefused):
    """New offsets are outside the logs of their partitions."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"offsets outside the log: {some(problems)}; nothing was changed")
        self.problems = tuple(problems)


class PlanIncomplete(PlanError):
    """Not every change was made; ``failures`` has a sentence for each that was not."""

    def __init__(self, failures: Sequence[str], asked: int) -> None:
        super().__init__(
            f"{len(failures)} of {counted(asked, 'change')} not made: {some(failures)}; "
            "fix the cause and apply the plan again to make the rest"
        )
        self.failures = tuple(failures)


def some(texts: Sequence[object]) -> str:
    """The first few of many, and how many more there are."""
    shown = ", ".join(map(str, texts[:_NAMED]))
    return shown if len(texts) <= _NAMED else f"{shown} and {len(texts) - _NAMED} more"
