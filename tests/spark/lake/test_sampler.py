"""The sampler: group states, log bounds and lag as rows, and commits from changed offsets where the topic is hidden."""

from __future__ import annotations

import time

import pytest

from seamark import Broker
from seamark.client import Admin, Offset, Producer, TopicPartition
from seamark.spark.lake.errors import LakeJobFailed
from seamark.spark.lake.fill import job, sampler
from seamark.spark.lake.tables.lake import Lake


@pytest.fixture
def group_on_a_topic(kafka_like, admin, fresh_name):
    """A group at offset 4 of ten records that were written two seconds apart in time, and at the end of another ten."""
    from seamark.client.admin.types import NewTopic

    topic, group = fresh_name("sampled"), fresh_name("group")
    admin.create_topics([NewTopic(topic, 2)]).raise_if_failed()
    now = round(time.time() * 1000)
    with Producer(bootstrap_servers=kafka_like.bootstrap) as producer:
        for number in range(20):
            age_ms = 2000 * (10 - number // 2)
            producer.send(topic, b"x", partition=number % 2, timestamp_ms=now - age_ms)
    commit(admin, group, topic, {0: 4, 1: 10})
    return topic, group


def commit(admin, group, topic, offsets):
    wanted = {TopicPartition(topic, partition): Offset(offset, "note") for partition, offset in offsets.items()}
    admin.alter_group_offsets(group, wanted).raise_if_failed()


def rows(lake, spark, table, where, order="partition"):
    return [row.asDict() for row in lake.read(spark, table).where(where).orderBy("time", order).collect()]


def test_a_look_says_states_bounds_and_lag_in_records_and_time(kafka_like, admin, group_on_a_topic, spark, tmp_path):
    topic, group = group_on_a_topic

    summary = job.run(spark, tmp_path / "lake", source="sampler", config={"bootstrap.servers": kafka_like.bootstrap})

    lake = Lake.open(tmp_path / "lake")
    state = rows(lake, spark, "group_states", f"group = '{group}'", "group")[0]
    assert (state["state"], state["members"]) == ("Empty", 0)
    ends = rows(lake, spark, "log_ends", f"topic = '{topic}'")
    assert [(row["partition"], row["log_start"], row["log_end"]) for row in ends] == [(0, 0, 10), (1, 0, 10)]
    behind, caught_up = rows(lake, spark, "lag", f"group = '{group}'")
    assert (behind["committed"], behind["lag"], caught_up["lag"]) == (4, 6, 0)
    # The fifth record is 12 seconds old, and what the test takes.
    assert (behind["method"], behind["time_lag_error_ms"]) == ("read", 0)
    assert 12_000 <= behind["time_lag_ms"] <= 12_000 + 60_000
    assert (caught_up["time_lag_ms"], caught_up["time_lag_error_ms"], caught_up["method"]) == (0, 0, "caught up")
    assert summary.rows["lag"] >= 2
    assert lake.published.sampled_ms == pytest.approx(time.time() * 1000, abs=120_000)


def test_changed_offsets_become_commits_where_the_topic_was_never_read(
    kafka_like, admin, group_on_a_topic, spark, tmp_path
):
    topic, group = group_on_a_topic
    config = {"bootstrap.servers": kafka_like.bootstrap}

    job.run(spark, tmp_path / "lake", source="sampler", config=config)
    commit(admin, group, topic, {0: 7})
    admin.delete_group_offsets(group, [TopicPartition(topic, 1)]).raise_if_failed()
    job.run(spark, tmp_path / "lake", source="sampler", config=config)
    job.run(spark, tmp_path / "lake", source="sampler", config=config)

    lake = Lake.open(tmp_path / "lake")
    found = lake.read(spark, "commits").where(f"group = '{group}'").orderBy("append_time", "partition").collect()
    told = [(row.partition, row.offset, row.previous_offset, row.delta, row.tombstone) for row in found]
    assert told == [
        (0, 4, None, None, False), (1, 10, None, None, False), (0, 7, 4, 3, False), (1, None, 10, None, True)
    ]  # fmt: skip
    assert {(row.origin, row.complete, row.offsets_partition, row.offsets_offset) for row in found} == {
        ("unknown", False, -1, None)
    }
    assert found[2].metadata == "note"
    assert found[2].since_previous_ms > 0


def test_a_lake_that_reads_the_topic_takes_no_commits_from_the_sampler(our_broker, spark, tmp_path, fresh_name):
    config = {"bootstrap.servers": our_broker.bootstrap}
    topic, group = fresh_name("both"), fresh_name("group")
    our_broker.create_topic(topic)
    with Admin(bootstrap_servers=our_broker.bootstrap) as admin:
        commit(admin, group, topic, {0: 0})
    job.run(spark, tmp_path / "lake", config=config)

    job.run(spark, tmp_path / "lake", source="sampler", config=config, looks=2, interval=0.2)

    lake = Lake.open(tmp_path / "lake")
    assert lake.read(spark, "commits").where(f"group = '{group}'").count() == 1
    assert lake.read(spark, "lag").where(f"group = '{group}'").select("time").distinct().count() == 2


def test_a_look_that_sees_no_group_says_what_may_be_missing(spark, tmp_path, caplog):
    with Broker() as broker:
        job.run(spark, tmp_path / "lake", source="sampler", config={"bootstrap.servers": broker.bootstrap})

    assert "there is none, or the DESCRIBE ACL on groups is missing" in caplog.text


def test_a_cluster_that_does_not_answer_is_one_sentence(spark, tmp_path, our_broker, monkeypatch):
    monkeypatch.setattr(sampler, "cluster_id", lambda config: None)
    config = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "500"}

    with pytest.raises(LakeJobFailed) as failed:
        job.run(spark, tmp_path / "lake", source="sampler", config=config)

    assert "\n" not in str(failed.value)
    assert Lake.open(tmp_path / "lake").version == 0


def test_offsets_that_could_not_be_read_once_are_not_told_as_deleted(spark, tmp_path):
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        broker.create_topic("t")
        commit(admin, "g", "t", {0: 0})
        config = {"bootstrap.servers": broker.bootstrap, "default.api.timeout.ms": 500}
        job.run(spark, tmp_path / "lake", source="sampler", config=config)
        broker.faults.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=None)
        job.run(spark, tmp_path / "lake", source="sampler", config=config)
        broker.faults.clear()
        job.run(spark, tmp_path / "lake", source="sampler", config=config)
    found = Lake.open(tmp_path / "lake").read(spark, "commits").where("group = 'g'").collect()
    assert [(row.offset, row.tombstone) for row in found] == [(0, False)]
