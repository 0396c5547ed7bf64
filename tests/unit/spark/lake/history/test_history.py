"""Histories of an offsets partition: previous offsets, owners, holes, and what one run hands to the next."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.spark.lake.history.history import History
from seamark.wire.offsets.done_ahead import encode
from tests.support.offsets_records import NOW, Commit, Group, Junk, batch_of, expected_rows

groups = st.sampled_from(["alpha", "beta", "grüße"])
topics = st.sampled_from(["orders", "clicks"])
partitions = st.integers(0, 2)
places = st.tuples(topics, partitions)
commits = st.builds(
    Commit, groups, topics, partitions, st.one_of(st.none(), st.integers(0, 1000)), st.integers(NOW - 9999, NOW)
)
members = st.dictionaries(st.sampled_from(["m1", "m2", "m3"]), st.lists(places, max_size=3, unique=True).map(tuple))
group_records = st.builds(Group, groups, st.integers(1, 50), st.one_of(st.none(), members))
events = st.lists(
    st.tuples(st.integers(1, 10), st.one_of(commits, commits, group_records, st.builds(Junk))), min_size=1, max_size=60
)


def placed_of(drawn):
    """Offsets that mostly follow each other: only a step of 10 leaves a hole."""
    offset = -1
    placed = []
    for step, event in drawn:
        offset += 2 if step == 10 else 1
        placed.append((offset, event))
    return placed


def taken(history, records):
    rows = {}
    for table, parts in history.take(records).items():
        for part, times_ms in parts:
            assert len(times_ms) == part.num_rows
            rows.setdefault(table, []).extend(part.to_pylist())
    return rows


def assert_rows(rows, expected):
    for table, wanted in expected.items():
        got = rows.get(table, [])
        for row in got:
            for name in ("joined", "gone"):
                if name in row:
                    row[name] = sorted(row[name])
        assert [{name: row[name] for name in wish} for row, wish in zip(got, wanted, strict=True)] == wanted


# covers: F4
@given(events)
@settings(max_examples=60, deadline=None)
def test_a_history_says_what_a_plain_model_says(drawn):
    placed = placed_of(drawn)

    rows = taken(History(7), batch_of(placed))

    assert_rows(rows, expected_rows(placed))
    assert all(row["offsets_partition"] == 7 for row in rows["commits"])


@given(events, st.lists(st.integers(1, 59), max_size=4), st.booleans())
@settings(max_examples=40, deadline=None)
def test_runs_that_hand_on_their_state_say_what_one_run_says(drawn, cuts, is_overlapping):
    placed = placed_of(drawn)
    covered, state = None, None
    rows = {}
    bounds = sorted({0, len(placed), *(cut for cut in cuts if cut < len(placed))})
    for begin, end in pairwise(bounds):
        history = History(0, covered)
        if state is not None:
            history.recall(state["state_keys"], state["state_groups"])
        # A repeated batch has records that were taken before; they are left out.
        first = 0 if is_overlapping else begin
        for table, found in taken(history, batch_of(placed[first:end])).items():
            rows.setdefault(table, []).extend(found)
        covered, state = history.reached(0, placed[end - 1][0] + 1), history.state()

    assert_rows(rows, expected_rows(placed))


def test_a_log_that_starts_above_0_has_incomplete_first_records_only():
    placed = [(10, Commit("g", "t", 0, 5)), (11, Commit("g", "t", 0, 6)), (12, Commit("g", "t", 1, 1))]

    rows = taken(History(0), batch_of(placed))["commits"]

    assert [row["complete"] for row in rows] == [False, True, False]


def test_a_hole_between_two_runs_is_a_hole():
    first = History(0)
    taken(first, batch_of([(0, Commit("g", "t", 0, 5))]))
    second = History(0, first.reached(0, 3))
    second.recall(first.state()["state_keys"], first.state()["state_groups"])

    rows = taken(second, batch_of([(3, Commit("g", "t", 0, 9))]))["commits"]

    assert (rows[0]["previous_offset"], rows[0]["delta"], rows[0]["complete"]) == (5, 4, False)


def test_a_clock_that_runs_backwards_gives_a_negative_time_and_no_error():
    placed = [(0, Commit("g", "t", 0, 5, NOW)), (1, Commit("g", "t", 0, 6, NOW - 4000))]

    rows = taken(History(0), batch_of(placed, [NOW, -1]))["commits"]

    assert rows[1]["since_previous_ms"] == -4000
    assert rows[1]["append_time"] is None


def test_a_time_that_no_calendar_holds_is_null():
    rows = taken(History(0), batch_of([(0, Commit("g", "t", 0, 5, 2**60))], [2**60]))["commits"]

    assert (rows[0]["commit_time"], rows[0]["append_time"], rows[0]["offset"]) == (None, None, 5)


def test_our_done_ahead_map_is_decoded_and_foreign_metadata_is_kept():
    ours = encode(10, [12, 13, 20]).text
    placed = [
        (0, Commit("g", "t", 0, 10, metadata=ours)),
        (1, Commit("g", "t", 1, 10, metadata="smoke")),
        (2, Commit("g", "t", 2, 11, metadata=ours)),
    ]

    rows = taken(History(0), batch_of(placed))["commits"]

    assert rows[0]["done_ahead"] == [{"start": 12, "end": 14}, {"start": 20, "end": 21}]
    # Written for another offset, so it is not applied.
    assert rows[1]["done_ahead"] is None
    assert rows[2]["done_ahead"] is None
    assert rows[1]["metadata"] == "smoke"


def test_many_groups_members_and_keys_outgrow_every_first_table():
    placed = []
    for number in range(9000):
        group = f"group-{number}"
        placed.append((2 * number, Group(group, 1, {f"a-{number}": (("t", number),), f"b-{number}": ()})))
        placed.append((2 * number + 1, Commit(group, "t", number, number)))
    again = [(18_000 + number, Commit(f"group-{number}", "t", number, number + 1)) for number in range(9000)]
    history = History(0)

    rows = taken(history, batch_of(placed))["commits"] + taken(history, batch_of(again))["commits"]

    assert all(row["owner"] == f"a-{row['partition']}" for row in rows)
    assert [row["delta"] for row in rows] == [None] * 9000 + [1] * 9000
    assert history.state()["state_groups"].num_rows == 9000


def test_members_keep_their_topics_and_timeouts():
    placed = [(0, Group("g", 4, {"m": (("b", 2), ("b", 0), ("a", 1)), "idle": ()}))]

    row = taken(History(0), batch_of(placed))["generations"][0]

    assert row["members"][0] == {
        "member": "m", "instance": None, "client": "client of m", "host": "/10.0.0.1", "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "assigned": [{"topic": "b", "partitions": [2, 0]}, {"topic": "a", "partitions": [1]}],
    }  # fmt: skip
    assert row["members"][1]["assigned"] == []
    assert (row["leader"], row["protocol"], row["protocol_type"]) == ("m", "range", "consumer")


def test_the_files_schemas_hold_whatever_a_history_gives():
    from seamark.spark.lake.tables.schemas import file_schema

    history = History(0)
    placed = [(0, Group("g", 1, {"m": (("t", 0),)})), (1, Commit("g", "t", 0, 1)), (2, Junk()), (3, Junk(None))]
    for table, parts in history.take(batch_of(placed)).items():
        for part, _ in parts:
            assert part.schema == file_schema(table)
    for table, part in history.state().items():
        assert part.schema == file_schema(table)
        assert isinstance(part, pa.Table)


def test_a_rebalance_that_a_look_saw_has_a_duration_and_others_have_none(tmp_path):
    import pyarrow.parquet as pq

    from seamark.spark.lake.history.durations import RebalancesSeen
    from seamark.spark.lake.tables.schemas import file_schema

    looks = [("g", -500, "PreparingRebalance"), ("g", -200, "CompletingRebalance"), ("g", 300, "Stable"),
             ("h", -100, "Stable"), ("g", 900, "PreparingRebalance")]  # fmt: skip
    rows = [{"time": NOW + at, "group": group, "state": state} for group, at, state in looks]
    pq.write_table(pa.Table.from_pylist(rows, schema=file_schema("group_states")), tmp_path / "looks.parquet")
    placed = [(0, Group("g", 1, {"m": ()})), (1, Group("h", 1)), (2, Group("g", 2)), (3, Group("g", 3))]
    table, times_ms = History(0).take(batch_of(placed, [NOW, NOW, NOW + 1000, NOW + 2000]))["generations"][0]

    found = RebalancesSeen([str(tmp_path / "looks.parquet")]).add_durations(table, times_ms)

    assert found["duration_ms"].to_pylist() == [500, None, 100, None]
    assert found.schema == table.schema
