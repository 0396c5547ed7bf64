"""The report of a lake: numbers that can be counted by hand, bounds that hold, files that appear whole."""

import json
from dataclasses import replace

import pytest

from seamark.errors import UsageError
from seamark.rules.lag import lag_of, total, total_unfinished
from seamark.spark.lake.findings.job import find
from seamark.spark.lake.report.content import content
from seamark.spark.lake.report.report import page, write_report, write_whole
from tests.support.group_histories import TROUBLE, history_of
from tests.support.lakes import commit_row, lake_of, moment, rows_of
from tests.support.report_contents import HOSTILE, report_content

START = 1_700_000_000_000
MINUTE = 60_000


def lag_row(group, partition, lag, at_ms, committed=0):
    return {
        "time": moment(at_ms), "group": group, "topic": "t", "partition": partition, "committed": committed,
        "log_start": 0, "log_end": committed + lag, "lag": lag, "time_lag_ms": lag * 10, "time_lag_error_ms": 0,
        "method": "read",
    }  # fmt: skip


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """Group a: two partitions over two hours with looks and rebalances; group b: one commit; c: only its state."""
    hours = 120
    commits = [
        commit_row("a", "t", 0, 10 * each, START + each * MINUTE, each, delta=10 if each else None)
        for each in range(hours)
    ]
    commits += [commit_row("a", "t", 1, 5, START + 30 * MINUTE, 1000, origin="outside", delta=5)]
    commits += [commit_row("b", "t", 0, 3, START + 10 * MINUTE, 2000)]
    commits += [commit_row("b", "t", 0, None, START + 20 * MINUTE, 2001)]
    looks = [lag_row("a", 0, each, START + each * MINUTE, 10 * each) for each in range(0, hours, 10)]
    looks += [lag_row("a", 1, 7, START + each * MINUTE, 5) for each in range(30, hours, 10)]
    generations = [
        {
            "offsets_partition": 0, "offsets_offset": 3000 + each, "time": moment(START + each * 10 * MINUTE),
            "group": "a", "generation": each + 1, "members": [{"member": "m"}] * (each + 1), "joined": ["m"],
            "gone": [], "tombstone": False, "complete": True, "duration_ms": 1500 if each else None,
        }
        for each in range(3)
    ]  # fmt: skip
    states = [
        {"time": moment(START), "group": "a", "type": "classic", "state": "Empty", "members": 0},
        {"time": moment(START + MINUTE), "group": "a", "type": "classic", "state": "Stable", "members": 3},
        {"time": moment(START + MINUTE), "group": "c", "type": "consumer", "state": "Empty", "members": 0},
    ]
    ends = [
        {"time": moment(START), "topic": "t", "partition": 0, "log_start": 0, "log_end": 0},
        {"time": moment(START + MINUTE), "topic": "t", "partition": 0, "log_start": 0, "log_end": 1300},
    ]
    troubled = [replace(history_of(action, 0)[0], group=f"trouble-{place}") for place, action in
                enumerate((TROUBLE[0], TROUBLE[5]))]  # fmt: skip
    tables = {"lag": looks, "group_states": states, **rows_of(_shifted(troubled))}
    tables["commits"] += commits
    tables["generations"] += generations
    tables["log_ends"] += ends
    made = lake_of(tmp_path_factory.mktemp("lake") / "lake", tables)
    assert find(spark, made) == {"moved from outside": 1, "rewind": 1, "stall": 1}
    return made


def _shifted(histories):
    """The same, beginning when the other groups of the lake do."""
    for history in histories:
        by = START - min(each.at_ms for part in history.partitions for each in part.commits)
        partitions = [
            replace(
                part, now_ms=part.now_ms + by, commits=[each._replace(at_ms=each.at_ms + by) for each in part.commits],
                samples=[each._replace(at_ms=each.at_ms + by) for each in part.samples],
            )
            for part in history.partitions
        ]  # fmt: skip
        generations = [each._replace(at_ms=each.at_ms + by) for each in history.generations]
        yield replace(history, now_ms=history.now_ms + by, partitions=partitions, generations=generations)


@pytest.fixture(scope="module")
def written(spark, lake, tmp_path_factory):
    """Where the page and the JSON are, and what they say."""
    directory = tmp_path_factory.mktemp("report")
    return directory, write_report(spark, lake, directory / "deep" / "report.html", directory / "report.json")


@pytest.fixture(scope="module")
def told(written):
    return written[1]


def group(told, name):
    (found,) = (each for each in told["groups"] if each["name"] == name)
    return found


def partition(told, name, index):
    rows = [dict(zip(told["partition_columns"], row, strict=True)) for row in group(told, name)["shown"]]
    (found,) = (row for row in rows if row["partition"] == index)
    return found


def test_sums_are_those_of_the_lake(told):
    assert told["totals"]["groups"] == 5
    assert told["totals"]["commits"] == sum(each["commits"] for each in told["groups"])
    assert told["totals"]["outside"] == 2
    assert told["totals"]["partitions"] == 5
    assert told["totals"]["severities"] == {"critical": 1, "warning": 2, "notice": 0}
    assert [each["name"] for each in told["groups"]] == ["trouble-0", "trouble-1", "a", "b", "c"]
    a = group(told, "a")
    assert (a["partitions"], a["commits"], a["read"], a["outside"], a["rebalances"]) == (2, 121, 1190, 1, 3)
    assert (a["lag"], a["time_lag_ms"], a["method"]) == (110 + 7, 1100, "read")
    assert (a["lost"], a["unfinished"], a["beyond"]) == (0, 110 + 7, 0)
    assert (a["state"], a["members"]) == ("Stable", 3)
    assert (group(told, "c")["state"], group(told, "c")["commits"], group(told, "c")["shown"]) == ("Empty", 0, [])
    assert partition(told, "a", 0)["written"] == 1300
    assert partition(told, "a", 0)["committed"] == 1100
    assert partition(told, "b", 0)["committed"] == 3
    assert (told["cluster"], told["lake_version"]) == ("test-cluster", 2)


def test_the_offsets_of_a_partition_add_up_with_what_was_read_and_moved(told):
    rows = [dict(zip(told["partition_columns"], row, strict=True)) for each in told["groups"] for row in each["shown"]]
    assert len(rows) == 5
    for row in rows:
        assert row["first_offset"] + row["read"] + row["moved"] == row["last_offset"], row
        assert row["committed"] + row["lag"] == row["log_end"] if row["lag"] is not None else True, row
    a = partition(told, "a", 0)
    assert (a["first_offset"], a["read"], a["moved"], a["last_offset"]) == (0, 1190, 0, 1190)
    (back,) = [row for row in rows if row["moved"] < 0]
    assert back["outside"] == 1
    # Of a single commit nobody can tell how much was read for it.
    b = partition(told, "b", 0)
    assert (b["first_offset"], b["read"], b["moved"], b["last_offset"]) == (3, 0, 0, 3)


def test_what_the_lag_hides_is_told_of_each_partition_and_group(spark, tmp_path):
    """As ``seamark.rules.lag`` counts it: lost, done ahead, both, and beyond the end."""
    cases = {
        0: (20, 60, 100, ()),
        1: (20, 0, 100, ((22, 50), (60, 90))),
        2: (20, 60, 100, ((30, 70),)),
        3: (130, 0, 100, ()),
    }
    commits, looks = [], []
    for index, (committed, log_start, log_end, ranges) in cases.items():
        ahead = [{"start": start, "end": stop} for start, stop in ranges] or None
        commits.append(commit_row("h", "t", index, committed, START, index, done_ahead=ahead))
        row = lag_row("h", index, log_end - committed, START + MINUTE, committed)
        looks.append({**row, "log_start": log_start})
    made = content(spark, lake_of(tmp_path / "lake", {"commits": commits, "lag": looks}), now_ms=START + MINUTE)
    expected = {index: lag_of(*bounds, done_ahead=ranges) for index, (*bounds, ranges) in cases.items()}
    for index, lag in expected.items():
        row = partition(made, "h", index)
        unfinished = None if lag.beyond else lag.unfinished
        assert (row["lag"], row["lost"], row["unfinished"], row["beyond"]) == (
            lag.records, lag.lost, unfinished, lag.beyond,
        )  # fmt: skip
    h = group(made, "h")
    assert (h["lag"], h["beyond"]) == (total(expected.values()), 30)
    assert (h["lost"], h["unfinished"]) == (50, total_unfinished(expected.values()))
    assert [each for each in h["lag_points"] if each is not None] == [240]


def test_charts_add_up_to_the_sums_and_leave_gaps_where_nobody_looked(told):
    a = group(told, "a")
    assert len(a["commit_points"]) == told["points"]
    assert sum(a["commit_points"]) == 121
    assert sum(a["read_points"]) == 1190
    assert sum(partition(told, "a", 0)["commit_points"]) == 120
    lag = [each for each in partition(told, "a", 0)["lag_points"] if each is not None]
    assert lag == list(range(0, 120, 10))
    assert [each for each in a["lag_points"] if each is not None] == [0, 10, 20, *range(37, 118, 10)]
    assert a["lag_points"].count(None) == told["points"] - 12
    marks = [dict(zip(told["rebalance_columns"], mark, strict=True)) for mark in a["rebalance_marks"]]
    assert [(mark["generation"], mark["members"], mark["joined"], mark["duration_ms"]) for mark in marks] == [
        (1, 1, 1, None), (2, 2, 1, 1500), (3, 3, 1, 1500),
    ]  # fmt: skip
    assert group(told, "b")["lag_points"] is None
    # The troubled groups' first generation is a second older than their first commit.
    assert told["from_ms"] == START - 1000
    assert told["look_ms"] == pytest.approx(10 * MINUTE, rel=0.01)


def test_findings_come_with_their_evidence_and_their_groups_place(told):
    assert [each["kind"] for each in told["findings"]] == ["stall", *sorted(["moved from outside", "rewind"])]
    for each in told["findings"]:
        assert told["groups"][each["place"]]["name"] == each["group"]
        assert each["advice"]
        assert "advice" not in each["evidence"]
    assert told["groups"][0]["found"] == [1, 0, 0]
    assert told["groups"][1]["found"] == [0, 2, 0]


def test_only_so_many_groups_are_listed_and_the_rest_is_counted(spark, lake):
    made = content(spark, lake, most_groups=1, now_ms=5)
    assert [each["name"] for each in made["groups"]] == ["trouble-0"]
    assert made["groups_left_out"] == 4
    assert made["totals"]["groups"] == 5
    assert [each["place"] for each in made["findings"]] == [0, None, None]
    assert made["made_ms"] == 5


def test_an_empty_lake_makes_an_empty_report(spark, tmp_path):
    made = content(spark, lake_of(tmp_path / "lake", {}))
    assert (made["groups"], made["findings"], made["totals"]["commits"]) == ([], [], 0)
    assert "Offsets report" in page(made)


def test_the_page_and_the_json_say_the_same(written):
    directory, made = written
    text = (directory / "deep" / "report.html").read_text(encoding="utf-8")
    embedded = text.partition('id="content">')[2].partition("</script>")[0]
    assert json.loads(embedded) == json.loads((directory / "report.json").read_text()) == json.loads(json.dumps(made))
    # What the browser tests look at has the form of what Spark makes.
    generated = report_content(3)
    assert generated.keys() == made.keys()
    assert generated["groups"][0].keys() == made["groups"][0].keys()
    assert generated["totals"].keys() == made["totals"].keys()


def test_a_hostile_name_cannot_end_the_script_that_holds_it():
    text = page(report_content(3))
    assert HOSTILE not in text
    embedded = text.partition('id="content">')[2]
    assert "<" not in embedded[: embedded.index("</script>")]
    assert json.loads(embedded[: embedded.index("</script>")])["groups"][1]["name"] == HOSTILE


def test_a_report_that_cannot_be_written_is_one_sentence_and_leaves_the_old_one(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot be written: Not a directory|cannot be written: File exists"):
        write_whole(tmp_path / "file" / "report.html", "x")
    write_whole(tmp_path / "report.html", "old")
    write_whole(tmp_path / "report.html", "new")
    assert (tmp_path / "report.html").read_text() == "new"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "report.html"]
