"""A consumer for a program that runs its own poll loop, with other work between two polls: the parallel consumer.

It adds what such an owner needs beside the blocking calls, without waiting for the I/O thread: the records that are
here already, whether poll has more to do than to hand out records, and positions. A commit is handed to the I/O thread
and never waited for, or made in one blocking call; its outcome is told when the owner asks, and ends a poll that waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from seamark.client.consumer.commit_callbacks import log_error
from seamark.client.consumer.consumer import Consumer
from seamark.client.core.assignment_state import Position
from seamark.client.core.commits.commits import Commit
from seamark.client.records import Offset, Record
from seamark.client.timing import Deadline, MonotonicClock
from seamark.errors import ClosedError, SeamarkError
from seamark.topic_partition import TopicPartition

CommitOutcome = Callable[[Mapping[TopicPartition, Offset], SeamarkError | None], object]


class _UntilOutcome(Deadline):
    """Also over as soon as the owner can be told of a commit."""

    __slots__ = ("_outcomes",)

    def __init__(self, seconds: float, clock: MonotonicClock, outcomes: deque[Callable[[], object]]) -> None:
        super().__init__(seconds, clock)
        self._outcomes = outcomes

    @property
    def is_over(self) -> bool:
        return bool(self._outcomes) or super().is_over


class OwnedConsumer(Consumer):
    """All calls come from one thread, the owner's, except ``wakeup`` and ``metrics``."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        # Appended to on the I/O thread, emptied by the owner.
        self._outcomes: deque[Callable[[], object]] = deque()
        super().__init__(config, **keywords)

    def _poll_deadline(self, timeout: float) -> Deadline:
        return _UntilOutcome(timeout, self._surroundings.monotonic, self._outcomes)

    # -- reading

    def take_now(self, max_records: int) -> Sequence[Record]:
        """Records that are here already, none if poll has something else to do first."""
        with self._guard:
            return self._calls.take_now(max_records)

    @property
    def has_records(self) -> bool:
        return self._loop.fetcher.has_something

    @property
    def needs_poll(self) -> bool:
        """Whether poll has more to do than to hand out records: a rebalance, an error, a wake-up."""
        return self._loop.needs_poll or self._loop.is_woken

    def position_now(self, partition: TopicPartition) -> Position | None:
        """The position of an assigned partition, None if it is not known yet."""
        state = self._loop.core.assignment.get(partition)
        return None if state is None else state.position

    def positions_now(self) -> dict[TopicPartition, Position]:
        """Of all assigned partitions whose positions are known."""
        return self._loop.core.assignment.positions()

    # -- committing

    def commit_soon(self, offsets: Mapping[TopicPartition, Offset], done: CommitOutcome) -> None:
        """Hand a commit to the I/O thread and return; it is sent once, behind all that were made before.

        ``done(offsets, error)`` is called by ``tell_outcomes``. What is still unanswered when the consumer is closed is
        not told of.
        """
        with self._guard:
            try:
                self._check_may_commit()
            except SeamarkError as error:
                self._outcomes.append(partial(done, offsets, error))
            else:
                self._io.call_soon(self._start, offsets, done)

    def commit_and_wait(self, offsets: Mapping[TopicPartition, Offset], timeout: float | None = None) -> None:
        """As ``commit``; a wake-up does not end it but waits for the next poll."""
        with self._guard:
            self._check_may_commit()
            commit = self._io.run(self._ended(offsets, self._deadline(timeout)))
        if commit.error is not None:
            raise commit.error

    def tell_outcomes(self) -> None:
        """Call what ``commit_soon`` was given, for each commit that has ended, in the order of their ends.

        All of them are called; the first error of one is raised afterwards, further ones are logged.
        """
        first: Exception | None = None
        while self._outcomes:
            try:
                self._outcomes.popleft()()
            except Exception as error:  # noqa: BLE001 - user code; raised when all have run
                if first is None:
                    first = error
                else:
                    log_error(error)
        if first is not None:
            raise first

    def _check_may_commit(self) -> None:
        if self.is_closed:
            raise ClosedError("the consumer is closed")
        self._loop.core.commits.raise_if_fenced()

    # On the I/O thread.

    def _start(self, offsets: Mapping[TopicPartition, Offset], done: CommitOutcome) -> None:
        def ended(commit: Commit, _now_ms: int) -> None:
            self._outcomes.append(partial(done, commit.offsets, commit.error))

        loop = self._loop
        loop.start()
        loop.core.commit_async(offsets, loop.now_ms(), is_told=True, on_done=ended)
        loop.after_event()

    async def _ended(self, offsets: Mapping[TopicPartition, Offset], deadline: Deadline) -> Commit:
        loop = self._loop
        now = loop.now_ms()
        loop.start()
        commit = loop.core.commit(offsets, now, now + deadline.remaining_ms)
        loop.after_event()
        try:
            while not commit.is_done:
                await loop.changed(Deadline.never())
        finally:
            if not commit.is_done:
                loop.core.commits.abandon(commit)
        loop.core.metrics.commit_sync_ms += loop.now_ms() - now
        return commit
