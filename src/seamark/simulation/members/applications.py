"""What people do with a consumer: loops that process at least once or at most once, in the ways books tell them to.

Each loop is ordinary user code over the awaitable consumer, with its errors handled as a user would: a commit that
fails because the group has moved on is no reason to stop, a stolen identity is. Whatever else a call raises ends the
application, and the lifetime with it. A program goes on for a moment after it has closed its consumer, which must have
left nothing behind.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Sequence
from enum import Enum
from typing import Any

from seamark.client.errors import ClientError, CommitError, MemberFenced, NoBrokerAvailable, WakeUp
from seamark.client.records import Offset, Record
from seamark.simulation.members.consumer_process import WatchedConsumer
from seamark.simulation.world.deliveries import Deliveries, ListenerOrder, Promise
from seamark.simulation.world.violations import InvariantViolated
from seamark.simulation.world.virtual_loop import VirtualLoop
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
        consumer: WatchedConsumer,
        loop: VirtualLoop,
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
        self._wanted: Any = re.compile("|".join(topics)) if has_pattern else list(topics)
        self._style = style
        self._consumer = consumer
        self._loop = loop
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
        # Whether a commit was woken in place of a poll.
        self._was_woken = False
        self.is_closed = False
        self.slow_ms = 0
        self.is_slow = False
        # The next offset to process of each partition that is held, where anything was processed.
        self._done: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        consumer = self._consumer
        await consumer.subscribe(
            self._wanted, on_assigned=self._on_assigned, on_revoked=self._on_revoked, on_lost=self._on_lost
        )
        while not (self.is_leaving or self.is_fenced):
            try:
                if self._style.iterates:
                    await self._iterate()
                else:
                    await self._poll()
            except (WakeUp, NoBrokerAvailable):
                # A broker that could not be reached since the start may be there the next time.
                continue
            except MemberFenced:
                self.is_fenced = True
        # One whose identity was taken has nobody to say good-bye to.
        await self._safely(consumer.close(self._close_s))
        self.is_closed = True
        await self._stay_a_while()

    async def _poll(self) -> None:
        records = await self._consumer.poll(self._poll_s, self._max_records)
        for record in records:
            self.order.given(record.topic_partition, record.offset)
        if records:
            await self._serve(records)

    async def _iterate(self) -> None:
        async for record in self._consumer:
            self.order.given(record.topic_partition, record.offset)
            if self.is_leaving:
                # A loop that is left with a record at hand: it is not processed, and must not be committed.
                return
            await self._process([record])
            if self._style is Style.EACH:
                await self._commit(None)
            if self.is_fenced or self._was_woken:
                return

    async def _stay_a_while(self) -> None:
        """The program goes on without its consumer, which must have left nothing behind."""
        await asyncio.sleep(_MOMENT_MS / 1000)
        me = asyncio.current_task()
        left = [*(each for each in self._loop.pending_tasks if each is not me), *self._loop.armed_timers]
        if left:
            raise InvariantViolated(
                "a consumer that was closed leaves nothing behind", f"{self.name} has {len(left)} left: {left}"
            )

    # -- the batch

    async def _serve(self, records: Sequence[Record]) -> None:
        if self._style is Style.BEFORE:
            if await self._commit(None):
                await self._process(records)
            return
        half = len(records) // 2 if self._style is Style.HALVES else len(records)
        await self._process(records[:half])
        if half < len(records):
            await self._commit(self._done)
            await self._process(records[half:])
        match self._style:
            case Style.SYNC:
                await self._commit(None)
            case Style.HALVES:
                await self._commit(self._done)
            case Style.ASYNC:
                await self._commit_later()
            case _:
                pass

    async def _process(self, records: Sequence[Record]) -> None:
        slow_ms, self.slow_ms = self.slow_ms, 0
        self.is_slow = slow_ms > 0
        busy_ms = int(len(records) * self._work_ms * self._rng.random() * 2) + slow_ms
        middle = int(len(records) * self._rng.random())
        if busy_ms:
            await asyncio.sleep(busy_ms // 2 / 1000)
        self._note(records[:middle])
        if busy_ms:
            await asyncio.sleep((busy_ms - busy_ms // 2) / 1000)
        if slow_ms:
            self._check_absence()
        self._note(records[middle:])
        self.is_slow = False

    def _check_absence(self) -> None:
        """User code took long: a member that stayed away longer than it may must have left by itself."""
        membership, now_ms = self._consumer.core.membership, self._loop.now_ms
        late_ms = now_ms - membership.poll_interval.until_ms
        has_stood_still = self._loop.paused_until_ms > now_ms - _MOMENT_MS
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

    async def _commit(self, offsets: dict[TopicPartition, int] | None) -> bool:
        """Commit and wait; answers whether it is stored."""
        consumer = self._consumer
        if offsets is None:
            consumed = consumer.core.consumed_offsets()
            wanted = {partition: each.offset for partition, each in consumed.items()}
            if self._style is Style.EACH:
                # What was processed includes the record at hand, which only the commit itself counts.
                wanted = {partition: offset for partition, offset in self._done.items() if partition in consumed}
        else:
            wanted = dict(offsets)
        is_stored = await self._safely(consumer.commit(None if offsets is None else wanted, self._commit_s))
        if is_stored:
            self._deliveries.check_told(self.group_id, self.name, wanted)
        return is_stored

    async def _commit_later(self) -> None:
        number = self.order.commit_started()

        def callback(offsets: dict[TopicPartition, Offset], error: ClientError | None) -> None:
            self._check_open("a commit callback")
            self.order.commit_reported(number)
            if error is None:
                told = {partition: each.offset for partition, each in offsets.items()}
                self._deliveries.check_told(self.group_id, self.name, told)

        await self._safely(self._consumer.commit_async(None, callback))

    async def _safely(self, call: Awaitable[None]) -> bool:
        """Make a call whose failure a user takes note of and goes on; answers whether it succeeded."""
        try:
            await call
        except MemberFenced:
            self.is_fenced = True
            return False
        except WakeUp:
            self._was_woken = True
            return False
        except CommitError:
            return False
        except ClientError as error:
            # What time heals is a user's to try again with the next batch.
            if not error.is_retriable:
                raise
            return False
        return True

    # -- the listener

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._check_open("on_assigned")
        self.order.assigned(partitions)

    async def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._check_open("on_revoked")
        if self._style in (Style.SYNC, Style.ASYNC) and partitions:
            await self._commit({each: self._done[each] for each in partitions if each in self._done})
        self._gone(partitions)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._check_open("on_lost")
        self._gone(partitions)

    def _gone(self, partitions: list[TopicPartition]) -> None:
        self.order.gone(partitions)
        for partition in partitions:
            self._done.pop(partition, None)

    def _check_open(self, what: str) -> None:
        if self.is_closed:
            raise InvariantViolated("a consumer that was closed calls nobody", f"{self.name} is called: {what}")
