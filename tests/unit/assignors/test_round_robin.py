from __future__ import annotations

from seamark.assignors import RoundRobinAssignor
from tests.unit.assignors.notation import cluster, given, member, on_racks


def test_partitions_are_dealt_in_turn():  # E8
    answer = given(RoundRobinAssignor(), cluster(t0=7), *(member(name, "t0") for name in ("C0", "C1", "C2")))
    assert answer == {"C0": "t0-0 t0-3 t0-6", "C1": "t0-1 t0-4", "C2": "t0-2 t0-5"}


def test_the_turn_goes_on_from_topic_to_topic():  # E8
    answer = given(RoundRobinAssignor(), cluster(t0=3, t1=3), member("C0", "t0 t1"), member("C1", "t0 t1"))
    assert answer == {"C0": "t0-0 t0-2 t1-1", "C1": "t0-1 t1-0 t1-2"}


def test_members_that_do_not_subscribe_are_passed_over():  # E8
    answer = given(
        RoundRobinAssignor(),
        cluster(t0=1, t1=2, t2=3),
        member("C0", "t0"),
        member("C1", "t0 t1"),
        member("C2", "t0 t1 t2"),
    )
    assert answer == {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"}


def test_what_members_owned_plays_no_part():  # E10
    topics = "t0 t1 t2 t3"
    answer = given(
        RoundRobinAssignor(),
        cluster(t0=2, t1=2, t2=2, t3=2),
        member("C0", topics, owned="t0-0 t1-1 t3-0", generation=1),
        member("C2", topics, owned="t1-0 t2-1", generation=1),
    )
    assert answer == {"C0": "t0-0 t1-0 t2-0 t3-0", "C2": "t0-1 t1-1 t2-1 t3-1"}


def test_racks_play_no_part():  # E3
    racks = on_racks({"t0-0": "c", "t0-1": "b", "t0-2": "a"})
    members = [member(name, "t0", rack=rack) for name, rack in (("C0", "a"), ("C1", "b"), ("C2", "c"))]
    assert given(RoundRobinAssignor(), racks, *members) == {"C0": "t0-0", "C1": "t0-1", "C2": "t0-2"}


def test_members_beyond_the_number_of_partitions_stay_idle():  # E13
    answer = given(RoundRobinAssignor(), cluster(t0=2), *(member(name, "t0") for name in ("C0", "C1", "C2")))
    assert answer == {"C0": "t0-0", "C1": "t0-1", "C2": ""}


def test_static_members_come_first_by_instance_id():
    answer = given(RoundRobinAssignor(), cluster(t0=2), member("a", "t0"), member("b", "t0", instance_id="z"))
    assert answer == {"b": "t0-0", "a": "t0-1"}
