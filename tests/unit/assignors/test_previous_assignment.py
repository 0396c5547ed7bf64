from __future__ import annotations

import pytest

from seamark.assignors.previous_assignment import decode_generation, decode_owned, encode_generation, encode_owned
from tests.unit.assignors.notation import partitions

TWO_TOPICS = bytes.fromhex("00000002000161000000010000000300016200000002000000000000000100000005")


def test_owned_partitions_are_grouped_by_topic_with_the_generation_behind():
    assert encode_owned(partitions("b-1 a-3 b-0"), 5) == TWO_TOPICS
    assert decode_owned(TWO_TOPICS) == (partitions("a-3 b-0 b-1"), 5)


def test_the_first_version_has_no_generation():
    assert decode_owned(TWO_TOPICS[:-4]) == (partitions("a-3 b-0 b-1"), -1)


def test_bytes_behind_the_generation_are_ignored():
    assert decode_owned(TWO_TOPICS + b"more") == (partitions("a-3 b-0 b-1"), 5)


def test_having_had_nothing_is_remembered_with_its_generation():
    assert decode_owned(encode_owned((), 4)) == ((), 4)


@pytest.mark.parametrize("length", range(len(TWO_TOPICS) - 4))
def test_a_memory_cut_short_counts_as_none(length):
    assert decode_owned(TWO_TOPICS[:length]) == ((), -1)


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param("ffffffff", id="negative number of topics"),
        pytest.param("00000001" "ffff" "00000000", id="negative length of a name"),
        pytest.param("00000001" "7fff" "00000000", id="name longer than the rest"),
        pytest.param("00000001" "000161" "ffffffff", id="negative number of partitions"),
        pytest.param("00000001" "000161" "7fffffff", id="more partitions than bytes"),
    ],
)  # fmt: skip
def test_impossible_lengths_count_as_no_memory(damaged):
    assert decode_owned(bytes.fromhex(damaged)) == ((), -1)


def test_a_name_that_is_not_utf_8_names_no_topic():
    owned, generation = decode_owned(bytes.fromhex("000000010001ff000000010000000000000002"))
    assert [partition.topic for partition in owned] == ["\ufffd"]
    assert generation == 2


def test_a_topic_may_be_listed_without_partitions():
    without = bytes.fromhex("0000000200016100000000000162000000010000000100000005")
    assert decode_owned(without) == (partitions("b-1"), 5)


def test_a_generation_alone_is_four_bytes():
    assert encode_generation(258) == b"\0\0\x01\x02"
    assert decode_generation(b"\0\0\x01\x02") == 258
    assert decode_generation(b"\0\0\x01\x02more") == 258


@pytest.mark.parametrize("user_data", [None, b"", b"\0\0\1"])
def test_a_missing_or_short_generation_is_none(user_data):
    assert decode_generation(user_data) == -1
