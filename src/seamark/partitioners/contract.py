"""What a partitioner is asked and what it answers.

For a record without a partition of its own the producer calls ``partition``; an explicit partition always wins and no
partitioner is asked (J2, J4). When a batch of a partition is complete the producer says so with ``batch_completed``,
which is when sticky partitioners move on. Calls for one producer come one at a time.

    >>> class ByLength(Partitioner):
    ...     def partition(self, topic, key, value, choices):
    ...         return len(value or b"") % choices.count
    >>> choose_partition(ByLength(), None, "t", None, b"four!", Choices(4)), choose_partition(
    ...     ByLength(), 2, "t", None, b"four!", Choices(4))
    (1, 2)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from seamark.errors import UsageError


@dataclass(frozen=True, slots=True)
class Choices:
    """The partitions of a topic: 0 to ``count`` - 1, of which ``available`` have a leader (None: all of them)."""

    count: int
    available: tuple[int, ...] | None = None

    def usable(self) -> tuple[int, ...] | range:
        """Partitions that can be written to now, or all of them where none can."""
        return self.available if self.available else range(self.count)


class Partitioner(ABC):
    """Decides where a record goes. Made once per producer."""

    @abstractmethod
    def partition(self, topic: str, key: bytes | None, value: bytes | None, choices: Choices) -> int:
        """The partition for a record, from 0 to ``choices.count`` - 1."""

    def batch_completed(self, topic: str, partition: int, choices: Choices) -> None:  # noqa: B027 - most do not care
        """A batch for ``partition`` takes no more records."""


def choose_partition(
    partitioner: Partitioner,
    explicit: int | None,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    choices: Choices,
) -> int:
    """The explicit partition, or the partitioner's; UsageError for one that the topic does not have."""
    chosen = partitioner.partition(topic, key, value, choices) if explicit is None else explicit
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < choices.count:
        who = f"partitioner {type(partitioner).__name__} chose" if explicit is None else "the record names"
        raise UsageError(f"{who} partition {chosen!r} of topic {topic!r}, which has 0 to {choices.count - 1}")
    return chosen
