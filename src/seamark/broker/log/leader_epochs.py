"""Which leader wrote which offsets: one entry per leader epoch with the offset it began at.

Epochs and offsets both go up. An epoch under which nothing was written gives way to the next one that begins at the
same offset. A client that asks where an epoch ends learns from the answer whether what it read is still there.
"""

from __future__ import annotations

from bisect import bisect_right

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """
    >>> epochs = LeaderEpochs()
    >>> epochs.begin(0, 0); epochs.begin(2, 10)
    >>> epochs.end_of(0, log_end=25), epochs.end_of(1, log_end=25), epochs.end_of(2, log_end=25), epochs.end_of(3, 25)
    ((0, 10), (0, 10), (2, 25), (-1, -1))
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Epoch and first offset of each, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def begin(self, epoch: int, start: int) -> None:
        """Note that from ``start`` on batches are written under ``epoch``; one that is known already changes
        nothing.
        """
        if self._epochs and epoch <= self._epochs[-1]:
            return
        while self._starts and self._starts[-1] >= start:
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch under which the record at ``offset`` was written."""
        number = bisect_right(self._starts, offset) - 1
        return self._epochs[number] if number >= 0 else UNDEFINED_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the largest epoch up to ``epoch`` and the offset behind its last record."""
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        if above == 0:
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def forget_before(self, log_start: int) -> None:
        """The log begins at ``log_start`` now: the epoch that holds it begins there too."""
        number = bisect_right(self._starts, log_start) - 1
        if number > 0:
            del self._epochs[:number]
            del self._starts[:number]
        if self._starts and self._starts[0] < log_start:
            self._starts[0] = log_start
