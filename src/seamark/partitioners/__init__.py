"""Partitioners: which partition a record goes to, decided by its producer.

Pure but for the random source that each is given. Keyed records go where those of Apache Kafka's producer go.
"""

from seamark.partitioners.built_in import BuiltInPartitioner
from seamark.partitioners.contract import Choices, Partitioner, choose_partition
from seamark.partitioners.default import DefaultPartitioner
from seamark.partitioners.murmur2 import murmur2, partition_for_key
from seamark.partitioners.naming import load_partitioner
from seamark.partitioners.round_robin import RoundRobinPartitioner
from seamark.partitioners.sticky import UniformStickyPartitioner

__all__ = [
    "BuiltInPartitioner",
    "Choices",
    "DefaultPartitioner",
    "Partitioner",
    "RoundRobinPartitioner",
    "UniformStickyPartitioner",
    "choose_partition",
    "load_partitioner",
    "murmur2",
    "partition_for_key",
]
