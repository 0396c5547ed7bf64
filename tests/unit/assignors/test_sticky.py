from __future__ import annotations

from seamark.assignors import MemberAssignment, MemberSubscription, StickyAssignor
from tests.unit.assignors.notation import cluster, given, member, on_racks, partitions


def test_unequal_subscriptions_are_evened_out():  # E9
    answer = given(
        StickyAssignor(), cluster(t0=1, t1=2, t2=3), member("C0", "t0"), member("C1", "t0 t1"), member("C2", "t0 t1 t2")
    )
    assert answer == {"C0": "t0-0", "C1": "t1-0 t1-1", "C2": "t2-0 t2-1 t2-2"}


def test_the_others_keep_what_they_had_when_a_member_leaves():  # E10
    topics = "t0 t1 t2 t3"
    answer = given(
        StickyAssignor(),
        cluster(t0=2, t1=2, t2=2, t3=2),
        member("C0", topics, owned="t0-0 t1-1 t3-0", generation=1),
        member("C2", topics, owned="t1-0 t2-1", generation=1),
    )
    assert answer == {"C0": "t0-0 t0-1 t1-1 t3-0", "C2": "t1-0 t2-0 t2-1 t3-1"}


def test_members_beyond_the_number_of_partitions_stay_idle():  # E13
    answer = given(StickyAssignor(), cluster(t0=2), *(member(name, "t0") for name in ("C0", "C1", "C2")))
    assert answer == {"C0": "t0-0", "C1": "t0-1", "C2": ""}


def test_members_read_from_their_own_rack_where_the_shares_allow_it():  # E3
    racks = on_racks({"t0-0": "c", "t0-1": "b", "t0-2": "a"})
    members = [member(name, "t0", rack=rack) for name, rack in (("C0", "a"), ("C1", "b"), ("C2", "c"))]
    assert given(StickyAssignor(), racks, *members) == {"C0": "t0-2", "C1": "t0-1", "C2": "t0-0"}


def test_a_partition_off_its_owners_rack_is_not_kept():
    racks = on_racks({"t0-0": "b", "t0-1": "a"})
    answer = given(
        StickyAssignor(),
        racks,
        member("C0", "t0", owned="t0-0", generation=1, rack="a"),
        member("C1", "t0", owned="t0-1", generation=1, rack="b"),
    )
    assert answer == {"C0": "t0-1", "C1": "t0-0"}


def test_unequal_subscribers_are_matched_to_racks_too():
    racks = on_racks({"t0-0": "b", "t0-1": "a", "t1-0": "a"})
    answer = given(StickyAssignor(), racks, member("C0", "t0", rack="a"), member("C1", "t0 t1", rack="b"))
    assert answer == {"C0": "t0-1", "C1": "t0-0 t1-0"}


def test_of_two_claims_the_higher_generation_counts():
    answer = given(
        StickyAssignor(),
        cluster(t0=2),
        member("C0", "t0", owned="t0-0", generation=1),
        member("C1", "t0", owned="t0-0", generation=2),
    )
    assert answer == {"C0": "t0-1", "C1": "t0-0"}


def test_of_two_claims_in_one_generation_neither_counts():
    answer = given(
        StickyAssignor(),
        cluster(t0=4),
        member("C0", "t0", owned="t0-2 t0-3", generation=3),
        member("C1", "t0", owned="t0-2 t0-3", generation=3),
    )
    assert answer == {"C0": "t0-0 t0-2", "C1": "t0-1 t0-3"}


def test_generations_come_from_user_data_even_if_the_subscription_has_none():
    # Members on old subscription versions: whichever id comes first, the later generation must win.
    for older, newer in (("C0", "C1"), ("C1", "C0")):
        members = [
            MemberSubscription(older, ("t0",), user_data=member(older, "t0", owned="t0-0", generation=5).user_data),
            MemberSubscription(newer, ("t0",), user_data=member(newer, "t0", owned="t0-0", generation=6).user_data),
        ]
        assert given(StickyAssignor(), cluster(t0=2), *members) == {newer: "t0-0", older: "t0-1"}


def test_owned_partitions_in_the_subscription_are_not_read():
    # An eager member has revoked everything when it joins; only its memory says what it had.
    without_memory = MemberSubscription("C1", ("t0",), owned=partitions("t0-0"), generation=1)
    answer = given(StickyAssignor(), cluster(t0=2), member("C0", "t0"), without_memory)
    assert answer == {"C0": "t0-0", "C1": "t0-1"}


def test_claims_to_partitions_that_do_not_exist_are_ignored():
    answer = given(
        StickyAssignor(), cluster(t0=2), member("C0", "t0", owned="t0-1 t0-7 gone-0", generation=1), member("C1", "t0")
    )
    assert answer == {"C0": "t0-1", "C1": "t0-0"}


def test_a_stale_claim_to_a_topic_no_longer_read_brings_nothing_back():
    # C0 dropped t0 but still remembers it from generation 1; t0 is shared by the two others.
    answer = given(
        StickyAssignor(),
        cluster(t0=4, t1=1),
        member("C0", "t1", owned="t0-0 t0-1 t0-2 t0-3", generation=1),
        member("C1", "t0", owned="t0-0 t0-1 t0-2 t0-3", generation=2),
        member("C2", "t0 t1"),
    )
    assert answer["C0"] == "t1-0"
    assert sorted(len(answer[name].split()) for name in ("C1", "C2")) == [2, 2]


def test_a_moved_partition_prefers_the_member_that_had_it_before():
    # C0 and C2 have equally little; without the memory of generation 1 the first by id, C0, would get t0-2.
    answer = given(
        StickyAssignor(),
        cluster(t0=3, t1=1),
        member("C0", "t0"),
        member("C1", "t0 t1", owned="t0-0 t0-1 t0-2", generation=2),
        member("C2", "t0", owned="t0-0", generation=1),
    )
    assert "t0-0" in answer["C2"].split()


def test_a_member_waiting_for_an_unknown_topic_shares_the_known_ones():
    answer = given(StickyAssignor(), cluster(t0=2), member("C0", "t0 later"), member("C1", "t0"))
    assert answer == {"C0": "t0-0", "C1": "t0-1"}


def test_a_member_without_topics_gets_nothing():
    for bystander in ("A", "Z"):
        answer = given(StickyAssignor(), cluster(t0=2), member(bystander, ""), member("C1", "t0"))
        assert answer == {bystander: "", "C1": "t0-0 t0-1"}


def test_it_sends_nothing_before_its_first_assignment_and_its_memory_after():  # E3
    assignor = StickyAssignor()
    assert assignor.subscription_user_data(["t0"]) is None
    assignor.on_assignment(MemberAssignment(partitions("t0-0 t0-1")), 5)
    assert assignor.subscription_user_data(["t0"]) == bytes.fromhex(
        "00000001" "00027430" "00000002" "00000000" "00000001" "00000005"
    )  # fmt: skip
