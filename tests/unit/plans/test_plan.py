"""Making plans: what is wanted against what is there."""

import pytest
from hypothesis import given, settings

from seamark.client import Offset
from seamark.errors import UsageError
from seamark.plans import Standing, TopicChanged, build_plan, check
from seamark.plans.decisions import standings
from tests.support.plan_values import at, change, everywhere, offsets_of_groups, state


def made(found, wanted):
    return build_plan(found, wanted, made_by="test", why="because", now_ms=5)


def test_a_plan_has_what_was_and_what_should_be():
    found = state({"g": {at(0): Offset(4, "m", 7)}})
    plan = made(found, {"g": {at(1): 20, at(0): Offset(11, "n")}})
    assert plan.cluster_id == "cluster-a"
    assert plan.topic_ids == {"orders": "aa"}
    assert (plan.made_by, plan.why, plan.created_ms, plan.undoes) == ("test", "because", 5, None)
    assert plan.groups[0].changes == (
        change(0, Offset(4, "m", 7), Offset(11, "n")),
        change(1, None, 20),
    )
    assert len(plan) == 2
    assert plan.partitions == {"g": [at(0), at(1)]}


def test_what_is_already_as_wanted_is_left_out():
    found = state({"g": {at(0): Offset(4, "m", 7)}, "h": {at(0): Offset(1)}})
    plan = made(found, {"g": {at(0): Offset(4, "m"), at(1): None}, "h": {at(0): 1}})
    assert plan.groups == ()
    assert not len(plan)
    assert plan.topic_ids == {}


@pytest.mark.parametrize("wanted", [Offset(4, "other"), Offset(5, "m"), Offset(4, "m", 8)])
def test_metadata_and_a_known_epoch_count_as_part_of_an_offset(wanted):
    found = state({"g": {at(0): Offset(4, "m", 7)}})
    assert len(made(found, {"g": {at(0): wanted}})) == 1


def test_partitions_that_do_not_exist_cannot_be_set_but_can_lose_their_offset():
    found = state({"g": {at(0, "gone"): Offset(3), at(9): Offset(4)}})
    with pytest.raises(TopicChanged, match=r"does not have gone-0, orders-4"):
        made(found, {"g": {at(4): 1, at(0, "gone"): 2}})
    plan = made(found, {"g": {at(0, "gone"): None, at(9): None}})
    assert [each.after for _, each in plan] == [None, None]
    assert plan.topic_ids == {"gone": "", "orders": "aa"}
    assert [each.standing for each in check(plan, found)] == [Standing.OPEN] * 2


@pytest.mark.parametrize("wanted", [True, 2**63, "7"])
def test_an_offset_that_cannot_be_is_refused(wanted):
    with pytest.raises(UsageError):
        made(state(), {"g": {at(0): wanted}})


@given(offsets_of_groups, offsets_of_groups)
@settings(max_examples=150, deadline=None)
def test_applying_a_plan_to_the_state_it_was_made_from_gives_what_was_wanted(before, wanted):
    found = everywhere(before)
    plan = made(found, wanted)
    assert {each.standing for each in check(plan, found)} <= {Standing.OPEN}
    after = {group: dict(offsets) for group, offsets in found.committed.items()}
    for group, each in plan:
        offsets = after.setdefault(group, {})
        if each.after is None:
            del offsets[each.partition]
        else:
            offsets[each.partition] = each.after
    for group, offsets in wanted.items():
        for partition, offset in offsets.items():
            assert after.get(group, {}).get(partition) == offset
    touched = {(group, each.partition) for group, each in plan}
    for group, offsets in found.committed.items():
        for partition, offset in offsets.items():
            assert (group, partition) in touched or after[group][partition] == offset
    # Made again from the result, nothing is left to do; looked at again, all of it is done.
    assert made(everywhere(after), wanted).groups == ()
    assert {each.standing for each in standings(plan, everywhere(after))} <= {Standing.DONE}
