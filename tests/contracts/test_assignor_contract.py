"""One suite for every assignor, ours and custom ones.

Subclass ``AssignorContract``, or the contracts below it that add a promise, and override ``make``.

A group is played as consumers play it: each member has an assignor of its own that makes its user data and is told what
the member got, and any member's assignor may be the one that assigns.
"""

from __future__ import annotations

import dataclasses
import random

import pytest

from seamark.assignors import (
    Assignor,
    ClusterTopics,
    CooperativeStickyAssignor,
    MemberAssignment,
    MemberSubscription,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    TopicPartition,
    check_assignments,
    common_protocol,
)
from tests.support.assignor_cases import claims_out_of_nowhere, life

SEEDS = range(25)


class Group:
    """Members that rebalance as consumers do; ``owned`` is what each holds."""

    def __init__(self, make_assignor, cluster: ClusterTopics, rng: random.Random) -> None:
        self._make_assignor = make_assignor
        self._rng = rng
        self._generation = 0
        self.cluster = cluster
        self.members: dict[str, tuple[Assignor, MemberSubscription]] = {}
        self.owned: dict[str, tuple[TopicPartition, ...]] = {}

    def join(self, member: MemberSubscription) -> None:
        self.members[member.member_id] = self._make_assignor(), member
        self.owned[member.member_id] = ()

    def leave(self, member_id: str) -> None:
        del self.members[member_id], self.owned[member_id]

    def subscriptions(self) -> list[MemberSubscription]:
        subscriptions = [
            dataclasses.replace(
                member,
                owned=self.owned[name] if self.is_cooperative else (),
                generation=self._generation or -1,
                user_data=assignor.subscription_user_data(member.topics),
            )
            for name, (assignor, member) in self.members.items()
        ]
        self._rng.shuffle(subscriptions)
        return subscriptions

    @property
    def is_cooperative(self) -> bool:
        return common_protocol([self._make_assignor()]) is RebalanceProtocol.COOPERATIVE

    def rebalance(self) -> bool:
        """One round; the answer is whether someone has to give something up and rejoin."""
        subscriptions = self.subscriptions()
        leader, _ = self.members[self._rng.choice(sorted(self.members))]
        assignments = leader.assign(self.cluster, subscriptions)
        check_assignments(leader.name, self.cluster, subscriptions, assignments, is_cooperative=self.is_cooperative)
        self._generation += 1
        must_rejoin = False
        for name, assignment in assignments.items():
            must_rejoin |= self.is_cooperative and not set(self.owned[name]) <= set(assignment.partitions)
            self.owned[name] = assignment.partitions
            self.members[name][0].on_assignment(assignment, self._generation)
        return must_rejoin

    def settle(self) -> None:
        rounds = 1
        while self.rebalance():
            rounds += 1
            assert rounds <= 10, "the group does not come to rest"


class AssignorContract:
    """The suite. ``evens_out`` promises that shares of equal subscribers differ by at most one."""

    evens_out = True

    def make(self) -> Assignor:
        raise NotImplementedError

    def _random_cases(self):
        for seed in SEEDS:
            rng = random.Random(seed)
            for equal in (True, False):
                yield from life(rng, self.make, equal=equal, rounds=3)
                yield claims_out_of_nowhere(rng, equal=equal)

    def _random_group(self, seed: int, *, equal: bool, has_racks: bool = True) -> Group:
        rng = random.Random(seed)
        cluster, members = next(life(rng, self.make, equal=equal))
        if not has_racks:
            cluster = ClusterTopics(cluster.partition_counts)
        group = Group(self.make, cluster, rng)
        for member in members:
            group.join(member)
        return group

    def test_it_has_a_name_and_a_protocol(self):  # E1 E12
        assignor = self.make()
        assert assignor.name
        assert assignor.protocols
        assert 0 <= assignor.subscription_version <= 3

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("equal", [True, False])
    def test_every_partition_gets_one_reader_through_joins_leaves_and_growth(self, seed, equal):  # E2 C22 C29
        group = self._random_group(seed, equal=equal)
        rng = random.Random(-1 - seed)
        for step in range(6):
            group.settle()
            topics = {topic for _, member in group.members.values() for topic in member.topics}
            everything = sorted(group.cluster.partitions_of(topics))
            assert sorted(partition for owned in group.owned.values() for partition in owned) == everything
            if step % 3 == 0 and len(group.members) > 1:
                group.leave(rng.choice(sorted(group.members)))
            elif step % 3 == 1:
                _, example = next(iter(group.members.values()))
                group.join(MemberSubscription(f"newcomer-{step}", example.topics, rack=rng.choice(("a", None))))
            else:
                counts = dict(group.cluster.partition_counts)
                counts[rng.choice(sorted(counts))] += 2
                group.cluster = ClusterTopics(counts, group.cluster.replica_racks)

    def test_what_it_answers_can_be_sent_to_the_group(self):
        for cluster, members in self._random_cases():
            assignor = self.make()
            is_cooperative = common_protocol([assignor]) is RebalanceProtocol.COOPERATIVE
            answer = assignor.assign(cluster, members)
            # Two members that both claim a partition cannot both be waited for; the valid claim may win at once.
            claims = [partition for member in members for partition in member.owned]
            undisputed = len(claims) == len(set(claims))
            check_assignments(assignor.name, cluster, members, answer, is_cooperative=is_cooperative and undisputed)

    def test_the_order_of_members_makes_no_difference(self):
        for cluster, members in self._random_cases():
            assert self.make().assign(cluster, members[::-1]) == self.make().assign(cluster, members)

    def test_assigning_leaves_no_trace_in_the_assignor(self):
        used = self.make()
        for cluster, members in self._random_cases():
            assert used.assign(cluster, members) == self.make().assign(cluster, members)

    def test_its_members_are_answered_even_if_there_is_nothing_to_give(self):
        members = [MemberSubscription("a", ("unknown",)), MemberSubscription("b", ())]
        assert self.make().assign(ClusterTopics({"other": 3}), members) == {
            "a": MemberAssignment(),
            "b": MemberAssignment(),
        }

    def test_an_empty_group_has_an_empty_answer(self):
        assert self.make().assign(ClusterTopics({"t": 3}), []) == {}

    @pytest.mark.parametrize("user_data", [b"", b"\0", b"\xff" * 40, b"\0\0\0\1\0\1t\0\0\0\1\x7f\xff\xff\xff\0\0\0\1"])
    def test_strange_user_data_of_a_member_does_no_harm(self, user_data):  # E3
        members = [MemberSubscription("a", ("t",), user_data=user_data), MemberSubscription("b", ("t",))]
        answer = self.make().assign(ClusterTopics({"t": 4}), members)
        assert sorted(partition.partition for given in answer.values() for partition in given.partitions) == [
            0,
            1,
            2,
            3,
        ]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equal_subscribers_get_even_shares(self, seed):
        group = self._random_group(seed, equal=True)
        group.settle()
        topics = [None] if self.evens_out else sorted(group.cluster.partition_counts)
        for topic in topics:
            sizes = [sum(topic in (None, name) for name, _ in owned) for owned in group.owned.values()]
            assert max(sizes) - min(sizes) <= 1

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("equal", [True, False])
    def test_a_group_that_does_not_change_keeps_its_assignment(self, seed, equal):
        # Where racks count, a partition off its reader's rack is up for a better place in every round.
        group = self._random_group(seed, equal=equal, has_racks=False)
        group.settle()
        before = dict(group.owned)
        group.settle()
        assert group.owned == before


class StickinessContract(AssignorContract):
    """For assignors that promise to move no partition without need."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_others_keep_theirs_when_a_member_leaves(self, seed):  # E9 E10
        group = self._random_group(seed, equal=True, has_racks=False)
        group.join(MemberSubscription("one-more", next(iter(group.members.values()))[1].topics))
        group.settle()
        group.leave(random.Random(seed).choice(sorted(group.members)))
        before = dict(group.owned)
        group.settle()
        for name, owned in before.items():
            assert set(owned) <= set(group.owned[name])


class CooperationContract(AssignorContract):
    """For assignors that support the cooperative protocol."""

    def test_nobody_receives_what_only_others_hold_while_members_cooperate(self):  # E11
        for cluster, members in self._random_cases():
            answer = self.make().assign(cluster, members)
            for member in members:
                new = set(answer[member.member_id].partitions).difference(member.owned)
                held = {partition for other in members if other is not member for partition in other.owned}
                assert not new & held


class TestRange(AssignorContract):
    evens_out = False  # evens out per topic

    def make(self) -> Assignor:
        return RangeAssignor()


class TestRoundRobin(AssignorContract):
    def make(self) -> Assignor:
        return RoundRobinAssignor()


class TestSticky(StickinessContract):
    def make(self) -> Assignor:
        return StickyAssignor()


class TestCooperativeSticky(StickinessContract, CooperationContract):
    def make(self) -> Assignor:
        return CooperativeStickyAssignor()


class SpareRoom(Assignor):
    """A custom assignor: partitions go to the reader with most spare room, which members state in their user data."""

    name = "spare-room"

    def __init__(self, room: int = 100) -> None:
        self._room = room

    def subscription_user_data(self, topics):
        return self._room.to_bytes(2)

    def assign(self, cluster, members):
        room = {member.member_id: self._stated_room(member) for member in members}
        given = {member.member_id: [] for member in members}
        for partition in cluster.partitions_of({topic for member in members for topic in member.topics}):
            readers = sorted(member.member_id for member in members if partition.topic in member.topics)
            roomiest = max(readers, key=lambda name: room[name] - len(given[name]))
            given[roomiest].append(partition)
        return {name: MemberAssignment(tuple(partitions)) for name, partitions in given.items()}

    def _stated_room(self, member: MemberSubscription) -> int:
        if member.user_data is None or len(member.user_data) != 2:
            return self._room
        return int.from_bytes(member.user_data)


class TestCustom(AssignorContract):
    def make(self) -> Assignor:
        return SpareRoom()

    def test_what_members_say_in_user_data_decides(self):  # E3
        members = [
            MemberSubscription(name, ("t",), user_data=SpareRoom(room).subscription_user_data(("t",)))
            for name, room in (("small", 1), ("large", 5))
        ]
        answer = self.make().assign(ClusterTopics({"t": 6}), members)
        assert {name: len(given.partitions) for name, given in answer.items()} == {"small": 1, "large": 5}
