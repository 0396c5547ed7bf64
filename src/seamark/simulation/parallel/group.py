"""The group of simulated parallel consumers: who owns what, what is committed, and what its coordinator answers.

A rebalance asks the owners of partitions that are to move (all of them, if it is eager) to let go, waits for them up to
its timeout, and then hands out. Whoever does not answer in time is expelled and hears of it late or never: such a
member works on, and its commits are refused because it owns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from seamark.errors import SeamarkError
from seamark.parallel.core.ports import Committed, MetadataTooLong
from seamark.parallel.core.work import CommitOffsets
from seamark.simulation.parallel.log import PartitionLog
from seamark.simulation.parallel.truth import StayTruth, Truth
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event
from seamark.topic_partition import TopicPartition

Results = dict[TopicPartition, BaseException | None]

# What a coordinator may answer to a commit of a member that owns its partitions.
REFUSALS = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "GROUP_AUTHORIZATION_FAILED",
    "ILLEGAL_GENERATION",
    "INVALID_COMMIT_OFFSET_SIZE",
    "NOT_COORDINATOR",
    "OFFSET_METADATA_TOO_LARGE",
    "REBALANCE_IN_PROGRESS",
    "REQUEST_TIMED_OUT",
    "TOPIC_AUTHORIZATION_FAILED",
    "UNKNOWN_MEMBER_ID",
    "UNKNOWN_TOPIC_OR_PARTITION",
)


class CommitRefused(SeamarkError):
    """The coordinator's answer, by the name of its code."""


class GroupMember(Protocol):
    """What the group knows of a member, and says to it."""

    name: str
    # Given by the group with each join.
    membership: int

    def assign(self, committed: Mapping[TopicPartition, Committed]) -> None: ...

    def revoke(self, partitions: Sequence[TopicPartition], then: Callable[[], None]) -> None:
        """``then`` is to be called when it has let go."""

    def hear_of_loss_later(self) -> None:
        """It was expelled: its next heartbeat tells it, and it joins again."""


class SimulatedGroup:
    def __init__(
        self,
        loop: EventLoop,
        rng: Random,
        events: list[Event],
        truth: Truth,
        logs: Mapping[TopicPartition, PartitionLog],
        *,
        is_cooperative: bool,
        rebalance_timeout_ms: int = 12_000,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._events = events
        self._truth = truth
        self._logs = logs
        self.is_cooperative = is_cooperative
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self.members: list[GroupMember] = []
        self.owner: dict[TopicPartition, GroupMember] = {}
        self.committed: dict[TopicPartition, Committed] = {}
        self.metadata_limit = 4096
        # Chances that a commit is refused, and that it is taken but its answer is lost.
        self.refusals = 0.0
        self.lost_answers = 0.0
        self.rebalances = 0
        # Stands for member id and generation: a commit of an earlier membership is refused.
        self._memberships: dict[str, int] = {}
        self._membership_number = 0
        self._attempt = 0
        self._waiting_for: set[str] | None = None
        self._is_wanted_again = False

    @property
    def is_rebalancing(self) -> bool:
        return self._waiting_for is not None

    # Membership.

    def join(self, member: GroupMember) -> None:
        self.members.append(member)
        self._membership_number += 1
        self._memberships[member.name] = member.membership = self._membership_number
        self._events.append((self._loop.now_ms, "join", member.name))
        self.rebalance()

    def leave(self, member: GroupMember) -> None:
        """It is gone, or nobody has heard of it for too long; it may not know yet."""
        if member not in self.members:
            return
        self.members.remove(member)
        del self._memberships[member.name]
        for partition in [partition for partition, owner in self.owner.items() if owner is member]:
            del self.owner[partition]
        self._events.append((self._loop.now_ms, "leave", member.name))
        self._let_go(member.name)
        self.rebalance()

    def owned_by(self, member: GroupMember) -> list[TopicPartition]:
        return [partition for partition, owner in self.owner.items() if owner is member]

    # Rebalances.

    def rebalance(self) -> None:
        if self._waiting_for is not None:
            self._is_wanted_again = True
            return
        if not self.members:
            return
        self._attempt += 1
        attempt = self._attempt
        target = self._target()
        moving: dict[str, list[TopicPartition]] = {}
        for partition, owner in self.owner.items():
            if not self.is_cooperative or target[partition] is not owner:
                moving.setdefault(owner.name, []).append(partition)
        self._waiting_for = set(moving)
        self._events.append((self._loop.now_ms, "rebalance", attempt, moving))
        for member in list(self.members):
            if member.name in moving:
                member.revoke(moving[member.name], self._when_let_go(attempt, member, moving[member.name]))
        self._loop.call_later(self._rebalance_timeout_ms, self._time_out, attempt)
        self._go_on_if_all_let_go(attempt)

    def _target(self) -> dict[TopicPartition, GroupMember]:
        """An even share; who has a partition keeps it more often than not."""
        partitions = list(self._logs)
        share = -(-len(partitions) // len(self.members))
        counts = {member.name: 0 for member in self.members}
        target: dict[TopicPartition, GroupMember] = {}
        for partition in partitions:
            owner = self.owner.get(partition)
            if owner in self.members and counts[owner.name] < share and self._rng.random() < 0.7:
                target[partition] = owner
                counts[owner.name] += 1
        for partition in partitions:
            if partition not in target:
                least = min(counts.values())
                target[partition] = self._rng.choice([each for each in self.members if counts[each.name] == least])
                counts[target[partition].name] += 1
        return target

    def _when_let_go(self, attempt: int, member: GroupMember, partitions: list[TopicPartition]) -> Callable[[], None]:
        def let_go() -> None:
            for partition in partitions:
                if self.owner.get(partition) is member:
                    del self.owner[partition]
            if attempt == self._attempt:
                self._let_go(member.name)

        return let_go

    def _let_go(self, name: str) -> None:
        if self._waiting_for is not None:
            self._waiting_for.discard(name)
            self._go_on_if_all_let_go(self._attempt)

    def _time_out(self, attempt: int) -> None:
        if attempt != self._attempt or self._waiting_for is None:
            return
        for member in [each for each in self.members if each.name in (self._waiting_for or ())]:
            self._events.append((self._loop.now_ms, "expelled", member.name))
            self.leave(member)
            member.hear_of_loss_later()

    def _go_on_if_all_let_go(self, attempt: int) -> None:
        if self._waiting_for is None or self._waiting_for or attempt != self._attempt:
            return
        self._waiting_for = None
        self.rebalances += 1
        if self.members:
            target = self._target()
            given: dict[str, dict[TopicPartition, Committed]] = {}
            for partition in self._logs:
                if partition not in self.owner:
                    self.owner[partition] = target[partition]
                    committed = self.committed.get(partition, Committed(-1))
                    given.setdefault(target[partition].name, {})[partition] = committed
            for member in list(self.members):
                if member.name in given:
                    member.assign(given[member.name])
        if self._is_wanted_again:
            self._is_wanted_again = False
            self._loop.call_later(10 + int(self._rng.random() * 500), self.rebalance)

    # Commits.

    def commit(
        self,
        member: GroupMember,
        membership: int,
        action: CommitOffsets,
        assignments: Mapping[TopicPartition, StayTruth],
    ) -> Results:
        """What the coordinator does with a commit that reached it; a partition may go unmentioned."""
        rng = self._rng
        results: Results = {}
        for partition, to_commit in action.offsets.items():
            if self.owner.get(partition) is not member or self._memberships[member.name] != membership:
                results[partition] = CommitRefused("ILLEGAL_GENERATION")
            elif len(to_commit.metadata) > self.metadata_limit:
                results[partition] = MetadataTooLong("OFFSET_METADATA_TOO_LARGE")
            elif self.is_rebalancing and not action.must_wait and rng.random() < 0.3:
                results[partition] = CommitRefused("REBALANCE_IN_PROGRESS")
            elif rng.random() < self.refusals:
                results[partition] = CommitRefused(rng.choice(REFUSALS))
            else:
                self._truth.accepted(partition, to_commit, assignments[partition])
                self.committed[partition] = Committed(*to_commit)
                results[partition] = None
        if rng.random() < self.lost_answers:
            if rng.random() < 0.5:
                return dict.fromkeys(action.offsets, CommitRefused("REQUEST_TIMED_OUT"))
            for partition in action.offsets:
                if rng.random() < 0.5:
                    del results[partition]
        self._events.append((self._loop.now_ms, "commit", member.name, action.ticket, _told(action), _codes(results)))
        return results


def _told(action: CommitOffsets) -> str:
    return " ".join(f"{partition}:{each.offset}" for partition, each in action.offsets.items())


def _codes(results: Results) -> str:
    return " ".join(f"{partition}:{error or 'ok'}" for partition, error in results.items())
