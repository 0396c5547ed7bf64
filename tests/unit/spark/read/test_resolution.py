"""From options to offsets, on a cluster in memory."""

import logging

from seamark.client import Offset
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.resolution import find_topics, starting_offsets
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead
from tests.support.spark_cluster import MemoryCluster


def test_a_query_that_starts_at_a_group_says_what_it_repeats_of_a_parallel_consumer(caplog):
    cluster = MemoryCluster(orders=[100])
    where = TopicPartition("orders", 0)
    cluster.groups["g"] = {where: Offset(10, done_ahead.encode(10, range(20, 50)).text)}
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "orders", "groupId": "g", "startingOffsets": "group"}
    options = ReadOptions.of(given, is_stream=False)
    with caplog.at_level(logging.WARNING):
        assert starting_offsets(cluster, options, find_topics(cluster, options.subscription)) == {where: 10}
    assert "group 'g' has done 30 records of orders-0 beyond its committed offset 10" in caplog.text
