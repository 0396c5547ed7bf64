"""Which partitions are ours, and since which term: who may still change anything; and records that await their commit.

An assignment is a partition in one term. It begins when the partition is assigned, or is read again from an earlier
offset, and ends when it goes or the next one begins. Terms only grow, so a result names its assignment for ever.

At most once means that nothing runs before the group knows that it will. A poll is put in flight, which there means
done, only when its commit is made: what is dropped before was never committed and is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.ports import Committed
from seamark.parallel.core.read_epochs import ReadEpochs, Step
from seamark.parallel.core.work import InFlightRecord
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead
from seamark.wire.offsets.done_ahead import DoneAhead


@dataclass(slots=True)
class Assignment:
    """``position`` is -1 until the first poll if nothing was committed. A draining one starts nothing more.

    ``known_done`` is the map of the commit that the assignment began with, ``known_epoch`` that commit's leader epoch.
    """

    term: int
    position: int
    known_done: DoneAhead | None
    epochs: ReadEpochs
    known_epoch: int
    is_draining: bool = False


class Assignments:
    def __init__(self, committer: OffsetCommitter[TopicPartition]) -> None:
        self._committer = committer
        self._assignments: dict[TopicPartition, Assignment] = {}
        self._last_term = 0

    def begin_from(self, partition: TopicPartition, committed: Committed) -> bool:
        """Begin where the group stands; whether the commit's metadata is another tool's, and so not read."""
        if committed.offset < 0:
            self.begin(partition, committed.offset)
            return False
        done = done_ahead.read(committed.metadata, committed.offset)
        known = done if isinstance(done, DoneAhead) else None
        self.begin(partition, committed.offset, known, committed)
        return isinstance(done, done_ahead.Refusal) and done.kind != "empty"

    def begin(
        self,
        partition: TopicPartition,
        position: int,
        known_done: DoneAhead | None = None,
        committed: Committed | None = None,
        epochs: Sequence[Step] = (),
    ) -> Assignment:
        """``epochs`` are what an earlier assignment, which this one continues, had read below ``position``."""
        self._last_term += 1
        said = None
        if committed is not None:
            said = committed.offset, committed.metadata
            epochs = [(committed.offset - 1, committed.leader_epoch)]
        read = ReadEpochs(epochs)
        assignment = Assignment(self._last_term, position, known_done, read, read.before(position))
        self._assignments[partition] = assignment
        self._committer.assigned(partition, assignment.term, position, said, known_done, epochs)
        return assignment

    def read_epochs(self, partition: TopicPartition, assignment: Assignment, steps: Sequence[Step]) -> None:
        """Records of these leader epochs were polled."""
        news = [step for step in steps if assignment.epochs.read(*step)]
        if news:
            self._committer.epochs_read(partition, assignment.term, news)

    def cut_known(self, partition: TopicPartition, assignment: Assignment, offset: int) -> int:
        """The log was truncated at ``offset`` or below; how many done offsets the map loses."""
        before = assignment.known_done
        if before is None:
            return 0
        assignment.known_done = before.below(offset) or None
        self._committer.known_cut(partition, assignment.term, offset)
        return before.count - (assignment.known_done.count if assignment.known_done else 0)

    def end(self, partition: TopicPartition) -> None:
        assignment = self._assignments.pop(partition)
        self._committer.released(partition, assignment.term)

    def get(self, partition: TopicPartition) -> Assignment | None:
        return self._assignments.get(partition)

    def is_live(self, work: InFlightRecord) -> bool:
        """Whether what becomes of the record still counts."""
        assignment = self._assignments.get(work.partition)
        return assignment is not None and assignment.term == work.term

    def may_run(self, work: InFlightRecord) -> bool:
        """Whether the record may be started, again or for the first time."""
        assignment = self._assignments.get(work.partition)
        return assignment is not None and assignment.term == work.term and not assignment.is_draining

    def terms(self) -> dict[TopicPartition, int]:
        return {partition: assignment.term for partition, assignment in self._assignments.items()}


class PollAwaitingCommit(NamedTuple):
    """What the committer is to hear of a poll, and the records to run once that is committed."""

    partition: TopicPartition
    term: int
    offsets: Sequence[int]
    position: int
    works: list[InFlightRecord]


class AwaitingCommit:
    """Polls not yet committed; records whose commit was refused; and those whose commit is under way, by its ticket."""

    __slots__ = ("_by_ticket", "_polls", "_refused")

    def __init__(self) -> None:
        self._polls: list[PollAwaitingCommit] = []
        # Each with the ticket that was refused.
        self._refused: list[tuple[int, InFlightRecord]] = []
        self._by_ticket: dict[int, list[InFlightRecord]] = {}

    def __bool__(self) -> bool:
        """Whether a commit is wanted."""
        return bool(self._polls or self._refused)

    @property
    def uncommitted_count(self) -> int:
        """Records that wait for a commit to be made."""
        return sum(work.count for work in chain(self._refused_works(), *(poll.works for poll in self._polls)))

    @property
    def unanswered_count(self) -> int:
        """Records whose commit is under way."""
        return sum(work.count for works in self._by_ticket.values() for work in works)

    def add(self, poll: PollAwaitingCommit) -> None:
        self._polls.append(poll)

    def take(self) -> tuple[list[PollAwaitingCommit], list[InFlightRecord]]:
        """The polls to put in flight now, and all records that the commit made next will cover."""
        # Refusals may have been heard of in another order than the records'.
        polls, works = self._polls, sorted(self._refused_works(), key=lambda work: work.offset)
        self._polls, self._refused = [], []
        for poll in polls:
            works += poll.works
        return polls, works

    def sent(self, ticket: int, works: list[InFlightRecord]) -> None:
        if works:
            self._by_ticket[ticket] = works

    def answered(
        self, ticket: int, results: Mapping[TopicPartition, BaseException | None]
    ) -> tuple[list[InFlightRecord], list[InFlightRecord]]:
        """The records that are committed, and those of partitions that were refused or not mentioned.

        A commit that was taken covers those sent before it, whose answers may come later or never, or were refusals.
        """

        def is_taken(work: InFlightRecord) -> bool:
            return work.partition in results and results[work.partition] is None

        refused: list[InFlightRecord] = []
        covered = [work for sent, work in self._refused if sent < ticket and is_taken(work)]
        accepted = list(covered)
        if covered:
            self._refused = [(sent, work) for sent, work in self._refused if sent >= ticket or not is_taken(work)]
        for earlier in [sent for sent in self._by_ticket if sent <= ticket]:
            left: list[InFlightRecord] = []
            for work in self._by_ticket.pop(earlier):
                (accepted if is_taken(work) else left).append(work)
            if earlier == ticket:
                refused = left
            else:
                self.sent(earlier, left)
        if covered:
            accepted.sort(key=lambda work: work.offset)
        return accepted, refused

    def wait_again(self, work: InFlightRecord, ticket: int) -> None:
        """The commit with the ticket was refused: the record waits for another."""
        self._refused.append((ticket, work))

    def _refused_works(self) -> Iterator[InFlightRecord]:
        return (work for _, work in self._refused)

    def drop(self, partition: TopicPartition, since: int = 0) -> list[InFlightRecord]:
        """Forget the records of a partition that goes, but for those whose commit is under way.

        With ``since`` only what stands at that offset or behind is forgotten.
        """
        dropped, _ = _split(list(self._refused_works()), partition, since)
        self._refused = [
            (ticket, work) for ticket, work in self._refused if work.partition != partition or work.offset < since
        ]
        polls, self._polls = self._polls, []
        for poll in polls:
            gone, works = _split(poll.works, partition, since)
            dropped += gone
            if poll.partition == partition:
                offsets = [offset for offset in poll.offsets if offset < since]
                poll = poll._replace(offsets=offsets, position=min(poll.position, since), works=works)
            if poll.offsets or poll.partition != partition:
                self._polls.append(poll)
        return dropped

    def offsets(self, partition: TopicPartition) -> list[int]:
        """The first offset of each poll that is not yet committed."""
        return [poll.offsets[0] for poll in self._polls if poll.partition == partition and poll.offsets]

    def renew(self, partition: TopicPartition, term: int) -> list[InFlightRecord]:
        """The partition goes on in another term: the records that wait here, whose terms are the caller's to set."""
        self._polls = [poll._replace(term=term) if poll.partition == partition else poll for poll in self._polls]
        works = chain(self._refused_works(), *self._by_ticket.values(), *(poll.works for poll in self._polls))
        return [work for work in works if work.partition == partition]


def _split(
    works: Sequence[InFlightRecord], partition: TopicPartition, since: int
) -> tuple[list[InFlightRecord], list[InFlightRecord]]:
    """Those of the partition from ``since`` on, and the others."""
    gone = [work for work in works if work.partition == partition and work.offset >= since]
    return gone, [work for work in works if work.partition != partition or work.offset < since]
