"""The life of a streaming query's source on the driver, without Spark: where it begins, what comes next, what is done.

Spark's order of calls is the contract (see docs/spark.md): ``latest(start, …)`` is only ever called with a ``start``
whose batch is in the checkpoint, so that is where the group's offsets are committed, once per batch and also for the
last one of a run. Ranges are planned from what the documents say, never from what this process remembers: a batch that
is run again after a crash is the same batch.

Invariants: offsets go forward, but for a log that was cut back and data loss that the user allowed; a topic that was
made anew is never read with the offsets of the old one; equal progress is equal text.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

from seamark.counts import counted
from seamark.readable_log import readable_logger
from seamark.spark.errors import AsyncProgress, GroupIsActive
from seamark.spark.read.cluster import Cluster, FoundTopic
from seamark.spark.read.group_commits import OFF, GroupCommits
from seamark.spark.read.lag import Lag, Patience, at_most, oldest_age_ms, records_behind, waiting
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.ranges import OffsetRange, split
from seamark.spark.read.resolution import find_topics, partitions_of, require_topics, starting_offsets
from seamark.spark.read.topic_changes import check_belongs, ends_that_went_back, merged, readable_ranges
from seamark.topic_partition import TopicPartition

log = readable_logger("seamark.spark")

# Spark asks for the latest offset every few milliseconds while a query is idle; brokers are asked this often.
LOOK_MS = 200
# Which topics match a pattern costs a list of all topics of the cluster, so that is asked less often.
LIST_MS = 5000
# The age of waiting records costs a small fetch per partition.
AGE_MS = 1000
# Leaders that were just elected may not know yet how far their log is readable.
_SETTLE_SECONDS = 0.5
_SETTLE_TIMES = 4


class StreamCore:
    """One per run of a query. ``clock`` is monotonic and ``wall`` that of the records, both in ms."""

    def __init__(
        self,
        options: ReadOptions,
        cluster: Cluster,
        *,
        clock: Callable[[], int] = lambda: int(time.monotonic() * 1000),
        wall: Callable[[], int] = lambda: int(time.time() * 1000),
        sleep: Callable[[float], None] = time.sleep,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._clock, self._wall, self._sleep, self._new_id = clock, wall, sleep, new_id
        self._commits = GroupCommits(cluster, options.group) if options.group is not None else None
        self._patience = Patience(options.min_per_trigger, options.max_trigger_delay_ms)
        self._is_started = False
        self._warned = ""
        self._initial: SourceOffsets | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._looked_ms: int | None = None
        self._listed_ms: int | None = None
        self._found: dict[str, FoundTopic] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._reached: SourceOffsets | None = None
        self._age: tuple[int, int | None] | None = None
        # The last start that was taken for durable in this run, and whether Spark has since confirmed it.
        self._taken: SourceOffsets | None = None
        self._is_confirmed = True
        self._commit_ms = 0

    # -- Spark's calls

    def initial(self) -> SourceOffsets:
        """Where a query without a checkpoint begins. Asked twice by Spark, answered once."""
        if self._initial is None:
            self._start()
            existing = find_topics(self._cluster, self._options.subscription)
            require_topics(existing, self._options.subscription)
            begin = starting_offsets(self._cluster, self._options, existing)
            topics = {}
            for name, topic in existing.items():
                offsets = {index: begin[TopicPartition(name, index)] for index in topic.partitions}
                topics[name] = TopicOffsets(topic.topic_id, offsets, dict(offsets))
            self._initial = SourceOffsets(topics, self._new_id(), -1, self._options.group, is_initial=True)
        return self._initial

    def stop_at_what_is_there(self) -> None:
        """AvailableNow: go no further than the logs reach now."""
        self._start()
        self._look()
        self._target = dict(self._ends)

    def latest(self, start: SourceOffsets, max_rows: int | None, *, is_patient: bool = True) -> SourceOffsets:
        """How far the next batch goes; ``start`` itself when there is nothing to do."""
        self._start()
        check_belongs(start, self._options.subscription)
        if not start.is_initial:
            self._commit(start)
        now_ms = self._clock()
        if self._looked_ms is None or now_ms - self._looked_ms >= LOOK_MS:
            self._look()
        current = start if start.query else _adopted(start, self._new_id())
        merger = merged(current, self._found, self._cluster, self._options)
        begin = {TopicPartition(t, i): o for t, topic in merger.topics.items() for i, o in topic.next.items()}
        heads = self._settled_heads(begin, is_changed=merger.is_changed)
        lost = ends_that_went_back(begin, heads, self._options)
        if self._target is not None:
            heads = {
                partition: min(end, self._target.get(partition, begin[partition])) for partition, end in heads.items()
            }
        count = sum(waiting(begin, heads).values())
        reached = begin | at_most(max_rows, begin, heads) | lost
        is_new = merger.is_changed or start.is_initial or bool(lost)
        if count:
            is_enough = self._patience.has_worn_out(count, now_ms)
            is_new = is_new or is_enough or not is_patient or self._target is not None
        result = current.following(_with_next(merger.topics, reached)) if is_new else start
        self._reached = result
        return result

    def report(self) -> dict[str, Any]:
        """The ends of the logs, with lag and the state of commits under ``seamark``."""
        topics: dict[str, dict[str, int]] = {}
        for (topic, index), end in sorted(self._ends.items()):
            topics.setdefault(topic, {})[str(index)] = end
        told = self.lag().document()
        if self._commits is not None:
            told["commit_ms"] = self._commit_ms
            told["commits"] = self._commits.status if not self._warned else self._warned
            told["group"] = self._options.group
        return {"seamark": dict(sorted(told.items())), "topics": topics}

    def lag(self) -> Lag:
        if self._reached is None:
            return Lag()
        positions = self._reached.next_offsets()
        records = records_behind(positions, self._ends)
        behind = {partition: positions[partition] for partition, count in records.items() if count}
        if not behind:
            self._age = None
            return Lag(records, 0)
        now_ms = self._clock()
        if self._age is None or now_ms - self._age[0] >= AGE_MS:
            self._age = (now_ms, oldest_age_ms(self._cluster.unread_times(behind), self._wall()))
        return Lag(records, self._age[1])

    def plan(self, start: SourceOffsets, end: SourceOffsets) -> list[OffsetRange]:
        """The tasks of the batch between two documents."""
        self._start()
        check_belongs(end, self._options.subscription)
        self._check_confirmed(start)
        ranges = []
        for name, topic in sorted(end.topics.items()):
            before = start.topics.get(name)
            # The end knows best where it began: the initial offset of a restarted query may be another one by now.
            is_same = before is not None and not start.is_initial and before.topic_id in ("", topic.topic_id)
            for index, until in sorted(topic.next.items()):
                begin = before.next.get(index) if before is not None and is_same else None
                first = topic.first.get(index, until) if begin is None else begin
                ranges.append(OffsetRange(TopicPartition(name, index), topic.topic_id, first, until))
        readable = readable_ranges(ranges, self._cluster, self._options)
        return split(readable, self._options.min_partitions, self._options.max_records_per_partition)

    def confirm(self, end: SourceOffsets) -> None:
        """Spark's ``commit``: what came before ``end`` will not be asked for again."""
        if self._taken is not None and end.next_offsets() == self._taken.next_offsets():
            self._is_confirmed = True

    def close(self) -> None:
        self._cluster.close()

    # -- parts

    def _start(self) -> None:
        """What has to hold before anything is read; asked once per run."""
        if self._is_started:
            return
        group = self._options.group
        if group is not None:
            state = self._cluster.group_state(group)
            if state.is_active:
                refusal = GroupIsActive(group, state.state, state.members)
                if self._options.on_active_group == "fail":
                    raise refusal
                self._warned = f"{OFF}: the group is {state.state} with {counted(state.members, 'member')}"
                log.warning("%s", refusal)
        self._is_started = True

    def _commit(self, durable: SourceOffsets) -> None:
        if self._commits is None:
            return
        if self._taken is None or self._taken.next_offsets() != durable.next_offsets():
            self._is_confirmed = self._taken is None
            self._taken = durable
        if self._warned:
            return
        began_ms = self._clock()
        self._commits.durable(durable, began_ms)
        self._commit_ms = self._clock() - began_ms or self._commit_ms

    def _check_confirmed(self, start: SourceOffsets) -> None:
        """Spark confirms the start of a batch before it plans it, unless it runs ahead of its log."""
        if self._commits is None or self._is_confirmed or self._taken is None:
            return
        if start.next_offsets() == self._taken.next_offsets():
            raise AsyncProgress(
                "asyncProgressTrackingEnabled cannot be combined with groupId: the query runs ahead of its "
                "checkpoint, and a commit to the group would pass what a restart reads again; turn one of them off"
            )

    def _look(self) -> None:
        """Ask which topics there are and how far they reach. In this order: ids are never newer than the ends."""
        now_ms = self._clock()
        known: Collection[str] | None = None
        if self._options.subscription.pattern is not None:
            if self._listed_ms is None or now_ms - self._listed_ms >= LIST_MS:
                self._listed_ms = now_ms
            else:
                known = self._found
        self._found = find_topics(self._cluster, self._options.subscription, known)
        self._ends = self._cluster.log_ends(partitions_of(self._found))
        self._looked_ms = self._clock()

    def _settled_heads(self, begin: Mapping[TopicPartition, int], *, is_changed: bool) -> dict[TopicPartition, int]:
        missing = [partition for partition in begin if partition not in self._ends]
        if missing or is_changed:
            self._look()
        for _ in range(_SETTLE_TIMES):
            if all(self._ends.get(partition, offset) >= offset for partition, offset in begin.items()):
                break
            self._sleep(_SETTLE_SECONDS)
            self._look()
        return {partition: self._ends.get(partition, offset) for partition, offset in begin.items()}


def _adopted(start: SourceOffsets, query: str) -> SourceOffsets:
    """A document of Spark's own source, taken over."""
    return SourceOffsets(start.topics, query, start.batch, start.group)


def _with_next(topics: Mapping[str, TopicOffsets], reached: Mapping[TopicPartition, int]) -> dict[str, TopicOffsets]:
    """The topics with new positions; a log that was cut back takes the query's beginning with it."""
    moved: dict[str, TopicOffsets] = {}
    for name, topic in topics.items():
        following = {index: reached[TopicPartition(name, index)] for index in topic.next}
        first = {index: min(offset, following[index]) for index, offset in topic.first.items()}
        moved[name] = TopicOffsets(topic.topic_id, following, first)
    return moved
