from __future__ import annotations

from seamark.assignors import RangeAssignor
from tests.unit.assignors.notation import cluster, given, member, on_racks


def test_each_member_gets_a_run_and_the_first_ones_get_the_rest():  # E7
    answer = given(RangeAssignor(), cluster(t0=7), member("C0", "t0"), member("C1", "t0"), member("C2", "t0"))
    assert answer == {"C0": "t0-0 t0-1 t0-2", "C1": "t0-3 t0-4", "C2": "t0-5 t0-6"}


def test_the_larger_share_falls_to_the_same_member_in_every_topic():  # E7
    answer = given(RangeAssignor(), cluster(t0=3, t1=3), member("C0", "t0 t1"), member("C1", "t0 t1"))
    assert answer == {"C0": "t0-0 t0-1 t1-0 t1-1", "C1": "t0-2 t1-2"}


def test_members_beyond_the_number_of_partitions_stay_idle():  # E13
    answer = given(RangeAssignor(), cluster(t0=2), member("C0", "t0"), member("C1", "t0"), member("C2", "t0"))
    assert answer == {"C0": "t0-0", "C1": "t0-1", "C2": ""}


def test_only_subscribers_of_a_topic_share_it():
    answer = given(RangeAssignor(), cluster(t0=2, t1=2), member("C0", "t0"), member("C1", "t0 t1"))
    assert answer == {"C0": "t0-0", "C1": "t0-1 t1-0 t1-1"}


def test_static_members_come_first_by_instance_id():
    answer = given(
        RangeAssignor(),
        cluster(t0=4),
        member("a", "t0"),
        member("b", "t0", instance_id="two"),
        member("c", "t0", instance_id="one"),
    )
    assert answer == {"c": "t0-0 t0-1", "b": "t0-2", "a": "t0-3"}


def test_a_topic_named_twice_counts_once():
    answer = given(RangeAssignor(), cluster(t0=2), member("C0", "t0 t0"), member("C1", "t0"))
    assert answer == {"C0": "t0-0", "C1": "t0-1"}


def test_members_read_from_their_own_rack_where_the_shares_allow_it():  # E3
    racks = on_racks({"t0-0": "c", "t0-1": "b", "t0-2": "a"})
    members = [member(name, "t0", rack=rack) for name, rack in (("C0", "a"), ("C1", "b"), ("C2", "c"))]
    assert given(RangeAssignor(), racks, *members) == {"C0": "t0-2", "C1": "t0-1", "C2": "t0-0"}


def test_a_rack_never_enlarges_a_share():
    racks = on_racks({"t0-0": "a", "t0-1": "a", "t0-2": "a", "t0-3": "b"})
    answer = given(RangeAssignor(), racks, member("C0", "t0", rack="a"), member("C1", "t0", rack="b"))
    assert answer == {"C0": "t0-0 t0-1", "C1": "t0-2 t0-3"}


def test_racks_do_not_count_if_every_partition_is_on_all_of_them():
    racks = on_racks({"t0-0": "ab", "t0-1": "ab"})
    answer = given(RangeAssignor(), racks, member("C0", "t0", rack="b"), member("C1", "t0", rack="a"))
    assert answer == {"C0": "t0-0", "C1": "t0-1"}


def test_topics_cut_alike_stay_cut_alike_when_racks_count():
    # t0 alone would go by rack; t1 has its replicas elsewhere, so no index matches in both and runs decide.
    racks = on_racks({"t0-0": "b", "t0-1": "a", "t1-0": "a", "t1-1": "b"})
    members = [member("C0", "t0 t1", rack="a"), member("C1", "t0 t1", rack="b")]
    assert given(RangeAssignor(), racks, *members) == {"C0": "t0-0 t1-0", "C1": "t0-1 t1-1"}
    without_t1 = [member("C0", "t0", rack="a"), member("C1", "t0", rack="b")]
    assert given(RangeAssignor(), racks, *without_t1) == {"C0": "t0-1", "C1": "t0-0"}


def test_an_empty_rack_name_is_no_rack():
    racks = on_racks({"t0-0": "b", "t0-1": "a"})
    answer = given(RangeAssignor(), racks, member("C0", "t0", rack=""), member("C1", "t0", rack=""))
    assert answer == {"C0": "t0-0", "C1": "t0-1"}
