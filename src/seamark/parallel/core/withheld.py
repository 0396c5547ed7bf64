"""Records that wait for their commit: at most once means that nothing runs before the group knows that it will.

A poll is put in flight, which here means done, only when its commit is made: what is dropped before was never committed
and is not lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from seamark.parallel.core.work import Work
from seamark.topic_partition import TopicPartition


class WithheldPoll(NamedTuple):
    """What the committer is to hear of a poll, and the records to run once that is committed."""

    partition: TopicPartition
    term: int
    offsets: Sequence[int]
    position: int
    works: list[Work]


class Withheld:
    """Polls not yet committed; records whose commit was refused; and those whose commit is under way, by its ticket."""

    __slots__ = ("_by_ticket", "_polls", "_refused")

    def __init__(self) -> None:
        self._polls: list[WithheldPoll] = []
        self._refused: list[Work] = []
        self._by_ticket: dict[int, list[Work]] = {}

    def __bool__(self) -> bool:
        """Whether a commit is wanted."""
        return bool(self._polls or self._refused)

    @property
    def uncommitted_count(self) -> int:
        """Records that wait for a commit to be made."""
        return sum(work.count for work in chain(self._refused, *(poll.works for poll in self._polls)))

    @property
    def unanswered_count(self) -> int:
        """Records whose commit is under way."""
        return sum(work.count for works in self._by_ticket.values() for work in works)

    def add(self, poll: WithheldPoll) -> None:
        self._polls.append(poll)

    def take(self) -> tuple[list[WithheldPoll], list[Work]]:
        """The polls to put in flight now, and all records that the commit made next will cover."""
        # Refusals may have been heard of in another order than the records'.
        polls, works = self._polls, sorted(self._refused, key=lambda work: work.offset)
        self._polls, self._refused = [], []
        for poll in polls:
            works += poll.works
        return polls, works

    def sent(self, ticket: int, works: list[Work]) -> None:
        if works:
            self._by_ticket[ticket] = works

    def answered(
        self, ticket: int, results: Mapping[TopicPartition, BaseException | None]
    ) -> tuple[list[Work], list[Work]]:
        """The records that are committed, and those of partitions that were refused or not mentioned.

        A commit that was taken covers those sent before it, whose answers may come later or never.
        """
        accepted: list[Work] = []
        refused: list[Work] = []
        for earlier in [each for each in self._by_ticket if each <= ticket]:
            left: list[Work] = []
            for work in self._by_ticket.pop(earlier):
                is_accepted = work.partition in results and results[work.partition] is None
                (accepted if is_accepted else left).append(work)
            if earlier == ticket:
                refused = left
            else:
                self.sent(earlier, left)
        return accepted, refused

    def wait_again(self, work: Work) -> None:
        """The record waits for another commit."""
        self._refused.append(work)

    def drop(self, partition: TopicPartition, since: int = 0) -> list[Work]:
        """Forget the records of a partition that goes, but for those whose commit is under way.

        With ``since`` only what stands at that offset or behind is forgotten.
        """
        dropped, kept = _split(self._refused, partition, since)
        self._refused = kept
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

    def renew(self, partition: TopicPartition, term: int) -> list[Work]:
        """The partition goes on in another term: the records that wait here, whose terms are the caller's to set."""
        self._polls = [poll._replace(term=term) if poll.partition == partition else poll for poll in self._polls]
        works = chain(self._refused, *self._by_ticket.values(), *(poll.works for poll in self._polls))
        return [work for work in works if work.partition == partition]


def _split(works: Sequence[Work], partition: TopicPartition, since: int) -> tuple[list[Work], list[Work]]:
    """Those of the partition from ``since`` on, and the others."""
    gone = [work for work in works if work.partition == partition and work.offset >= since]
    return gone, [work for work in works if work.partition != partition or work.offset < since]
