"""What was polled becomes work: put in flight before anything of it can run, and counted against the budget.

Owns what is left out: records of partitions that are not ours or are going, and records that an earlier commit's map
says are done. A poll from an earlier offset than expected is a seek, or a log that was cut: it starts a new term.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any

from seamark.parallel.core.assignments import Assignment, Assignments, AwaitingCommit, PollAwaitingCommit
from seamark.parallel.core.budget import Budget, record_size
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.lanes import Lanes, lane_of
from seamark.parallel.core.outcomes import RecordOutcomes
from seamark.parallel.core.ports import Message, Polled, PolledColumns
from seamark.parallel.core.read_epochs import Step, steps_of
from seamark.parallel.core.work import ColumnSlice, Counters, InFlightRecord, RecordState
from seamark.parallel.settings import Order, Settings
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")


class Intake:
    def __init__(
        self,
        settings: Settings,
        assignments: Assignments,
        committer: OffsetCommitter[TopicPartition],
        lanes: Lanes,
        outcomes: RecordOutcomes,
        budget: Budget,
        awaiting_commit: AwaitingCommit,
        counters: Counters,
        *,
        drop_waiting: Callable[[TopicPartition, int], None],
    ) -> None:
        self._assignments = assignments
        self._committer = committer
        self._lanes = lanes
        self._outcomes = outcomes
        self._budget = budget
        self._awaiting_commit = awaiting_commit
        self._counters = counters
        self._drop_waiting = drop_waiting
        self._is_at_most_once = settings.delivery == "at_most_once"
        self._lane_of = lane_of(settings.order)
        self._is_by_key = settings.order is Order.KEY
        # Set when everything stops: nothing more is started, so taking more would only fill the memory.
        self.is_closed = False
        self._call_size = settings.batch.records if settings.batch is not None else 1

    def records(self, polled: Polled, now: float) -> None:
        records = polled.records
        assignment = self._ready_assignment(polled.partition, len(records), records[0].offset if records else None)
        if assignment is None:
            return
        offsets = [record.offset for record in records]
        if records:
            self._look_at_epochs(polled.partition, assignment, steps_of(records))
        else:
            self._look_at_gap(polled, assignment)
        known = assignment.known_done
        if known is None:
            works = self._works_of(assignment, polled.partition, records, offsets, now)
        else:
            left = [record for record in records if record.offset not in known]
            works = self._works_of(assignment, polled.partition, left, [record.offset for record in left], now)
        items: list[Any] = works
        if len(works) < len(offsets):
            by_offset = {work.offset: work for work in works}
            items = [by_offset.get(offset) for offset in offsets]
        self._put(assignment, polled.partition, offsets, items, works, polled.position)

    def columns(self, columns: PolledColumns, now: float) -> None:
        from seamark.parallel.core.columns import slices_of, without_known

        offsets = columns.offsets
        assignment = self._ready_assignment(columns.partition, len(offsets), offsets[0] if offsets else None)
        if assignment is None:
            return
        if offsets:
            self._look_at_epochs(columns.partition, assignment, [(offsets[0], columns.leader_epoch)])
        else:
            self._look_at_gap(columns, assignment)
        # Order.PARTITION or NONE: neither looks at a key.
        works = slices_of(
            without_known(columns, assignment.known_done), assignment.term, self._call_size, self._lane_of(None), now
        )
        kept = sum(work.count for work in works)
        self._budget.hold(columns.partition, sum(work.size_bytes for work in works), kept)
        items: Iterable[Any] = chain.from_iterable(repeat(work, work.count) for work in works)
        if kept < len(offsets):
            by_offset = {offset: work for work in works for offset in work.offsets or ()}
            items = [by_offset.get(offset) for offset in offsets]
        self._put(assignment, columns.partition, offsets, list(items), works, columns.position)

    def split_batch(self, works: Iterable[InFlightRecord]) -> list[InFlightRecord]:
        """The works with those of columns replaced by one for each record, also among those in flight."""
        from seamark.parallel.core.columns import split_batch

        records: list[InFlightRecord] = []
        frontiers = self._committer.frontiers()
        for work in works:
            singles = [work] if work.offsets is None else split_batch(work)
            records += singles
            frontier = frontiers.get(work.partition)
            if frontier is not None and frontier.term == work.term:
                frontier.replace_items({single.offset: single for single in singles})
        return records

    def _ready_assignment(self, partition: TopicPartition, count: int, first: int | None) -> Assignment | None:
        assignment = self._assignments.get(partition)
        if assignment is None or assignment.is_draining or self.is_closed:
            self._counters.unowned += count
            return None
        if first is not None and first < assignment.position:
            return self._start_over(partition, assignment, first)
        return assignment

    def _look_at_epochs(self, partition: TopicPartition, assignment: Assignment, steps: Sequence[Step]) -> None:
        """What an earlier commit's map says is done was written up to that commit's leader epoch.

        A record of a later epoch that stands where the map says done, or before, has replaced what was done.
        """
        self._assignments.read_epochs(partition, assignment, steps)
        if assignment.known_done is None or assignment.known_epoch < 0 or steps[-1][1] <= assignment.known_epoch:
            return
        offset, epoch = next(step for step in steps if step[1] > assignment.known_epoch)
        dropped = self._assignments.cut_known(partition, assignment, offset)
        if dropped:
            _log.warning(
                "The log of %s was truncated at offset %d or below: the records there now have leader epoch %d, "
                "the commit that this consumer started from has epoch %d. %d offsets from there on that the commit "
                "marks as done belong to lost records; the records that replaced them are processed.",
                partition,
                offset,
                epoch,
                assignment.known_epoch,
                dropped,
            )

    def _look_at_gap(self, polled: Polled | PolledColumns, assignment: Assignment) -> None:
        """The position went on over what nobody is shown: a truncation may reach into that as well."""
        if polled.position > assignment.position:
            self._look_at_epochs(polled.partition, assignment, [(polled.position - 1, polled.leader_epoch)])

    def _start_over(self, partition: TopicPartition, before: Assignment, position: int) -> Assignment:
        """The partition is read from an earlier offset: a seek, or a log that was cut.

        What was polled from there on comes again. What stands below does not: it goes on in the new term.
        """
        term = before.term
        _log.warning(
            "%s is read again from offset %d, below the position %d: its log was truncated, or the position was "
            "out of range. All records from there on are processed, including offsets that were done before.",
            partition,
            position,
            before.position,
        )
        self._drop_waiting(partition, position)
        below = [
            work
            for work in (*self._lanes.held(partition), *self._outcomes.held(partition))
            if work.term == term and work.offset < position
        ]
        # A record that was given up while it runs is in flight no more.
        kept = {work.offset: work for work in below if work.state is not RecordState.OVER}
        for work in kept.values():
            self._cut(work, position, is_in_lane=work.state is RecordState.WAITING)
        # At most once these are committed, so for the group they are over: a commit must not go back to them.
        in_flight = {} if self._is_at_most_once else kept
        offsets = sorted(chain.from_iterable(work.offsets or (work.offset,) for work in in_flight.values()))
        start = min((*offsets, *self._awaiting_commit.offsets(partition), position))
        assignment = self._assignments.begin(partition, start, epochs=before.epochs.below(position))
        waiting = [work for work in self._awaiting_commit.renew(partition, assignment.term) if work.term == term]
        for work in waiting:
            if work.offset < position:
                self._cut(work, position, is_in_lane=False)
        for work in chain(below, waiting):
            if work.offset < position:
                work.term = assignment.term
        if not self._is_at_most_once:
            items = {offset: work for work in kept.values() for offset in work.offsets or (work.offset,)}
            self._committer.in_flight(
                partition, assignment.term, offsets, [items[offset] for offset in offsets], position
            )
        assignment.position = position
        return assignment

    def _cut(self, work: InFlightRecord, position: int, *, is_in_lane: bool) -> None:
        """Rows of columns from the position on come again, so they are no longer this work's."""
        if not isinstance(work, ColumnSlice) or work.offsets[-1] < position:
            return
        kept = bisect_left(work.offsets, position)
        gone = work.count - kept
        work.offsets = work.offsets[:kept]
        work.count = kept
        work.record = work.record.slice(0, kept)
        self._budget.give_back(work.partition, 0, gone)
        if is_in_lane:
            self._lanes.forget_rows(gone)

    def _put(
        self,
        assignment: Assignment,
        partition: TopicPartition,
        offsets: list[int],
        items: list[Any],
        works: Sequence[InFlightRecord],
        position: int,
    ) -> None:
        if not offsets and position <= assignment.position:
            return
        # In flight before anything can run (H17).
        if self._is_at_most_once:
            self._awaiting_commit.add(PollAwaitingCommit(partition, assignment.term, offsets, position, list(works)))
        else:
            self._committer.in_flight(partition, assignment.term, offsets, items, position)
            self._lanes.add(works)
        assignment.position = max(offsets[-1] + 1, position) if offsets else position
        self._counters.polled += len(offsets)
        self._counters.spared += items.count(None)

    def _works_of(
        self,
        assignment: Assignment,
        partition: TopicPartition,
        records: Sequence[Message],
        offsets: list[int],
        now: float,
    ) -> list[InFlightRecord]:
        if not records:
            return []
        lane_of_key = self._lane_of
        if self._is_by_key:
            lanes = [key if type(key := record.key) is bytes else lane_of_key(key) for record in records]
        else:
            lanes = [lane_of_key(record.key) for record in records]
        sizes = list(map(record_size, records))
        # One loop in compiled code: this is most of what a record costs here.
        works = list(
            map(InFlightRecord, repeat(partition), repeat(assignment.term), offsets, records, lanes, sizes, repeat(now))
        )
        self._budget.hold(partition, sum(sizes), len(works))
        return works
