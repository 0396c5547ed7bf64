"""The group coordinator of one node: carries out what the coordinator core decides.

``submit`` hands a command over; its one reply goes to ``token.reply_value``. Of the effects of a call, appends,
timers and log lines are taken care of before any reply leaves: an answered connection may at once send the next
request, whose effects must stand behind. Offsets partitions are loaded when the node begins to lead them and given up
when it no longer does.

The time that the core is told never goes back. Where tests move the broker's clock, that is lived through deadline by
deadline; where the machine's clock is set to another time, deadlines keep their distance.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from seamark.broker.clock import Soon, Timer, Timers
from seamark.broker.cluster.nodes import NodePart
from seamark.broker.cluster.topics import OFFSETS_TOPIC
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.groups.appends import GroupAppends
from seamark.broker.groups.loading import Load, LoadQueue, Seconds
from seamark.broker.groups.timers import Clock, GroupTimers, SteadyMilliseconds
from seamark.broker.log.partition import Partition
from seamark.broker.log.reopening import LogReopening
from seamark.broker.sharing.turns import Share
from seamark.coordinator import Arm, Coordinator, Effects, ForgetTopics, Status
from seamark.coordinator.commands import Command
from seamark.coordinator.effects import TimerKey
from seamark.coordinator.membership.members import Member
from seamark.coordinator.offsets.commit_patterns import CommitAgain
from seamark.coordinator.replies import ForgetReply
from seamark.coordinator.shard_state import SWEEP_TIMER
from seamark.counts import counted, some_of
from seamark.errors import SeamarkError
from seamark.log_limits import LogLimits
from seamark.readable_log import readable_logger
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.compression import Codec

_log = readable_logger("seamark.broker.groups")
_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR}

_REPLIES_PER_TURN = 250


class Asker(Protocol):
    """Who waits for a reply; a ``RequestContext`` is one."""

    def reply_value(self, value: Any) -> None: ...

    def __hash__(self) -> int: ...


class PartitionCounts(Protocol):
    """The cluster, as far as groups ask it."""

    def partition_count(self, topic_name: str) -> int | None: ...


class TurnsForGroups(Protocol):
    """Where what may wait for others is done; ``Turns`` is one."""

    @property
    def own(self) -> Share: ...

    def later(self, share: Share, step: Callable[[], None]) -> None: ...


class CoordinatorNode(Protocol):
    """What groups use of the node that coordinates them."""

    @property
    def cluster(self) -> PartitionCounts: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def turns(self) -> TurnsForGroups: ...

    @property
    def loop(self) -> Soon: ...


class GroupRuntime(NodePart):
    """Owned by the event loop's thread. ``seconds`` tells how long a turn of loading has taken."""

    def __init__(
        self,
        node: CoordinatorNode,
        make_coordinator: Callable[..., Coordinator] = Coordinator,
        seconds: Seconds = time.monotonic,
    ) -> None:
        self._node = node
        self._make_coordinator = make_coordinator
        self._seconds = seconds
        self._clock_ms = SteadyMilliseconds(node.clock, self._jumped)
        self._told_ms = self._clock_ms()
        self._timers = GroupTimers(self._fire)
        self._log_limits = LogLimits(_log)
        self._loop_timer: Timer | None = None
        self._armed_ms = 0
        self._partitions: dict[int, Partition] = {}
        # Loads that wait until what is in the log is stored.
        self._unstored: dict[int, Load] = {}
        # By partition, how many faults keep it from being loaded.
        self._holds: dict[int, int] = {}
        # Those whose last write failed, which was told.
        self._refusing: set[int] = set()
        self._reopening = LogReopening(node.timers, self._is_led, self._reopened)
        self._loads = LoadQueue(self._replay, self._revive, self._loaded, node.loop.call_soon, seconds)
        self._begin_life()

    # -- requests

    def submit(self, command: Command | CommitAgain, asker: Asker) -> None:
        """Decide a command; ``asker`` gets its one reply, now or later."""
        self._carry_out(self.coordinator.handle(command, asker, self._now_ms()))

    def partition_for(self, group_id: str) -> int:
        return self.coordinator.partition_for(group_id)

    def stored_partitions(self, group_id: str) -> list[tuple[str, int]]:
        """The topics and partitions of which the group has offsets here."""
        group = self.coordinator.shard(self.partition_for(group_id)).groups.get(group_id)
        return [] if group is None else list(group.offsets)

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded, held ones apart."""
        return not self._loads.is_idle or bool(self._unstored)

    def flush(self) -> None:
        """Write at once what this turn of the loop has collected."""
        self._appends.flush()

    # -- the node's life

    def start(self) -> None:
        self._begin_life()

    def stop(self) -> None:
        self.flush()
        for partition in list(self._partitions):
            self._finish_sweeps(partition)
            self._give_up(partition)
        self.coordinator.is_running = False
        self._timers.clear()
        if self._loop_timer is not None:
            self._loop_timer.cancel()
            self._loop_timer = None

    def _finish_sweeps(self, partition: int) -> None:
        """Go on with what is being removed, as far as that goes without waiting for a disk: nobody would later."""
        shard = self.coordinator.shard(partition)
        while shard.has_sweeps:
            self._take_turn((partition, SWEEP_TIMER, "", ""))
            self.flush()

    def became_leader(self, partition: Partition) -> None:
        if partition.topic.name != OFFSETS_TOPIC:
            return
        if not self._partitions:
            self._follow_topic()
        # Partitions added while the broker runs count from its next start on, as the placement of groups does (F16).
        if partition.index >= self.coordinator.offsets_partitions:
            return
        self._give_up(partition.index)
        self._partitions[partition.index] = partition
        self._load(partition.index)

    def lost_leadership(self, partition: Partition) -> None:
        if partition.topic.name == OFFSETS_TOPIC and self._partitions.get(partition.index) is partition:
            self._give_up(partition.index)

    def topics_deleted(self, names: Sequence[str]) -> None:
        self.submit(ForgetTopics(list(names)), _Forgetting(names))

    # -- loading

    def hold(self, partition: int) -> None:
        """Keep the partition in the state of being loaded, from the start again if it was loaded."""
        self._holds[partition] = self._holds.get(partition, 0) + 1
        if self._holds[partition] == 1 and partition in self._partitions:
            led = self._partitions[partition]
            self._give_up(partition)
            self._partitions[partition] = led
            self._load(partition)

    def release(self, partition: int) -> None:
        """End one ``hold``; with the last the partition is loaded."""
        left = self._holds.get(partition, 0) - 1
        if left > 0:
            self._holds[partition] = left
        else:
            self._holds.pop(partition, None)
            self._loads.release(partition)

    def _load(self, partition: int) -> None:
        self.coordinator.begin_load(partition)
        buffer_bytes = self._node.settings["offsets.load.buffer.size"]
        led = self._partitions[partition]
        self._unstored[partition] = load = Load(led, buffer_bytes, self._seconds())
        self._load_when_stored(led, load)

    def _load_when_stored(self, led: Partition, load: Load) -> None:
        """What an earlier leader wrote last is served only when it is as durable as that leader's replies promised."""
        if led.high_watermark < led.log_end:
            led.when_acknowledged(led.log_end, partial(self._stored_or_not, led, load))
            return
        del self._unstored[led.index]
        load.is_held = led.index in self._holds
        self._loads.add(load)

    def _stored_or_not(self, led: Partition, load: Load, error: SeamarkError | None) -> None:
        if self._unstored.get(led.index) is not load:
            return
        if error is not None and led.log.writes_stopped:
            # It is loaded when it was opened again.
            self._reopening.plan(led)
        else:
            self._load_when_stored(led, load)

    def _replay(self, partition: int, records: list[Any]) -> None:
        self.coordinator.replay(partition, records)

    def _revive(self, partition: int, count: int) -> bool:
        return self.coordinator.revive(partition, count)

    def _loaded(self, partition: int, seconds: float) -> None:
        effects = self.coordinator.finish_load(partition, self._now_ms())
        if not self.coordinator.shard(partition).groups:
            # Fifty lines about nothing hide the one that matters.
            effects.log_lines.clear()
        self._carry_out(effects)
        _log.debug("%s-%d was loaded in %.3f s", OFFSETS_TOPIC, partition, seconds)

    def _give_up(self, partition: int) -> None:
        self._partitions.pop(partition, None)
        self._unstored.pop(partition, None)
        self._loads.drop(partition)
        self._appends.drop(partition)
        shard = self.coordinator.shard(partition)
        if shard.status is Status.UNLOADED:
            return
        has_groups = bool(shard.groups)
        effects = self.coordinator.unload(partition, self._now_ms())
        if not has_groups:
            effects.log_lines.clear()
        self._carry_out(effects)

    def _begin_life(self) -> None:
        """Start with a coordinator that knows nothing; outcomes of an earlier one's writes are not for this one."""
        node = self._node
        cluster = node.cluster
        self.coordinator = self._make_coordinator(
            cluster.partition_count(OFFSETS_TOPIC) or node.settings["offsets.topic.num.partitions"],
            node.settings.coordinator,
            partition_count=cluster.partition_count,
            make_id=lambda: str(uuid.uuid4()),
        )
        self._appends = GroupAppends(
            self._partitions.get,
            partial(self._report, self.coordinator),
            self._now_ms,
            node.loop.call_soon,
            Codec(node.settings["offsets.topic.compression.codec"]),
        )

    def _follow_topic(self) -> None:
        """The topic may have been made with another number of partitions than the settings say."""
        count = self._node.cluster.partition_count(OFFSETS_TOPIC)
        if count is not None and count != self.coordinator.offsets_partitions and not self.coordinator.shards:
            self._begin_life()

    # -- effects

    def _carry_out(self, effects: Effects) -> None:
        for append in effects.appends:
            self._appends.add(append)
        if effects.timers:
            for timer in effects.timers:
                if type(timer) is not Arm:
                    self._timers.cancel(timer.key)
                elif timer.key[1] == SWEEP_TIMER:
                    self._node.turns.later(self._node.turns.own, partial(self._take_turn, timer.key))
                else:
                    self._timers.arm(timer.key, timer.deadline_ms)
            self._arm_loop()
        for line in effects.log_lines:
            about = {"event": line.event, "group": line.group_id}
            if line.level == "info":
                _log.info("%s", line.text, extra=about)
            else:
                # Clients may cause them as often as they like, and choose the names in them.
                self._log_limits.write(_LEVELS[line.level], line.event, "", detail=line.text, extra=about)
        self._answer(effects.replies)

    def _answer(self, replies: list[tuple[Any, Any]]) -> None:
        """Send replies; those of a large group's rebalance a part in each turn of the loop."""
        for asker, reply in replies[:_REPLIES_PER_TURN]:
            try:
                asker.reply_value(reply)
            except Exception:  # noqa: BLE001
                # A bug of ours in one answer; the others of this turn must leave all the same.
                _log.exception("a reply could not be sent")
        if len(replies) > _REPLIES_PER_TURN:
            self._node.loop.call_soon(partial(self._answer, replies[_REPLIES_PER_TURN:]))

    def _report(self, coordinator: Coordinator, partition: int, tickets: list[int], code: ErrorCode) -> None:
        """The outcome of one batch."""
        if coordinator is not self.coordinator:
            return
        now_ms = self._now_ms()
        if code is ErrorCode.NONE:
            if self._refusing:
                self._refusing.discard(partition)
            self._carry_out(coordinator.all_stored(partition, tickets, now_ms))
            return
        if partition not in self._refusing:
            self._refusing.add(partition)
            writes = counted(len(tickets), "write")
            _log.warning("%s-%d did not accept %s: %s", OFFSETS_TOPIC, partition, writes, code.name)
        for ticket in tickets:
            self._carry_out(coordinator.failed(partition, ticket, code, now_ms))
        led = self._partitions.get(partition)
        if led is not None:
            self._reopening.plan(led)

    def _is_led(self, partition: Partition) -> bool:
        return self._partitions.get(partition.index) is partition

    def _reopened(self, led: Partition) -> None:
        """What the disk kept of a log may be less than what was known; it counts, and is loaded."""
        self._give_up(led.index)
        self._partitions[led.index] = led
        self._load(led.index)

    # -- time

    def _now_ms(self) -> int:
        now_ms = self._clock_ms()
        if now_ms > self._told_ms:
            self._told_ms = now_ms
        return self._told_ms

    def _jumped(self, by_ms: int) -> None:
        """The machine's clock was set ahead, which is no time that members were silent for."""
        _log.warning(
            "the clock was set forward by %.1f s; sessions and other deadlines are moved by the same time", by_ms / 1000
        )
        self.coordinator.move_deadlines(by_ms)
        self._timers.move(by_ms)
        self._armed_ms += by_ms

    def _fire(self, key: TimerKey, now_ms: int) -> None:
        self._told_ms = max(self._told_ms, now_ms)
        self._carry_out(self.coordinator.fire(key, now_ms))

    def _take_turn(self, key: TimerKey) -> None:
        self._carry_out(self.coordinator.fire(key, self._now_ms()))

    def expire(self, key: TimerKey, member: Member) -> None:
        """A fault: end a member's session now, also one that a waiting request would keep alive."""
        now_ms = self._now_ms()
        member.session_deadline_ms = now_ms
        member.is_new = True
        self._fire(key, now_ms)

    def _run_timers(self) -> None:
        self._loop_timer = None
        self._timers.run_through(self._told_ms, self._clock_ms(), self.flush)
        self._arm_loop()

    def _arm_loop(self) -> None:
        """Have the broker's one timer come up for the next deadline."""
        earliest_ms = self._timers.earliest_ms
        if earliest_ms is None:
            return
        if self._loop_timer is not None:
            if self._armed_ms <= earliest_ms:
                return
            self._loop_timer.cancel()
        self._armed_ms = earliest_ms
        delay_ms = max(0, earliest_ms - self._clock_ms())
        self._loop_timer = self._node.timers.call_after(delay_ms / 1000, self._run_timers)


class _Forgetting:
    """Topics were deleted, and nobody waits for their offsets to be gone too."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def reply_value(self, reply: ForgetReply) -> None:
        if reply.error is not ErrorCode.NONE:
            _log.warning(
                "offsets of the deleted topics %s were removed only in part (%d): %s; the others stay until they "
                "expire, and would apply to a new topic of the same name",
                some_of(self._names),
                reply.removed,
                reply.error.name,
            )
        elif reply.removed:
            _log.info("removed %s of the deleted topics %s", counted(reply.removed, "offset"), some_of(self._names))
