"""The nearest end of the log in place of an offset outside it: only when asked for, and told each time."""

import pytest

from seamark.client import Offset
from seamark.plans import OutsideLog, build_plan, clamp_plan, clamp_to_log, preview
from tests.support.plan_values import at, change, plan, state


def build(found, wanted):
    return build_plan(found, {"g": wanted}, made_by="test", now_ms=1)


@pytest.mark.parametrize(
    ("offset", "expected", "told"),
    [
        (
            -950,
            10,
            "offset -950 is 960 offsets before the start of the log (10 to 100): the start of the log, 10, is used",
        ),
        (9, 10, "offset 9 is 1 offset before the start of the log (10 to 100): the start of the log, 10, is used"),
        (10, 10, ""),
        (100, 100, ""),
        (
            99_980,
            100,
            "offset 99,980 is 99,880 offsets after the end of the log (10 to 100): the end of the log, 100, is used",
        ),
    ],
)
def test_an_offset_outside_becomes_the_nearest_end_and_that_is_told(offset, expected, told):
    wanted, remarks = clamp_to_log({"g": {at(0): offset}}, state())
    assert wanted == {"g": {at(0): expected}}
    assert remarks == ([f"group 'g', orders-0: {told}"] if told else [])


def test_metadata_of_another_offset_is_not_kept_and_that_of_the_same_is():
    ahead = Offset(500, "done: 501, 502", 3)
    wanted, _ = clamp_to_log({"g": {at(0): ahead, at(1): Offset(50, "mine"), at(2): None}}, state())
    assert wanted == {"g": {at(0): 100, at(1): Offset(50, "mine"), at(2): None}}


def test_a_log_that_cannot_be_looked_at_is_left_to_the_checks():
    found = state(logs={}, unreadable={at(0): "it has no leader"})
    wanted, remarks = clamp_to_log({"g": {at(0): 5}}, found)
    assert (wanted, remarks) == ({"g": {at(0): 5}}, [])
    assert "it has no leader" in preview(build(found, wanted["g"]), found).rows[0].problem


def test_a_shift_below_zero_is_refused_when_the_plan_is_made():
    with pytest.raises(
        OutsideLog, match=r"orders-0: offset -5 is 15 offsets before the start of the log \(10 to 100\)"
    ):
        build(state(), {at(0): -5})


def test_a_whole_plan_is_clamped_and_stays_the_undo_that_it_was():
    found = state({"g": {at(0): Offset(50), at(1): Offset(100), at(2): Offset(60)}})
    made = plan(change(0, 50, 5), change(1, 100, 900), change(2, 60, 20), undoes="digest of another")
    clamped, remarks = clamp_plan(made, found)
    # What is at the nearest end already needs no change.
    assert [(each.partition, each.after.offset) for _, each in clamped] == [(at(0), 10), (at(2), 20)]
    assert (len(remarks), clamped.undoes) == (2, "digest of another")
    assert clamp_plan(clamped, found) == (clamped, [])


def test_a_dry_run_has_a_problem_unless_offsets_outside_are_allowed():
    found = state({"g": {at(0): Offset(50)}})
    made = plan(change(0, 50, 101))
    assert not preview(made, found).is_ready
    assert preview(made, found, allow_outside_log=True).is_ready


def test_a_dry_run_says_how_many_records_are_skipped_and_repeated_in_all():
    shown = preview(plan(change(0, 50, 90), change(1, 50, 60), change(2, 50, 20)), state())
    assert (shown.skipped, shown.repeated) == (50, 30)


def test_what_is_done_already_is_no_problem_of_a_dry_run():
    found = state({"g": {at(0): Offset(900)}})
    assert preview(plan(change(0, 50, 900)), found).is_ready
