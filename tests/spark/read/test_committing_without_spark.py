"""Commits of queries to a group on each broker, without Spark: several committers, and a group that refuses."""

from __future__ import annotations

import threading

import pytest

from seamark.client.admin.types import NewTopic
from seamark.spark.read.group_commits import LOOK_AGAIN_MS, GroupCommits
from seamark.spark.read.kafka_cluster import KafkaCluster
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets
from seamark.spark.read.options import ReadOptions
from seamark.topic_partition import TopicPartition


@pytest.fixture
def partition(admin, fresh_name):
    topic = fresh_name("orders")
    admin.create_topics([NewTopic(topic, 1)]).raise_if_failed()
    return TopicPartition(topic, 0)


@pytest.fixture
def clusters(kafka_like):
    """Makes the connections of one query's source each time."""
    made = []

    def make():
        options = ReadOptions.of({"kafka.bootstrap.servers": kafka_like.bootstrap, "subscribe": "x"}, is_stream=True)
        made.append(KafkaCluster(options.client))
        return made[-1]

    yield make
    for each in made:
        each.close()


def at(partition, offset, query, batch=0):
    return SourceOffsets({partition.topic: TopicOffsets("", {0: offset}, {0: 0})}, query, batch)


def committed(admin, group, partition):
    return admin.list_group_offsets([group])[group][partition].offset


def test_another_committer_at_1000_is_not_set_back_to_200(clusters, admin, partition, fresh_name):
    group = fresh_name("group")
    commits = GroupCommits(clusters(), group)
    assert commits.durable(at(partition, 100, "q"), 0)
    admin.alter_group_offsets(group, {partition: 1000}).raise_if_failed()

    assert not commits.durable(at(partition, 200, "q", 1), 1)

    assert committed(admin, group, partition) == 1000
    assert commits.status.startswith(
        f"conflict: {partition} of group {group!r} is at 1000, committed by another client"
    )


def test_queries_that_commit_to_one_group_at_once_never_move_it_back(clusters, admin, partition, fresh_name):
    group = fresh_name("group")
    queries = {f"q{number}": GroupCommits(clusters(), group) for number in range(3)}
    seen = []
    is_over = threading.Event()
    all_have_looked = threading.Barrier(len(queries))

    def run(number, name):
        for batch in range(1, 40):
            queries[name].durable(at(partition, batch * (number + 1), name, batch), batch)
            if batch == 1:
                # A query whose first look comes after another has ended is rightly held back, and not in conflict.
                all_have_looked.wait(60)

    def watch():
        while not is_over.is_set():
            found = admin.list_group_offsets([group]).get(group, {})
            if partition in found:
                seen.append(found[partition].offset)

    watcher = threading.Thread(target=watch)
    threads = [threading.Thread(target=run, args=each) for each in enumerate(queries)]
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_over.set()
    watcher.join()

    assert seen == sorted(seen)
    for number, (name, commits) in enumerate(queries.items()):
        commits.durable(at(partition, 39 * (number + 1), name, 39), LOOK_AGAIN_MS + 39)
    kinds = sorted(commits.status.partition(":")[0] for commits in queries.values())
    assert kinds == ["conflict", "conflict", "ok"], [commits.status for commits in queries.values()]
