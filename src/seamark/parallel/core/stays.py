"""Which partitions are ours, and since which term: who may still change anything.

A stay is a partition in one term. It begins when the partition is assigned, or is read again from an earlier offset,
and ends when it goes or the next one begins. Terms only grow, so a result names its stay for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.ports import Committed
from seamark.parallel.core.read_epochs import ReadEpochs, Step
from seamark.parallel.core.work import Work
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead
from seamark.wire.offsets.done_ahead import DoneAhead


@dataclass(slots=True)
class Stay:
    """``position`` is -1 until the first poll if nothing was committed. A draining stay starts nothing more.

    ``known_done`` is the map of the commit that the stay began with, ``known_epoch`` that commit's leader epoch.
    """

    term: int
    position: int
    known_done: DoneAhead | None
    epochs: ReadEpochs
    known_epoch: int
    is_draining: bool = False


class Stays:
    def __init__(self, committer: OffsetCommitter[TopicPartition]) -> None:
        self._committer = committer
        self._stays: dict[TopicPartition, Stay] = {}
        self._last_term = 0

    def begin_from(self, partition: TopicPartition, committed: Committed) -> bool:
        """Begin where the group stands; whether the commit's metadata is another tool's, and so not read."""
        if committed.offset < 0:
            self.begin(partition, committed.offset)
            return False
        found = done_ahead.read(committed.metadata, committed.offset)
        known = found if isinstance(found, DoneAhead) else None
        self.begin(partition, committed.offset, known, committed)
        return isinstance(found, done_ahead.Refusal) and found.kind != "empty"

    def begin(
        self,
        partition: TopicPartition,
        position: int,
        known_done: DoneAhead | None = None,
        committed: Committed | None = None,
        epochs: Sequence[Step] = (),
    ) -> Stay:
        """``epochs`` are what an earlier stay, which this one continues, had read below ``position``."""
        self._last_term += 1
        said = None
        if committed is not None:
            said = committed.offset, committed.metadata
            epochs = [(committed.offset - 1, committed.leader_epoch)]
        read = ReadEpochs(epochs)
        stay = Stay(self._last_term, position, known_done, read, read.before(position))
        self._stays[partition] = stay
        self._committer.assigned(partition, stay.term, position, said, known_done, epochs)
        return stay

    def read_epochs(self, partition: TopicPartition, stay: Stay, steps: Sequence[Step]) -> None:
        """Records of these leader epochs were polled."""
        news = [step for step in steps if stay.epochs.read(*step)]
        if news:
            self._committer.epochs_read(partition, stay.term, news)

    def cut_known(self, partition: TopicPartition, stay: Stay, offset: int) -> int:
        """The log was truncated at ``offset`` or below; how many done offsets the map loses."""
        before = stay.known_done
        if before is None:
            return 0
        stay.known_done = before.below(offset) or None
        self._committer.known_cut(partition, stay.term, offset)
        return before.count - (stay.known_done.count if stay.known_done else 0)

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
