"""Which partitions are ours, and since which term: who may still change anything.

A stay is a partition in one term. It begins when the partition is assigned, or is read again from an earlier offset,
and ends when it goes or the next one begins. Terms only grow, so a result names its stay for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from seamark.parallel.committer import OffsetCommitter
from seamark.parallel.work import Work
from seamark.topic_partition import TopicPartition
from seamark.wire.done_ahead import DoneAhead


@dataclass(slots=True)
class Stay:
    """``position`` is -1 until the first poll if nothing was committed. A draining stay starts nothing more."""

    term: int
    position: int
    known_done: DoneAhead | None
    is_draining: bool = False


class Stays:
    def __init__(self, committer: OffsetCommitter[TopicPartition]) -> None:
        self._committer = committer
        self._stays: dict[TopicPartition, Stay] = {}
        self._last_term = 0

    def begin(
        self,
        partition: TopicPartition,
        position: int,
        known_done: DoneAhead | None = None,
        committed: tuple[int, str] | None = None,
    ) -> Stay:
        self._last_term += 1
        stay = self._stays[partition] = Stay(self._last_term, position, known_done)
        self._committer.assigned(partition, stay.term, position, committed, known_done)
        return stay

    def end(self, partition: TopicPartition) -> None:
        stay = self._stays.pop(partition)
        self._committer.released(partition, stay.term)

    def get(self, partition: TopicPartition) -> Stay | None:
        return self._stays.get(partition)

    def is_live(self, work: Work) -> bool:
        """Whether what becomes of the record still counts."""
        stay = self._stays.get(work.partition)
        return stay is not None and stay.term == work.term

    def may_run(self, work: Work) -> bool:
        """Whether the record may be started, again or for the first time."""
        stay = self._stays.get(work.partition)
        return stay is not None and stay.term == work.term and not stay.is_draining

    def terms(self) -> dict[TopicPartition, int]:
        return {partition: stay.term for partition, stay in self._stays.items()}
