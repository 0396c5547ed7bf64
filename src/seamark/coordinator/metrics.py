"""Counters and gauges of the coordinator under Kafka's names (M6, M7), readable as data.

Counters only grow while the shard object lives; rates are the reader's business. Gauges are computed when asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.coordinator.membership.groups import Group
from seamark.coordinator.states import State

_GAUGE_OF_STATE = {
    State.PREPARING: "NumGroupsPreparingRebalance",
    State.COMPLETING: "NumGroupsCompletingRebalance",
    State.STABLE: "NumGroupsStable",
    State.DEAD: "NumGroupsDead",
    State.EMPTY: "NumGroupsEmpty",
}


class Counters:
    """Events counted when their records are stored, so that a refused append counts nothing."""

    __slots__ = ("completed_rebalances", "offset_commits", "offset_deletions", "offset_expirations", "refused_appends")

    def __init__(self) -> None:
        self.offset_commits = 0
        self.offset_expirations = 0
        self.offset_deletions = 0
        self.completed_rebalances = 0
        self.refused_appends = 0

    def read(self) -> dict[str, int]:
        return {
            "offset-commit-count": self.offset_commits,
            "offset-expiration-count": self.offset_expirations,
            "offset-deletion-count": self.offset_deletions,
            "group-completed-rebalance-count": self.completed_rebalances,
            "refused-append-count": self.refused_appends,
        }


def gauges(groups: Iterable[Group]) -> dict[str, int]:
    values = {"NumOffsets": 0, "NumGroups": 0} | dict.fromkeys(_GAUGE_OF_STATE.values(), 0)
    for group in groups:
        values["NumGroups"] += 1
        values["NumOffsets"] += len(group.offsets)
        values[_GAUGE_OF_STATE[group.effective_state]] += 1
    return values
