"""Kafka as a simulated member has it: the log, the group and the way of commits, in virtual time.

The real shell calls it as it calls a client: polls wait, revocations and losses are told from inside a poll, and a
commit may hold the caller up. Commits reach the coordinator in the order in which they were sent; answers may overtake
each other, get lost, or say nothing of a partition. One that was sent before a crash may still arrive after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import TypeVar

from seamark.parallel.core.dead_letters import decode
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import (
    NO_EPOCH,
    CommitDone,
    Committed,
    Headers,
    Polled,
    PolledColumns,
    ProduceDone,
    Rebalance,
    SetAside,
    ToCommit,
)
from seamark.simulation.parallel.books import Books, Decided, Letter
from seamark.simulation.parallel.group import CommitRefused, Results
from seamark.simulation.parallel.threads import SimulatedThread
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition

T = TypeVar("T")

# So often may a member poll without time going on.
_MOST_POLLS = 1_000


class PollFailed(Exception):
    """What a simulated poll raises."""

    def __init__(self, *, is_retriable: bool) -> None:
        super().__init__("the broker is away" if is_retriable else "the topic may not be read")
        self.is_retriable = is_retriable


class _Sent:
    __slots__ = ("decided", "done", "results")

    def __init__(self, decided: Decided, done: CommitDone | None) -> None:
        self.decided = decided
        self.done = done
        self.results: Results | None = None


class SimulatedPort:
    """Also the group's member. ``engine`` is asked by checks alone; ``is_alive`` whether the member is."""

    def __init__(self, books: Books, engine: Callable[[], Engine], is_alive: Callable[[], bool]) -> None:
        self.name = books.name
        self.membership = 0
        self.positions: dict[TopicPartition, int] = {}
        # The mailbox checks that nobody waits beside mail.
        self.on_wait_ended: Callable[[bool], None] = lambda _: None
        self._books = books
        self._world = books.world
        self._engine = engine
        self._is_alive = is_alive
        self._rebalance: Rebalance | None = None
        # The last membership that it has heard is over: what the group said to it before then counts no more.
        self._lost_membership = 0
        self._paused: set[TopicPartition] = set()
        # Positions that the shell has heard of.
        self._told: dict[TopicPartition, int] = {}
        self._news: deque[Callable[[], None]] = deque()
        self._is_hearing = False
        self._next_fetch_ms = 0
        self._polls = (0, 0)
        self._failure: PollFailed | None = None
        self._is_woken = False
        self._waiting: SimulatedThread | None = None
        self._last_arrival_ms = 0
        # Those whose answer has not come, in the order they were sent; and those whose answer is not told yet.
        self._under_way: list[_Sent] = []
        self._untold: deque[_Sent] = deque()

    @property
    def is_idle(self) -> bool:
        return not (self._news or self._is_hearing or self._under_way or self._untold)

    # What the group says.

    def assign(self, committed: Mapping[TopicPartition, Committed]) -> None:
        membership = self.membership

        def assigned() -> None:
            if membership <= self._lost_membership:
                return
            for partition, (offset, _, epoch) in committed.items():
                # Clients ask the leader whether what was committed is still there.
                self.positions[partition] = max(self._world.logs[partition].still_there(offset, epoch), 0)
                self._told.pop(partition, None)
                self._paused.discard(partition)
            self._callbacks.on_assigned(committed)

        self._hear(assigned)

    def revoke(self, partitions: Sequence[TopicPartition], then: Callable[[], None]) -> None:
        membership = self.membership

        def revoked() -> None:
            if membership <= self._lost_membership:
                return
            self._let_go([partition for partition in partitions if partition in self.positions])
            then()

        self._hear(revoked)

    def hear_of_loss_later(self) -> None:
        self._world.loop.call_later(50 + int(self._world.rng.random() * 4_000), self._hear, self._lose)

    def _lose(self) -> None:
        if self in self._world.group.members:
            # It has joined again since.
            return
        gone = list(self.positions)
        self._lost_membership = self.membership
        self._world.events.append((self._world.loop.now_ms, "lost", self.name))
        self._world.loop.call_later(5, self._join)
        self._forget(gone)
        if gone:
            self._callbacks.on_lost(gone)
            self._checked(lambda: self._books.check_gone(gone, self._engine()))

    def _join(self) -> None:
        if self._is_alive() and not self._engine().is_over and self not in self._world.group.members:
            self._world.group.join(self)

    def _let_go(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._callbacks.on_revoked(partitions)
            self._checked(lambda: self._books.check_gone(partitions, self._engine()))
        self._forget(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
            self._paused.discard(partition)

    def _hear(self, news: Callable[[], None]) -> None:
        if self._is_alive():
            self._news.append(news)
            self._go_on()

    def seek(self, partition: TopicPartition, position: int) -> None:
        self.positions[partition] = position

    # What the shell asks for.

    @property
    def _callbacks(self) -> Rebalance:
        assert self._rebalance is not None
        return self._rebalance

    def subscribe(self, topics: Sequence[str], rebalance: Rebalance) -> None:  # noqa: ARG002 - there is one
        self._rebalance = rebalance
        self._world.group.join(self)

    def poll(self, timeout: float, max_records: int) -> Sequence[Polled]:
        return self._take(timeout, lambda: self._read(max_records))

    def poll_columns(self, timeout: float, max_bytes: int) -> Sequence[PolledColumns]:
        return self._take(timeout, lambda: self._read_columns(self._world.poll_records if max_bytes > 1 else 1))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused |= {partition for partition in partitions if partition in self.positions}

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused -= set(partitions)

    def log_ends(self) -> Mapping[TopicPartition, int]:
        return {partition: self._world.logs[partition].log_end for partition in self.positions}

    def set_aside(self) -> Sequence[SetAside]:
        aside = self._world.chances.set_aside
        return [
            SetAside(partition, position, "its batch would take too much memory", position + 1)
            for partition, position in self.positions.items()
            if partition in aside
        ]

    def wake(self) -> None:
        self._is_woken = True
        self._go_on()

    def close(self, timeout: float) -> None:  # noqa: ARG002 - leaving takes no time
        if not self._is_alive() or self._world.loop.current.is_ending:
            return
        self._let_go(list(self.positions))
        self._world.group.leave(self)

    # Reading.

    def _take(self, timeout: float, read: Callable[[], Sequence[T]]) -> Sequence[T]:
        self._check_polls()
        self._catch_up()
        taken: Sequence[T] = ()
        if timeout <= 0 or self._next_fetch_ms <= self._world.loop.now_ms:
            taken = read()
        if not taken and timeout > 0:
            self._wait_for_something(timeout)
            self._catch_up()
            taken = read()
        self._is_woken = False
        return taken

    def _check_polls(self) -> None:
        moment_ms, count = self._polls
        now_ms = self._world.loop.now_ms
        self._polls = now_ms, count + 1 if moment_ms == now_ms else 1
        if self._failure is not None and not self._failure.is_retriable and not self._engine().is_stopping:
            self._world.loop.fail(InvariantViolated("an error that does not pass stops the consumer", self.name))
        self._failure = None
        if count > _MOST_POLLS:
            self._world.loop.fail(InvariantViolated("time goes on", f"{self.name} polls and does not wait"))

    def _catch_up(self) -> None:
        """Whatever a client tells from inside a poll."""
        rng, chances = self._world.rng, self._world.chances
        if self._untold:
            self._tell_outcomes()
        while self._news:
            self._is_hearing = True
            try:
                self._news.popleft()()
            finally:
                self._is_hearing = False
        if chances.failing_polls and rng.random() < chances.failing_polls:
            self._failure = PollFailed(is_retriable=rng.random() < 0.9)
            raise self._failure

    def _wait_for_something(self, timeout: float) -> None:
        if not self._is_woken and not self._news:
            until_fetch = (self._next_fetch_ms - self._world.loop.now_ms) / 1000
            self._wait(min(timeout, until_fetch) if until_fetch > 0 else timeout)
        self.on_wait_ended(self._is_woken)

    def _wait(self, seconds: float) -> None:
        self._waiting = self._world.loop.current
        self._world.loop.wait(seconds)
        self._waiting = None

    def _go_on(self) -> None:
        if self._waiting is not None:
            self._world.loop.wake(self._waiting)

    def _read(self, room: int, most_partitions: int | None = None) -> list[Polled]:
        world, polls = self._world, list[Polled]()
        rng = world.rng
        if world.loop.now_ms < self._next_fetch_ms:
            return polls
        for partition, position in self.positions.items():
            log = world.logs[partition]
            if position == log.log_end == self._told.get(partition):
                continue
            if partition in self._paused or room < 1 or partition in world.chances.set_aside:
                continue
            # Where the log was cut below what was read, the client goes back to its end.
            position = min(position, log.log_end)
            limit = min(room, 1 + int(rng.random() * world.poll_records))
            records, following = log.read(position, limit)
            self.positions[partition] = following
            if not records and following <= self._told.get(partition, -1):
                continue
            room -= len(records)
            # Not every client says where it stands behind a gap; the next poll that finds nothing says it.
            says_position = not records or rng.random() < 0.5
            self._told[partition] = following if says_position else records[-1].offset + 1
            epoch = NO_EPOCH if records else log.epoch_before(following)
            polls.append(Polled(TopicPartition(*partition), records, following if says_position else -1, epoch))
            if most_partitions is not None and len(polls) >= most_partitions:
                break
        if polls:
            self._next_fetch_ms = world.loop.now_ms + 5 + int(rng.random() ** 2 * 120)
        return polls

    def _read_columns(self, room: int) -> list[PolledColumns]:
        # Loaded here: lifetimes without columns do without it.
        from seamark.parallel.core.columns import batch_of_records

        columns = []
        for run in [run for polled in self._read(room, 1) for run in _by_epoch(polled)]:
            self._books.columns.append(run)
            records = run.records
            rows = batch_of_records(records) if records else None
            epoch = records[-1].leader_epoch if records else run.leader_epoch
            offsets = [record.offset for record in records]
            columns.append(PolledColumns(run.partition, rows, offsets, run.position, epoch))
        return columns

    # Commits.

    def commit(
        self, offsets: Mapping[TopicPartition, ToCommit], done: CommitDone | None = None, timeout: float | None = None
    ) -> Mapping[TopicPartition, BaseException | None]:
        world = self._world
        sent = self._checked(lambda: _Sent(self._books.sent(offsets, is_waited_for=done is None), done))
        self._under_way.append(sent)
        travel_ms = 1 + int(world.rng.random() ** 3 * 900)
        self._last_arrival_ms = max(world.loop.now_ms + travel_ms, self._last_arrival_ms + 1)
        world.loop.call_at(self._last_arrival_ms, self._arrive, sent, self.membership)
        if done is not None:
            return {}
        deadline = world.loop.clock() + (inf if timeout is None else timeout)
        # Those before it end first.
        before = list(self._under_way)
        while any(each.results is None for each in before) and (left := deadline - world.loop.clock()) > 0:
            self._wait(left)
        self._tell_outcomes()
        if sent.results is None:
            self._under_way.remove(sent)
            sent.results = dict.fromkeys(offsets, CommitRefused("REQUEST_TIMED_OUT"))
        self._books.answered(sent.decided.action.ticket, sent.results)
        return sent.results

    def _arrive(self, sent: _Sent, membership: int) -> None:
        rng, group = self._world.rng, self._world.group
        if not self._is_alive() and rng.random() < 0.5:
            return
        action, stays = sent.decided
        is_lost = rng.random() < group.lost_answers / 3
        results: Results = {} if is_lost else group.commit(self, membership, action, stays)
        # A coordinator may be silent for longer than anybody waits.
        answer_ms = 12_000 if is_lost and rng.random() < 0.2 else 1 + int(rng.random() ** 3 * 400)
        self._world.loop.call_later(answer_ms, self._answered, sent, results)

    def _answered(self, sent: _Sent, results: Results) -> None:
        if sent.results is not None:
            return
        sent.results = results
        self._under_way.remove(sent)
        if sent.done is not None:
            self._untold.append(sent)
        self._go_on()

    def _tell_outcomes(self) -> None:
        while self._untold:
            sent = self._untold.popleft()
            assert sent.done is not None
            assert sent.results is not None
            self._books.answered(sent.decided.action.ticket, sent.results)
            sent.done(sent.results)

    # Dead letters.

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: ProduceDone) -> None:
        world = self._world
        letter = self._checked(self._books.next_letter)
        origin = decode(headers)
        record = letter.record
        expected = TopicPartition(record.topic, record.partition), record.offset, record.key, record.value
        if origin is None or (origin.source, origin.offset, key, value) != expected:
            world.loop.fail(InvariantViolated("a dead letter is its record", f"{origin} for {record} to {topic}"))
        if world.rng.random() < world.chances.refused_letters / 4:
            self._books.letter_answered(letter, is_stored=False)
            raise RuntimeError("the dead-letter topic does not exist")
        world.loop.call_later(1 + int(world.rng.random() ** 2 * 800), self._produced, letter, done)

    def _produced(self, letter: Letter, done: ProduceDone) -> None:
        if not self._is_alive():
            return
        is_refused = self._world.rng.random() < self._world.chances.refused_letters
        self._books.letter_answered(letter, is_stored=not is_refused)
        done(RuntimeError("the dead-letter topic is full") if is_refused else None)

    def _checked(self, step: Callable[[], T]) -> T:
        """The shell catches what a poll raises: a violation must not get lost in it."""
        try:
            return step()
        except InvariantViolated as violated:
            self._world.loop.fail(violated)
            raise


def _by_epoch(polled: Polled) -> list[Polled]:
    """As columns come: those of one poll are of one leader epoch."""
    runs = [list(run) for _, run in groupby(polled.records, lambda record: record.leader_epoch)]
    if len(runs) < 2:
        return [polled]
    before = [Polled(polled.partition, run, run[-1].offset + 1) for run in runs[:-1]]
    return [*before, polled._replace(records=runs[-1])]
