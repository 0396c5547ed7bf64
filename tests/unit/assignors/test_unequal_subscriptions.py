from __future__ import annotations

import pytest

from seamark.assignors import StickyAssignor, unequal_subscriptions
from tests.unit.assignors.notation import given, member, on_racks

# A group in which the balancing undoes an earlier move at the cost of a member that has little.
RACKS = {
    "t0-0": "b", "t0-1": "bc", "t0-2": "abc", "t0-3": "ac", "t0-4": "c", "t0-5": "c", "t0-6": "c",
    "t1-0": "", "t1-1": "c",
    "t6-0": "a", "t6-1": "ab", "t6-2": "bc", "t6-3": "", "t6-4": "b", "t6-5": "ab",
    "t7-0": "", "t7-1": "bc", "t7-2": "ac", "t7-3": "a", "t7-4": "abc", "t7-5": "b", "t7-6": "b",
}  # fmt: skip
MEMBERS = [
    member("C0", "t1", generation=2, rack="a"),
    member("C1", "t1", generation=2, rack="d"),
    member("C2", "t7 t1 t6", generation=2, rack="a"),
    member("C3", "t7", generation=2, rack="b"),
    member("C4", "t7 t1 t6 t0", generation=1),
    member("C5", "t6 t0", owned="t6-0 t6-1 t7-3", generation=3, rack="a"),
]


@pytest.mark.parametrize("allowed", [0, 1])
def test_balancing_ends_in_balance_with_and_without_detours(monkeypatch, allowed):
    monkeypatch.setattr(unequal_subscriptions, "_DETOURS_PER_PARTITION", allowed)
    answer = {name: text.split() for name, text in given(StickyAssignor(), on_racks(RACKS), *MEMBERS).items()}
    assert sorted(partition for owned in answer.values() for partition in owned) == sorted(RACKS)
    for one in MEMBERS:
        held_topics = {partition.rsplit("-", 1)[0] for partition in answer[one.member_id]}
        assert held_topics <= set(one.topics)
        for other in MEMBERS:
            if held_topics & set(other.topics):
                assert len(answer[other.member_id]) >= len(answer[one.member_id]) - 1


def test_a_refused_detour_moves_the_partition_at_hand(monkeypatch):
    with_detour = given(StickyAssignor(), on_racks(RACKS), *MEMBERS)
    monkeypatch.setattr(unequal_subscriptions, "_DETOURS_PER_PARTITION", 0)
    assert given(StickyAssignor(), on_racks(RACKS), *MEMBERS) != with_detour
