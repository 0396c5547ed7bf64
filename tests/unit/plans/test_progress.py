"""What stays done when a group's offset is set to another number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client import Offset
from seamark.plans import build_plan, preview
from seamark.plans.plan import LogRange
from seamark.plans.progress import done_beyond, moved_to
from seamark.wire.offsets import done_ahead
from tests.support.plan_values import at, change, plan, state


def committed(offset, done, epoch=3):
    return Offset(offset, done_ahead.encode(offset, done).text, epoch)


def offsets_done(commit):
    return {offset for each in done_beyond(commit) for offset in range(*each)}


LOG = LogRange(0, 100)


def shown(before, after, log=LOG):
    if isinstance(after, int):
        found = state({"g": {at(0): before}}, logs={at(0): log})
        made = build_plan(found, {"g": {at(0): after}}, made_by="test", now_ms=1)
    else:
        found = state({"g": {at(0): before}} if before else {}, logs={at(0): log})
        made = plan(change(0, before, after))
    return preview(made, found)


def test_forward_keeps_what_is_done_beyond_with_the_epoch_that_dates_it():
    before = committed(10, [12, *range(20, 100)])
    after = moved_to(before, 15)
    assert (after.offset, after.leader_epoch, offsets_done(after)) == (15, 3, set(range(20, 100)))
    result = shown(before, 15)
    assert (result.repeated, result.skipped) == (0, 4)


def test_forward_to_a_record_that_is_done_goes_on_behind_it():
    # The map cannot name the committed offset itself.
    before = committed(10, range(11, 100))
    assert moved_to(before, 11) == Offset(100, "", 3)
    result = shown(before, 11)
    assert (result.repeated, result.skipped) == (0, 1)
    assert "89 records before the new offset had been done" in result.remarks[0]


def test_forward_beyond_all_that_is_done_has_neither_map_nor_epoch():
    assert moved_to(committed(10, range(20, 30)), 50) == Offset(50)
    result = shown(committed(10, range(20, 30)), 50)
    assert (result.repeated, result.skipped) == (0, 30)


def test_backward_drops_the_map_and_counts_what_it_had():
    before = committed(10, range(11, 100))
    assert moved_to(before, 5) == Offset(5)
    result = shown(before, 5)
    assert (result.repeated, result.skipped) == (94, 0)
    assert result.remarks == [
        "89 records of those repeated had been done beyond the committed offset; "
        "the change drops the done-ahead map, so they would be processed again"
    ]


def test_to_the_same_offset_nothing_changes():
    for before in (committed(10, range(20, 30)), Offset(10, "my note", 3)):
        found = state({"g": {at(0): before}}, logs={at(0): LogRange(0, 100)})
        assert len(build_plan(found, {"g": {at(0): 10}}, made_by="test", now_ms=1)) == 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # An undo brings the map back: only what was not done before the change is repeated.
        (Offset(5), committed(10, range(20, 30)), (0, 15)),
        (Offset(100), committed(10, range(20, 100)), (10, 0)),
        # An offset with metadata of its own is set as it is, without the map.
        (committed(10, range(20, 30)), Offset(15, "a note"), (10, 5)),
        (committed(10, range(20, 30)), Offset(10), (10, 0)),
        # The worse of the reset policies, and a first commit.
        (committed(10, range(20, 30)), None, (20, 80)),
        (None, committed(10, range(20, 30)), (0, 20)),
    ],
)
def test_a_dry_run_counts_what_was_done_and_is_not_and_what_was_not_and_is(before, after, expected):
    result = shown(before, after)
    assert (result.repeated, result.skipped) == expected


def test_only_what_the_log_holds_is_counted():
    result = shown(committed(10, range(20, 90)), 5, LogRange(8, 60))
    assert (result.repeated, result.skipped) == (2 + 40, 0)


def test_a_map_that_a_client_ended_with_a_null_character_is_read():
    text = done_ahead.encode(10, [12]).text
    assert done_beyond(Offset(10, text + "\0")) == [(12, 13)]


@given(st.integers(0, 40), st.sets(st.integers(0, 80), max_size=40), st.integers(0, 100))
@settings(max_examples=200, deadline=None)
def test_numbers_are_those_of_sets(offset, done, wanted):
    before = committed(offset, {each for each in done if each > offset})
    was = {*range(offset), *offsets_done(before)}
    after = moved_to(before, wanted)
    now = {*range(after.offset), *offsets_done(after)}
    result = shown(before, after)
    assert (result.repeated, result.skipped) == (len(was - now), len(now - was))
    if wanted >= offset:
        assert now == was | set(range(wanted))
    else:
        assert now == set(range(wanted))
