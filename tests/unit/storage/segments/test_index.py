"""The index file and the checkpoints: read back as written, or not at all."""

from __future__ import annotations

import pytest

from seamark.storage.files.names import parse_segment_file, segment_file
from seamark.storage.recovery.checkpoint import read_checkpoint, write_checkpoint
from seamark.storage.segments.index import Blocks, SegmentSummary, decode_blocks, decode_summary, encode_index

# F4


@pytest.fixture
def index():
    blocks = Blocks()
    for number in range(3):
        blocks.start_block(100 + 10 * number, 5000 * number)
        blocks.latest_ms[-1] = 1_700_000_000_000 + number
        blocks.checksums[-1] = 0xF0000000 + number
    summary = SegmentSummary(100, 15_000, 130, 1_700_000_000_002, 120, 1_700_000_000_000, True, 3, 0)
    return summary, blocks, encode_index(summary, blocks)


def test_an_index_is_read_back_as_it_was_written(index):
    summary, blocks, content = index
    found = decode_summary(content)
    assert found._replace(blocks_crc=0) == summary
    read = decode_blocks(content, found)
    for column in Blocks.__slots__:
        assert list(getattr(read, column)) == list(getattr(blocks, column))


def test_every_changed_byte_of_an_index_is_noticed(index):
    *_, content = index
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 0x10
        found = decode_summary(bytes(changed))
        assert found is None or decode_blocks(bytes(changed), found) is None


def test_every_cut_of_an_index_is_noticed(index):
    *_, content = index
    for size in range(len(content)):
        found = decode_summary(content[:size])
        assert found is None or decode_blocks(content[:size], found) is None
    found = decode_summary(content + b"\x00")
    assert decode_blocks(content + b"\x00", found) is None


def test_a_checkpoint_is_read_back_as_it_was_written(memory):
    memory.mkdir("d")
    assert read_checkpoint(memory, "d", "log-start") is None
    write_checkpoint(memory, "d", "log-start", {"log_start": 2**63 - 1, "other": -1})
    write_checkpoint(memory, "d", "log-start", {"log_start": 7, "other": -1})
    assert read_checkpoint(memory, "d", "log-start") == ({"log_start": 7, "other": -1}, False)
    assert memory.list("d") == ["log-start"]


def test_every_changed_byte_of_a_checkpoint_is_noticed(memory):
    memory.mkdir("d")
    write_checkpoint(memory, "d", "c", {"log_start": 7})
    file = memory.open("d/c")
    content = file.read(0, 100)
    for position in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            file.truncate(0)
            file.append(changed)
            assert read_checkpoint(memory, "d", "c") == ({}, True)


def test_a_huge_checkpoint_is_damaged(memory):
    memory.mkdir("d")
    memory.open("d/c", create=True).append(b"log_start 1\n" * 10_000)
    assert read_checkpoint(memory, "d", "c") == ({}, True)


def test_segments_are_named_as_kafka_names_them():
    assert segment_file(1234, ".log") == "00000000000000001234.log"
    assert parse_segment_file("00000000000000001234.log") == (1234, ".log")
    for name in ("1234.log", "00000000000000001234.timeindex", "99999999999999999999.log", "0000000000000000000x.log"):
        assert parse_segment_file(name) is None
