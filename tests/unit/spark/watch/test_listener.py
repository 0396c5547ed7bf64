"""What the listener makes of Spark's events: lines, metrics, commits. Events are stand-ins with Spark's field names."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest

from seamark.client.records import Offset
from seamark.errors import ConfigError
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets, write_document
from seamark.topic_partition import TopicPartition
from tests.support.spark_cluster import MemoryCluster

pytest.importorskip("pyspark")

from seamark.spark.watch.listener import ProgressListener


def end_of(cluster, offset, batch=0, group="g"):
    topics = {"orders": TopicOffsets(cluster.ids["orders"], {0: offset}, {0: 0})}
    return json.dumps(write_document(SourceOffsets(topics, "q", batch, group)))


def event(end, batch=0, commits="ok", lag=3, name=None, run="run-id"):
    told = {"lag_records": lag, "lag_ms": 1500, "partitions": {"orders": {"0": lag}}, "commits": commits}
    latest = "None" if commits is None else json.dumps({"seamark": told, "topics": {}})
    source = SimpleNamespace(endOffset=end, latestOffset=latest, numInputRows=7)
    other = SimpleNamespace(endOffset="None", latestOffset="null", numInputRows=0)
    sources = [other, source]
    return SimpleNamespace(
        progress=SimpleNamespace(name=name, id="query-id", runId=run, batchId=batch, sources=sources)
    )


ENDED = SimpleNamespace(id="query-id", runId="run-id")


def test_a_batch_is_committed_with_sparks_names_and_never_backwards():
    cluster = MemoryCluster(orders=[50])
    listener = ProgressListener(cluster)
    listener.onQueryProgress(event(end_of(cluster, 10, batch=4), batch=4))
    listener.onQueryProgress(event(end_of(cluster, 8), batch=3))

    assert cluster.numbers("g") == {"orders-0": 10}
    (offset,) = cluster.groups["g"].values()
    assert json.loads(offset.metadata)["query"] == "query-id"
    assert json.loads(offset.metadata)["batch"] == 4


def test_nothing_is_committed_where_the_source_does_not_commit():
    cluster = MemoryCluster(orders=[50])
    listener = ProgressListener(cluster)
    listener.onQueryProgress(event(end_of(cluster, 10, group=None)))
    listener.onQueryProgress(event(end_of(cluster, 10), commits="off: the group is Stable with 2 members"))

    assert "commit" not in cluster.asked


def test_a_source_in_conflict_keeps_the_listener_from_committing_and_is_logged_once(caplog):
    cluster = MemoryCluster(orders=[50])
    listener = ProgressListener(cluster)
    told = "conflict: orders-0 of group 'g' is at 40"
    with caplog.at_level(logging.WARNING, "seamark.spark"):
        listener.onQueryProgress(event(end_of(cluster, 10), commits=told))
        listener.onQueryProgress(event(end_of(cluster, 20, batch=1), batch=1, commits=told + "1"))

    assert "commit" not in cluster.asked
    assert [record.getMessage() for record in caplog.records] == [f"query query-id, group g: {told}"]
    assert 'seamark_spark_commits_ok{query="query-id",group="g",topics="orders"} 0' in listener.metrics.text()


def test_somebody_who_moved_the_group_is_left_alone_until_the_query_runs_anew(caplog):
    cluster = MemoryCluster(orders=[50])
    listener = ProgressListener(cluster)
    listener.onQueryProgress(event(end_of(cluster, 10)))
    assert 'seamark_spark_commits_ok{query="query-id",group="g",topics="orders"} 1' in listener.metrics.text()
    cluster.commit("g", {TopicPartition("orders", 0): Offset(5)})
    with caplog.at_level(logging.INFO, "seamark.spark"):
        listener.onQueryProgress(event(end_of(cluster, 20, batch=1), batch=1))

    assert cluster.numbers("g") == {"orders-0": 5}
    assert "; group g: conflict: orders-0 of group 'g' is at 5, committed by another client" in caplog.text
    assert 'seamark_spark_commits_ok{query="query-id",group="g",topics="orders"} 0' in listener.metrics.text()
    listener.onQueryTerminated(ENDED)

    listener.onQueryProgress(event(end_of(cluster, 30, batch=2), batch=2, run="next-run"))

    assert cluster.numbers("g") == {"orders-0": 30}


def test_what_goes_wrong_in_the_listener_is_logged_because_spark_drops_it(caplog):
    cluster = MemoryCluster(orders=[50])
    listener = ProgressListener(cluster)
    cluster.committed = lambda *_, **__: 1 / 0
    with caplog.at_level(logging.ERROR, "seamark.spark"):
        listener.onQueryProgress(event(end_of(cluster, 10)))

    assert "query query-id: its progress could not be reported or committed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_lag_that_an_event_does_not_tell_is_not_shown_as_none(caplog):
    cluster = MemoryCluster(orders=[50])
    listener = ProgressListener()
    with caplog.at_level(logging.INFO, "seamark.spark"):
        listener.onQueryProgress(event(end_of(cluster, 10), commits=None))

    assert "7 rows of orders; lag not known yet; group g: unknown" in caplog.text
    assert "seamark_spark_lag_records{" not in listener.metrics.text()


def test_every_batch_is_a_line(caplog):
    cluster = MemoryCluster(orders=[50])
    with caplog.at_level(logging.INFO, "seamark.spark"):
        ProgressListener().onQueryProgress(event(end_of(cluster, 10), batch=2, name="billing"))

    assert [record.getMessage() for record in caplog.records] == [
        "query billing batch 2: 7 rows of orders; 3 records behind, the oldest 1.5 s old; group g: ok"
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (({"bootstrap.servers": "x:1"}, None), "accepts only options that begin with kafka."),
        (({"kafka.bootstrap.servers": "x"}, None), "kafka.bootstrap.servers='x': must be host:port"),
        ((None, 70000), "metrics_port=70000: must be a port number"),
    ],
)
def test_bad_arguments_of_register_are_refused(arguments, sentence):
    with pytest.raises(ConfigError) as caught:
        ProgressListener.of(*arguments)
    assert sentence in str(caught.value)
