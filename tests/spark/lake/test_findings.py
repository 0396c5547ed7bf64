"""The findings table of a lake: the rules over every group in Spark, equal to the rules by themselves."""

import json
from dataclasses import replace

import pytest

from seamark.errors import UsageError
from seamark.rules.findings import Commit, Generation, GroupHistory, LogSample, Parameters, PartitionHistory
from seamark.spark.lake.findings.job import find, parameters_from
from tests.support.group_histories import HOUR, LOOK_ALIKES, MINUTE, SECOND, START, TROUBLE, history_of
from tests.support.lakes import commit_row, findings_in, findings_of_history, lake_of, renamed, rows_of

SEEDS = 3


def test_each_generated_history_gives_what_was_done_to_it_and_what_the_rules_say(spark, tmp_path):
    made = {}
    for action in (*TROUBLE, *LOOK_ALIKES):
        for seed in range(SEEDS):
            history, truth = history_of(action, seed)
            made[f"{action.__name__}-{seed}"] = (history, truth)
    groups = [replace(history, group=group) for group, (history, _) in made.items()]
    lake = lake_of(tmp_path / "lake", rows_of(groups))
    counts = find(spark, lake)
    found = findings_in(lake, spark)
    for group, (history, truth) in made.items():
        assert {each.kind for each in found.get(group, ())} == truth, group
        assert found.get(group, set()) == findings_of_history(renamed(history, group)), group
    assert sum(counts.values()) == sum(map(len, found.values()))


def test_making_the_findings_again_gives_the_same_rows_and_no_second_ones(spark, tmp_path):
    history, _ = history_of(TROUBLE[0], 1)
    lake = lake_of(tmp_path / "lake", rows_of([history]))
    first = find(spark, lake)
    rows = lake.read(spark, "findings").collect()
    assert find(spark, lake) == first == {"stall": 1}
    assert lake.read(spark, "findings").collect() == rows
    assert lake.version == 3
    (row,) = rows
    assert (row["severity"], row["group"], str(row["day"])) == ("critical", "g", str(row["first_time"].date()))
    assert json.loads(row["parameters"])["stall_ms"] == Parameters().stall_ms


def test_nothing_is_found_across_an_incomplete_stretch_nor_where_clocks_hold_no_time(spark, tmp_path):
    samples = [LogSample(START + each * MINUTE, 0, 10_000) for each in range(3)]
    commits = [Commit(START, 5_000), Commit(START + MINUTE, 100, is_complete=False), Commit(START + 2 * MINUTE, 110)]
    history = GroupHistory(
        "g", START + 2 * MINUTE, [PartitionHistory("g", "t", 0, START + 2 * MINUTE, commits, (), samples)]
    )
    tables = rows_of([history])
    # No calendar holds this one's time.
    tables["commits"].append(commit_row("g", "g.t", 0, 1, START, 99, append_time=None, commit_time=None))
    lake = lake_of(tmp_path / "lake", tables)
    assert find(spark, lake) == {}


def test_rules_about_a_whole_group_see_all_its_partitions_and_generations(spark, tmp_path):
    def partition(index, written, commits=()):
        looks = [LogSample(START, 0, 0), LogSample(START + HOUR, 0, written), LogSample(START + 2 * HOUR, 0, written)]
        return PartitionHistory("g", "t", index, START + 2 * HOUR, commits, (), looks)

    assigned = frozenset(("t", index) for index in range(4))
    generations = [Generation(START + each * 20 * SECOND, each, 2, assigned) for each in range(30)]
    partitions = [
        partition(0, 900, [Commit(START + HOUR, 900, "member")]),
        partition(1, 90_000, [Commit(START + HOUR, 90_000, "member")]),
        partition(2, 1200),
        partition(3, 0),
    ]
    lake = lake_of(tmp_path / "lake", rows_of([GroupHistory("g", START + 2 * HOUR, partitions, generations)]))
    assert find(spark, lake) == {"never committed": 1, "rebalance storm": 1, "uneven partitions": 1}
    rows = {row["kind"]: row for row in lake.read(spark, "findings").collect()}
    assert rows["never committed"]["partition"] == 2
    assert rows["uneven partitions"]["partition"] == 1
    assert rows["rebalance storm"]["topic"] is None


def test_an_empty_lake_has_no_findings(spark, tmp_path):
    lake = lake_of(tmp_path / "lake", {})
    assert find(spark, lake) == {}
    assert lake.read(spark, "findings").count() == 0


def test_parameters_are_given_by_name_and_change_what_is_found(spark, tmp_path):
    history, _ = history_of(LOOK_ALIKES[0], 0)
    lake = lake_of(tmp_path / "lake", rows_of([history]))
    assert find(spark, lake) == {}
    assert find(spark, lake, parameters_from({"often_per_second": "0.01", "often_ms": "600000"})) == {
        "commits too often": 1
    }
    with pytest.raises(UsageError, match="unknown rule parameter 'patience'; known: stall_ms, stop_ms"):
        parameters_from({"patience": "3"})
    with pytest.raises(UsageError, match="stall_ms must be a number, got 'long'"):
        parameters_from({"stall_ms": "long"})
    with pytest.raises(UsageError, match="must be > 0"):
        parameters_from({"stall_ms": "-5"})
