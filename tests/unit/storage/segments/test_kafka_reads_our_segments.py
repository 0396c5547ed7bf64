"""A segment's file is Kafka's: an independent reader of the format finds in it what was written."""

from __future__ import annotations

import warnings

import pytest

from seamark.storage import RealFilesystem
from seamark.wire.records import Codec
from tests.unit.storage.log_readers import batch

# F4, F32

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords


def read_by_kafka_python(path) -> list[tuple[int, bytes | None, bytes | None, int]]:
    records = MemoryRecords(path.read_bytes())
    found = []
    while (stored := records.next_batch()) is not None:
        assert stored.validate_crc()
        found += [(record.offset, record.key, record.value, record.timestamp) for record in stored]
    return found


@pytest.fixture
def log(open_log, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.unit.storage.conftest.DIRECTORY", str(tmp_path))
    log = open_log(RealFilesystem())
    for number, codec in enumerate((Codec.NONE, Codec.GZIP, Codec.NONE)):
        sent = batch(
            (b"a", b"%d" % number), (b"b%d" % number, b"v"), (b"t", None), timestamp_ms=1000 + number, codec=codec
        )
        log.append(sent, now_ms=5000, leader_epoch=4)
    log.roll(5000)
    return log


def test_a_segment_as_it_was_written(log, tmp_path):
    found = read_by_kafka_python(tmp_path / "00000000000000000000.log")
    assert [(offset, key) for offset, key, _, _ in found] == [
        (3 * number + place, key) for number in range(3) for place, key in enumerate((b"a", b"b%d" % number, b"t"))
    ]
    assert found[4] == (4, b"b1", b"v", 1001)


def test_a_segment_after_compaction(log, tmp_path):
    log.compact(5000)
    assert read_by_kafka_python(tmp_path / "00000000000000000000.log") == [
        (1, b"b0", b"v", 1000),
        (4, b"b1", b"v", 1001),
        (6, b"a", b"2", 1002),
        (7, b"b2", b"v", 1002),
        (8, b"t", None, 1002),
    ]
