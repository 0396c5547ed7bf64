"""Rules find what was done to a group, and nothing in groups that only look like trouble."""

import os

import pytest

from seamark.rules.findings import (
    KINDS,
    SEVERITIES,
    Commit,
    Deletion,
    Generation,
    GroupHistory,
    LogSample,
    Parameters,
    PartitionHistory,
    findings_of,
    severity_of,
)
from tests.support.group_histories import DAY, HOUR, LOOK_ALIKES, MINUTE, SECOND, START, TROUBLE, history_of

SEEDS = 50 if os.environ.get("SEAMARK_SOAK") else 4


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("action", TROUBLE, ids=lambda action: action.__name__)
def test_what_was_done_to_a_group_is_found_and_nothing_else(action, seed):
    history, truth = history_of(action, seed)
    found = findings_of(history)
    assert {each.kind for each in found} == truth
    assert len(found) == len(truth)
    assert all(each.sentence and each.advice for each in found)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("action", LOOK_ALIKES, ids=lambda action: action.__name__)
def test_what_only_looks_like_trouble_is_no_finding(action, seed):
    history, _ = history_of(action, seed)
    assert findings_of(history) == []


def partition(commits, samples=(), index=0, now=START + DAY, deletions=()):
    return PartitionHistory("g", "t", index, now, commits, deletions, samples)


def found_in(*partitions, generations=(), now=START + DAY, parameters=None):
    return findings_of(GroupHistory("g", now, partitions, generations), parameters)


def test_nothing_is_found_across_a_hole_in_the_history():
    commits = [Commit(START, 500), Commit(START + MINUTE, 100, is_complete=False), Commit(START + 2 * MINUTE, 110)]
    assert found_in(partition(commits, now=START + 2 * MINUTE)) == []


def test_a_stall_is_not_seen_without_a_look_that_shows_something_to_read():
    commits = [Commit(START + each * MINUTE, 10, "member") for each in range(120)]
    end = START + 120 * MINUTE
    assert found_in(partition(commits, now=end)) == []
    caught_up = [LogSample(START + each * MINUTE, 0, 10) for each in range(120)]
    assert found_in(partition(commits, caught_up, now=end)) == []


def test_a_partition_that_nobody_commits_is_named_if_others_are_committed():
    looks = [LogSample(START + each * HOUR, 0, 5) for each in range(20)]
    generation = Generation(START, 1, 1, frozenset({("t", 0), ("t", 1)}))
    committed = partition([Commit(START + each * MINUTE, 5, "member") for each in range(1440)], looks)
    silent = partition([], looks, 1)
    assert [(each.kind, each.partition) for each in found_in(committed, silent, generations=[generation])] == [
        ("never committed", 1)
    ]
    assert found_in(silent, generations=[generation]) == []
    empty = partition([], [LogSample(each.at_ms, 0, 0) for each in looks], 1)
    assert found_in(committed, empty, generations=[generation]) == []


def test_rebalances_without_end_are_a_storm_and_a_rolling_restart_is_none():
    storm = [Generation(START + each * 20 * SECOND, each, 3) for each in range(60)]
    (found,) = found_in(generations=storm)
    assert (found.kind, found.evidence["generations"]) == ("rebalance storm", 60)
    rolling = [Generation(START + each * 2 * MINUTE, each, 6) for each in range(12)]
    assert found_in(generations=rolling) == []


def test_a_partition_that_gets_most_records_is_named():
    def written(index, count):
        return partition([], [LogSample(START, 0, 0), LogSample(START + HOUR, 0, count)], index)

    (found,) = found_in(written(0, 1000), written(1, 90_000), written(2, 1200), written(3, 900))
    assert (found.kind, found.partition) == ("uneven partitions", 1)
    assert found_in(written(0, 50_000), written(1, 90_000), written(2, 60_000)) == []
    assert found_in(written(0, 10), written(1, 900), written(2, 12)) == []


def test_records_deleted_unread_are_found_from_the_first_look_to_the_one_that_saw_them_passed():
    commits = [Commit(START, 20), Commit(START + 9 * MINUTE, 70)]
    samples = [LogSample(START + each * MINUTE, start, 100) for each, start in ((1, 10), (3, 40), (5, 60), (10, 60))]
    (found,) = [each for each in found_in(partition(commits, samples)) if each.kind == "records lost"]
    assert (found.from_ms, found.until_ms, found.records) == (START + 3 * MINUTE, START + 10 * MINUTE, 40)
    assert found.evidence == {"committed": 20, "log_start": 60}


def test_nothing_is_said_to_be_lost_that_was_done_ahead_deleted_or_hidden_by_a_hole():
    look = [LogSample(START + MINUTE, 60, 100)]
    later = Commit(START + 2 * MINUTE, 70, is_complete=False)
    for history in (
        partition([Commit(START, 20, done_ahead=40)], look, now=START + MINUTE),
        partition([Commit(START, 20), later], look, now=START + 2 * MINUTE),
        partition([Commit(START, 20)], look, now=START + MINUTE, deletions=[Deletion(START + 1000)]),
    ):
        assert not [each for each in found_in(history) if each.kind == "records lost"]


def test_parameters_decide_what_is_worth_attention():
    commits = [Commit(START, 10, "member", metadata_size=500)]
    assert found_in(partition(commits)) == []
    (found,) = found_in(partition(commits), parameters=Parameters(metadata_limit=512))
    assert found.kind == "metadata near its limit"


def test_an_expiry_is_not_said_across_a_hole_in_the_history():
    commits = [Commit(START, 10, "member")]
    assert [each.kind for each in found_in(partition(commits, deletions=[Deletion(START + 8 * DAY)]))] == ["expired"]
    assert found_in(partition(commits, deletions=[Deletion(START + 8 * DAY, is_complete=False)])) == []


def test_every_kind_that_can_be_found_has_a_severity():
    found = {kind for action in TROUBLE for kind in history_of(action, 0)[1]}
    assert found <= set(KINDS)
    assert {severity_of(kind) for kind in KINDS} == set(SEVERITIES)


def test_a_short_catch_up_between_looks_is_no_jump_of_who_otherwise_follows_a_trickle():
    # Two seconds of reading 40,000 records, then half an hour of a hundred a minute with a few left at every look.
    commits = [Commit(START + each * SECOND // 2, 10_000 * each, "member") for each in range(5)]
    samples = []
    for minute in range(1, 31):
        commits.append(Commit(START + minute * MINUTE, 40_000 + 100 * minute, "member"))
        samples.append(LogSample(START + minute * MINUTE - SECOND, 0, 40_000 + 100 * minute + 3))
    assert found_in(partition(commits, samples, now=START + 30 * MINUTE)) == []


def test_a_member_that_skips_much_more_than_it_ever_read_has_jumped():
    commits = [Commit(START + each * MINUTE, 100 * each, "member") for each in range(11)]
    commits.append(Commit(START + 11 * MINUTE, 500_000, "member"))
    samples = [LogSample(START + each * MINUTE - SECOND, 0, 500_000) for each in range(1, 12)]
    found = found_in(partition(commits, samples, now=START + 11 * MINUTE))
    assert [each.kind for each in found] == ["forward jump"]
