"""The life of a streaming query without Spark, on a cluster in memory, called in the order in which Spark calls."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.spark.errors import (
    AsyncProgress,
    BadCheckpoint,
    GroupIsActive,
    RecordsLost,
    TopicMissing,
    TopicRecreated,
)
from seamark.spark.read.cluster import GroupState
from seamark.spark.read.group_commits import RETRY_MS
from seamark.spark.read.offset_document import read_document, write_document
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.stream_core import AGE_MS, LIST_MS, LOOK_MS, StreamCore
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.spark_cluster import MemoryCluster


class Query:
    """Spark's side: a checkpoint and the order of calls. ``run`` does batches as long as there is something to do."""

    def __init__(self, cluster, **options):
        self.cluster = cluster
        self.options = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders", **options}
        self.checkpoint: list[str] = []
        self.done = 0
        self.rows: list[tuple[str, int]] = []
        self.ranges: list[list] = []
        self.clock_ms = 0
        self.start()

    def start(self):
        """A new run in a new process."""
        options = ReadOptions.of(self.options, is_stream=True)
        self.core = StreamCore(
            options,
            self.cluster,
            clock=lambda: self.clock_ms,
            wall=lambda: self.cluster.now_ms,
            sleep=lambda _: None,
            new_id=lambda: "q",
        )
        self.initial = None

    def document(self, offsets):
        return json.loads(json.dumps(write_document(offsets)))

    def plan_next(self, limit=None):
        """One trigger up to the written offset; whether there is a batch."""
        if len(self.checkpoint) > self.done:
            return True
        if not self.checkpoint:
            self.initial = self.document(self.core.initial())
        start = json.loads(self.checkpoint[-1]) if self.checkpoint else self.initial
        self.clock_ms += LOOK_MS
        end = self.document(self.core.latest(read_document(start), limit))
        self.core.report()
        if json.dumps(end) == json.dumps(start):
            return False
        self.checkpoint.append(json.dumps(end))
        if self.done:
            self.core.confirm(read_document(start))
        return True

    def execute(self):
        """Plan, read and finish the batch that is written."""
        end = read_document(json.loads(self.checkpoint[self.done]))
        if self.done:
            start = read_document(json.loads(self.checkpoint[self.done - 1]))
        else:
            self.initial = self.document(self.core.initial())
            start = read_document(self.initial)
        planned = self.core.plan(start, end)
        self.ranges.append(planned)
        for part in planned:
            self.rows += [(f"{part.partition}@{part.topic_id[-2:]}", offset) for offset in range(part.begin, part.end)]
        self.done += 1

    def run(self, limit=None, most=50):
        for _ in range(most):
            if not self.plan_next(limit):
                return
            self.execute()
        raise AssertionError("the query does not come to rest")

    def offsets(self, topic="orders"):
        return json.loads(self.checkpoint[-1])["topics"][topic]["next"]


def test_equal_progress_is_equal_text_and_an_idle_query_asks_brokers_seldom():
    cluster = MemoryCluster(orders=[3, 0])
    query = Query(cluster, startingOffsets="earliest")
    query.run()
    cluster.asked.clear()
    start = read_document(json.loads(query.checkpoint[-1]))

    answers = {json.dumps(write_document(query.core.latest(start, None))) for _ in range(100)}

    assert answers == {query.checkpoint[-1]}
    assert len(cluster.asked) <= 2


def test_rows_are_read_once_however_batches_are_limited():
    cluster = MemoryCluster(orders=[10, 3])
    query = Query(cluster, startingOffsets="earliest")

    query.run(limit=4)

    assert len(query.rows) == len(set(query.rows)) == 13
    assert len(query.checkpoint) > 3
    assert json.loads(query.checkpoint[0])["batch"] == 0


def test_the_start_of_a_query_stays_when_its_first_batch_is_run_again():
    cluster = MemoryCluster(orders=[5])
    query = Query(cluster)  # from the latest offset
    assert query.plan_next()
    cluster.grow("orders", [8])
    query.start()  # the process died before the batch was done; "latest" is another offset by now

    query.execute()
    query.run()

    assert [offset for _, offset in query.rows] == [5, 6, 7]


def test_a_batch_is_committed_when_spark_asks_what_comes_after_it():
    cluster = MemoryCluster(orders=[4, 2])
    query = Query(cluster, startingOffsets="earliest", groupId="g")

    assert query.plan_next()
    query.execute()
    assert cluster.numbers("g") == {}
    assert not query.plan_next()

    assert cluster.numbers("g") == {"orders-0": 4, "orders-1": 2}
    metadata = json.loads(next(iter(cluster.groups["g"].values())).metadata)
    assert metadata["batch"] == 0
    assert metadata["source"] == json.loads(query.checkpoint[0])["query"]


def test_a_restart_commits_what_the_last_run_did_not():
    cluster = MemoryCluster(orders=[4])
    query = Query(cluster, startingOffsets="earliest", groupId="g")
    assert query.plan_next()
    query.execute()
    query.start()

    assert not query.plan_next()

    assert cluster.numbers("g") == {"orders-0": 4}


def test_the_group_never_goes_backwards():
    cluster = MemoryCluster(orders=[4])
    query = Query(cluster, startingOffsets="earliest", groupId="g")
    cluster.commit("g", {next(iter(cluster.ends)): _offset(9)})
    query.run()

    assert cluster.numbers("g") == {"orders-0": 9}
    assert query.core.report()["seamark"]["commits"].startswith("held back: the group is ahead of the checkpoint")

    cluster.grow("orders", [12])
    query.run()
    assert cluster.numbers("g") == {"orders-0": 12}


def _offset(number):
    from seamark.client.records import Offset

    return Offset(number)


def test_an_idle_query_commits_again_before_the_broker_would_forget():
    cluster = MemoryCluster(orders=[4])
    query = Query(cluster, startingOffsets="earliest", groupId="g")
    query.run()
    cluster.asked.clear()
    for _ in range(100):
        assert not query.plan_next()
    assert "commit" not in cluster.asked

    query.clock_ms += 6 * 3600 * 1000

    assert not query.plan_next()
    assert cluster.asked.count("commit") == 1


def test_a_refused_commit_is_told_and_tried_again_and_does_not_stop_the_query(caplog):
    cluster = MemoryCluster(orders=[4])
    query = Query(cluster, startingOffsets="earliest", groupId="g")
    cluster.refusal = ErrorCode.UNKNOWN_MEMBER_ID
    with caplog.at_level(logging.WARNING, "seamark.spark"):
        query.run()
    told = query.core.report()["seamark"]
    assert told["commits"].startswith("not committed: OffsetCommit of orders-0: UNKNOWN_MEMBER_ID")
    assert "group g: not committed" in caplog.text

    cluster.refusal = None
    query.clock_ms += RETRY_MS
    assert not query.plan_next()

    assert cluster.numbers("g") == {"orders-0": 4}
    assert query.core.report()["seamark"]["commits"] == "ok"


def test_an_active_group_stops_the_query_at_its_start_or_turns_commits_off():
    cluster = MemoryCluster(orders=[4])
    cluster.states["g"] = GroupState("Stable", 2, True)
    with pytest.raises(GroupIsActive, match="the group is Stable with 2 members"):
        Query(cluster, startingOffsets="earliest", groupId="g").run()

    query = Query(cluster, startingOffsets="earliest", groupId="g", onActiveGroup="warn")
    query.run()

    assert len(query.rows) == 4
    assert cluster.numbers("g") == {}
    assert query.core.report()["seamark"]["commits"] == "off: the group is Stable with 2 members"


def test_without_group_id_nothing_is_committed():
    cluster = MemoryCluster(orders=[4])
    Query(cluster, startingOffsets="earliest", **{"kafka.group.id": "g"}).run()

    assert "commit" not in cluster.asked
    assert "group" not in cluster.asked


def test_a_query_that_runs_ahead_of_its_checkpoint_is_refused_with_a_group():
    def run(**options):
        cluster = MemoryCluster(orders=[1])
        query = Query(cluster, startingOffsets="earliest", **options)
        query.core.confirm = lambda _: None  # Spark confirms only what its log has
        for end in (1, 2, 3, 4):
            cluster.grow("orders", [end])
            query.run()
        return query

    assert len(run().rows) == 4
    with pytest.raises(AsyncProgress, match="asyncProgressTrackingEnabled cannot be combined with groupId"):
        run(groupId="g")


def test_a_topic_made_anew_stops_the_query():
    cluster = MemoryCluster(orders=[4])
    query = Query(cluster, startingOffsets="earliest")
    query.run()
    cluster.create("orders", [9])

    with pytest.raises(TopicRecreated, match="topic 'orders' was deleted and recreated"):
        query.run()


def test_a_topic_made_anew_is_read_from_its_beginning_when_the_user_says_so():
    cluster = MemoryCluster(orders=[4])
    query = Query(cluster, startingOffsets="earliest", onTopicRecreated="restart", groupId="g")
    query.run()
    assert cluster.numbers("g") == {"orders-0": 4}
    cluster.create("orders", [2, 1])

    query.run()

    new = cluster.ids["orders"][-2:]
    assert query.rows[4:] == [(f"orders-0@{new}", 0), (f"orders-0@{new}", 1), (f"orders-1@{new}", 0)]
    # The old number meant another topic: the group goes back with it.
    assert cluster.numbers("g") == {"orders-0": 2, "orders-1": 1}


def test_a_planned_batch_of_a_topic_made_anew_is_never_read_from_the_new_one():
    cluster = MemoryCluster(orders=[4])
    query = Query(cluster, startingOffsets="earliest", onTopicRecreated="restart")
    assert query.plan_next()
    cluster.create("orders", [9])
    query.start()

    query.run()

    assert {name for name, _ in query.rows} == {f"orders-0@{cluster.ids['orders'][-2:]}"}
    assert [offset for _, offset in query.rows] == list(range(9))


def test_new_partitions_are_read_from_their_beginning():
    cluster = MemoryCluster(orders=[2])
    query = Query(cluster)
    query.run()
    cluster.grow("orders", [2, 3])
    query.run()

    assert [(name[:8], offset) for name, offset in query.rows] == [("orders-1", 0), ("orders-1", 1), ("orders-1", 2)]


def test_a_topic_that_comes_to_match_is_read_from_its_beginning():
    cluster = MemoryCluster(orders=[2])
    query = Query(cluster, startingOffsets="earliest")
    del query.options["subscribe"]
    query.options["subscribePattern"] = "o.*"
    query.start()
    query.run()
    cluster.create("others", [2])
    query.run()
    assert len(query.rows) == 2  # all topics of a cluster are not listed all the time

    query.clock_ms += LIST_MS
    query.run()
    assert len(query.rows) == 4


@pytest.mark.parametrize("deleted", ["topic", "records", "end"])
def test_lost_records_stop_the_query_or_are_passed_by(deleted):
    def run(**options):
        cluster = MemoryCluster(orders=[4, 4])
        query = Query(cluster, startingOffsets="earliest", **options)
        query.run()
        cluster.grow("orders", [9, 9])
        if deleted == "topic":
            cluster.delete("orders")
        elif deleted == "records":
            for partition in cluster.starts:
                cluster.starts[partition] = 7
        else:
            cluster.grow("orders", [2, 9])
        query.run()
        return cluster, query

    with pytest.raises(RecordsLost, match="set failOnDataLoss=false to continue without them"):
        run()
    cluster, query = run(failOnDataLoss="false")
    expected = {"topic": 8, "records": 12, "end": 13}[deleted]
    assert len(query.rows) == expected
    if deleted == "end":
        cluster.grow("orders", [3, 9])
        query.run()
        assert [offset for _, offset in query.rows[13:]] == [2]


def test_available_now_goes_no_further_than_what_was_there():
    cluster = MemoryCluster(orders=[5])
    query = Query(cluster, startingOffsets="earliest", groupId="g")
    query.core.stop_at_what_is_there()
    cluster.grow("orders", [9, 3])

    query.run(limit=2)

    assert [offset for _, offset in query.rows] == [0, 1, 2, 3, 4]
    assert cluster.numbers("g") == {"orders-0": 5, "orders-1": 0}
    query.start()
    query.core.stop_at_what_is_there()
    query.run(limit=2)
    assert len(query.rows) == 12


def test_a_batch_waits_for_enough_rows_but_not_for_ever():
    cluster = MemoryCluster(orders=[1])
    query = Query(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1m")
    query.run()
    assert len(query.rows) == 1  # the first batch of a run does not wait
    cluster.grow("orders", [4])
    query.run()
    assert len(query.rows) == 1

    query.clock_ms += 60_000
    query.run()
    assert len(query.rows) == 4
    cluster.grow("orders", [9])
    query.run()
    assert len(query.rows) == 9


def test_lag_is_told_in_records_and_in_the_age_of_the_oldest():
    cluster = MemoryCluster(orders=[10, 4])
    query = Query(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="7")
    query.plan_next(limit=7)
    cluster.asked.clear()

    told = query.core.report()

    assert told["topics"] == {"orders": {"0": 10, "1": 4}}
    assert told["seamark"] == {"lag_ms": 5000, "lag_records": 7, "partitions": {"orders": {"0": 5, "1": 2}}}
    assert "times" not in cluster.asked
    query.clock_ms += AGE_MS
    query.core.report()
    assert cluster.asked == ["times"]


def test_a_checkpoint_of_another_topic_is_refused():
    cluster = MemoryCluster(orders=[1], others=[1])
    query = Query(cluster, startingOffsets="earliest")
    query.run()
    query.options["subscribe"] = "others"
    query.start()

    with pytest.raises(BadCheckpoint, match="the checkpoint is of orders, but the query reads others"):
        query.run()


def test_a_missing_topic_is_known_at_the_start():
    with pytest.raises(TopicMissing, match="topic 'orders' does not exist"):
        Query(MemoryCluster()).run()


def test_a_checkpoint_of_sparks_own_source_is_taken_over():
    cluster = MemoryCluster(orders=[6, 3])
    query = Query(cluster, groupId="g")
    query.checkpoint = ['{"orders":{"0":4,"1":3}}']
    query.done = 1

    query.run()

    assert [offset for _, offset in query.rows] == [4, 5]
    assert json.loads(query.checkpoint[-1])["topics"]["orders"]["id"] == cluster.ids["orders"]
    assert cluster.numbers("g") == {"orders-0": 6, "orders-1": 3}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("grow"), st.integers(0, 2), st.integers(1, 6)),
            st.tuples(st.just("batch"), st.integers(1, 5), st.just(0)),
            st.tuples(st.just("crash"), st.booleans(), st.just(0)),
        ),
        max_size=40,
    )
)
def test_whatever_crashes_every_row_is_read_once_and_the_group_is_never_ahead(steps):
    cluster = MemoryCluster(orders=[2, 0, 1])
    query = Query(cluster, startingOffsets="earliest", groupId="g")
    for step, first, second in steps:
        if step == "grow":
            ends = [cluster.ends[each] for each in sorted(cluster.ends)]
            ends[first] += second
            cluster.grow("orders", ends)
        elif step == "batch":
            if query.plan_next(first):
                query.execute()
        else:
            # A crash before the batch is done, or right after.
            if first:
                query.plan_next(2)
            query.start()
        durable = json.loads(query.checkpoint[query.done - 1])["topics"]["orders"]["next"] if query.done else {}
        for partition, offset in cluster.groups.get("g", {}).items():
            assert offset.offset <= durable[str(partition.partition)]
    query.run()

    assert sorted(offset for _, offset in query.rows) == sorted(
        offset for end in cluster.ends.values() for offset in range(end)
    )
    assert len(set(query.rows)) == len(query.rows)
    assert cluster.numbers("g") == {str(each): end for each, end in sorted(cluster.ends.items())}
