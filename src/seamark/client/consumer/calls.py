"""What each public call of a consumer does, written once for the blocking and the awaitable facade.

A call is a generator. It yields ``OnIo`` for work on the I/O thread and ``UserCode`` for functions that the user gave,
and is sent the outcome; the facade decides whether to block or to await. So listeners and commit callbacks run on the
caller's thread or in its task, in the order the core hands them out, and the two facades cannot differ.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seamark.client.arguments import read_offsets, read_partition, read_partitions
from seamark.client.callback_kinds import refuse_generator
from seamark.client.consumer.commit_callbacks import CommitCallback, CommitCallbacks, log_error, raised_at_the_end
from seamark.client.consumer.iteration import RecordIteration
from seamark.client.consumer.queries import committed, offsets_by_time
from seamark.client.consumer.shell import ConsumerLoop
from seamark.client.consumer.steps import Call, OnIo, R, UserCode
from seamark.client.core.assignment_state import Phase, Position
from seamark.client.core.commits.commits import Commit
from seamark.client.core.fetch_port import FetchFailure, Moved
from seamark.client.core.listener import Listener, listener_error
from seamark.client.core.positions.messages import Answer
from seamark.client.errors import ClientError, MemberFenced, WakeUp
from seamark.client.records import Offset, Record
from seamark.client.timing import Deadline
from seamark.errors import ClosedError, UsageError
from seamark.topic_partition import TopicPartition

_CLOSED = "the consumer is closed"


class ConsumerCalls:
    def __init__(self, loop: ConsumerLoop) -> None:
        self.loop = loop
        self.core = loop.core
        self.config = loop.config
        self.is_closed = False
        self._callbacks = CommitCallbacks(self.core.commits, self._on_io)
        # What take has met and the core has not heard of yet. Written by the caller's thread.
        self._unreported: list[FetchFailure] = []
        self.iteration = RecordIteration(loop.fetcher, self.core.assignment, self._consumed)
        # Whether the caller was last given a whole batch. If not, it has one record at hand, or nothing.
        self._gave_batch = False

    # -- polling

    def _come_back(self) -> None:
        """The caller asks for more: what it was given so far counts as processed."""
        self.iteration.end(is_back=True)
        self.core.assignment.came_back()

    def _leave_off(self, *, is_orderly: bool) -> None:
        """The caller ends what it was doing: a batch counts if that is no failure, a record at hand never does."""
        self.iteration.end(is_back=False)
        if is_orderly and self._gave_batch:
            self.core.assignment.came_back()

    def take_now(self, max_records: int) -> Sequence[Record]:
        """Records that are here already, if poll has nothing else to do: the path that crosses no thread."""
        self._come_back()
        return self._take(max_records) if self._may_take_now() else ()

    def _may_take_now(self) -> bool:
        now = self.loop.now_ms()
        if self._is_busy(now):
            return False
        self.core.membership.poll_interval.polled(now)
        return True

    def _is_busy(self, now: int) -> bool:
        """Has poll more to do than to hand out what is here?"""
        loop = self.loop
        return (
            loop.needs_poll
            or loop.is_woken
            or bool(self._unreported)
            or now >= self.core.auto_commit.due_ms
            or self.is_closed
        )

    def show_now(self, max_records: int) -> bool:
        """As ``take_now``, for ``iteration``; says whether there is a record."""
        self._come_back()
        return self._may_take_now() and bool(self._show(max_records))

    def show(self, deadline: Deadline, max_records: int) -> Call[None]:
        """As ``poll``, for ``iteration``."""
        yield from self._poll(deadline, lambda: self._show(max_records), ())

    def _show(self, max_records: int) -> Sequence[Record]:
        self._gave_batch = False
        shown = self.loop.fetcher.show(max_records)
        self._consumed(shown.positions)
        self._unreported += shown.failures
        self.iteration.show(shown.records)
        return shown.records

    def _consumed(self, positions: Moved) -> None:
        for partition, (term, position) in positions.items():
            if not self.core.assignment.consumed(partition, term, position):
                self.core.metrics.stale_answers += 1

    def poll(self, deadline: Deadline, max_records: int) -> Call[Sequence[Record]]:
        records: Sequence[Record] = yield from self._poll(deadline, lambda: self._take(max_records), ())
        return records

    def poll_columns(self, deadline: Deadline, max_bytes: int) -> Call[Any]:
        self._come_back()
        if self._may_take_now() and (found := self._take_columns(max_bytes)) is not None:
            return found
        return (yield from self._poll(deadline, lambda: self._take_columns(max_bytes), None))

    def _poll(self, deadline: Deadline, take: Callable[[], Any], nothing: Any) -> Call[Any]:
        self._come_back()
        while True:
            # In each round: a callback or a listener may have closed the consumer or ended its subscription.
            self._check_open()
            if not self.core.subscription.kind.reads_something:
                raise UsageError(
                    "the consumer has no subscription or assignment: call subscribe() or assign() before poll()"
                )
            yield from self._report_failures()
            self._check_wakeup()
            yield from self._run_callbacks()
            yield OnIo(self.loop.turn(deadline))
            if (yield from self._serve_caller()):
                # What the listener made possible is done in the same poll, even one that does not wait.
                continue
            found = take()
            if found is not None and len(found):
                return found
            yield from self._report_failures()
            if deadline.is_over:
                self._check_wakeup()
                return nothing

    def _take(self, max_records: int) -> Sequence[Record]:
        self._gave_batch = True
        taken = self.loop.fetcher.take(max_records)
        self._consumed(taken.positions)
        self._unreported += taken.failures
        return taken.records

    def _take_columns(self, max_bytes: int) -> Any:
        self._gave_batch = True
        taken = self.loop.fetcher.take_columns(max_bytes)
        self._consumed(taken.positions)
        self._unreported += taken.failures
        return taken.batch

    def _report_failures(self) -> Call[None]:
        failures, self._unreported = self._unreported, []
        if failures:
            errors = yield OnIo(self._on_io(lambda: self.loop.report_failures(failures)))
            if errors:
                raise errors[0]

    def _serve_caller(self) -> Call[bool]:
        """Run what is for the caller to run, raise what is for it to hear; says whether a listener was called."""
        yield from self._run_callbacks()
        was_called = yield from self._call_listener()
        if self.core.has_error:
            error = yield OnIo(self._on_io(self.core.take_error))
            if error is not None:
                raise error
        return was_called

    def _call_listener(self) -> Call[bool]:
        call = self.core.take_listener_call()
        if call is None:
            return False
        listener: Listener = self.core.subscription.listener
        error: BaseException | None = None
        try:
            yield UserCode(lambda: listener.run(call))
        except BaseException as raised:  # noqa: BLE001 - told to the core, which has poll raise it
            error = listener_error(call, raised)
        yield OnIo(self._on_io(lambda: self.core.listener_returned(error, self.loop.now_ms())))
        return True

    def _run_callbacks(self) -> Call[None]:
        """Those of asynchronous commits."""
        if (error := (yield from self._callbacks.run())) is not None:
            raise error

    async def _on_io(self, function: Callable[[], R]) -> R:
        self.loop.start()
        result = function()
        self.loop.after_event()
        return result

    # -- subscribing

    def subscribe(self, wanted: object, listener: Listener) -> Call[None]:
        self._check_open()
        self.iteration.end(is_back=False)
        yield OnIo(self._on_io(lambda: self.core.subscribe(wanted, listener, self.loop.now_ms())))

    def assign(self, partitions: object) -> Call[None]:
        self._check_open()
        wanted = read_partitions(partitions)
        if not wanted:
            yield from self.unsubscribe()
            return
        # Nothing was awaited yet: an exception that is here is one that the caller is handling.
        self._leave_off(is_orderly=sys.exception() is None)
        yield OnIo(self._on_io(lambda: self.core.assign(wanted, self.loop.now_ms())))

    def unsubscribe(self) -> Call[None]:
        """Revoke and leave, without a commit (I29)."""
        self._check_open()
        self.iteration.end(is_back=False)
        error = yield from self._revoke()
        reason = "the consumer unsubscribed from all topics"
        yield OnIo(self._on_io(lambda: self.core.leave(reason, self.loop.now_ms())))
        if error is not None:
            raise error

    def _revoke(self) -> Call[BaseException | None]:
        yield OnIo(self._on_io(lambda: self.core.prepare_leave(self.loop.now_ms())))
        if not (yield from self._call_listener()):
            return None
        return (yield OnIo(self._on_io(self.core.take_error)))  # type: ignore[no-any-return]

    # -- committing

    def commit(self, offsets: object, deadline: Deadline) -> Call[None]:
        self._check_open()
        self._check_group("commit")
        commit = yield from self._commit_and_wait(self._offsets(offsets), deadline)
        with raised_at_the_end((yield from self._callbacks.run())):
            self._check_committed(commit)

    def _commit_and_wait(self, offsets: Mapping[TopicPartition, Offset], deadline: Deadline) -> Call[Commit]:
        self.core.commits.raise_if_fenced()
        started = self.loop.now_ms()
        commit: Commit = yield OnIo(self._commit(offsets, deadline))
        self.core.metrics.commit_sync_ms += self.loop.now_ms() - started
        return commit

    def _check_committed(self, commit: Commit) -> None:
        if not commit.is_done:
            self._check_wakeup()
        if commit.error is not None:
            raise commit.error

    async def _commit(self, offsets: Mapping[TopicPartition, Offset], deadline: Deadline) -> Commit:
        now = self.loop.now_ms()
        commit = await self._on_io(lambda: self.core.commit(offsets, now, now + deadline.remaining_ms))
        try:
            while not commit.is_done and not self.loop.is_woken:
                await self.loop.changed(Deadline.never())
        finally:
            if not commit.is_done:
                self.core.commits.abandon(commit)
        return commit

    def commit_async(self, offsets: object, callback: CommitCallback | None) -> Call[None]:
        self._check_open()
        self._check_group("commit")
        if callback is not None and not callable(callback):
            raise UsageError(f"a commit callback must be a function of (offsets, error), got {callback!r}")
        refuse_generator("the commit callback", callback)

        def start() -> None:
            commit = self.core.commit_async(wanted, self.loop.now_ms(), is_told=callback is not None)
            if callback is not None:
                self._callbacks.keep(commit, callback)

        # A callback of an earlier commit that fails does not keep this one from being sent.
        with raised_at_the_end((yield from self._callbacks.run())):
            wanted = self._offsets(offsets)
            yield OnIo(self._on_io(start))

    def _offsets(self, offsets: object) -> dict[TopicPartition, Offset]:
        if offsets is None:
            self.iteration.take_handed_out(is_back=True)
            self.core.assignment.came_back()
            return self.core.consumed_offsets()
        return read_offsets(offsets)

    def committed(self, partitions: object, deadline: Deadline) -> Call[dict[TopicPartition, Offset | None]]:
        self._check_open()
        self._check_group("read committed offsets")
        wanted = read_partitions(partitions)
        started = self.loop.now_ms()
        found: dict[TopicPartition, Offset | None] = yield OnIo(
            committed(self.loop.network, self.config, wanted, deadline, self.loop.offset_storage)
        )
        self.core.metrics.committed_ms += self.loop.now_ms() - started
        return found

    # -- positions

    def position(self, partition: object, deadline: Deadline) -> Call[int]:
        self._check_open()
        wanted = read_partition(partition)
        self.core.assignment.require(wanted)
        self.iteration.take_handed_out(is_back=False)
        while True:
            state = self.core.assignment.require(wanted)
            if state.position is not None and state.phase in (Phase.READY, Phase.VALIDATE):
                return state.position.offset
            self._check_wakeup()
            error = yield OnIo(self._look_up(wanted, deadline))
            if error is not None:
                raise error
            if state.position is None:
                deadline.check(f"finding the position of {wanted}", state.last_error)

    async def _look_up(self, partition: TopicPartition, deadline: Deadline) -> BaseException | None:
        await self._on_io(lambda: self.core.look_up(partition, self.loop.now_ms()))
        state = self.core.assignment.require(partition)
        while state.position is None and not self.core.has_error and not deadline.is_over and not self.loop.is_woken:
            await self.loop.changed(deadline)
        return self.core.take_error() if self.core.has_error else None

    def seek(self, partition: object, position: Position) -> Call[None]:
        self._check_open()
        wanted = read_partition(partition)
        self.core.assignment.require(wanted)
        self.iteration.end(is_back=False)
        yield OnIo(self._on_io(lambda: self.core.seek(wanted, position, self.loop.now_ms())))

    def seek_to_time(self, partitions: object, timestamp: int) -> Call[None]:
        self._check_open()
        wanted = self.core.assignment.partitions if partitions is None else read_partitions(partitions)
        for partition in wanted:
            self.core.assignment.require(partition)
        self.iteration.end(is_back=False)
        yield OnIo(self._on_io(lambda: self.core.seek_to_time(wanted, timestamp, self.loop.now_ms())))

    def offsets_by_time(
        self, timestamps: Mapping[TopicPartition, int], deadline: Deadline
    ) -> Call[dict[TopicPartition, Answer]]:
        self._check_open()
        isolation_level = self.core.settings.isolation_level
        found: dict[TopicPartition, Answer] = yield OnIo(
            offsets_by_time(self.loop.network, self.config, timestamps, isolation_level, deadline)
        )
        return found

    def pause(self, partitions: object, *, is_paused: bool) -> Call[None]:
        self._check_open()
        wanted = read_partitions(partitions)
        for partition in wanted:
            self.core.assignment.require(partition)
        self.iteration.end(is_back=False)

        def change() -> None:
            for partition in wanted:
                self.core.assignment.require(partition).is_paused = is_paused
            (self.loop.fetcher.pause if is_paused else self.loop.fetcher.resume)(wanted)

        yield OnIo(self._on_io(change))

    def partitions_of(self, topic: str, deadline: Deadline) -> Call[tuple[TopicPartition, ...]]:
        self._check_open()
        view = yield OnIo(self.loop.network.ensure_topics([topic], deadline))
        return view.partitions_of(topic)  # type: ignore[no-any-return]

    # -- closing

    def close(
        self, deadline: Deadline, leave: bool | None, *, is_orderly: bool = True, commit: bool = True
    ) -> Call[None]:
        """I29: commit if it may, revoke, leave, wait for what is under way; then nothing is left."""
        if self.is_closed:
            return
        self._leave_off(is_orderly=is_orderly)
        error: BaseException | None = None
        try:
            if commit:
                yield from self._last_commit(deadline)
            yield OnIo(self._until(self._may_leave, deadline))
            error = yield from self._revoke()
            even_if_static, remain = leave is True, leave is False
            reason = "the consumer is being closed"
            yield OnIo(
                self._on_io(
                    lambda: self.core.leave(reason, self.loop.now_ms(), even_if_static=even_if_static, remain=remain)
                )
            )
            yield OnIo(self._until(lambda: self.core.commits.is_idle and not self.core.membership.is_leaving, deadline))
            error = yield from self._run_last_callbacks(error)
        finally:
            self.is_closed = True
            yield OnIo(self.loop.shut())
        if error is not None:
            raise error

    def _may_leave(self) -> bool:
        """Are the commits on their way, so that leaving the group does not make the coordinator refuse them?

        A member that is joining does not leave behind them on the same connection.
        """
        commits = self.core.commits
        return commits.is_idle if self.core.membership.is_join_unanswered else not commits.is_queued_behind_discovery

    def _last_commit(self, deadline: Deadline) -> Call[None]:
        offsets = self.core.processed_offsets()
        if not self.core.auto_commit.is_enabled or not offsets:
            return
        # The core has logged why, if it fails.
        with contextlib.suppress(ClientError):
            self._check_committed((yield from self._commit_and_wait(offsets, deadline)))

    def _run_last_callbacks(self, error: BaseException | None) -> Call[BaseException | None]:
        """With what became of their commits, also of those that were not answered in time; gives the error to raise."""
        yield OnIo(self._on_io(lambda: self.core.give_up_commits(self.loop.now_ms())))
        # Of a member that was fenced none are run; the loop logs what they were not told.
        with contextlib.suppress(MemberFenced):
            failed = yield from self._callbacks.run()
            if error is None:
                return failed
            if failed is not None:
                log_error(failed)
        return error

    async def _until(self, is_done: Callable[[], bool], deadline: Deadline) -> None:
        while not is_done() and not deadline.is_over:
            await self.loop.changed(deadline)

    # -- checks

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError(_CLOSED)

    def _check_group(self, what: str) -> None:
        if not self.core.settings.has_group:
            raise UsageError(f"a consumer without a group.id cannot {what}: set group.id")

    def _check_wakeup(self) -> None:
        if self.loop.is_woken:
            self.loop.is_woken = False
            raise WakeUp
