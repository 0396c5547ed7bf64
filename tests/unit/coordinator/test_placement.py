"""Which offsets partition a group belongs to."""

import pytest

from seamark.coordinator import CommitOffsets, Coordinator, FetchOffsets, Settings, partition_for, placement
from seamark.coordinator.placement import java_string_hash
from seamark.errors import ConfigError, UsageError
from seamark.wire.protocol.error_codes import ErrorCode


# covers: B3, F16
@pytest.mark.parametrize(
    ("group_id", "hash_code", "partition"),
    [
        ("aaa", 96321, 21),
        ("demoGroup", 773930588, 38),
        ("my-group", -1906497762, 12),
        ("test", 3556498, 48),
        ("group-1", 293427299, 49),
        ("", 0, 0),
    ],
)
def test_groups_hash_to_partitions_as_in_kafka(group_id, hash_code, partition):
    assert java_string_hash(group_id) == hash_code
    assert partition_for(group_id, 50) == partition


# covers: B4
def test_the_absolute_value_of_the_smallest_integer_counts_as_zero():
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("polygenelubricants", 3) == 0


# covers: B3
def test_the_hash_runs_over_utf_16_code_units():
    # Two surrogates 0xD83D and 0xDE00, as Java sees them.
    assert java_string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00
    assert java_string_hash("é") == 0xE9


def horner(text: str) -> int:
    """As Java's documentation has it, one code unit after the other."""
    value = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 1000, 32_767])
def test_long_names_hash_as_in_java(length):
    text = "".join(chr(0x21 + number * 7919 % 0x2000) for number in range(length))
    assert java_string_hash(text) == horner(text)


def test_long_names_are_not_kept():
    before = placement._kept_partition_for.cache_info().currsize
    for number in range(10):
        partition_for("x" * 1000 + str(number), 50)
    assert placement._kept_partition_for.cache_info().currsize == before


def coordinator(partitions: int = 50) -> Coordinator:
    return Coordinator(partitions, Settings(), partition_count={"t": 1}.get, make_id=iter("abcdef").__next__)


# covers: B2, B5, A22, L3
def test_only_the_leader_of_the_groups_partition_coordinates_it():
    broker = coordinator()
    [(_, reply)] = broker.handle(FetchOffsets("demoGroup", [("t", [0])]), 1, 0).replies
    assert (reply.error, reply.topics) == (ErrorCode.NOT_COORDINATOR, [])
    broker.begin_load(38)
    broker.finish_load(38, 0)
    [(_, reply)] = broker.handle(FetchOffsets("demoGroup", [("t", [0])]), 2, 0).replies
    assert reply.error is ErrorCode.NONE
    [(_, reply)] = broker.handle(FetchOffsets("my-group", [("t", [0])]), 3, 0).replies
    assert reply.error is ErrorCode.NOT_COORDINATOR


# covers: F16
def test_growing_the_offsets_topic_remaps_groups_and_their_offsets_are_no_longer_found():
    before, after = coordinator(50), coordinator(60)
    assert (before.partition_for("demoGroup"), after.partition_for("demoGroup")) == (38, 8)
    before.begin_load(38)
    before.finish_load(38, 0)
    effects = before.handle(CommitOffsets("demoGroup", [("t", [(0, 5, -1, "")])]), 1, 0)
    [append] = effects.appends
    assert append.partition == 38
    for partition, records in ((38, append.records), (8, [])):
        after.begin_load(partition)
        after.replay(partition, records)
        after.finish_load(partition, 0)
    [(_, reply)] = after.handle(FetchOffsets("demoGroup", [("t", [0])]), 2, 0).replies
    assert reply.topics[0][1][0].offset == -1


def test_partition_numbers_outside_the_topic_are_refused():
    with pytest.raises(UsageError, match="50 partitions"):
        coordinator().shard(50)
    with pytest.raises(ConfigError, match="at least 1"):
        coordinator(0)
    assert coordinator(1).partition_for("any") == 0
