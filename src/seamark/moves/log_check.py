"""Whether logs still hold the offsets that are about to be set: records may have gone since the plan was made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seamark.moves.aims import REMEDY, ClusterLogs
from seamark.moves.sides import Side
from seamark.plans.errors import some
from seamark.plans.plan import Change, outside_log
from seamark.topic_partition import TopicPartition


class LogCheck:
    """Looks at the logs of one side's cluster, each once; a side without a cluster has no logs to look at."""

    def __init__(self, side: Side) -> None:
        self._logs = None if side.admin is None else ClusterLogs(side.admin, side.store.name)

    def look_at(self, changes: Iterable[Change]) -> None:
        """Ask about the logs of many changes together."""
        if self._logs is None:
            return
        wanted: dict[TopicPartition, list[int]] = {}
        for change in changes:
            if change.after is not None:
                wanted.setdefault(change.partition, []).append(change.after.offset)
        self._logs.look_at(wanted)

    def problem(self, changes: Sequence[Change]) -> str:
        """What is wrong with the new offsets of a group whose logs were looked at; empty if nothing is."""
        if self._logs is None:
            return ""
        problems = []
        for change in changes:
            if change.after is None:
                continue
            problem = self._logs.problem(change.partition)
            problem = problem or outside_log(change.after.offset, self._logs.logs[change.partition])
            if problem:
                problems.append(f"{change.partition}: {problem}")
        return f"{some(problems)}; {REMEDY}" if problems else ""
