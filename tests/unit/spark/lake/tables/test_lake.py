"""The lake's directory: versions appear whole or not at all, and whatever is wrong with it is one sentence."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.spark.lake.fill.reports import Report, publish_reports
from seamark.spark.lake.tables.files import LakeFiles
from seamark.spark.lake.tables.lake import Lake, LakeError
from seamark.spark.lake.tables.manifest import Covered, File, Manifest, read_manifest
from seamark.spark.lake.tables.merging import plan_merging
from seamark.spark.lake.tables.schemas import STATE_TABLES, TABLES, file_schema, schema

DAY_MS = 86_400_000


def written(root, count=3, day=1, table="rejects"):
    """Files of some rows, as a task leaves them."""
    files = LakeFiles(str(root))
    rows = [{"offsets_partition": 0, "offsets_offset": number, "reason": "bad"} for number in range(count)]
    files.add(table, pa.Table.from_pylist(rows, schema=file_schema(table)), [day * DAY_MS] * count)
    return [file for _, file in files.finish()]


def published(lake, **more):
    with lake.writing():
        return lake.publish({"rejects": written(lake.path)}, **more)


def test_what_was_published_is_read_and_nothing_else(tmp_path):
    lake = Lake.create(tmp_path / "lake", "abc")
    published(lake, covered={0: Covered(0, 3, 3, -1)}, topic_id="t")
    written(lake.path)

    found = Lake.open(tmp_path / "lake")

    assert (found.version, found.cluster, found.published.topic_id) == (1, "abc", "t")
    assert found.published.covered == {0: Covered(0, 3, 3, -1)}
    assert [pq.ParquetFile(path).metadata.num_rows for path in found.files("rejects")] == [3]
    assert found.files("rejects")[0].parent.name == "day=1970-01-02"


def test_records_that_cannot_be_read_are_told_in_one_line_of_the_log(tmp_path, caplog):
    lake = Lake.create(tmp_path / "lake", None)
    files = LakeFiles(str(lake.path))
    reasons = ["partition number -5 is invalid"] * 3 + [f"{number} is not a known record type" for number in range(9)]
    rows = [{"offsets_partition": 4, "offsets_offset": 90 - at, "reason": why} for at, why in enumerate(reasons)]
    files.add("rejects", pa.Table.from_pylist(rows, schema=file_schema("rejects")), [DAY_MS] * len(rows))
    with lake.writing():
        publish_reports(lake, [Report(4, Covered(0, 91, 91, -1), 91, None, None, list(files.finish()))])
    [line] = [record.getMessage() for record in caplog.records if "rejects" in record.getMessage()]
    assert line.startswith(
        "12 records of __consumer_offsets cannot be decoded and are in the table rejects (5 of them: others; "
        "3 of them: partition number -5 is invalid; 1 of them: "
    )
    assert line.endswith("); the first is in partition 4 at offset 79")


def test_leftovers_are_removed_and_files_of_kept_versions_are_not(tmp_path):
    lake = Lake.create(tmp_path / "lake", None)
    published(lake)
    left = written(lake.path)
    with lake.writing():
        lake.publish({"rejects": written(lake.path)}, replaced=["rejects"])
        assert lake.remove_leftovers() == len(left)
    assert len(list((lake.path / "rejects").rglob("*.parquet"))) == 2

    for _ in range(5):
        published(lake, replaced=["rejects"])
    with lake.writing():
        lake.remove_leftovers()
    assert len(list((lake.path / "manifest").glob("*.json"))) == 4
    assert len(list((lake.path / "rejects").rglob("*.parquet"))) == 4


def test_a_state_file_takes_the_place_of_the_one_of_its_partition():
    first = Manifest().followed_by({"state_keys": [File("a", 1, 1, 0), File("b", 1, 1, 1)]})

    second = first.followed_by({"state_keys": [File("c", 1, 1, 1), File("", 0, 0, 0)]})

    assert [file.path for file in second.files("state_keys")] == ["c"]


def test_a_torn_manifest_does_not_count_and_its_number_is_used_again(tmp_path):
    lake = Lake.create(tmp_path / "lake", None)
    published(lake)
    published(lake)
    newest = tmp_path / "lake" / "manifest" / "000000000002.json"
    newest.write_text(newest.read_text()[:-20])

    found = Lake.open(tmp_path / "lake")
    assert found.version == 1
    assert published(found).version == 2
    assert Lake.open(tmp_path / "lake").published.rows("rejects") == 6


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_no_changed_or_cut_manifest_is_taken_for_a_whole_one(data):
    manifest = Manifest(3, {"lag": (File("lag/x", 1, 2),)}, {7: Covered(0, 9, 9, -1)}, "id", {"q": 4}, 17)
    text = manifest.to_text()
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from(["", "0", "}", "x", "7"])) + text[place + 1 :]

    assert read_manifest(text) == manifest
    assert read_manifest(text[:place]) is None
    assert read_manifest(changed) in (None, manifest)


def damage(path, **changes):
    described = json.loads((path / "lake.json").read_text())
    (path / "lake.json").write_text(json.dumps(described | changes))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda path: (path / "lake.json").unlink(), "is not a lake: it has no lake.json"),
        (lambda path: (path / "lake.json").write_text("{"), "is damaged: lake.json cannot be read"),
        (lambda path: damage(path, format="delta"), "says format 'delta'"),
        (lambda path: damage(path, version=2), "has format version 2, this build reads version 1"),
        (lambda path: damage(path, tables={"commits": ["group int"]}), "other columns in commits"),
        (lambda path: (path / "manifest" / f"{1:012d}.json").write_text(""), "none of its 1 manifests is whole"),
    ],
)  # fmt: skip
def test_a_directory_that_is_no_lake_of_this_build_is_refused_in_a_sentence(tmp_path, change, sentence):
    path = tmp_path / "lake"
    published(Lake.create(path, None))
    change(path)

    with pytest.raises(LakeError) as refused:
        Lake.open(path)

    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_or_shortened_file_is_named(tmp_path):
    lake = Lake.create(tmp_path / "lake", None)
    published(lake)
    path = lake.files("rejects")[0]
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(LakeError, match=r"is damaged: rejects/day=1970-01-02/\w+\.parquet of version 1 has \d+ bytes"):
        lake.files("rejects")
    path.unlink()
    with pytest.raises(LakeError, match="is missing"):
        lake.files("rejects")


def test_a_lake_is_not_made_in_a_directory_with_other_things(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(LakeError, match="not an empty directory"):
        Lake.create(tmp_path, None)
    with pytest.raises(LakeError, match="local or mounted file system"):
        Lake.open("s3://bucket/lake")


def test_a_lake_of_another_cluster_is_refused(tmp_path):
    Lake.create(tmp_path / "lake", "one")

    with pytest.raises(LakeError, match="is of cluster one, not of other"):
        Lake.open_or_create(tmp_path / "lake", "other")


def test_a_lake_whose_making_was_killed_is_finished(tmp_path):
    (tmp_path / "lake" / "manifest").mkdir(parents=True)
    (tmp_path / "lake" / "lake.json.77.torn").write_text("{")

    assert Lake.open_or_create(tmp_path / "lake", "id").version == 0
    assert Lake.open(tmp_path / "lake").cluster == "id"


def test_there_is_one_writer_at_a_time_and_a_killed_one_does_not_stay(tmp_path):
    lake = Lake.create(tmp_path / "lake", None)
    program = (
        "import sys, time; from seamark.spark.lake.tables.lake import Lake\n"
        "with Lake.open(sys.argv[1]).writing():\n    print('writing', flush=True)\n    time.sleep(60)"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(lake.path)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "writing\n"
        with pytest.raises(LakeError, match="another run is writing"), lake.writing():
            pass
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(30)
        writer.stdout.close()
    with lake.writing():
        pass


def test_two_versions_of_one_number_cannot_be_published(tmp_path):
    first = Lake.create(tmp_path / "lake", None)
    second = Lake.open(tmp_path / "lake")
    first.publish({})

    with pytest.raises(LakeError, match="another run has published version 1"):
        second.publish({})


def test_rows_are_spread_over_days_and_wild_clocks_over_few_open_files(tmp_path):
    files = LakeFiles(str(tmp_path))
    times = [-5, 2**62, 0, *(day * DAY_MS for day in range(1, 80))]
    rows = [{"offsets_offset": number} for number in range(len(times))]
    files.add("rejects", pa.Table.from_pylist(rows, schema=file_schema("rejects")), times)
    made = [file for _, file in files.finish()]

    assert sum(file.rows for file in made) == len(times)
    days = {Path(file.path).parent.name: file.rows for file in made}
    assert days["day=1970-01-01"] == 3
    assert len(days) == 80


def test_small_files_of_a_day_are_merged_only_when_there_are_many():
    files = tuple(File(f"lag/day=2024-01-0{number % 2 + 1}/{number}", 1, 100) for number in range(20))
    manifest = Manifest(1, {"lag": files, "state_keys": files})

    assert plan_merging(manifest, 10) == []
    assert [(table, len(part)) for table, part in plan_merging(manifest, 9)] == [("lag", 10), ("lag", 10)]


def test_every_table_has_a_comment_for_every_column_and_a_day():
    for table in TABLES:
        fields = schema(table).fields
        assert fields[-1].name == "day"
        assert all(field.metadata["comment"] for field in fields)
        assert file_schema(table).names == [field.name for field in fields[:-1]]
    assert not any("day" in schema(table).names for table in STATE_TABLES)


def test_a_lake_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(LakeError, match="cannot be written: Not a directory"):
        Lake.create(tmp_path / "file" / "lake", None)
