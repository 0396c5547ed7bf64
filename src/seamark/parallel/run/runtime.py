"""The owner: one thread that runs the engine and the port, and tells the pool what to run.

Everything that can change the engine happens here, one event at a time: what the port polled, who joined and left, what
handlers and commits came to, what an operator asks for. Polling never waits for handlers, except inside a revocation,
where handlers of the partitions that go may end until the drain time is up.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seamark.counts import counted
from seamark.errors import error_text
from seamark.parallel.core.dead_letters import encode, provenance_of
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import ColumnsPort, Committed, KafkaPort, LogEndsPort, SetAside, SetAsidePort, ToCommit
from seamark.parallel.core.work import (
    Action,
    CommitOffsets,
    PausePartitions,
    ResumePartitions,
    StartCall,
    Stopped,
    StopReason,
    WriteDeadLetter,
)
from seamark.parallel.pools.pool import CannotRunHandlers, Command, Mailbox, Pool
from seamark.parallel.run.failure_log import FailureLog
from seamark.parallel.run.report import StallLog
from seamark.parallel.run.trouble_log import TroubleLog
from seamark.parallel.settings import Settings
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")

# The longest that a poll waits: what ends unnoticed (a handler whose report was not worth a wake) is seen by then.
_WAIT_S = 0.05
# Records taken in one poll. More would keep handlers waiting for the owner.
POLL_RECORDS = 500
POLL_BYTES = 4 << 20
# With less than so many records ready to start, more are taken.
_READY = 2_000
# How long a commit may hold the owner up, and how long leaving the group may take.
COMMIT_S = 10.0
CLOSE_S = 10.0
# Errors that pass by themselves are waited out this long before they end the consumer.
GIVE_UP_AFTER_S = 300.0
_TROUBLE_PAUSE_S = 0.2


class Runtime:
    """Also the port's ``Rebalance``."""

    def __init__(
        self,
        settings: Settings,
        port: KafkaPort,
        make_pool: Callable[[Mailbox], Pool],
        *,
        topics: Sequence[str],
        group: str,
        ahead: int = 0,
        revoke_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        mailbox: Mailbox | None = None,
        make_engine: Callable[..., Engine] = Engine,
    ) -> None:
        """``revoke_s`` is how long a revocation may wait for handlers, if not as long as a stop."""
        self.settings = settings
        self._revoke_s = settings.drain if revoke_s is None else revoke_s
        self.mailbox = Mailbox() if mailbox is None else mailbox
        self.clock = clock
        self._wall_clock = wall_clock
        self.started = clock()
        self.engine = make_engine(settings, self.started, chance=random.random, seconds=clock, ahead=ahead)
        self.pool = make_pool(self.mailbox)
        self.reason: str | None = None
        self.cause: BaseException | None = None
        self.last_error: str | None = None
        self._commit_observer = CommitObserver(settings.commit.on_commit)
        self._port = port
        self._topics = topics
        self._group = group
        self._actions: deque[Action] = deque()
        self._is_performing = False
        self._trouble_since: float | None = None
        self._poll_troubles = TroubleLog("Polling succeeds again")
        self._next_bare_poll = 0.0
        self._has_withdrawn = False
        self._stall_log = StallLog(self.engine, self.pool)
        self._failures = FailureLog(is_at_most_once=settings.delivery == "at_most_once")
        self._columns = port if settings.wants_columns and isinstance(port, ColumnsPort) else None

    # -- the loop

    def run(self) -> None:
        """Until the engine is over. What it raises is a fault of ours, or of the port."""
        try:
            self._port.subscribe(self._topics, self)
            while not self.engine.is_over:
                self._turn()
        finally:
            self._failures.close()
            # Leaving revokes; what was over is committed already.
            try:
                self._port.close(CLOSE_S)
            finally:
                self.pool.close(0.0 if self.engine.lanes.calls else CLOSE_S)

    def _turn(self) -> None:
        engine, clock = self.engine, self.clock
        self._read_mail()
        now = clock()
        if now >= engine.next_at():
            self._perform(engine.tick(now))
        self._stall_log.look(now)
        self._failures.look(now)
        if engine.is_stopping and not self._has_withdrawn:
            self._has_withdrawn = True
            self._withdraw()
        if not engine.is_over:
            self._poll(now)

    def _poll(self, now: float) -> None:
        """Take what the port has; wait for it, or for handlers if they have enough to do."""
        wants_records = not self.engine.is_stopping and self.engine.lanes.ready_count < _READY
        timeout = max(0.0, min(_WAIT_S, self.engine.next_at() - now))
        if not wants_records and now < self._next_bare_poll:
            self.mailbox.wait_here(min(timeout, self._next_bare_poll - now))
            return
        self._next_bare_poll = now + _WAIT_S
        try:
            has_come = self._take(0.0, wants_records=wants_records)
            # Only who really waits is woken: that costs as much as many a handler.
            if wants_records and not has_come and timeout and self.mailbox.wait_elsewhere(self._port.wake):
                self._take(timeout, wants_records=True)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is judged, and ends the consumer visibly
            self._in_trouble(error)
        else:
            if self._trouble_since is not None:
                self._trouble_since = None
                self._poll_troubles.succeeded()
        finally:
            self.mailbox.is_waiting = False

    def _take(self, timeout: float, *, wants_records: bool) -> bool:
        """Whether anything came."""
        engine = self.engine
        if self._columns is not None:
            pieces = self._columns.poll_columns(timeout, POLL_BYTES if wants_records else 1)
            for columns in pieces:
                self._perform(engine.polled_columns(columns, self.clock()))
            return bool(pieces)
        most = min(POLL_RECORDS, engine.budget.room_records()) if wants_records else 1
        batches = self._port.poll(timeout, most)
        for polled in batches:
            self._perform(engine.polled(polled, self.clock()))
        return bool(batches)

    def _in_trouble(self, error: Exception) -> None:
        now = self.clock()
        self.last_error = error_text(error)
        if self._trouble_since is None:
            self._trouble_since = now
        is_passing = getattr(error, "is_retriable", False) and not getattr(error, "causes", None)
        if is_passing and now - self._trouble_since < GIVE_UP_AFTER_S:
            self._poll_troubles.failed("Polling failed, retrying", error, now)
            self.mailbox.wait_here(_TROUBLE_PAUSE_S)
            return
        # Calls are started with what was polled.
        reason = str(error) if isinstance(error, CannotRunHandlers) else f"polling failed: {error}"
        self._perform(self.engine.stop(now, reason=StopReason(reason, error)))

    @property
    def last_commit_s(self) -> float:
        return self._commit_observer.last_seconds

    def log_ends(self) -> Mapping[TopicPartition, int]:
        """Where logs ended when they were last read, as far as the client knows without asking."""
        if not isinstance(self._port, LogEndsPort) or self.engine.is_over:
            return {}
        return self._port.log_ends()

    def set_aside(self) -> Sequence[SetAside]:
        """Partitions that the client does not read on."""
        return self._port.set_aside() if isinstance(self._port, SetAsidePort) else ()

    # -- what others say

    def _read_mail(self) -> None:
        mailbox, engine = self.mailbox, self.engine
        if mailbox.succeeded:
            self._perform(engine.succeeded_all(mailbox.take_succeeded(), self.clock()))
        while mailbox.failed:
            self._failed(*mailbox.failed.popleft())
        while mailbox.cancelled:
            self._cancelled(*mailbox.cancelled.popleft())
        while mailbox.commands:
            self._perform(mailbox.commands.popleft()(self.clock()))

    def _failed(self, call: StartCall, error: BaseException) -> None:
        engine, now = self.engine, self.clock()
        self.last_error = error_text(error)
        actions = engine.failed(call, error, now)
        assert engine.last_failure is not None
        self._failures.failed(engine.last_failure, error, now, is_stopping=engine.is_stopping)
        self._perform(actions)

    def _cancelled(self, call: StartCall, error: BaseException, is_interrupted: bool) -> None:
        """Where all of it ends, what the handler waited for ends too: its records are not done, but have not failed."""
        # At most once, they must not run a second time.
        if self.settings.delivery != "at_most_once" and (is_interrupted or self.engine.is_stopping):
            self._perform(self.engine.withdrawn([call], self.clock()))
        else:
            self._failed(call, error)

    @property
    def is_calling_back(self) -> bool:
        """Whether the owner is in ``on_commit``: between two events, so that it can do something else there."""
        return self._commit_observer.is_calling_back

    def do_in_callback(self, command: Command) -> None:
        """By the owner, which cannot wait for itself. What follows is done with what follows from the commit."""
        self._actions.extend(command(self.clock()))

    def on_assigned(self, committed: Mapping[TopicPartition, Committed]) -> None:
        self._perform(self.engine.assigned(committed, self.clock()))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        engine, clock = self.engine, self.clock
        if not engine.is_over:
            # What has ended by now counts, also where no time is left to wait for more.
            self._read_mail()
        self._perform(engine.revoked(partitions, clock()))
        self._withdraw(partitions)
        deadline = clock() + self._revoke_s
        while not engine.is_over and not engine.is_drained(partitions) and (now := clock()) < deadline:
            self.mailbox.wait_here(max(0.0, min(_WAIT_S, deadline - now)))
            self._read_mail()
            self._perform(engine.tick(clock()))
        if not engine.is_over:
            self._perform(engine.release(partitions, clock()))

    def _withdraw(self, partitions: Sequence[TopicPartition] | None = None) -> None:
        """Take back calls that no handler has begun, of these partitions or all: nobody waits for them to run."""
        if self.settings.delivery == "at_most_once":
            # They are committed already: now or never.
            return
        calls = self.pool.withdraw()
        going = set(partitions or ())
        kept = [call for call in calls if partitions and not any(work.partition in going for work in call.works)]
        if kept:
            self.pool.start(kept)
        taken = {id(call) for call in calls} - {id(call) for call in kept}
        self._perform(self.engine.withdrawn([call for call in calls if id(call) in taken], self.clock()))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._perform(self.engine.lost(partitions, self.clock()))
        self._withdraw(partitions)

    # -- what the engine wants

    def _perform(self, actions: Iterable[Action]) -> None:
        """In order; what follows from an answer comes behind what is wanted already."""
        self._actions.extend(actions)
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._actions:
                self._perform_all()
        finally:
            self._is_performing = False

    def _perform_all(self) -> None:
        calls: list[StartCall] = []
        while self._actions:
            action = self._actions.popleft()
            if isinstance(action, StartCall):
                calls.append(action)
                continue
            if calls:
                # What was started first runs while the owner waits for what comes next.
                self.pool.start(calls)
                calls = []
            self._perform_other(action)
        if calls:
            self.pool.start(calls)

    def _perform_other(self, action: Action) -> None:
        match action:
            case PausePartitions(partitions):
                self._port.pause(partitions)
            case ResumePartitions(partitions):
                self._port.resume(partitions)
            case CommitOffsets():
                self._commit(action)
            case WriteDeadLetter():
                self._write_dead_letter(action)
            case Stopped(reason, cause):
                self.reason, self.cause = reason, cause

    def _commit(self, action: CommitOffsets) -> None:
        sent = self.clock()

        def finished(results: Mapping[TopicPartition, BaseException | None]) -> None:
            now = self.clock()
            self._commit_observer.ended(action.offsets, results, now - sent, now)
            self._perform(self.engine.commit_finished(action.ticket, results, now))

        if action.must_wait:
            finished(self._port.commit(action.offsets, timeout=COMMIT_S))
        else:
            self._port.commit(action.offsets, finished)

    def _write_dead_letter(self, action: WriteDeadLetter) -> None:
        work, record = action.work, action.work.record
        provenance = provenance_of(
            work.partition,
            work.offset,
            record.timestamp_ms,
            record.headers,
            action.error,
            group=self._group,
            attempts=work.attempts,
            failed_at_ms=int(self._wall_clock() * 1000),
        )

        def written(error: BaseException | None, now: float) -> list[Action]:
            if error is None:
                self._failures.dead_letter_written(work, action.topic, action.error, now)
            else:
                self._failures.dead_letter_refused(work, action.topic, error, now)
            return self.engine.dead_letter_written(work, error, now)

        def done(error: BaseException | None) -> None:
            self.mailbox.tell(lambda now: written(error, now))

        headers = encode(provenance, record.headers)
        try:
            self._port.produce(action.topic, record.key, record.value, headers, done)
        except Exception as error:  # noqa: BLE001 - a client that refuses the record at once has refused it
            done(error)


OnCommit = Callable[[Mapping[Any, int], BaseException | None], object]


class CommitObserver:
    """The callback is called once for what was accepted, and once for each error; what it raises is logged."""

    def __init__(self, on_commit: OnCommit | None) -> None:
        self._on_commit = on_commit
        self.is_calling_back = False
        self._refusals = TroubleLog("Commits are accepted again")
        self.last_seconds = 0.0

    def ended(
        self,
        offsets: Mapping[TopicPartition, ToCommit],
        results: Mapping[TopicPartition, BaseException | None],
        seconds: float,
        now: float,
    ) -> None:
        """A commit that took so long has ended."""
        self.last_seconds = seconds
        outcomes: dict[int, tuple[BaseException | None, dict[TopicPartition, int]]] = {}
        for partition, to_commit in offsets.items():
            # A partition that the answer does not mention was refused.
            error = results[partition] if partition in results else LookupError("missing in the response")
            outcomes.setdefault(id(error), (error, {}))[1][partition] = to_commit.offset
        for error, committed in outcomes.values():
            if error is not None:
                self._refusals.failed(f"A commit of {counted(len(committed), 'partition')} was rejected", error, now)
            self._tell(committed, error)
        if all(error is None for error, _ in outcomes.values()):
            self._refusals.succeeded()

    def _tell(self, committed: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        if self._on_commit is None:
            return
        self.is_calling_back = True
        try:
            self._on_commit(committed, error)
        except Exception:  # noqa: BLE001 - user code: a callback that fails must not stop commits
            _log.exception("The on_commit callback failed.")
        finally:
            self.is_calling_back = False
