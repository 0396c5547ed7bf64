"""Records to all partitions in turn, whatever their keys (J1)."""

from __future__ import annotations

import random

from seamark.partitioners.contract import Choices, Partitioner


class RoundRobinPartitioner(Partitioner):
    """Counts per topic; partitions without a leader are passed over while others have one.

    The first partition is random, so that many short-lived producers do not all begin with the same one.
    """

    def __init__(self, random_source: random.Random | None = None) -> None:
        self._random = random_source if random_source is not None else random.Random()
        self._next: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, value: bytes | None, choices: Choices) -> int:  # noqa: ARG002
        turn = self._next.get(topic)
        if turn is None:
            turn = self._random.randrange(choices.count)
        self._next[topic] = turn + 1
        usable = choices.usable()
        return usable[turn % len(usable)]
