"""The stream keeps the lake fresh, adds no batch twice, and goes on where the lake ends."""

from __future__ import annotations

import shutil
import time

import pytest

from seamark.client import Admin, Offset, TopicPartition
from seamark.spark.lake.fill import job
from seamark.spark.lake.fill.stream import stream
from seamark.spark.lake.tables.lake import Lake, LakeError

ONCE = {"availableNow": True}


class Committing:
    def __init__(self, broker, fresh_name):
        self.topic, self.group = fresh_name("streamed"), fresh_name("group")
        self.bootstrap = broker.bootstrap
        self.config = {"bootstrap.servers": broker.bootstrap}
        broker.create_topic(self.topic)

    def commit(self, *offsets):
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            for offset in offsets:
                admin.alter_group_offsets(self.group, {TopicPartition(self.topic, 0): Offset(offset)}).raise_if_failed()

    def deltas(self, spark, path):
        rows = Lake.open(path).read(spark, "commits").where(f"group = '{self.group}'").orderBy("offsets_offset")
        return [(row.offset, row.delta) for row in rows.collect()]


@pytest.fixture
def committing(our_broker, fresh_name):
    return Committing(our_broker, fresh_name)


def started(spark, path, committing, checkpoint, trigger, **more):
    """A stream that has begun; Spark gives its source ten seconds to connect back, which a busy machine may exceed."""
    for _ in range(4):
        made = stream(spark, path, committing.config, checkpoint, trigger, **more)
        end = time.monotonic() + 120
        while made.query.isActive and not made.query.recentProgress and time.monotonic() < end:
            time.sleep(0.1)
        if "failed to connect back" not in str(made.query.exception()):
            return made
    raise AssertionError("Spark could not start the source's process in four attempts")


def run_once(spark, path, committing, checkpoint, **more):
    made = started(spark, path, committing, checkpoint, ONCE, **more)
    assert made.query.awaitTermination(120)
    return made


def test_a_stream_goes_on_from_its_checkpoint_and_repeats_nothing(committing, spark, tmp_path):
    committing.commit(1, 3)
    told = []
    first = run_once(spark, tmp_path / "lake", committing, tmp_path / "checkpoint", on_progress=told.append)
    assert committing.deltas(spark, tmp_path / "lake") == [(1, None), (3, 2)]
    assert told == list(first.progress)
    assert told[-1].records >= 2
    assert 0 < told[-1].latency_ms < 600_000

    # What a driver leaves that was killed between publishing and the end of the batch: Spark repeats that batch first.
    last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    committing.commit(10)
    second = run_once(spark, tmp_path / "lake", committing, tmp_path / "checkpoint")
    assert committing.deltas(spark, tmp_path / "lake") == [(1, None), (3, 2), (10, 7)]
    assert sum(each.records for each in second.progress) == 1

    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(LakeError, match=r"is at batch \d+, but the lake .* use a new checkpoint"):
        stream(spark, tmp_path / "lake", committing.config, tmp_path / "checkpoint", ONCE)


def test_a_running_stream_and_batches_take_turns_on_one_lake(committing, spark, tmp_path):
    committing.commit(1)
    job.run(spark, tmp_path / "lake", config=committing.config)
    made = started(
        spark, tmp_path / "lake", committing, tmp_path / "checkpoint", {"processingTime": "200 milliseconds"}
    )
    try:
        for offset in (5, 6):
            committing.commit(offset)
            end = time.monotonic() + 60
            while offset not in [found for found, _ in committing.deltas(spark, tmp_path / "lake")]:
                assert made.query.isActive, made.query.exception()
                assert time.monotonic() < end, "the commit did not reach the lake"
                time.sleep(0.1)
    finally:
        made.query.stop()
    # The stream began where the first batch had ended.
    assert sum(each.records for each in made.progress) == 2
    committing.commit(9)
    job.run(spark, tmp_path / "lake", config=committing.config)

    run_once(spark, tmp_path / "lake", committing, tmp_path / "checkpoint")

    assert committing.deltas(spark, tmp_path / "lake") == [(1, None), (5, 4), (6, 1), (9, 3)]
