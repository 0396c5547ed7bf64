"""Whether what was committed is still in the log when a partition is assigned; for confluent-kafka, which does not ask.

It compares leader epochs only when a leader changes while it reads. So the first record that comes tells: if its epoch
is not later than the commit's, nothing was truncated below it. If it is later, there was an election, and maybe an
unclean one. Then the partition is read from somewhat further back, until a record of the commit's epoch or an earlier
one is found: the first record of a later epoch behind it is where reading starts, if that lies below the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from seamark.client import Record
from seamark.parallel.core.ports import Committed
from seamark.topic_partition import TopicPartition

# How many times further back the next look goes.
_STRIDE = 16

Seek = Callable[[TopicPartition, int], object]


class _Start(NamedTuple):
    """A commit that is not confirmed. The partition was sent back by ``distance``, 0 if it was not.

    ``is_anchored``: a record was read that was there when the commit was made, so all that is missing comes behind it.
    """

    committed: Committed
    distance: int = 0
    is_anchored: bool = False


class StartChecks:
    """``sift`` everything that is polled: it holds back what comes before a start is confirmed."""

    def __init__(self, seek: Seek, log_start: Callable[[TopicPartition], int]) -> None:
        self._seek = seek
        self._log_start = log_start
        self._open: dict[TopicPartition, _Start] = {}

    def assigned(self, partition: TopicPartition, committed: Committed) -> None:
        self._open.pop(partition, None)
        if committed.offset > 0 and committed.leader_epoch >= 0:
            self._open[partition] = _Start(committed)

    def gone(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._open.pop(partition, None)

    def is_looking_back(self, partition: TopicPartition) -> bool:
        """Whether it was sent back and nothing of there was read yet that confirms it: an end may be an old one."""
        start = self._open.get(partition)
        return start is not None and start.distance > 0 and not start.is_anchored

    def sift(self, partition: TopicPartition, records: list[Record]) -> list[Record]:
        """Those of the polled records that the consumer is to see."""
        start = self._open.get(partition)
        if start is None:
            return records
        offset, epoch = start.committed.offset, start.committed.leader_epoch
        is_older = records[0].leader_epoch <= epoch
        if is_older and not start.distance:
            del self._open[partition]
            return records
        if not is_older and not start.is_anchored and self._go_back(partition, start):
            return []
        wanted = [record for record in records if record.offset >= offset or record.leader_epoch > epoch]
        if wanted:
            del self._open[partition]
        else:
            self._open[partition] = start._replace(is_anchored=True)
        return wanted

    def _go_back(self, partition: TopicPartition, start: _Start) -> bool:
        """Have the partition read from further back; False if nothing further back is in the log."""
        log_start, offset = self._log_start(partition), start.committed.offset
        if offset - start.distance <= log_start:
            return False
        distance = start.distance * _STRIDE or 1
        self._open[partition] = start._replace(distance=distance)
        self._seek(partition, max(log_start, offset - distance))
        return True
