"""How long groups are behind in each partition: the ages of their first unread records.

Topics whose records may not be read are remembered, and so are records that cannot be: a look every few seconds does
not ask, and is not refused, or does not unfold the same hostile batch, every time. What is known is then a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.client import Admin
from seamark.client.admin.record_times import LogPlace
from seamark.client.errors import BrokerError, ClientError, CorruptRecords
from seamark.monitor.scan import PartitionView, Scan
from seamark.readable_log import readable_logger
from seamark.rules.ages import ages_at
from seamark.rules.lag import Basis
from seamark.rules.time_lag import TimeLag
from seamark.rules.time_probe import Places
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.monitor")

Ages = dict[tuple[str, TopicPartition], TimeLag]

# Records that one look reads, and how long it may take: beyond that an age is a lower bound.
MOST_READS = 256
_READ_TIMEOUT_S = 5.0


class GroupAges:
    """Looks at the ages again and again; ``most_reads`` records are read per look at most."""

    def __init__(self, admin: Admin, *, reset: str | None = None, most_reads: int = MOST_READS) -> None:
        self._admin = admin
        self._reset = reset
        self._most_reads = most_reads
        self._unreadable: set[str] = set()
        # The place of a batch that cannot be read, per partition.
        self._corrupt: dict[TopicPartition, int] = {}

    def look(self, scan: Scan, now_ms: int, *, timeout: float | None = None) -> Ages:
        """The time lag of every partition of every group, with a bounded number of questions."""
        standing: dict[tuple[str, TopicPartition], int] = {}
        positions: dict[TopicPartition, set[int]] = {}
        log_ends: dict[TopicPartition, int] = {}
        for view in scan.groups:
            for partition in view.partitions:
                position = _position_of(partition, self._reset)
                if position is not None and partition.bounds.log_end is not None:
                    standing[view.group_id, partition.partition] = position
                    positions.setdefault(partition.partition, set()).add(position)
                    log_ends[partition.partition] = partition.bounds.log_end
        ages = ages_at(
            {partition: Places(some, log_ends[partition]) for partition, some in positions.items()},
            now_ms,
            read=self._read,
            ask=lambda asked: self._admin.list_offsets(asked, timeout=timeout),
            most_reads=self._most_reads,
        )
        return {
            (group, partition): ages[partition][position]
            for (group, partition), position in standing.items()
            if position in ages[partition]
        }

    def _read(self, places: Sequence[tuple[TopicPartition, int]]) -> Mapping[tuple[TopicPartition, int], int | None]:
        wanted = [
            LogPlace(partition, offset)
            for partition, offset in places
            if partition.topic not in self._unreadable and self._corrupt.get(partition) != offset
        ]
        try:
            times = self._admin.record_times(wanted, timeout=_READ_TIMEOUT_S)
        except ClientError as error:
            _log.warning("Unread records could not be read, so their ages are lower bounds: %s", error)
            return {}
        for place, refusal in times.errors.items():
            topic = place.partition.topic
            is_forbidden = isinstance(refusal, BrokerError) and refusal.code.name == "TOPIC_AUTHORIZATION_FAILED"
            if is_forbidden and topic not in self._unreadable:
                self._unreadable.add(topic)
                _log.warning("Records of topic %r cannot be read, so their ages are lower bounds: %s", topic, refusal)
            if isinstance(refusal, CorruptRecords):
                self._corrupt[place.partition] = place.offset
                _log.warning("The age of %s at offset %d is a lower bound: %s", *place, refusal.reason)
        return {(place.partition, place.offset): at_ms for place, at_ms in times.items()}


def _position_of(view: PartitionView, reset: str | None) -> int | None:
    """Where the group would go on reading; None if that is not known, or is nowhere in the log."""
    bounds = view.bounds
    if bounds.log_start is None or bounds.log_end is None or view.lag.basis is Basis.BEYOND:
        return None
    if view.committed is None:
        return {None: None, "earliest": bounds.log_start, "latest": bounds.log_end}[reset]
    return max(view.committed.offset, bounds.log_start)
