"""A job that is killed at any moment leaves the lake as it was; and the job on a cluster of two workers."""

from __future__ import annotations

import json
import random
import sys
import time

import pytest

from seamark.client import Admin, Offset, TopicPartition
from seamark.spark.lake.fill import job
from seamark.spark.lake.tables.lake import Lake
from tests.support.external_tools import java
from tests.support.lake_driver import LakeDriver, contents
from tests.support.spark_cluster_processes import run_program, standalone_cluster

ON_A_CLUSTER = """
import json, sys
from pyspark.sql import SparkSession
from seamark.spark.lake.fill import job

session = SparkSession.builder.master(sys.argv[1]).getOrCreate()
summary = job.run(session, sys.argv[3], config={"bootstrap.servers": sys.argv[2]})
print(json.dumps({"records": summary.records, "rows": dict(summary.rows)}))
session.stop()
"""


def commit_some(broker, topic, count):
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        for number in range(count):
            place = {TopicPartition(topic, number % 2): Offset(number)}
            admin.alter_group_offsets(f"{topic}-{number % 7}", place, look_first=False).raise_if_failed()


@pytest.fixture
def filled_topic(our_broker, fresh_name):
    topic = fresh_name("killed")
    our_broker.create_topic(topic, partitions=2)
    commit_some(our_broker, topic, 60)
    return topic


@pytest.mark.slow
def test_a_killed_job_loses_and_doubles_nothing(our_broker, filled_topic, spark, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    chance = random.Random(seed)
    java()
    for kill in range(2):
        driver = LakeDriver(our_broker.bootstrap, tmp_path / "lake")
        try:
            driver.wait_ready()
            driver.run()
            time.sleep(chance.uniform(0, 4))
        finally:
            driver.kill()
        commit_some(our_broker, filled_topic, 20 + kill)
        # The next run is a rerun: whatever the killed one had published, it goes on from there.
        job.run(spark, tmp_path / "lake", config={"bootstrap.servers": our_broker.bootstrap})

    job.run(spark, tmp_path / "whole", config={"bootstrap.servers": our_broker.bootstrap})

    assert contents(spark, tmp_path / "lake") == contents(spark, tmp_path / "whole"), f"seed {seed}"
    lake = Lake.open(tmp_path / "lake")
    named = {file.name for table in ("commits", "state_keys") for file in lake.files(table)}
    assert len(named) == len(lake.files("commits")) + len(lake.files("state_keys"))


@pytest.mark.slow
def test_two_workers_fill_a_lake(our_broker, filled_topic, spark, tmp_path):
    java()
    with standalone_cluster(tmp_path) as master:
        printed = run_program(
            ON_A_CLUSTER, master, our_broker.bootstrap, str(tmp_path / "cluster-lake"),
            directory=tmp_path / "driver", python=sys.executable,
            settings={"spark.cores.max": "2", "spark.executor.memory": "512m"},
        )  # fmt: skip
    summary = json.loads(printed.splitlines()[-1])

    job.run(spark, tmp_path / "local-lake", config={"bootstrap.servers": our_broker.bootstrap})

    assert summary["rows"]["commits"] >= 60
    assert contents(spark, tmp_path / "cluster-lake") == contents(spark, tmp_path / "local-lake")
