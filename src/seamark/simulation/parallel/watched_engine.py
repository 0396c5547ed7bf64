"""The engine of a simulated member, with the books kept beside it: every event is entered and checked as it happens.

It decides as the real one does; whatever it raises, and whatever the books find wrong, ends the lifetime at once. A
shell that catches errors, as the real one does around its polls, cannot hide any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from seamark.errors import UsageError
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import Committed, Polled, PolledColumns
from seamark.parallel.core.work import Action, InFlightRecord, StartCall, StopReason
from seamark.simulation.parallel.books import Books
from seamark.simulation.parallel.port import PollFailed
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition


class WatchedEngine(Engine):
    def __init__(self, books: Books, now: float) -> None:
        world = books.world
        super().__init__(books.settings, now, chance=world.rng.random, ahead=world.ahead)
        self._books = books

    def _watched(self, event: Callable[[], list[Action]]) -> list[Action]:
        try:
            actions = event()
            self._books.decided(actions, self)
            self._books.check_counts(self)
        except UsageError:
            # For the operator who asked for what cannot be.
            raise
        except Exception as error:
            self._books.world.loop.fail(error)
            raise
        return actions

    # The group.

    def assigned(self, committed: Mapping[TopicPartition, Committed], now: float) -> list[Action]:
        def event() -> list[Action]:
            self._books.assigned(committed)
            return super(WatchedEngine, self).assigned(committed, now)

        return self._watched(event)

    def revoked(self, partitions: Iterable[TopicPartition], now: float) -> list[Action]:
        partitions = list(partitions)

        def event() -> list[Action]:
            self._books.going.update((partition, now) for partition in partitions if partition in self._books.stays)
            return super(WatchedEngine, self).revoked(partitions, now)

        return self._watched(event)

    def release(self, partitions: Iterable[TopicPartition], now: float) -> list[Action]:
        partitions = list(partitions)
        books = self._books

        released: list[Action] = []

        def event() -> list[Action]:
            self._check_release(partitions, now)
            released.extend(super(WatchedEngine, self).release(partitions, now))
            # While they are still known.
            books.decided(released, self)
            books.forget(partitions)
            return []

        self._watched(event)
        return released

    def _check_release(self, partitions: Sequence[TopicPartition], now: float) -> None:
        since = max((self._books.going.get(partition, now) for partition in partitions), default=now)
        if now < since + self.settings.drain and not self.is_drained(partitions):
            raise InvariantViolated("a revocation waits for its handlers", f"{partitions} after {now - since} s")
        self._books.check_heard(partitions, self)

    def lost(self, partitions: Iterable[TopicPartition], now: float) -> list[Action]:
        partitions = list(partitions)

        def event() -> list[Action]:
            self._books.forget(partitions)
            return super(WatchedEngine, self).lost(partitions, now)

        return self._watched(event)

    # What came and what became of it.

    def polled(self, polled: Polled, now: float) -> list[Action]:
        def event() -> list[Action]:
            self._books.polled(polled, is_stopping=self.is_stopping)
            return super(WatchedEngine, self).polled(polled, now)

        return self._watched(event)

    def polled_columns(self, columns: PolledColumns, now: float) -> list[Action]:
        def event() -> list[Action]:
            # The records that they were made of.
            polled = self._books.columns.popleft()
            if [record.offset for record in polled.records] != columns.offsets:
                raise InvariantViolated("what was polled is handed over", f"{columns.partition}: {columns.offsets}")
            self._books.polled(polled, is_stopping=self.is_stopping)
            return super(WatchedEngine, self).polled_columns(columns, now)

        return self._watched(event)

    def succeeded_all(self, calls: Sequence[StartCall], now: float) -> list[Action]:
        def event() -> list[Action]:
            self._books.succeeded(calls)
            return super(WatchedEngine, self).succeeded_all(calls, now)

        return self._watched(event)

    def failed(self, call: StartCall, error: BaseException, now: float) -> list[Action]:
        def event() -> list[Action]:
            return self._books.failed(call, lambda: super(WatchedEngine, self).failed(call, error, now), self)

        return self._watched(event)

    def withdrawn(self, calls: Iterable[StartCall], now: float) -> list[Action]:
        calls = list(calls)

        def event() -> list[Action]:
            self._books.withdrawn(calls)
            return super(WatchedEngine, self).withdrawn(calls, now)

        return self._watched(event)

    def dead_letter_written(self, work: InFlightRecord, error: BaseException | None, now: float) -> list[Action]:
        def event() -> list[Action]:
            self._books.letter_written(work, error)
            return super(WatchedEngine, self).dead_letter_written(work, error, now)

        return self._watched(event)

    def commit_finished(
        self, ticket: int, results: Mapping[TopicPartition, BaseException | None], now: float
    ) -> list[Action]:
        def event() -> list[Action]:
            self._books.commit_finished(ticket, results)
            return super(WatchedEngine, self).commit_finished(ticket, results, now)

        return self._watched(event)

    def tick(self, now: float) -> list[Action]:
        return self._watched(lambda: super(WatchedEngine, self).tick(now))

    def stop(self, now: float, drain: float | None = None, reason: StopReason | None = None) -> list[Action]:
        if reason is not None and reason.cause is not None and not isinstance(reason.cause, PollFailed):
            # The shell takes whatever is raised in a poll for an error of the client.
            self._books.world.loop.fail(reason.cause)
        if reason is not None and isinstance(reason.cause, PollFailed) and reason.cause.is_retriable:
            self._books.world.loop.fail(InvariantViolated("an error that passes stops nobody", reason.text))
        return self._watched(lambda: super(WatchedEngine, self).stop(now, drain, reason))

    # What an operator says.

    def skip(self, partition: TopicPartition, offset: int, now: float) -> list[Action]:
        books = self._books

        def event() -> list[Action]:
            stay = books.stays.get(partition)
            frontier = self.committer.frontiers().get(partition)
            work = frontier.item(offset) if frontier is not None else None
            for parked in list(self.outcomes.parked):
                if (parked.partition, parked.offset) == (partition, offset):
                    work = work or parked
            actions = super(WatchedEngine, self).skip(partition, offset, now)
            if work is not None and stay is not None:
                books.expected.skipped += 1
                books.give_up(offset, stay)
            return actions

        return self._watched(event)

    def dead_letter(self, partition: TopicPartition, offset: int, now: float, topic: str | None = None) -> list[Action]:
        return self._watched(lambda: super(WatchedEngine, self).dead_letter(partition, offset, now, topic))
