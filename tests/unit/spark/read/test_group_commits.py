"""What a query commits to its group when it is not the only one to do so, on a cluster in memory."""

from __future__ import annotations

import json
import logging

import pytest

from seamark.client.records import Offset
from seamark.spark.read.group_commits import LOOK_AGAIN_MS, REFRESH_MS, RETRY_MS, GroupCommits
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.spark_cluster import MemoryCluster

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster():
    return MemoryCluster(orders=[5000])


def at(cluster, offset, query="ours", batch=0):
    """What the checkpoint of a query holds after a batch."""
    return SourceOffsets({"orders": TopicOffsets(cluster.ids["orders"], {0: offset}, {0: 0})}, query, batch, "g")


def set_by_somebody(cluster, offset):
    cluster.commit("g", {ORDERS: Offset(offset)})


def group(cluster):
    return cluster.groups["g"][ORDERS].offset


def test_another_committer_who_is_ahead_is_not_set_back(cluster):
    commits = GroupCommits(cluster, "g")
    assert commits.durable(at(cluster, 100), 0)
    set_by_somebody(cluster, 1000)

    assert not commits.durable(at(cluster, 200), 1)

    assert group(cluster) == 1000
    assert commits.status == (
        "conflict: orders-0 of group 'g' is at 1000, committed by another client; this query left it at 100 and has "
        "finished 200; it is not committed. Give each query its own groupId; this one takes the group over when "
        "it is restarted"
    )


def test_a_group_that_somebody_else_moved_is_left_alone_even_where_the_query_is_ahead(cluster):
    commits = GroupCommits(cluster, "g")
    commits.durable(at(cluster, 100), 0)
    set_by_somebody(cluster, 150)
    commits.durable(at(cluster, 200), 1)
    set_by_somebody(cluster, 20)
    commits.durable(at(cluster, 300), 2)

    assert group(cluster) == 20
    assert commits.status.startswith("conflict: orders-0 of group 'g' is at 20")


def test_a_conflict_is_logged_once_and_ends_when_the_group_is_set_to_the_checkpoint(cluster, caplog):
    commits = GroupCommits(cluster, "g")
    commits.durable(at(cluster, 100), 0)
    with caplog.at_level(logging.INFO, "seamark.spark"):
        for offset in (1000, 1100, 1200):
            set_by_somebody(cluster, offset)
            assert not commits.durable(at(cluster, offset // 10 + 1), offset)
        set_by_somebody(cluster, 130)
        assert commits.durable(at(cluster, 130), 2000)
        assert commits.durable(at(cluster, 140), 2001)

    assert [record.getMessage()[:30] for record in caplog.records] == [
        "group g: conflict: orders-0 of",
        "group g: commits are accepted ",
    ]
    assert (group(cluster), commits.status) == (140, "ok")


def test_two_queries_in_one_group_never_move_it_back_and_one_of_them_says_so(cluster):
    fast, slow = GroupCommits(cluster, "g"), GroupCommits(cluster, "g")
    seen = []
    for batch in range(1, 6):
        fast.durable(at(cluster, 100 * batch, "fast", batch), batch)
        seen.append(group(cluster))
        slow.durable(at(cluster, 60 * batch, "slow", batch), batch)
        seen.append(group(cluster))

    assert seen == sorted(seen)
    assert (group(cluster), fast.status) == (500, "ok")
    assert slow.status.startswith(
        "conflict: orders-0 of group 'g' is at 500, committed by query fast; this query left it at 100 and has "
        "finished 300"
    )


def test_two_queries_that_stand_at_the_same_offset_are_a_conflict_too(cluster):
    first, second = GroupCommits(cluster, "g"), GroupCommits(cluster, "g")
    first.durable(at(cluster, 100, "first"), 0)
    second.durable(at(cluster, 100, "second"), 0)
    first.durable(at(cluster, 200, "first", 1), 1)

    assert not second.durable(at(cluster, 200, "second", 1), 1)

    assert second.status.startswith("conflict: orders-0 of group 'g' is at 200, committed by query first")


def test_the_query_that_was_started_last_takes_the_group_over(cluster):
    first = GroupCommits(cluster, "g")
    first.durable(at(cluster, 100, "first"), 0)
    second = GroupCommits(cluster, "g")
    second.durable(at(cluster, 300, "second"), 1)
    first.durable(at(cluster, 400, "first", 1), 2)
    assert (group(cluster), second.status) == (300, "ok")
    assert first.status.startswith("conflict: orders-0 of group 'g' is at 300, committed by query second")

    restarted = GroupCommits(cluster, "g")
    assert restarted.durable(at(cluster, 400, "first", 1), 3)

    assert (group(cluster), restarted.status) == (400, "ok")


def test_a_restart_behind_the_group_has_nothing_to_commit_until_it_has_caught_up(cluster):
    set_by_somebody(cluster, 300)
    commits = GroupCommits(cluster, "g")

    assert commits.durable(at(cluster, 100), 0)
    assert (group(cluster), commits.status) == (
        300,
        "held back: the group is ahead of the checkpoint on 1 partition, such as orders-0 (300, the checkpoint 100)",
    )
    assert commits.durable(at(cluster, 310), 1)
    assert (group(cluster), commits.status) == (310, "ok")


def test_an_older_batch_that_comes_late_leaves_the_newer_ones_commit(cluster):
    source, listener = GroupCommits(cluster, "g"), GroupCommits(cluster, "g", is_beside_source=True)
    source.durable(at(cluster, 100, batch=0), 0)
    assert listener.durable(at(cluster, 100, batch=0), 1, "spark-id", 0)
    source.durable(at(cluster, 200, batch=1), 2)
    source.durable(at(cluster, 300, batch=2), 3)

    assert listener.durable(at(cluster, 200, batch=1), 4, "spark-id", 1)

    assert (group(cluster), source.status, listener.status) == (300, "ok", "ok")


def test_a_listener_and_a_source_of_one_query_are_no_conflict(cluster):
    source, listener = GroupCommits(cluster, "g"), GroupCommits(cluster, "g", is_beside_source=True)
    for batch in range(1, 5):
        assert listener.durable(at(cluster, 10 * batch, batch=batch), batch, "spark-id", batch)
        assert source.durable(at(cluster, 10 * batch, batch=batch), batch)
    source.durable(at(cluster, 50, batch=5), 5)
    assert listener.durable(at(cluster, 60, batch=6), 6, "spark-id", 6)

    assert (group(cluster), source.status, listener.status) == (60, "ok", "ok")


def test_an_idle_query_puts_right_what_its_own_late_commit_set_back(cluster):
    """A listener on another machine can read before the source's commit and write behind it."""
    source = GroupCommits(cluster, "g")
    source.durable(at(cluster, 100, batch=0), 0)
    late = dict(cluster.groups["g"])
    source.durable(at(cluster, 200, batch=1), 1)
    cluster.commit("g", late)
    assert group(cluster) == 100

    assert source.durable(at(cluster, 200, batch=1), LOOK_AGAIN_MS + 1)

    assert group(cluster) == 200


def test_an_idle_query_notices_that_somebody_moved_its_group(cluster):
    commits = GroupCommits(cluster, "g")
    commits.durable(at(cluster, 100), 0)
    set_by_somebody(cluster, 0)
    assert commits.durable(at(cluster, 100), LOOK_AGAIN_MS - 1)

    assert not commits.durable(at(cluster, 100), LOOK_AGAIN_MS)

    assert group(cluster) == 0
    assert commits.status.startswith("conflict: orders-0 of group 'g' is at 0, committed by another client")


def test_an_offset_that_was_deleted_or_has_expired_is_committed_again(cluster):
    commits = GroupCommits(cluster, "g")
    commits.durable(at(cluster, 100), 0)
    cluster.groups.clear()

    assert commits.durable(at(cluster, 100), LOOK_AGAIN_MS)

    assert group(cluster) == 100


def test_an_unchanged_offset_is_committed_again_before_it_expires(cluster):
    commits = GroupCommits(cluster, "g")
    for now_ms in range(0, REFRESH_MS, LOOK_AGAIN_MS * 100):
        commits.durable(at(cluster, 100), now_ms)
    assert cluster.asked.count("commit") == 1

    commits.durable(at(cluster, 100), REFRESH_MS)

    assert cluster.asked.count("commit") == 2


def test_the_metadata_names_source_query_batch_and_topic(cluster):
    GroupCommits(cluster, "g").durable(at(cluster, 100, "source-id", 7), 0, "spark-id", 9)

    assert json.loads(cluster.groups["g"][ORDERS].metadata) == {
        "batch": 9, "by": "seamark-spark", "query": "spark-id", "source": "source-id", "topic": cluster.ids["orders"],
    }  # fmt: skip


def test_a_commit_that_failed_is_tried_again_soon_but_not_at_every_look(cluster):
    commits = GroupCommits(cluster, "g")
    cluster.refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    for now_ms in range(RETRY_MS):
        assert not commits.durable(at(cluster, 100), now_ms)
    assert cluster.asked.count("commit") == 1
    assert commits.status.startswith("not committed: OffsetCommit of orders-0: GROUP_AUTHORIZATION_FAILED")
    cluster.refusal = None

    assert commits.durable(at(cluster, 100), RETRY_MS)

    assert (group(cluster), commits.status) == (100, "ok")
