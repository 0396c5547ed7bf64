from __future__ import annotations

import dataclasses

from seamark.assignors import CooperativeStickyAssignor, MemberAssignment, MemberSubscription
from seamark.assignors.previous_assignment import encode_generation
from tests.unit.assignors.notation import cluster, given, member, on_racks, partitions


def test_a_partition_that_changes_owner_is_withheld_for_one_round():  # E11
    before = [member("C0", "t0", owned="t0-0 t0-1 t0-2 t0-3", generation=1), member("C1", "t0")]
    assert given(CooperativeStickyAssignor(), cluster(t0=4), *before) == {"C0": "t0-0 t0-1", "C1": ""}
    after = [member("C0", "t0", owned="t0-0 t0-1", generation=2), member("C1", "t0", generation=2)]
    assert given(CooperativeStickyAssignor(), cluster(t0=4), *after) == {"C0": "t0-0 t0-1", "C1": "t0-2 t0-3"}


def test_partitions_of_a_member_that_left_are_handed_out_at_once():
    remaining = member("C0", "t0", owned="t0-0", generation=1)
    assert given(CooperativeStickyAssignor(), cluster(t0=2), remaining) == {"C0": "t0-0 t0-1"}


def test_the_second_member_of_two_takes_over_in_two_rounds():  # C30
    first_round = given(
        CooperativeStickyAssignor(), cluster(u=2), member("A", "u", owned="u-0 u-1", generation=1), member("B", "u")
    )
    assert first_round == {"A": "u-0", "B": ""}
    second_round = given(
        CooperativeStickyAssignor(),
        cluster(u=2),
        member("A", "u", owned="u-0", generation=2),
        member("B", "u", generation=2),
    )
    assert second_round == {"A": "u-0", "B": "u-1"}


def test_withholding_works_with_unequal_subscriptions():
    answer = given(
        CooperativeStickyAssignor(),
        cluster(t0=4, t1=1),
        member("C0", "t0", owned="t0-0 t0-1 t0-2 t0-3", generation=1),
        member("C1", "t0 t1"),
    )
    assert answer["C1"] == "t1-0"
    assert set(answer["C0"].split()) < {"t0-0", "t0-1", "t0-2", "t0-3"}


def test_a_partition_claimed_twice_in_one_generation_is_withheld():
    answer = given(
        CooperativeStickyAssignor(),
        cluster(t0=2),
        member("C0", "t0", owned="t0-0", generation=3),
        member("C1", "t0", owned="t0-0", generation=3),
    )
    assert answer == {"C0": "", "C1": "t0-1"}


def test_members_read_from_their_own_rack_where_the_shares_allow_it():  # E3
    racks = on_racks({"t0-0": "c", "t0-1": "b", "t0-2": "a"})
    members = [member(name, "t0", rack=rack) for name, rack in (("C0", "a"), ("C1", "b"), ("C2", "c"))]
    assert given(CooperativeStickyAssignor(), racks, *members) == {"C0": "t0-2", "C1": "t0-1", "C2": "t0-0"}


def test_members_beyond_the_number_of_partitions_stay_idle():  # E13
    answer = given(CooperativeStickyAssignor(), cluster(t0=2), *(member(name, "t0") for name in ("C0", "C1", "C2")))
    assert answer == {"C0": "t0-0", "C1": "t0-1", "C2": ""}


def _old_style(member_id: str, owned: str, generation: int) -> MemberSubscription:
    return MemberSubscription(member_id, ("t0",), owned=partitions(owned), user_data=encode_generation(generation))


def test_a_generation_missing_from_the_subscription_is_read_from_user_data():
    for older, newer in (("C0", "C1"), ("C1", "C0")):
        members = [_old_style(older, "t0-0", 5), _old_style(newer, "t0-0", 6)]
        assert given(CooperativeStickyAssignor(), cluster(t0=2), *members) == {newer: "t0-0", older: "t0-1"}


def test_the_subscriptions_generation_counts_before_user_data():
    for generation in (0, 1):
        stale = dataclasses.replace(_old_style("C0", "t0-0", 9), generation=generation)
        members = [stale, member("C1", "t0", owned="t0-0", generation=2)]
        assert given(CooperativeStickyAssignor(), cluster(t0=2), *members) == {"C1": "t0-0", "C0": "t0-1"}


def test_it_sends_its_generation_as_user_data():  # E3
    assignor = CooperativeStickyAssignor()
    assert assignor.subscription_user_data(["t0"]) == b"\xff\xff\xff\xff"
    assignor.on_assignment(MemberAssignment(partitions("t0-0")), 7)
    assert assignor.subscription_user_data(["t0"]) == b"\0\0\0\x07"
