"""Whether a plan may be applied: every refusal, in its order, before anything is changed."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seamark.client import Offset, TopicPartition
from seamark.client.group_offsets import commit_portions
from seamark.plans import (
    Change,
    GroupInUse,
    OutsideLog,
    PlanRefused,
    PlanStale,
    Standing,
    TopicChanged,
    WrongCluster,
    check,
)
from seamark.plans.plan import GroupState, LogRange, TopicState
from tests.support.plan_values import active, at, change, plan, state


def test_changes_are_open_done_or_stale():
    made = plan(change(0, 20, 30), change(1, 20, 30), change(2, None, 30), change(3, 20, None))
    found = state({"g": {at(0): Offset(20), at(1): Offset(30)}})
    with pytest.raises(PlanStale, match=r"orders-3 of group 'g' is at no offset, not at 20") as raised:
        check(plan(change(0, 20, 30), change(3, 20, 30)), found)
    assert raised.value.partitions == (("g", at(3)),)
    # Taking away an offset that is gone already is done.
    assert [each.standing.value for each in check(made, found)] == ["open", "done", "open", "done"]


def test_a_plan_that_is_stale_only_for_metadata_or_an_epoch_says_so():
    planned = Change(at(0), Offset(60, "mine", 1), Offset(70))
    for found, what in ((Offset(60, "theirs", 1), "metadata"), (Offset(60, "mine", 2), "leader epoch")):
        with pytest.raises(PlanStale, match=rf"orders-0 of group 'g' is still at 60, but its {what} changed"):
            check(plan(planned), state({"g": {at(0): found}}))


def test_another_cluster_is_refused_before_anything_else():
    with pytest.raises(WrongCluster, match=r"for cluster 'cluster-a', this is cluster 'b'") as raised:
        check(plan(change(0, 1, 2)), state(cluster_id="b", topics={}, groups={"g": active("x")}))
    assert (raised.value.planned, raised.value.found) == ("cluster-a", "b")


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ({}, "no longer exists"),
        ({"orders": TopicState("bb", 4)}, "recreated since the plan"),
        ({"orders": TopicState("aa", 2)}, "has no partition 2"),
    ],
)
def test_a_topic_that_is_not_the_one_it_was_is_refused(topics, words):
    made = plan(change(2, 20, 30))
    with pytest.raises(TopicChanged, match=words):
        check(made, state({"g": {at(2): Offset(20)}}, topics=topics))


def test_a_topic_whose_id_one_side_does_not_know_is_taken_by_name():
    found = state({"g": {at(0): Offset(20)}}, topics={"orders": TopicState("", 4)})
    assert len(check(plan(change(0, 20, 30)), found)) == 1
    assert len(check(plan(change(0, 20, 30), topic_ids={}), state({"g": {at(0): Offset(20)}}))) == 1


def test_a_group_with_members_is_refused_and_they_are_named():
    made = plan(change(0, 20, 30))
    found = state({"g": {at(0): Offset(20)}}, groups={"g": active(*(f"worker-{n} at host" for n in range(7)))})
    with pytest.raises(GroupInUse, match=r"'g' is Stable with 7 members \(worker-0 at host, .* and 2 more\)") as raised:
        check(made, found)
    assert len(raised.value.members) == 7
    # Others may be busy, and so may a group for which nothing is left to do.
    assert check(made, state({"g": {at(0): Offset(20)}}, groups={"h": active("x"), "g": _empty()}))
    assert check(made, state({"g": {at(0): Offset(30)}}, groups={"g": active("x")}))


def _empty():
    return GroupState("Empty", "classic", False)


def test_groups_whose_offsets_cannot_be_set_are_refused():
    found = state(groups={"g": GroupState("Empty", "share", False)})
    with pytest.raises(PlanRefused, match="is a share group"):
        check(plan(change(0, None, 30)), found)


@pytest.mark.parametrize(("after", "is_inside"), [(9, False), (10, True), (100, True), (101, False)])
def test_an_offset_outside_the_log_is_refused_unless_allowed(after, is_inside):
    made = plan(change(0, 20, after))
    found = state({"g": {at(0): Offset(20)}})
    if is_inside:
        check(made, found)
    else:
        with pytest.raises(
            OutsideLog,
            match=rf"orders-0: offset {after} is 1 offset (before the start|after the end) of the log \(10 to 100\)",
        ):
            check(made, found)
    assert check(made, found, allow_outside_log=True)[0].standing is Standing.OPEN


def test_a_log_that_cannot_be_looked_at_counts_as_outside():
    found = state({"g": {at(0): Offset(20)}}, logs={}, unreadable={at(0): "it has no leader"})
    with pytest.raises(OutsideLog, match="cannot be read \\(it has no leader\\)"):
        check(plan(change(0, 20, 30)), found)
    assert check(plan(change(0, 20, None)), found)


def test_many_problems_are_one_short_sentence():
    many = [Change(TopicPartition("orders", index), Offset(20), Offset(30)) for index in range(50)]
    found = state(
        {"g": {TopicPartition("orders", index): Offset(21) for index in range(50)}},
        topics={"orders": TopicState("aa", 50)},
        logs={TopicPartition("orders", index): LogRange(0, 100) for index in range(50)},
    )
    with pytest.raises(PlanStale) as raised:
        check(plan(*many), found)
    assert str(raised.value).endswith("and 45 more; nothing was changed; make a new plan")
    assert len(raised.value.partitions) == 50


@given(st.lists(st.integers(0, 5000), max_size=60))
@example([5000] * 100)
@settings(max_examples=60, deadline=None)
def test_commits_are_cut_so_that_each_fits_and_nothing_is_lost(lengths):
    offsets = {at(place): Offset(1, "x" * length) for place, length in enumerate(lengths)}
    portions = list(commit_portions("g", offsets))
    assert [each for portion in portions for each in portion.items()] == list(offsets.items())
    for portion in portions:
        # A message of the offsets topic holds a megabyte; four bytes is what a character can take.
        assert sum(4 * len(each.metadata) + 200 for each in portion.values()) < 900_000
