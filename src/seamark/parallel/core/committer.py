"""The committer: reads what is in flight and what is done from one queue and says, now and then, what to commit.

Reports are read in the order in which they were made, which is what makes it right without a lock (H8, H15, H21). It
does no I/O and knows no thread: it is given the time, and its decisions are published by whoever runs it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from seamark.parallel.core.frontier import Frontier, InvariantViolation
from seamark.parallel.core.ports import NO_EPOCH
from seamark.parallel.core.read_epochs import ReadEpochs, Step
from seamark.wire.offsets.done_ahead import DEFAULT_LENGTH, DoneAhead, encode

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

# Kafka's offsets are signed 64-bit numbers; the largest is kept for "no offset" by more than one tool.
LARGEST_LONG = (1 << 63) - 1
# A done-ahead map shorter than this says next to nothing.
SHORTEST_METADATA = 64


class Decision(NamedTuple, Generic[Key]):
    """Commit ``offset`` for ``key``; ``is_repeat`` if the same offset and metadata are committed already.

    ``leader_epoch`` is that of the last record that the commit calls done: the last one below ``offset``, or, with a
    done-ahead map, the last one that was read. Where none was read below ``offset`` it is that of the first one read.
    Whatever replaces one of these after a truncation has a later epoch.
    """

    key: Key
    term: int
    offset: int
    metadata: str
    is_repeat: bool
    leader_epoch: int = NO_EPOCH


class CommitterMetrics(NamedTuple):
    runs: int
    last_run_s: float
    # Records whose end was taken into account, and reports of a term that is over.
    committed_count: int
    obsolete_count: int
    invalid_count: int
    queued: int
    in_flight: int


class _Assigned(NamedTuple):
    key: Any
    term: int
    position: int
    committed: tuple[int, str] | None
    known_done: DoneAhead | None
    epochs: Sequence[Step]


class _EpochsRead(NamedTuple):
    key: Any
    term: int
    steps: Sequence[Step]


class _KnownCut(NamedTuple):
    key: Any
    term: int
    offset: int


class _Released(NamedTuple):
    key: Any
    term: int


class _InFlight(NamedTuple):
    key: Any
    term: int
    offsets: Sequence[int]
    items: Sequence[Any] | None
    position: int


class _Ended(NamedTuple):
    key: Any
    term: int
    offsets: Iterable[int]


_Report: TypeAlias = _Assigned | _Released | _InFlight | _Ended | _EpochsRead | _KnownCut


class _PartitionState:
    """One partition in one term. ``ends`` are the ends of polls, kept only if whole polls are confirmed."""

    __slots__ = ("confirmed", "ends", "epochs", "frontier", "has_news", "known_epoch", "published")

    def __init__(self, assigned: _Assigned) -> None:
        self.frontier: Frontier[Any] = Frontier(assigned.term, assigned.position, assigned.known_done)
        self.epochs = ReadEpochs(assigned.epochs)
        # Of the commit that the map was read from.
        self.known_epoch = self.epochs.before(assigned.position)
        self.published = assigned.committed
        self.has_news = False
        self.ends: deque[int] = deque()
        self.confirmed = assigned.position


class OffsetCommitter(Generic[Key]):
    """Decides which offset may be committed for each key, a (subscription, partition) pair or the like (H14).

    **Goal.** Commit the largest offset that was reported done, yet never past the smallest one in flight (H2). A
    committed offset is the first that is read after a restart (H3).

    **Input.** One queue of reports, in the order in which they were made (H5): a partition came, records were polled,
    a record is done, a partition went. Any thread may append to it, only ``run`` reads it (H26). The contract (H17): a
    record is put in flight before its handler starts, so before its end is reported; and one partition's records are
    put in flight by one poller, upwards.

    **A run** reads the queue as long as it is when the run begins (H8, H11); what comes meanwhile waits for the next
    run. By the contract the in-flight entry of each end stands before it. With a queue of each, they would have to be
    read in the right order: an end read whose in-flight entry is still in the other queue is spent when the next run
    finds that entry, which then holds the partition back for ever (H15).

    Ends are matched by raw offset (H18), and the frontier of each partition is the decision (H12, H13): the
    smallest offset in flight, or behind everything polled if nothing is. "Raised by one" (H9) is the position's
    meaning, and the "maximum that could not be published yet" (H7) is the position too, one number per partition.
    Over a gap behind the largest done offset this goes further than that offset plus one, and is as safe.

    **Afterwards.** A partition with nothing in flight whose frontier was said is silent until something new is polled
    (H23). Reports of another term than the partition's present one are counted as obsolete and dropped (H24).

    >>> committer = OffsetCommitter()
    >>> committer.assigned("orders-0", term=1, position=5)
    >>> committer.in_flight("orders-0", 1, [5, 6, 7])
    >>> committer.done("orders-0", 1, [6, 7])
    >>> [(decision.key, decision.offset) for decision in committer.run()]
    [('orders-0', 5)]
    >>> committer.done("orders-0", 1, [5])
    >>> [(decision.key, decision.offset) for decision in committer.run()]
    [('orders-0', 8)]
    >>> committer.run()
    []
    """

    def __init__(
        self,
        *,
        metadata_length: int = DEFAULT_LENGTH,
        whole_polls: bool = False,
        at_once: bool = False,
        seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``metadata_length`` 0 writes no done-ahead map.

        ``whole_polls`` confirms a poll's records together, once the last of them is done (I9). ``at_once`` counts
        records as done when they are polled: at most once, if their handlers wait for the commit (I2). ``seconds``
        measures runs.
        """
        self._queue: deque[_Report] = deque()
        self._assignments: dict[Key, _PartitionState] = {}
        self._metadata_length = metadata_length
        self._whole_polls = whole_polls
        self._at_once = at_once
        self._seconds = seconds
        self._broken: BaseException | None = None
        self._runs = 0
        self._last_run_s = 0.0
        self._committed_count = 0
        self._obsolete_count = 0
        self._invalid_count = 0

    # For the poller.

    def assigned(
        self,
        key: Key,
        term: int,
        position: int,
        committed: tuple[int, str] | None = None,
        known_done: DoneAhead | None = None,
        epochs: Sequence[Step] = (),
    ) -> None:
        """``key`` starts at ``position`` in ``term``; ``committed`` is the offset and metadata that the group has.

        ``epochs`` are the leader epochs known of records below ``position``.
        """
        self._queue.append(_Assigned(key, term, position, committed, known_done, epochs))

    def epochs_read(self, key: Key, term: int, steps: Sequence[Step]) -> None:
        """From these offsets on the records that are polled are of these leader epochs."""
        self._queue.append(_EpochsRead(key, term, steps))

    def known_cut(self, key: Key, term: int, offset: int) -> None:
        """The log was truncated: ``known_done`` says nothing about what is at ``offset`` and beyond now."""
        self._queue.append(_KnownCut(key, term, offset))

    def released(self, key: Key, term: int) -> None:
        """``key`` went away, or its term ended."""
        self._queue.append(_Released(key, term))

    def in_flight(
        self, key: Key, term: int, offsets: Sequence[int], items: Sequence[Any] | None = None, position: int = -1
    ) -> None:
        """Records were polled; ``position`` is where the poll went on to, if it went past a gap."""
        self._queue.append(_InFlight(key, term, offsets, items, position))

    # For whoever is through with records.

    def done(self, key: Key, term: int, offsets: Iterable[int]) -> None:
        self._queue.append(_Ended(key, term, offsets))

    # For the owner.

    def run(self) -> list[Decision[Key]]:
        """Read the queue and decide. A run that raised was the last: what is known cannot be trusted any more."""
        start = self._seconds()
        self._guarded(self._read_queue)
        decisions = self._guarded(lambda: list(self._decide()))
        self._runs += 1
        self._last_run_s = self._seconds() - start
        return decisions

    def published(self, decisions: Iterable[Decision[Key]]) -> None:
        """These are committed: saying the same again would be a repeat."""
        for decision in decisions:
            assignment = self._assignments.get(decision.key)
            if assignment is not None and assignment.frontier.term == decision.term:
                assignment.published = decision.offset, decision.metadata

    def not_published(self, decisions: Iterable[Decision[Key]]) -> None:
        """These could not be committed: the next run says the state of these partitions again."""
        for decision in decisions:
            assignment = self._assignments.get(decision.key)
            if assignment is not None and assignment.frontier.term == decision.term:
                assignment.has_news = True

    @property
    def metadata_length(self) -> int:
        return self._metadata_length

    def shorten_metadata(self) -> None:
        """The broker refused the metadata as too long: write half of it, and none when even little is too much."""
        self._metadata_length = self._metadata_length // 2 if self._metadata_length >= 2 * SHORTEST_METADATA else 0

    def frontiers(self) -> dict[Key, Frontier[Any]]:
        """The frontiers with all that was reported."""
        self._guarded(self._read_queue)
        return {key: assignment.frontier for key, assignment in self._assignments.items()}

    def committed(self) -> dict[Key, int]:
        """What the group has of each partition, as far as is known; -1 for nothing."""
        return {
            key: -1 if assignment.published is None else assignment.published[0]
            for key, assignment in self._assignments.items()
        }

    def metrics(self) -> CommitterMetrics:
        return CommitterMetrics(
            self._runs,
            self._last_run_s,
            self._committed_count,
            self._obsolete_count,
            self._invalid_count,
            len(self._queue),
            sum(len(assignment.frontier) for assignment in self._assignments.values()),
        )

    def _guarded(self, step: Callable[[], Result]) -> Result:
        if self._broken is not None:
            raise InvariantViolation("the committer stopped after contradictory reports") from self._broken
        try:
            return step()
        except BaseException as error:
            # The queue is read already: going on would be guessing.
            self._broken = error
            raise

    def _read_queue(self) -> None:
        # What other threads append meanwhile is for the next run, so that a run ends.
        for _ in range(len(self._queue)):
            report = self._queue.popleft()
            if isinstance(report, _Ended):
                self._end(report)
            elif isinstance(report, _InFlight):
                self._put_in_flight(report)
            elif isinstance(report, _Assigned):
                self._start(report)
            elif isinstance(report, _Released):
                self._release(report)
            else:
                self._note_log(report)

    def _start(self, entry: _Assigned) -> None:
        before = self._assignments.get(entry.key)
        if before is not None and before.frontier.term >= entry.term:
            raise InvariantViolation(
                f"{entry.key} was assigned in term {entry.term}, but term {before.frontier.term} had already begun"
            )
        self._assignments[entry.key] = _PartitionState(entry)

    def _release(self, entry: _Released) -> None:
        assignment = self._assignments.get(entry.key)
        if assignment is not None and assignment.frontier.term == entry.term:
            del self._assignments[entry.key]

    def _note_log(self, entry: _EpochsRead | _KnownCut) -> None:
        assignment = self._assignments.get(entry.key)
        if assignment is None or assignment.frontier.term != entry.term:
            return
        if isinstance(entry, _KnownCut):
            assignment.frontier.cut_known(entry.offset)
            assignment.has_news = True
        else:
            for offset, epoch in entry.steps:
                assignment.epochs.read(offset, epoch)

    def _put_in_flight(self, entry: _InFlight) -> None:
        assignment = self._assignments.get(entry.key)
        if assignment is None or assignment.frontier.term != entry.term:
            self._obsolete_count += len(entry.offsets)
            return
        frontier = assignment.frontier
        frontier.take_all(entry.term, entry.offsets, entry.items)
        if self._at_once:
            self._committed_count += frontier.done_all(entry.term, entry.offsets)
        frontier.advance(entry.term, entry.position)
        assignment.has_news = True
        if self._whole_polls:
            if assignment.confirmed < 0 and entry.offsets:
                assignment.confirmed = entry.offsets[0]
            assignment.ends.append(frontier.position)

    def _end(self, entry: _Ended) -> None:
        assignment = self._assignments.get(entry.key)
        if assignment is None or assignment.frontier.term != entry.term:
            self._obsolete_count += sum(1 for _ in entry.offsets)
            return
        assignment.has_news = True
        if not self._at_once:
            self._committed_count += assignment.frontier.done_all(entry.term, entry.offsets)

    def _decide(self) -> Iterator[Decision[Key]]:
        for key, assignment in self._assignments.items():
            frontier = assignment.frontier
            if not assignment.has_news and not len(frontier):
                continue
            assignment.has_news = False
            offset = self._confirmed(assignment) if self._whole_polls else frontier.frontier
            if not 0 <= offset < LARGEST_LONG:
                self._invalid_count += 1
                continue
            metadata = ""
            if self._metadata_length and not self._whole_polls:
                metadata = encode(offset, frontier.done_ahead(), self._metadata_length).text
            is_repeat = assignment.published == (offset, metadata)
            yield Decision(key, frontier.term, offset, metadata, is_repeat, self._epoch(assignment, offset, metadata))

    @staticmethod
    def _epoch(assignment: _PartitionState, offset: int, metadata: str) -> int:
        epoch = assignment.epochs.before(offset)
        if epoch < 0:
            # Nothing was read below: a gap at the start of the log, which a truncation may reach into all the same.
            epoch = assignment.epochs.first
        if metadata:
            epoch = max(epoch, assignment.epochs.before(assignment.frontier.position))
            if assignment.frontier.knows_beyond:
                epoch = max(epoch, assignment.known_epoch)
        return epoch

    @staticmethod
    def _confirmed(assignment: _PartitionState) -> int:
        """The end of the last poll that is over, together with all before it."""
        frontier = assignment.frontier.frontier
        while assignment.ends and assignment.ends[0] <= frontier:
            assignment.confirmed = assignment.ends.popleft()
        return assignment.confirmed
