"""The two sides of a move: a store of offsets, and, where it is Kafka, the cluster behind it.

A side answers what a move has to know before it touches a group: what is stored, who is still committing, and whether
it is the side that the plan was made for. Many groups are asked about together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.moves.move import Place
from seamark.plans.cluster_reading import read_groups, read_topics
from seamark.plans.decisions import group_problem
from seamark.plans.errors import PlanRefused, WrongCluster, some
from seamark.plans.plan import ClusterState
from seamark.stores.contract import GroupOffsets, OffsetStore

if TYPE_CHECKING:
    from seamark.client import Admin, Consumer
    from seamark.plans.plan import TopicState


@dataclass(slots=True)
class Side:
    """``admin`` is None for ZooKeeper; ``consumer`` makes one that reads the cluster's records."""

    kind: str
    address: str
    store: OffsetStore
    admin: Admin | None = None
    consumer: Callable[[], Consumer] | None = None
    _cluster_id: str = field(default="", init=False)

    @property
    def place(self) -> Place:
        return Place(self.kind, self.address, self.cluster_id)

    @property
    def cluster_id(self) -> str:
        if self.admin is not None and not self._cluster_id:
            self._cluster_id = self.admin.describe_cluster().cluster_id
        return self._cluster_id

    def check_is(self, planned: Place) -> None:
        """WrongCluster if the plan was made for another one; a ZooKeeper has no id but its address."""
        if planned.cluster_id != self.cluster_id:
            raise WrongCluster(planned.cluster_id, self.cluster_id)
        if self.admin is None and planned.address != self.address:
            raise PlanRefused(f"the plan is for {planned}, not for {self.place}: nothing was changed")

    def read(self, groups: Iterable[str]) -> dict[str, GroupOffsets]:
        return dict(self.store.read_many(groups))

    def obstacles(self, groups: Iterable[str]) -> dict[str, str]:
        """Of the groups that must be left alone, why: somebody commits to them, or they are of another kind."""
        asked = list(groups)
        if self.admin is None:
            return {
                group: f"group {group!r} has {len(members)} running in {self.store.name} ({some(members)}): "
                "stop the members"
                for group, members in self.store.active_members_many(asked)
                if members
            }
        state = ClusterState("", {}, read_groups(self.admin, asked), {})
        problems = {group: group_problem(group, state) for group in asked}
        return {group: _before_the_move(str(problem)) for group, problem in problems.items() if problem is not None}

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicState]:
        """The topics that exist; nothing where there is no cluster to ask."""
        return {} if self.admin is None else read_topics(self.admin, names)


def _before_the_move(sentence: str) -> str:
    # The sentence is that of a plan which is refused as a whole; here one group of many is meant.
    return sentence.removesuffix(", nothing was changed").removesuffix("; nothing was changed")
