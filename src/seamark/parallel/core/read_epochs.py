"""Which leader epochs wrote the records that were read of a partition, in one assignment.

Every leader of a partition has an epoch, larger than those before it. A commit names one, so that after an unclean
election, which truncates the log, the next owner learns from the new leader that what was committed is gone. Epochs
only go up along a log, so one entry for each change is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from seamark.parallel.core.ports import NO_EPOCH, Message

# The offset of the first record that was read of an epoch, and the epoch.
Step = tuple[int, int]


class ReadEpochs:
    """
    >>> epochs = ReadEpochs([(4, 0)])
    >>> epochs.read(5, 0), epochs.read(9, 2)
    (False, True)
    >>> epochs.before(4), epochs.before(9), epochs.before(10)
    (-1, 0, 2)
    """

    __slots__ = ("_epochs", "_offsets")

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._offsets: list[int] = []
        self._epochs: list[int] = []
        for offset, epoch in steps:
            self.read(offset, epoch)

    def read(self, offset: int, epoch: int) -> bool:
        """The record at ``offset`` is of ``epoch``; whether that is news."""
        epochs = self._epochs
        if epoch < 0 or (epochs and epochs[-1] == epoch):
            return False
        # A commit may name a later epoch than that of the record before it: see ``Decision.leader_epoch``.
        while epochs and epochs[-1] > epoch:
            epochs.pop()
            self._offsets.pop()
        if not epochs or epochs[-1] < epoch:
            epochs.append(epoch)
            self._offsets.append(offset)
        return True

    def before(self, offset: int) -> int:
        """The epoch of the last record below ``offset``, -1 if it is not known."""
        number = bisect_left(self._offsets, offset) - 1
        return self._epochs[number] if number >= 0 else NO_EPOCH

    @property
    def first(self) -> int:
        """The epoch of the first record that was read, -1 if none is known."""
        return self._epochs[0] if self._epochs else NO_EPOCH

    def below(self, offset: int) -> list[Step]:
        """The changes that were read below ``offset``."""
        steps = zip(self._offsets, self._epochs, strict=True)
        return [step for step in steps if step[0] < offset]


def steps_of(records: Sequence[Message]) -> list[Step]:
    """Where epochs begin among records in offset order."""
    first, last = records[0], records[-1]
    if first.leader_epoch == last.leader_epoch:
        return [(first.offset, first.leader_epoch)]
    steps: list[Step] = []
    for record in records:
        if not steps or record.leader_epoch != steps[-1][1]:
            steps.append((record.offset, record.leader_epoch))
    return steps
