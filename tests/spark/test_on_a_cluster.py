"""The source and the lake on a standalone cluster of two workers, and the source through Spark Connect.

They are programs as a user would start them. Where the source is read, the executors' Python has Seamark from an
environment archive, or from ``--py-files`` on top of installed dependencies; in neither case from the environment that
runs the tests.
"""

from __future__ import annotations

import json
import sys

import pytest

from seamark.client import Producer
from seamark.spark.lake.fill import job
from tests.support.external_tools import java
from tests.support.lake_driver import commit_some, contents
from tests.support.spark_cluster_processes import (
    archive_of,
    make_environment,
    run_program,
    standalone_cluster,
    zip_of_seamark,
)

RECORDS = 2000

PROGRAM = """
import json, os, sys, tempfile
from pyspark.sql import SparkSession
import seamark.spark

bootstrap, topic, group, master = sys.argv[1:5]
if master.startswith("spark://"):
    session = SparkSession.builder.master(master).getOrCreate()
else:
    session = SparkSession.builder.remote(master).getOrCreate()
seamark.spark.register(session)
kafka = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
batch = session.read.format("seamark").options(minPartitions="4", **kafka).load()
rows = batch.selectExpr("count(1) n", "sum(length(value)) bytes").collect()[0]
out = tempfile.mkdtemp()
stream = session.readStream.format("seamark").options(startingOffsets="earliest", groupId=group, **kafka).load()
query = (
    stream.select("partition", "offset")
    .writeStream.format("parquet")
    .option("path", out + "/rows")
    .option("checkpointLocation", out + "/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
streamed = len(set(session.read.parquet(out + "/rows").collect()))
home = os.path.dirname(seamark.spark.__file__)
print(json.dumps({"rows": rows.n, "bytes": rows.bytes, "streamed": streamed, "home": home}))
session.stop()
"""

FILL = """
import json, sys
from pyspark.sql import SparkSession
from seamark.spark.lake.fill import job

session = SparkSession.builder.master(sys.argv[1]).getOrCreate()
summary = job.run(session, sys.argv[3], config={"bootstrap.servers": sys.argv[2]})
print(json.dumps({"records": summary.records, "rows": dict(summary.rows)}))
session.stop()
"""

# Which module each executor has, found by a task of its own.
WHERE = """
def where(_):
    import seamark
    yield seamark.__file__
print(json.dumps(sorted(set(session.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect()))))
session.stop()
"""


@pytest.fixture(scope="module")
def filled(our_broker):
    our_broker.create_topic("cluster-filled", partitions=2)
    with Producer(bootstrap_servers=our_broker.bootstrap) as producer:
        for number in range(RECORDS):
            producer.send("cluster-filled", b"%06d" % number, partition=number % 2)
    return "cluster-filled"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    java()
    directory = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(directory) as master:
        yield master


def check(result, our_admin, group):
    assert (result["rows"], result["bytes"], result["streamed"]) == (RECORDS, RECORDS * 6, RECORDS)
    offsets = our_admin.list_group_offsets([group])[group]
    assert sorted(offset.offset for offset in offsets.values()) == [RECORDS // 2, RECORDS // 2]


@pytest.mark.slow
def test_two_workers_read_with_an_environment_archive(cluster, our_broker, our_admin, filled, fresh_name, tmp_path):
    group = fresh_name("group")
    home = tmp_path / "driver"
    home.mkdir()
    # In client mode the driver's own processes look for the archive's Python beside the program.
    environment = make_environment(home / "environment", with_seamark=True)
    archive = archive_of(environment, tmp_path / "environment.tar.gz")

    printed = run_program(
        PROGRAM.replace("session.stop()", WHERE),
        our_broker.bootstrap, filled, group, cluster,
        directory=home,
        python=str(environment / "bin" / "python"),
        settings={"spark.archives": f"{archive}#environment", "spark.cores.max": "2", "spark.executor.memory": "512m"},
        environment={"PYSPARK_PYTHON": "./environment/bin/python"},
    ).splitlines()  # fmt: skip

    result = json.loads(printed[-2])
    check(result, our_admin, group)
    assert result["home"].startswith(str(environment))
    executors = json.loads(printed[-1])
    assert len(executors) == 2
    assert all("worker-" in place and "/environment/" in place for place in executors)


@pytest.mark.slow
def test_two_workers_read_with_py_files_where_dependencies_are_installed(
    cluster, our_broker, our_admin, filled, fresh_name, tmp_path
):
    group = fresh_name("group")
    environment = make_environment(tmp_path / "dependencies", with_seamark=False)
    package = zip_of_seamark(tmp_path / "seamark.zip")
    python = str(environment / "bin" / "python")

    printed = run_program(
        PROGRAM,
        our_broker.bootstrap, filled, group, cluster,
        directory=tmp_path / "driver",
        python=python,
        settings={"spark.submit.pyFiles": str(package), "spark.cores.max": "2", "spark.executor.memory": "512m"},
        # The process that plans a stream sees the driver's PYTHONPATH only.
        environment={"PYSPARK_PYTHON": python, "PYTHONPATH": str(package)},
    )  # fmt: skip

    result = json.loads(printed.splitlines()[-1])
    check(result, our_admin, group)
    assert ".zip" in result["home"]


@pytest.mark.slow
def test_the_source_works_through_spark_connect(our_broker, our_admin, filled, fresh_name, tmp_path):
    java()
    group = fresh_name("group")

    printed = run_program(
        PROGRAM, our_broker.bootstrap, filled, group, "local[2]", directory=tmp_path / "client", python=sys.executable
    )

    check(json.loads(printed.splitlines()[-1]), our_admin, group)


@pytest.mark.slow
def test_two_workers_fill_a_lake(cluster, our_broker, spark, fresh_name, tmp_path):
    topic = fresh_name("lake")
    our_broker.create_topic(topic, partitions=2)
    commit_some(our_broker, topic, 60)

    printed = run_program(
        FILL, cluster, our_broker.bootstrap, str(tmp_path / "cluster-lake"),
        directory=tmp_path / "driver", python=sys.executable,
        settings={"spark.cores.max": "2", "spark.executor.memory": "512m"},
    )  # fmt: skip
    summary = json.loads(printed.splitlines()[-1])

    job.run(spark, tmp_path / "local-lake", config={"bootstrap.servers": our_broker.bootstrap})

    assert summary["rows"]["commits"] >= 60
    assert contents(spark, tmp_path / "cluster-lake") == contents(spark, tmp_path / "local-lake")
