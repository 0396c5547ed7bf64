"""Which ranges a run reads: only what is new, in one task per partition, and never of another topic's history."""

import pytest

from seamark.spark.lake.errors import LakeJobFailed, TopicNotReadable, sentence_of
from seamark.spark.lake.fill.planning import plan, reader_options, topic_options
from seamark.spark.lake.fill.reports import Report, RunSummary, publish_reports, summary_of
from seamark.spark.lake.tables.lake import Lake, LakeError
from seamark.spark.lake.tables.manifest import Covered, File, Manifest
from tests.support.spark_cluster import MemoryCluster

TOPIC = "__consumer_offsets"
OPTIONS = topic_options({"bootstrap.servers": "127.0.0.1:1"})


def ranges(cluster, manifest):
    _, tasks = plan(cluster, OPTIONS, manifest)
    return {task.partition: task.stretch for task in tasks}


def test_a_first_run_reads_everything_the_longest_partition_first():
    cluster = MemoryCluster(**{TOPIC: [5, 0, 9]})
    cluster.starts[next(iter(each for each in cluster.starts if each.partition == 2))] = 2

    assert list(ranges(cluster, Manifest()).items()) == [(2, (2, 9)), (0, (0, 5))]


def test_a_later_run_reads_only_what_is_new_with_the_state_of_its_partition():
    cluster = MemoryCluster(**{TOPIC: [5, 7]})
    topic_id, _ = plan(cluster, OPTIONS, Manifest())
    state = {"state_keys": (File("k0", 1, 1, 0), File("k1", 1, 1, 1)), "state_groups": (File("g1", 1, 1, 1),)}
    covered = {0: Covered(0, 5, 5, -1), 1: Covered(0, 4, 4, -1)}

    _, tasks = plan(cluster, OPTIONS, Manifest(1, state, covered, topic_id))

    assert [task.stretch for task in tasks] == [(4, 7)]
    assert (tasks[0].before.covered, tasks[0].before.keys, tasks[0].before.groups) == (covered[1], ("k1",), ("g1",))


def test_a_log_whose_start_passed_the_lake_is_read_from_its_start():
    cluster = MemoryCluster(**{TOPIC: [20]})
    cluster.starts = dict.fromkeys(cluster.starts, 12)

    assert ranges(cluster, Manifest(1, {}, {0: Covered(0, 5, 5, -1)})) == {0: (12, 20)}


def test_a_topic_that_was_made_again_or_cut_is_refused():
    cluster = MemoryCluster(**{TOPIC: [5]})
    known = Manifest(1, {}, {0: Covered(0, 5, 5, -1)}, plan(cluster, OPTIONS, Manifest())[0])
    cluster.create(TOPIC, [9])
    with pytest.raises(LakeError, match=r"was created again .* fill a new lake"):
        plan(cluster, OPTIONS, known)
    with pytest.raises(LakeError, match="ends at offset 9, but the lake has it up to 50"):
        plan(cluster, OPTIONS, Manifest(1, {}, {0: Covered(0, 50, 50, -1)}))
    with pytest.raises(LakeError, match="has no topic __consumer_offsets, but the lake holds records"):
        plan(MemoryCluster(), OPTIONS, known)
    assert plan(MemoryCluster(), OPTIONS, Manifest()) == (None, [])


def test_reports_survive_the_way_to_the_driver_and_are_summed():
    files = [("commits", File("a", 3, 9)), ("state_keys", File("b", 1, 1, 4))]
    report = Report(4, Covered(0, 3, 3, -1), 3, 17, 19, files)

    assert Report.of_line(report.to_line()) == report
    assert summary_of([report, report], 1.5, 7) == RunSummary(6, {"commits": 6}, 1.5, 7)


def test_a_partition_read_by_two_tasks_is_not_published(tmp_path):
    lake = Lake.create(tmp_path / "lake", None)
    report = Report(4, Covered(0, 3, 3, -1), 3, 17, 19, [])

    with pytest.raises(LakeJobFailed, match="by two tasks"):
        publish_reports(lake, [report, report])
    assert lake.version == 0


def test_the_topic_is_read_without_aborted_commits_unless_told_otherwise():
    assert reader_options({})["kafka.isolation.level"] == "read_committed"
    assert reader_options({"isolation.level": "read_uncommitted"})["kafka.isolation.level"] == "read_uncommitted"
    assert OPTIONS.is_read_committed


def test_the_sentence_of_a_task_is_found_in_sparks_pages():
    text = (
        "[PYTHON_EXCEPTION] An exception was thrown\nTraceback (most recent call last):\n  File x\n"
        "seamark.client.errors.Refused: Fetch: TOPIC_AUTHORIZATION_FAILED for partition x-0 SQLSTATE: 38000\n\n"
        "\tat org.apache.spark.Foo"
    )

    assert sentence_of(text) == "Fetch: TOPIC_AUTHORIZATION_FAILED for partition x-0"
    assert sentence_of("java.lang.OutOfMemoryError: heap") is None
    assert "use the sampler" in str(TopicNotReadable("why"))
