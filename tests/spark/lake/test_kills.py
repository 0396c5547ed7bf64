"""A job that is killed at any moment leaves the lake as it was."""

from __future__ import annotations

import random
import time

import pytest

from seamark.spark.lake.fill import job
from seamark.spark.lake.tables.lake import Lake
from tests.support.external_tools import java
from tests.support.lake_driver import LakeDriver, commit_some, contents


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
