"""The address of one partition, as every part of Seamark writes it.

A named tuple: it hashes and compares by value, sorts by topic and then by index, and unpacks.
"""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic; ``str()`` of it is ``topic-partition``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
