"""Commits of one simulated member on their way to the coordinator and back, each after its own delay.

They reach the coordinator in the order they were sent; answers may overtake each other, get lost, or say nothing of a
partition. A commit that was sent before a crash may still arrive after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.parallel.core.work import Action, CommitOffsets
from seamark.simulation.parallel.group import Results
from seamark.simulation.parallel.truth import StayTruth
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.simulation.parallel.member import SimulatedMember


class CommitPath:
    def __init__(self, member: SimulatedMember) -> None:
        self._member = member
        self._world = member.world
        self._last_arrival_ms = 0
        self._decided: dict[int, Mapping[TopicPartition, StayTruth]] = {}
        # The owner does nothing before the answer to this one.
        self.waits_for: int | None = None
        self.under_way = 0

    def check(self, actions: list[Action]) -> None:
        """Hold what was decided just now against the truth."""
        member = self._member
        for action in actions:
            if isinstance(action, CommitOffsets):
                for partition, to_commit in action.offsets.items():
                    self._world.truth.check_decision(
                        partition, to_commit, member.assignments[partition], member.engine.committer.metadata_length
                    )
                self._decided[action.ticket] = {
                    partition: member.assignments[partition] for partition in action.offsets
                }

    def send(self, action: CommitOffsets) -> None:
        assignments = self._decided.pop(action.ticket)
        if action.must_wait:
            self.waits_for = action.ticket
        self.under_way += 1
        travel_ms = 1 + int(self._world.rng.random() ** 3 * 900)
        arrival_ms = max(self._world.loop.now_ms + travel_ms, self._last_arrival_ms + 1)
        self._last_arrival_ms = arrival_ms
        self._world.loop.call_at(arrival_ms, self._arrive, action, assignments, self._member.membership)

    def _arrive(self, action: CommitOffsets, assignments: Mapping[TopicPartition, StayTruth], membership: int) -> None:
        rng, group = self._world.rng, self._world.group
        if not self._member.is_alive and rng.random() < 0.5:
            return
        is_lost = rng.random() < group.lost_answers / 3
        results: Results = {} if is_lost else group.commit(self._member, membership, action, assignments)
        self._world.loop.call_later(1 + int(rng.random() ** 3 * 400), self._answered, action, results)

    def _answered(self, action: CommitOffsets, results: Results) -> None:
        member = self._member
        if not member.is_alive:
            return

        def finished() -> list[Action]:
            self.under_way -= 1
            return member.engine.commit_finished(action.ticket, results, member.now)

        if self.waits_for == action.ticket:
            if member.is_frozen:
                self._world.loop.call_later(20, self._answered, action, results)
                return
            self.waits_for = None
            member.tell(finished, is_next=True)
        else:
            member.tell(finished)
