"""Copied log directories: torn tails are left for the next copy, damage is a reject, and nothing is read twice."""

import pytest

from seamark.client.fetch.records import ReadLimits
from seamark.spark.lake.fill.log_directory import directory_tasks
from seamark.spark.lake.fill.tasks import fill
from seamark.spark.lake.tables.lake import Lake, LakeError
from seamark.wire.records import Record, encode_batch
from tests.support.costly_batches import header_bomb, value_bomb
from tests.support.offsets_records import NOW, Commit


def batch(first, count=2):
    records = []
    for number in range(first, first + count):
        key, value = Commit("g", "t", 0, number).record()
        records.append(Record(offset=number, timestamp_ms=NOW, key=key, value=value))
    return encode_batch(records)


def segment(directory, first, *batches):
    home = directory / "__consumer_offsets-3"
    home.mkdir(exist_ok=True)
    path = home / f"{first:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def run(lake, directory):
    """What a run does, without Spark: gives the offsets of commits and the reasons of rejects of this run."""
    import pyarrow.parquet as pq

    with lake.writing():
        found = {"commits": [], "rejects": []}
        for task in directory_tasks(directory, lake.published):
            report = fill(task, str(lake.path))
            added = {}
            for table, file in report.files:
                added.setdefault(table, []).append(file)
                if table in found:
                    found[table] += pq.ParquetFile(lake.path / file.path).read().to_pylist()
            lake.publish(added, covered={report.partition: report.covered})
    return [row["offset"] for row in found["commits"]], [
        (row["offsets_offset"], row["reason"]) for row in found["rejects"]
    ]


@pytest.fixture
def lake(tmp_path):
    return Lake.create(tmp_path / "lake", None)


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "copied"
    made.mkdir()
    return made


def test_a_torn_tail_is_read_when_the_next_copy_has_it_whole(lake, directory):
    segment(directory, 0, batch(0), batch(2)[:-7])
    assert run(lake, directory) == ([0, 1], [])
    segment(directory, 0, batch(0), batch(2))
    assert run(lake, directory) == ([2, 3], [])
    segment(directory, 4, batch(4))
    assert run(lake, directory) == ([4, 5], [])
    assert run(lake, directory) == ([], [])


def test_a_damaged_batch_becomes_one_reject_and_reading_goes_on(lake, directory):
    broken = bytearray(batch(2))
    broken[-3] ^= 0xFF
    segment(directory, 0, batch(0), bytes(broken), batch(4))

    offsets, rejects = run(lake, directory)

    assert offsets == [0, 1, 4, 5]
    assert len(rejects) == 1
    assert rejects[0][0] == 2
    assert "crc" in rejects[0][1].lower()
    assert run(lake, directory) == ([], [])


def test_a_segment_without_a_valid_length_is_one_reject_and_the_next_segment_is_read(lake, directory):
    nonsense = bytearray(batch(2))
    nonsense[8:12] = b"\xff\xff\xff\xff"
    segment(directory, 0, batch(0), bytes(nonsense), batch(4))
    segment(directory, 6, batch(6))

    offsets, rejects = run(lake, directory)

    assert offsets == [0, 1, 6, 7]
    assert [reason for _, reason in rejects] == [
        "the rest of 00000000000000000000.log cannot be read: a batch has no valid length"
    ]
    assert run(lake, directory) == ([], [])


def test_damage_at_the_very_end_waits_for_the_next_copy(lake, directory):
    broken = bytearray(batch(2))
    broken[-3] ^= 0xFF
    segment(directory, 0, batch(0), bytes(broken))
    assert run(lake, directory) == ([0, 1], [])
    segment(directory, 0, batch(0), batch(2))
    assert run(lake, directory) == ([2, 3], [])


def test_a_directory_without_logs_of_the_topic_is_refused(lake, directory, tmp_path):
    with pytest.raises(LakeError, match="contains no logs of __consumer_offsets"):
        run(lake, directory)
    with pytest.raises(LakeError, match="is not a directory"):
        run(lake, tmp_path / "missing")


def test_the_same_partition_from_two_brokers_is_refused(lake, directory):
    for broker in ("a", "b"):
        (directory / broker).mkdir()
        segment(directory / broker, 0, batch(0))

    with pytest.raises(LakeError, match="both contain partition 3"):
        run(lake, directory)


def test_a_batch_that_unfolds_to_too_much_is_a_reject_and_what_is_around_it_is_read(lake, directory, monkeypatch):
    monkeypatch.setattr("seamark.spark.lake.fill.log_directory.ReadLimits", lambda: ReadLimits(batch_bytes=3 << 20))
    bombs = header_bomb(1_000_000, base_offset=2), value_bomb(4 << 20, base_offset=3)
    segment(directory, 0, batch(0), *bombs, batch(4))
    commits, rejects = run(lake, directory)
    assert commits == [0, 1, 4, 5]
    assert "1000000 headers, at most 10000 are allowed" in rejects[0][1]
    assert "decompress to" in rejects[1][1]


def test_rows_of_a_large_batch_are_decoded_in_parts(lake, directory, monkeypatch):
    monkeypatch.setattr("seamark.spark.lake.fill.log_directory.MOST_ROWS", 7)
    segment(directory, 0, batch(0, 40), batch(40, 3))
    assert run(lake, directory) == (list(range(43)), [])
