"""What several looks at the same groups say together: state and time to catch up, over a bounded stretch of time.

A partition at which nothing moved between looks costs two samples, the first and the last of that time, however many
looks there were: no rule can tell the difference, and ten thousand groups fit into memory. Offsets that went back are
remembered for longer than that: until the group has read up to there again, or somebody acknowledged it.

A group without members may be read all the same: Spark commits without joining. It is, if its offsets moved at two
looks since it has had no members; a single move may be the last commit of a member, or a reset.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping

from seamark.monitor.scan import GroupView, Scan
from seamark.rules.status import PATIENT, Patience, Status, partition_status, rewind_after, worst
from seamark.rules.time_lag import Sample, seconds_to_catch_up
from seamark.topic_partition import TopicPartition

_Key = tuple[str, TopicPartition]
_MOVES_OF_A_READER = 2


class Watching:
    """The last ``looks`` looks; may be asked from any thread."""

    def __init__(self, looks: int = 120, patience: Patience = PATIENT) -> None:
        self._looks = looks
        self._patience = patience
        self._samples: dict[_Key, deque[Sample]] = {}
        self._times: deque[int] = deque(maxlen=looks)
        self._active: dict[str, bool] = {}
        # At how many looks the offsets of groups without members moved, since they have none.
        self._moves: dict[str, int] = {}
        # Offsets that have to be reached again before a rewind is over.
        self._rewinds: dict[_Key, int] = {}
        self._lock = threading.RLock()

    def add(self, scan: Scan, at_ms: int) -> None:
        """Remember a look, made at a time of the monotonic clock; groups and partitions that are gone are forgotten."""
        with self._lock:
            self._add(scan, at_ms)

    def _add(self, scan: Scan, at_ms: int) -> None:
        samples: dict[_Key, deque[Sample]] = {}
        self._times.append(at_ms)
        self._active = {view.group_id: view.description.is_active for view in scan.groups}
        self._moves = {view.group_id: self._moves_of(view) for view in scan.groups if not view.description.is_active}
        # What cannot be read now is not gone.
        unreadable = scan.unreadable
        rewinds = {key: offset for key, offset in self._rewinds.items() if key[0] in unreadable}
        for view in scan.groups:
            for partition in view.partitions:
                key = (view.group_id, partition.partition)
                kept = self._samples.get(key)
                if kept is None:
                    kept = deque(maxlen=self._looks)
                rewind = self._rewinds.get(key)
                if partition.bounds.log_end is not None:
                    committed = None if partition.committed is None else partition.committed.offset
                    log_start = partition.bounds.log_start or 0
                    sample = Sample(at_ms, committed, partition.bounds.log_end, log_start, partition.lag.lost)
                    rewind = rewind_after(rewind, _last_commit(kept), sample)
                    _keep(kept, sample, self._times[0])
                if rewind is not None:
                    rewinds[key] = rewind
                samples[key] = kept
        self._samples = samples
        self._rewinds = rewinds

    def _moves_of(self, view: GroupView) -> int:
        """At how many looks a group without members moved, with this one; to be asked before it is kept."""
        if view.group_id not in self._moves:
            return 0
        kept = self._samples
        has_moved = any(
            partition.committed is not None
            and (before := kept.get((view.group_id, partition.partition)))
            and before[-1].committed != partition.committed.offset
            for partition in view.partitions
        )
        return self._moves[view.group_id] + has_moved

    def _is_unread(self, group: str) -> bool:
        return self._moves.get(group, _MOVES_OF_A_READER) < _MOVES_OF_A_READER

    def status(self, group: str, partition: TopicPartition) -> Status:
        with self._lock:
            samples = list(self._samples.get((group, partition), ()))
            return partition_status(
                samples, is_active=self._active.get(group, False), patience=self._patience,
                rewound_from=self._rewinds.get((group, partition)), is_unread=self._is_unread(group),
            )  # fmt: skip

    @property
    def rewinds(self) -> dict[_Key, int]:
        """Where partitions were before they went back, of those that have not come up again."""
        with self._lock:
            return dict(self._rewinds)

    def restore(self, rewinds: Mapping[_Key, int]) -> None:
        """Remember rewinds of an earlier run, as far as they are not over by the last look."""
        with self._lock:
            for key, offset in rewinds.items():
                samples = self._samples.get(key)
                if samples and (still := rewind_after(offset, None, samples[-1])) is not None:
                    self._rewinds[key] = max(still, self._rewinds.get(key, 0))

    def acknowledge(self, group: str) -> list[TopicPartition]:
        """Forget what went back in a group until something does again; gives the partitions."""
        with self._lock:
            known = sorted(partition for name, partition in self._rewinds if name == group)
            for partition in known:
                del self._rewinds[group, partition]
        return known

    def outlook(self, group: str, topic: str, partition: int | None) -> tuple[float | None, str | None]:
        """Seconds until caught up, and the state in a word; for a whole topic those of its worst partition.

        None is what cannot be told: yet, or because nobody reads.
        """
        with self._lock:
            return self._outlook(group, topic, partition)

    def _outlook(self, group: str, topic: str, partition: int | None) -> tuple[float | None, str | None]:
        if partition is not None:
            wanted = [TopicPartition(topic, partition)]
        else:
            wanted = [
                topic_partition
                for name, topic_partition in self._samples
                if name == group and topic_partition.topic == topic
            ]
        times = [
            seconds_to_catch_up(list(self._samples.get((group, topic_partition), ()))) for topic_partition in wanted
        ]
        if self._is_unread(group):
            # Whatever moved the offset, its pace says nothing; what is read already stays so.
            times = [time if time == 0 else None for time in times]
        known = [time for time in times if time is not None]
        state = worst(self.status(group, topic_partition) for topic_partition in wanted)
        word = None if state is Status.UNKNOWN else state.value
        return (max(known) if len(known) == len(times) and known else None), word


def _last_commit(samples: deque[Sample]) -> int | None:
    return next((sample.committed for sample in reversed(samples) if sample.committed is not None), None)


def _keep(kept: deque[Sample], new: Sample, since_ms: int) -> None:
    """Add a sample, as the end of a stretch in which nothing moved if it is one, and drop what is before a time."""
    if kept and kept[-1][1:] == new[1:]:
        # The same numbers in the same objects.
        new = kept[-1]._replace(at_ms=new.at_ms)
        if len(kept) > 1 and kept[-2][1:] == new[1:]:
            kept.pop()
    kept.append(new)
    while kept[0].at_ms < since_ms:
        first = kept.popleft()
        if kept[0].at_ms > since_ms and kept[0][1:] == first[1:]:
            kept.appendleft(first._replace(at_ms=since_ms))
