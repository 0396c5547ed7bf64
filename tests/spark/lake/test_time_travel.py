"""Time travel over a lake: what groups had committed at a time, and what changed between two times."""

from datetime import UTC, datetime

import pytest

from seamark.spark.lake.time_travel import as_of, diff
from tests.support.lakes import commit_row, lake_of, moment

START = 1_700_000_000_000
MINUTE = 60_000
DAY = 86_400_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Two groups over three days: moves, a rewind, a tombstone, an expiry, a clock that ran backwards."""
    rows = [
        commit_row("billing", "orders", 0, 10, START, 1, metadata="first", leader_epoch=3),
        commit_row("billing", "orders", 1, 5, START + MINUTE, 2),
        commit_row("billing", "orders", 0, 30, START + DAY, 5),
        commit_row("billing", "orders", 0, 20, START + DAY + MINUTE, 6),
        commit_row("billing", "orders", 1, None, START + 2 * DAY, 8),
        commit_row("billing", "orders", 1, 7, START + 2 * DAY + MINUTE, 9),
        # Stored later, although the clock says earlier: it is the later one that holds.
        commit_row("drifting", "clicks", 0, 100, START + 2 * MINUTE, 3),
        commit_row("drifting", "clicks", 0, 200, START + MINUTE, 4),
        commit_row("short-lived", "clicks", 0, 9, START, 7, expire_time=moment(START + DAY)),
        # Seen by the sampler, not in the topic.
        commit_row(
            "sampled", "clicks", 0, 1, START, 0, offsets_partition=-1, offsets_offset=None, origin="unknown"
        ),
        commit_row(
            "sampled", "clicks", 0, 2, START + DAY, 0, offsets_partition=-1, offsets_offset=None, origin="unknown"
        ),
    ]  # fmt: skip
    return lake_of(tmp_path_factory.mktemp("lake") / "lake", {"commits": rows})


def offsets(spark, lake, at, groups=None):
    return {
        (row["group"], row["topic"], row["partition"]): row["offset"]
        for row in as_of(spark, lake, at, groups).collect()
    }  # fmt: skip


def test_the_offsets_of_a_time_are_the_last_that_had_been_stored(spark, lake):
    assert offsets(spark, lake, START - 1) == {}
    assert offsets(spark, lake, START, ["billing"]) == {("billing", "orders", 0): 10}
    assert offsets(spark, lake, START + MINUTE, ["billing"]) == {
        ("billing", "orders", 0): 10, ("billing", "orders", 1): 5,
    }  # fmt: skip
    assert offsets(spark, lake, START + DAY, ["billing"])["billing", "orders", 0] == 30
    assert offsets(spark, lake, START + 2 * DAY - 1, ["billing"]) == {
        ("billing", "orders", 0): 20, ("billing", "orders", 1): 5,
    }  # fmt: skip
    (first,) = as_of(spark, lake, datetime.fromtimestamp(START / 1000, UTC), ["billing"]).collect()
    assert (first["metadata"], first["leader_epoch"]) == ("first", 3)
    assert first["commit_time"].timestamp() * 1000 == START


def test_a_tombstone_and_an_expiry_take_the_offset_away(spark, lake):
    assert ("billing", "orders", 1) not in offsets(spark, lake, START + 2 * DAY)
    assert offsets(spark, lake, START + 3 * DAY)["billing", "orders", 1] == 7
    assert ("short-lived", "clicks", 0) in offsets(spark, lake, START + DAY - 1)
    assert ("short-lived", "clicks", 0) not in offsets(spark, lake, START + DAY)


def test_the_order_of_storing_decides_where_a_clock_ran_backwards(spark, lake):
    assert offsets(spark, lake, START + DAY, ["drifting"]) == {("drifting", "clicks", 0): 200}


def test_offsets_that_only_the_sampler_saw_are_known_from_the_look_on(spark, lake):
    assert offsets(spark, lake, START + DAY - 1, ["sampled"]) == {("sampled", "clicks", 0): 1}
    assert offsets(spark, lake, START + DAY, ["sampled"]) == {("sampled", "clicks", 0): 2}


def test_a_difference_names_what_moved_came_and_went(spark, lake):
    rows = {
        (row["group"], row["partition"]): (row["before"], row["after"], row["change"], row["what"])
        for row in diff(spark, lake, START, START + 2 * DAY).collect()
    }
    assert rows == {
        ("billing", 0): (10, 20, 10, "moved"),
        ("drifting", 0): (None, 200, None, "new"),
        ("sampled", 0): (1, 2, 1, "moved"),
        ("short-lived", 0): (9, None, None, "gone"),
    }
    assert diff(spark, lake, START + DAY + MINUTE, START + DAY + MINUTE).count() == 0
    assert [row["group"] for row in diff(spark, lake, START, START + DAY, ["sampled"]).collect()] == ["sampled"]
