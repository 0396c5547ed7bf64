"""What people do with a consumer: loops that process at least once or at most once, in the ways books tell them to.

Each loop is ordinary user code over the client's calls, with its errors handled as a user would: a commit that fails
because the group has moved on is no reason to stop, a stolen identity is. Whatever else a call raises ends the
application, and the lifetime with it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from enum import Enum

from seamark.client.consumer.calls import ConsumerCalls
from seamark.client.core.listener import Listener
from seamark.client.errors import ClientError, CommitError, MemberFenced, WakeUp
from seamark.client.records import Offset, Record
from seamark.client.timing import Deadline
from seamark.simulation.members.caller import Nested, Program, Work
from seamark.simulation.world.deliveries import Deliveries, ListenerOrder, Promise
from seamark.simulation.world.process_clock import ProcessClock
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition

# Long enough for whatever is due to be done.
_MOMENT_MS = 500


class Style(Enum):
    """How an application commits."""

    SYNC = "after each batch, and waits"
    HALVES = "the offsets of what is done, twice per batch"
    ASYNC = "after each batch, without waiting; waits when partitions go"
    AUTO = "leaves it to the consumer"
    EACH = "record by record: after each, and waits"
    EACH_AUTO = "record by record: leaves it to the consumer"
    BEFORE = "before each batch is processed"

    @property
    def promise(self) -> Promise:
        return Promise.AT_MOST_ONCE if self is Style.BEFORE else Promise.AT_LEAST_ONCE

    @property
    def iterates(self) -> bool:
        """Whether the application asks for one record after the other, and not for batches."""
        return self in (Style.EACH, Style.EACH_AUTO)

    @property
    def is_automatic(self) -> bool:
        return self in (Style.AUTO, Style.EACH_AUTO)


class Application:
    """One run of the loop, from subscribing to closing. ``slow_ms`` is added once to the next batch's work."""

    def __init__(
        self,
        name: str,
        group_id: str,
        topics: Sequence[str],
        style: Style,
        calls: ConsumerCalls,
        clock: ProcessClock,
        rng: random.Random,
        deliveries: Deliveries,
        *,
        has_pattern: bool,
        poll_s: float,
        max_records: int,
        work_ms: int,
        commit_s: float,
        close_s: float,
    ) -> None:
        self.name = name
        self.group_id = group_id
        self._wanted: object = re.compile("|".join(topics)) if has_pattern else list(topics)
        self._style = style
        self._calls = calls
        self._clock = clock
        self._rng = rng
        self._deliveries = deliveries
        self._poll_s = poll_s
        self._max_records = max_records
        self._work_ms = work_ms
        self._commit_s = commit_s
        self._close_s = close_s
        self.order = ListenerOrder(name)
        self.is_leaving = False
        self.is_fenced = False
        self.slow_ms = 0
        self.is_slow = False
        # The next offset to process of each partition that is held, where anything was processed.
        self._done: dict[TopicPartition, int] = {}

    def run(self) -> Program:
        calls = self._calls
        listener = Listener(self._on_assigned, self._on_revoked, self._on_lost)
        yield from calls.subscribe(self._wanted, listener)
        while not (self.is_leaving or self.is_fenced):
            try:
                if self._style.iterates:
                    yield from self._iterate()
                else:
                    yield from self._poll()
            except WakeUp:
                continue
            except MemberFenced:
                self.is_fenced = True
        # One whose identity was taken has nobody to say good-bye to.
        yield from self._safely(lambda: calls.close(self._deadline(self._close_s), None))

    def _deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, self._clock.seconds)

    def _poll(self) -> Program:
        calls = self._calls
        records = calls.take_now(self._max_records)
        if not records:
            records = yield from calls.poll(self._deadline(self._poll_s), self._max_records)
        for record in records:
            self.order.given(record.topic_partition, record.offset)
        if records:
            yield from self._serve(records)

    def _iterate(self) -> Program:
        """What a loop over the consumer does, up to the next time that it asks the fetcher."""
        calls = self._calls
        if not calls.show_now(self._max_records):
            yield from calls.show(self._deadline(self._poll_s), self._max_records)
        for record in calls.iteration.handing:
            self.order.given(record.topic_partition, record.offset)
            if self.is_leaving:
                # A loop that is left with a record at hand: it is not processed, and must not be committed.
                return
            yield from self._process([record])
            if self._style is Style.EACH:
                yield from self._commit(None)
            if self.is_fenced:
                return

    # -- the batch

    def _serve(self, records: Sequence[Record]) -> Program:
        if self._style is Style.BEFORE:
            is_stored = yield from self._commit(None)
            if is_stored:
                yield from self._process(records)
            return
        half = len(records) // 2 if self._style is Style.HALVES else len(records)
        yield from self._process(records[:half])
        if half < len(records):
            yield from self._commit(self._done)
            yield from self._process(records[half:])
        match self._style:
            case Style.SYNC:
                yield from self._commit(None)
            case Style.HALVES:
                yield from self._commit(self._done)
            case Style.ASYNC:
                yield from self._commit_later()
            case _:
                pass

    def _process(self, records: Sequence[Record]) -> Program:
        slow_ms, self.slow_ms = self.slow_ms, 0
        self.is_slow = slow_ms > 0
        busy_ms = int(len(records) * self._work_ms * self._rng.random() * 2) + slow_ms
        middle = int(len(records) * self._rng.random())
        if busy_ms:
            yield Work(busy_ms // 2)
        self._note(records[:middle])
        if busy_ms:
            yield Work(busy_ms - busy_ms // 2)
        if slow_ms:
            self._check_absence()
        self._note(records[middle:])
        self.is_slow = False

    def _check_absence(self) -> None:
        """User code took long: a member that stayed away longer than it may must have left by itself."""
        membership, now_ms = self._calls.core.membership, self._clock.now_ms
        late_ms = now_ms - membership.poll_interval.until_ms
        has_stood_still = self._clock.paused_until_ms > now_ms - _MOMENT_MS
        may_beat = membership.is_heartbeat_enabled and membership.is_coordinator_known
        if late_ms > _MOMENT_MS and may_beat and not has_stood_still:
            raise InvariantViolated(
                "a member that does not poll for max.poll.interval.ms leaves the group",
                f"{self.name} is {late_ms} ms late and still a member",
            )

    def _note(self, records: Sequence[Record]) -> None:
        for record in records:
            partition = record.topic_partition
            self._deliveries.note_processed(self.group_id, self.name, partition, record.offset)
            self._done[partition] = record.offset + 1

    # -- commits

    def _commit(self, offsets: dict[TopicPartition, int] | None) -> Program:
        """Commit and wait; answers whether it is stored."""
        calls = self._calls
        if offsets is None:
            consumed = calls.core.consumed_offsets()
            wanted = {partition: each.offset for partition, each in consumed.items()}
            if self._style is Style.EACH:
                # What was processed includes the record at hand, which only the commit itself counts.
                wanted = {partition: offset for partition, offset in self._done.items() if partition in consumed}
        else:
            wanted = dict(offsets)
        given = None if offsets is None else {partition: Offset(offset) for partition, offset in wanted.items()}
        is_stored = yield from self._safely(lambda: calls.commit(given, self._deadline(self._commit_s)))
        if is_stored:
            self._deliveries.check_told(self.group_id, self.name, wanted)
        return is_stored

    def _commit_later(self) -> Program:
        number = self.order.commit_started()

        def callback(offsets: dict[TopicPartition, Offset], error: ClientError | None) -> None:
            self.order.commit_reported(number)
            if error is None:
                told = {partition: each.offset for partition, each in offsets.items()}
                self._deliveries.check_told(self.group_id, self.name, told)

        yield from self._safely(lambda: self._calls.commit_async(None, callback))

    def _safely(self, call: Callable[[], Program]) -> Program:
        """Make a call whose failure a user takes note of and goes on; answers whether it succeeded."""
        try:
            yield from call()
        except MemberFenced:
            self.is_fenced = True
            return False
        except (CommitError, WakeUp):
            return False
        except ClientError as error:
            # What time heals is a user's to try again with the next batch.
            if not error.is_retriable:
                raise
            return False
        return True

    # -- the listener

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.order.assigned(partitions)

    def _on_revoked(self, partitions: list[TopicPartition]) -> Nested | None:
        if self._style in (Style.SYNC, Style.ASYNC) and partitions:
            return Nested(self._commit_revoked(partitions))
        self._gone(partitions)
        return None

    def _commit_revoked(self, partitions: list[TopicPartition]) -> Program:
        yield from self._commit({each: self._done[each] for each in partitions if each in self._done})
        self._gone(partitions)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._gone(partitions)

    def _gone(self, partitions: list[TopicPartition]) -> None:
        self.order.gone(partitions)
        for partition in partitions:
            self._done.pop(partition, None)
