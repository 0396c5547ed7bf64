"""Taking a plan back: exactly what it changed, and never over somebody else's commit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client import Offset
from seamark.plans import PlanStale, UndoRecord, WrongCluster, build_plan, digest_of, plan_undo
from tests.support.plan_values import at, change, everywhere, offsets_of_groups, plan, state


def undone(record, found):
    return plan_undo(record, found, made_by="undo", now_ms=9)


def test_an_undo_turns_before_and_after_around():
    made = plan(change(0, Offset(4, "m", 7), 20), change(1, None, 20), change(2, 30, None), why="to try")
    found = state({"g": {at(0): Offset(20), at(1): Offset(20)}})
    back = undone(UndoRecord(made, 1, 2), found)
    assert back.groups[0].changes == (
        change(0, 20, Offset(4, "m", 7)),
        change(1, 20, None),
        change(2, None, 30),
    )
    assert (back.undoes, back.why, back.topic_ids) == (digest_of(made), "undo of: to try", made.topic_ids)


def test_changes_that_were_never_made_are_left_out():
    made = plan(change(0, 4, 20), change(1, 4, 20))
    back = undone(UndoRecord(made, 1), state({"g": {at(0): Offset(4), at(1): Offset(20)}}))
    assert back.groups[0].changes == (change(1, 20, 4),)
    assert undone(UndoRecord(made, 1), state({"g": {at(0): Offset(4), at(1): Offset(4)}})).groups == ()


def test_an_undo_is_refused_where_somebody_moved_an_offset_since():
    made = plan(change(0, 4, 20), change(1, 4, 20))
    with pytest.raises(PlanStale, match=r"orders-1 of group 'g' has been moved to 21 since"):
        undone(UndoRecord(made, 1), state({"g": {at(0): Offset(20), at(1): Offset(21)}}))


def test_an_undo_belongs_to_the_cluster_of_its_plan():
    with pytest.raises(WrongCluster):
        undone(UndoRecord(plan(change(0, 4, 20)), 1), state(cluster_id="other"))


@given(offsets_of_groups, offsets_of_groups, st.data())
@settings(max_examples=150, deadline=None)
def test_an_undo_restores_what_was_even_after_half_an_application(before, wanted, data):
    found = everywhere(before)
    made = build_plan(found, wanted, made_by="test", now_ms=1)
    now = {group: dict(offsets) for group, offsets in found.committed.items()}

    def carry_out(changes):
        for group, each in changes:
            offsets = now.setdefault(group, {})
            offsets.pop(each.partition, None)
            if each.after is not None:
                offsets[each.partition] = each.after

    all_changes = list(made)
    count = data.draw(st.integers(0, len(all_changes)))
    carry_out(all_changes[:count])
    back = undone(UndoRecord(made, 1), everywhere(now))
    assert len(back) == count
    carry_out(back)
    assert {group: offsets for group, offsets in now.items() if offsets} == {
        group: dict(offsets) for group, offsets in found.committed.items() if offsets
    }
