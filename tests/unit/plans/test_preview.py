"""The dry run: what would be repeated, what skipped, and what stands in the way."""

import pytest

from seamark.client import Offset
from seamark.plans import Standing, preview
from seamark.plans.plan import LogRange, TopicState
from tests.support.plan_values import active, at, change, plan, state


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (50, 70, (20, 0, 20)),
        (70, 50, (-20, 20, 0)),
        # Only what the log from 10 to 100 still holds is repeated or skipped.
        (5, 20, (15, 0, 10)),
        (50, 0, (-50, 40, 0)),
        (90, 200, (110, 0, 10)),
        # No commit before: whatever lies below the new offset is never read.
        (None, 30, (None, 0, 20)),
        (None, 10, (None, 0, 0)),
        # No commit afterwards: the reset policy decides, earliest or latest.
        (40, None, (None, 30, 60)),
    ],
)
def test_rows_count_what_would_be_repeated_and_skipped(before, after, expected):
    committed = {} if before is None else {"g": {at(0): Offset(before)}}
    row = preview(plan(change(0, before, after)), state(committed)).rows[0]
    assert (row.delta, row.repeated, row.skipped) == expected
    assert (row.group, row.partition, row.standing) == ("g", at(0), Standing.OPEN)


def test_a_log_that_cannot_be_looked_at_has_no_counts():
    found = state({"g": {at(0): Offset(4)}}, logs={}, unreadable={at(0): "no leader"})
    shown = preview(plan(change(0, 4, 6)), found)
    assert (shown.rows[0].repeated, shown.rows[0].skipped) == (None, None)
    assert "no leader" in shown.rows[0].problem
    assert not shown.is_ready


def test_everything_that_stands_in_the_way_is_told_at_once():
    made = plan(change(0, 20, 30), change(1, 20, 200), change(2, 20, 30), topic_ids={"orders": "bb"})
    found = state(
        {"g": {at(0): Offset(25), at(1): Offset(20), at(2): Offset(30)}}, cluster_id="other", groups={"g": active("x")}
    )
    shown = preview(made, found)
    assert [row.problem for row in shown.rows] == [
        "is now at 25",
        "orders-1: offset 200 is 100 offsets after the end of the log (10 to 100)",
        "",
    ]
    assert [row.standing.value for row in shown.rows] == ["stale", "open", "done"]
    assert len(shown.problems) == 3
    assert not shown.is_ready


def test_a_plan_that_can_be_applied_is_ready():
    found = state({"g": {at(0): Offset(20)}}, topics={"orders": TopicState("aa", 1)}, logs={at(0): LogRange(0, 30)})
    assert preview(plan(change(0, 20, 30)), found).is_ready
