"""One partition until its batch is complete, then another: fuller batches for records without a place (KIP-480).

``StickyPartition`` is the rule; ``UniformStickyPartitioner`` applies it to every record, keys ignored, so that equal
keys may land apart (J4). Kafka 4 dropped that class in favour of ``partitioner.ignore.keys`` (J5), which is the
built-in logic.
"""

from __future__ import annotations

import random

from seamark.partitioners.contract import Choices, Partitioner


class StickyPartition:
    """The partition of the moment, per topic."""

    def __init__(self, random_source: random.Random | None = None) -> None:
        self._random = random_source if random_source is not None else random.Random()
        self._current: dict[str, int] = {}

    def current(self, topic: str, choices: Choices) -> int:
        partition = self._current.get(topic)
        return self.move_on(topic, None, choices) if partition is None or partition >= choices.count else partition

    def move_on(self, topic: str, completed: int | None, choices: Choices) -> int:
        """Choose another partition at random, among those with a leader; a single one is kept.

        A batch of a partition that is not the present one changes nothing: somebody has moved on already.
        """
        present = self._current.get(topic)
        if present is not None and completed is not None and completed != present:
            return present
        others = [partition for partition in choices.usable() if partition != present]
        chosen = self._random.choice(others) if others else (0 if present is None else present)
        self._current[topic] = chosen
        return chosen


class UniformStickyPartitioner(Partitioner):
    """Sticky for every record (J4)."""

    def __init__(self, random_source: random.Random | None = None) -> None:
        self._sticky = StickyPartition(random_source)

    def partition(self, topic: str, key: bytes | None, value: bytes | None, choices: Choices) -> int:  # noqa: ARG002
        return self._sticky.current(topic, choices)

    def batch_completed(self, topic: str, partition: int, choices: Choices) -> None:
        self._sticky.move_on(topic, partition, choices)
