from __future__ import annotations

import doctest

import pytest

from seamark.assignors import ClusterTopics, MemberSubscription, TopicPartition, balance, contract
from seamark.errors import UsageError


@pytest.mark.parametrize("module", [contract, balance])
def test_the_examples_in_the_documentation_run(module):
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_topics_without_partitions_or_unknown_to_the_cluster_have_none():
    topics = ClusterTopics({"b": 1, "a": 2, "empty": 0, "other": 5})
    assert list(topics.partitions_of(["b", "a", "empty", "unknown"])) == [("a", 0), ("a", 1), ("b", 0)]
    assert topics.known(["b", "empty", "unknown"]) == {"b": 1}


def test_a_negative_number_of_partitions_is_refused():
    with pytest.raises(UsageError, match="topic 't' cannot have -1 partitions"):
        ClusterTopics({"t": -1})


def test_a_member_without_an_id_is_refused():
    with pytest.raises(UsageError, match="member id that is not empty"):
        MemberSubscription("", ("t",))


def test_a_text_in_place_of_a_list_of_topics_is_refused():
    with pytest.raises(UsageError, match="a list of names, not the text 'orders'"):
        MemberSubscription("a", "orders")


def test_partitions_sort_by_topic_then_index_and_read_as_kafka_writes_them():
    partitions = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
    assert [str(partition) for partition in sorted(partitions)] == ["a-9", "a-10", "b-0"]
