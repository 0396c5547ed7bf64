"""Tables of the lake as Spark reads them, totals per group, and the merging of small files."""

from __future__ import annotations

import datetime

import pytest

from seamark.client import Admin, Offset, TopicPartition
from seamark.spark.lake.fill import job
from seamark.spark.lake.fill.totals import totals, totals_on_spark
from seamark.spark.lake.tables.lake import Lake, LakeError
from seamark.spark.lake.tables.merging import merge_small_files
from seamark.spark.lake.tables.schemas import TABLES, schema


def test_every_table_is_there_from_the_beginning_with_its_schema(spark, tmp_path):
    lake = Lake.create(tmp_path / "lake", None)

    for table in TABLES:
        frame = lake.read(spark, table)
        assert frame.schema == schema(table)
        assert frame.schema["day"].metadata == {"comment": "day of the row's time, UTC"}
        assert frame.count() == 0
    with pytest.raises(LakeError, match="unknown table 'commit'"):
        lake.read(spark, "commit")


def test_a_frame_is_written_published_and_read_from_a_directory_with_an_odd_name(spark, tmp_path):
    lake = Lake.create(tmp_path / "lake [a] {b}*", None)
    # Without a zone, as Spark gives times back.
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000)  # noqa: DTZ001
    row = {"found_time": moment, "first_time": moment, "last_time": moment, "kind": "stall", "group": "g", "topic": "t",
           "partition": 3, "severity": "warning", "text": "it stands", "evidence": "{}", "parameters": "{}",
           "day": moment.date()}  # fmt: skip
    frame = spark.createDataFrame([row, row | {"day": datetime.date(2024, 5, 7), "topic": None}], schema("findings"))
    with lake.writing():
        lake.publish({"findings": lake.write(frame, "findings")}, replaced=["findings"])
        lake.publish({"findings": lake.write(frame, "findings")}, replaced=["findings"])

    found = Lake.open(lake.path).read(spark, "findings").orderBy("day").collect()

    assert [each.asDict() for each in found] == [row, row | {"day": datetime.date(2024, 5, 7), "topic": None}]


def test_totals_and_merged_files_say_what_the_tables_say(our_broker, spark, tmp_path, fresh_name):
    config = {"bootstrap.servers": our_broker.bootstrap}
    topic = fresh_name("totals")
    our_broker.create_topic(topic, partitions=2)
    groups = [fresh_name("group") for _ in range(3)]
    with Admin(bootstrap_servers=our_broker.bootstrap) as admin:
        for number in range(12):
            place = {TopicPartition(topic, number % 2): Offset(number)}
            admin.alter_group_offsets(groups[number % 3], place).raise_if_failed()
        admin.delete_group_offsets(groups[0], [TopicPartition(topic, 0)]).raise_if_failed()
        job.run(spark, tmp_path / "lake", config=config)
        admin.alter_group_offsets(groups[0], {TopicPartition(topic, 0): Offset(1)}).raise_if_failed()
        job.run(spark, tmp_path / "lake", config=config)
    lake = Lake.open(tmp_path / "lake")

    counted = lake.read(spark, "commits").groupBy("group", "tombstone").count().collect()
    wanted = {}
    for row in counted:
        wanted.setdefault(row.group, [0, 0])[row.tombstone] = row["count"]
    alone = {row["group"]: [row["commits"], row["tombstones"]] for row in totals(config, threads=2).to_pylist()}
    on_spark = {row.group: [row.commits, row.tombstones] for row in totals_on_spark(spark, config).collect()}
    assert {group: wanted[group] for group in groups} == {groups[0]: [5, 1], groups[1]: [4, 0], groups[2]: [4, 0]}
    assert {group: alone[group] for group in wanted} == wanted
    assert {group: on_spark[group] for group in wanted} == wanted

    before = sorted(map(repr, lake.read(spark, "commits").collect()))
    count = len(lake.files("commits"))
    with lake.writing():
        assert merge_small_files(spark, lake, most=1) >= count
    # One for each day: the broker is the run's own, and midnight may have passed in it.
    days = [path.parent.name for path in Lake.open(lake.path).files("commits")]
    assert sorted(set(days)) == sorted(days)
    assert len(days) <= 2
    assert sorted(map(repr, Lake.open(lake.path).read(spark, "commits").collect())) == before
