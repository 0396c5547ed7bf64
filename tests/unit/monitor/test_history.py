"""The history file: what is kept, how it is drawn, and that it stays small."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.monitor.history import Event, GroupSample, History, HistoryError
from seamark.monitor.history_series import filled
from seamark.topic_partition import TopicPartition


@pytest.fixture
def history(tmp_path):
    made = History(tmp_path / "h.sqlite3")
    yield made
    made.close()


def look(history, at_s, lag, group="g", **more):
    history.add("c", at_s * 1000, [GroupSample(group, lag, None)], **more)


def drawn(history, since_s, until_s, points, group="g"):
    return [point.lag for point in history.series("c", group, since_s * 1000, until_s * 1000, points)]


def test_a_graph_survives_a_restart_and_the_time_between_is_empty(tmp_path):
    first = History(tmp_path / "h.sqlite3")
    for at in range(0, 60, 15):
        look(first, at, 5)
    first.close()
    again = History(tmp_path / "h.sqlite3")
    for at in range(600, 660, 15):
        look(again, at, 7)
    assert drawn(again, 0, 700, 7) == [5, None, None, None, None, None, 7]
    again.close()


def test_a_group_at_rest_costs_one_row(history):
    for at in range(0, 600, 15):
        look(history, at, 5)
    assert history.count() == (1, 0)
    assert drawn(history, 300, 600, 3) == [5, 5, 5]


def test_clusters_and_groups_do_not_mix(history):
    history.add("one", 0, [GroupSample("g", 1, None)])
    history.add("two", 0, [GroupSample("g", 2, None), GroupSample("", 3, None)])
    assert [point.lag for point in history.series("one", "g", 0, 10_000, 1)] == [1]
    assert history.sparks("two", ["g", "", "none"], 0, 10_000, 1) == {"g": [2], "": [3], "none": [None]}


def test_the_last_hour_is_exact_and_what_is_older_keeps_its_peaks_and_where_it_ended(history):
    for minute in range(180):
        for second in (0, 20, 40):
            peak = 1000 if (minute, second) == (10, 20) else second
            look(history, minute * 60 + second, peak)
    history.tidy(180 * 60_000)
    assert history.count()[0] < 320
    old = drawn(history, 0, 3600, 60)
    assert old[10] == 1000
    assert set(old) == {1000, 40}
    assert drawn(history, 180 * 60 - 120, 180 * 60, 6) == [0, 20, 40, 0, 20, 40]


def test_rows_and_events_stay_below_their_bounds(tmp_path):
    history = History(tmp_path / "h.sqlite3", max_rows=500, max_events=50)
    for number in range(1200):
        look(history, number, number, events=[Event("g", number * 1000, "rebalance", str(number))])
    history.tidy(1200_000)
    samples, events = history.count()
    assert 300 <= samples <= 500
    assert events == 50
    assert [event.text for event in history.events("c", "g", 2)] == ["1199", "1198"]
    assert drawn(history, 1190, 1200, 2) == [1194, 1199]
    history.close()


def test_what_is_too_old_is_gone_and_groups_with_it(tmp_path):
    history = History(tmp_path / "h.sqlite3", keep_s=100)
    look(history, 0, 1, group="gone", events=[Event("gone", 0, "rebalance", "x")])
    look(history, 1000, 2)
    history.tidy(1000_000)
    assert history.count() == (1, 0)
    assert history.events("c", "gone") == []
    look(history, 1010, 3)
    assert drawn(history, 1000, 1020, 2) == [2, 3]
    history.close()


def test_a_file_of_another_kind_or_version_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "text").write_text("not a database at all, but long enough to be looked at" * 20)
    with pytest.raises(HistoryError, match="cannot be used"):
        History(tmp_path / "text")
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("CREATE TABLE t (a)")
    newer.execute("PRAGMA user_version = 9")
    newer.close()
    with pytest.raises(HistoryError, match="version 9"):
        History(tmp_path / "newer")
    with pytest.raises(HistoryError, match="cannot be used"):
        History(tmp_path / "no such directory" / "h")


def test_a_look_that_cannot_be_written_is_an_error_and_the_next_one_is_whole(history, tmp_path):
    look(history, 0, 1)
    other = sqlite3.connect(tmp_path / "h.sqlite3", timeout=0)
    history._file.execute("PRAGMA busy_timeout = 1")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(HistoryError, match="cannot be written"):
        look(history, 15, 2)
    other.rollback()
    other.close()
    look(history, 30, 3)
    assert drawn(history, 0, 45, 3) == [1, 1, 3]


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.integers(0, 99), st.integers(0, 9), max_size=20),
    st.tuples(st.integers(0, 99), st.integers(0, 99)).map(sorted),
    st.sampled_from([1, 3, 10]),
)
def test_a_stretch_shows_the_highest_that_was_in_effect_while_somebody_looked(values, run, step):
    rows = [(at, lag, None) for at, lag in sorted(values.items())]
    points = 100 // step
    found = [lag for lag, _ in filled(rows, [tuple(run)], 0, step, points)]
    for index in range(points):
        moments = range(index * step, (index + 1) * step)
        effective = [max((at for at in values if at <= moment), default=None) for moment in moments]
        known = [values[at] for at in effective if at is not None]
        is_looked_at = run[0] < (index + 1) * step and run[1] >= index * step
        assert found[index] == (max(known, default=None) if is_looked_at else None)


def test_where_groups_were_before_a_rewind_survives_a_restart_cluster_by_cluster(tmp_path):
    first = History(tmp_path / "h.sqlite3")
    kept = {("g", TopicPartition("t", 0)): 90, ("g\x1b", TopicPartition("t", 7)): 2**62}
    first.keep_rewinds("c", {("g", TopicPartition("t", 1)): 5})
    first.keep_rewinds("c", kept)
    first.keep_rewinds("other", {("g", TopicPartition("t", 0)): 1})
    first.close()
    again = History(tmp_path / "h.sqlite3")
    assert again.rewinds("c") == kept
    again.keep_rewinds("c", {})
    assert (again.rewinds("c"), len(again.rewinds("other"))) == ({}, 1)
    again.close()
