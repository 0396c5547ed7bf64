"""Records that wait for their commit: at most once means that nothing runs before the group knows that it will.

A poll is put in flight, which here means done, only when its commit is made: what is dropped before was never committed
and is not lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seamark.parallel.work import Work
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

    def add(self, poll: WithheldPoll) -> None:
        self._polls.append(poll)

    def take(self) -> tuple[list[WithheldPoll], list[Work]]:
        """The polls to put in flight now, and all records that the commit made next will cover."""
        polls, works = self._polls, self._refused
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
        """The records that are committed, and those of partitions that were refused or not mentioned."""
        accepted: list[Work] = []
        refused: list[Work] = []
        for work in self._by_ticket.pop(ticket, []):
            is_accepted = work.partition in results and results[work.partition] is None
            (accepted if is_accepted else refused).append(work)
        return accepted, refused

    def wait_again(self, work: Work) -> None:
        """The record waits for another commit."""
        self._refused.append(work)

    def drop(self, partition: TopicPartition) -> list[Work]:
        """Forget the records of a partition that goes, but for those whose commit is under way."""
        dropped = [work for work in self._refused if work.partition == partition]
        self._refused = [work for work in self._refused if work.partition != partition]
        for poll in self._polls:
            if poll.partition == partition:
                dropped += poll.works
        self._polls = [poll for poll in self._polls if poll.partition != partition]
        return dropped
