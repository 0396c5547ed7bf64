"""What a node of ZooKeeper is taken for: an offset, a partition, or neither."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import ConfigError
from seamark.stores.contract import LARGEST_OFFSET, BadOffset, StoredOffset
from seamark.zookeeper.nodes import offset_text, partition_path, read_offset, read_partition, why_not_a_node
from seamark.zookeeper.session import check_connect


# covers: G3
def test_the_path_of_an_offset_is_that_of_old_consumers():
    assert partition_path("billing", "orders", 3) == "/consumers/billing/offsets/orders/3"


@given(st.integers(0, LARGEST_OFFSET))
def test_every_offset_is_read_as_it_was_written(offset):
    assert read_offset("/p", offset_text(offset)) == StoredOffset(offset)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"-1",
        b"+1",
        b" 1",
        b"1\n",
        b"1.0",
        b"0x10",
        b"abc",
        b"1_000",
        b"9223372036854775808",
        b"\xff\xfe",
        "١".encode(),
    ],
)
def test_anything_else_is_bad_and_says_what_it_holds(content):
    found = read_offset("/consumers/g/offsets/t/0", content)
    assert isinstance(found, BadOffset)
    assert "/consumers/g/offsets/t/0" in str(found)
    assert "not an offset" in str(found)


def test_a_long_text_is_not_shown_as_a_whole():
    assert len(str(read_offset("/p", b"x" * 10_000))) < 120


@given(st.binary(max_size=30))
def test_no_content_raises(content):
    read_offset("/p", content)


@given(st.text(max_size=12))
def test_a_partition_is_only_what_kafka_would_write(name):
    found = read_partition(name)
    assert found is None or str(found) == name


@pytest.mark.parametrize("name", ["", "00", "-1", "1a", "2147483647", "2147483648", "٣"])
def test_other_names_are_no_partitions(name):
    assert read_partition(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("a/b", "slash"),
        (".", "relative"),
        ("..", "relative"),
        ("a\0b", "character"),
        ("a\nb", "character"),
    ],
)
def test_names_that_zookeeper_refuses_are_named(name, reason):
    assert reason in why_not_a_node(name)


def test_names_of_groups_that_kafka_allows_are_allowed():
    for name in ("g", "a b", "ünïcode", "a:b", "...", "a.b-c_d", "$(x)"):
        assert why_not_a_node(name) is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("zk", "zk"),
        ("zk:2181", "zk:2181"),
        (" a:1,b:2/kafka/one/ ", "a:1,b:2/kafka/one"),
        ("a:1/", "a:1"),
        ("[::1]:2181/x", "[::1]:2181/x"),
    ],
)
def test_a_connect_string_is_read_as_zookeeper_reads_it(given, meant):
    assert check_connect(given) == meant


@pytest.mark.parametrize("connect", ["", "/kafka", "a:x", "a:0", "a:70000", "a:1,,b:2", ":2181", "a:1//b", "a:1/b//c"])
def test_a_bad_connect_string_is_a_sentence(connect):
    with pytest.raises(ConfigError) as raised:
        check_connect(connect)
    assert raised.value.option == "zookeeper.connect"
