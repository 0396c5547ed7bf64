"""The default partitioner of Kafka 2.4 to 3.2: a record with a key goes by its hash, one without sticks (J2).

Newer producers leave ``partitioner.class`` out and get the built-in logic of ``built_in`` (J3); the places of keyed
records are the same in both.
"""

from __future__ import annotations

import random

from seamark.partitioners.contract import Choices, Partitioner
from seamark.partitioners.murmur2 import partition_for_key
from seamark.partitioners.sticky import StickyPartition


class DefaultPartitioner(Partitioner):
    """Hash of the key, or else sticky."""

    def __init__(self, random_source: random.Random | None = None) -> None:
        self._sticky = StickyPartition(random_source)

    def partition(self, topic: str, key: bytes | None, value: bytes | None, choices: Choices) -> int:  # noqa: ARG002
        if key is not None:
            # Partitions without a leader count too: the place of a key must not depend on who is up.
            return partition_for_key(key, choices.count)
        return self._sticky.current(topic, choices)

    def batch_completed(self, topic: str, partition: int, choices: Choices) -> None:
        self._sticky.move_on(topic, partition, choices)
