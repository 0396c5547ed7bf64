"""Which ranges a run reads: only what is new, in one task per partition, and never of another topic's history."""

import pytest

from seamark.spark.lake.fill.planning import plan, reader_options, topic_options
from seamark.spark.lake.tables.lake import LakeError
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
    with pytest.raises(LakeError, match=r"was recreated .* use a new lake"):
        plan(cluster, OPTIONS, known)
    with pytest.raises(LakeError, match="ends at offset 9, but the lake has it up to 50"):
        plan(cluster, OPTIONS, Manifest(1, {}, {0: Covered(0, 50, 50, -1)}))
    with pytest.raises(LakeError, match="has no topic __consumer_offsets, but the lake has records"):
        plan(MemoryCluster(), OPTIONS, known)
    assert plan(MemoryCluster(), OPTIONS, Manifest()) == (None, [])


def test_the_topic_is_read_without_aborted_commits_unless_told_otherwise():
    assert reader_options({})["kafka.isolation.level"] == "read_committed"
    assert reader_options({"isolation.level": "read_uncommitted"})["kafka.isolation.level"] == "read_uncommitted"
    assert OPTIONS.is_read_committed
