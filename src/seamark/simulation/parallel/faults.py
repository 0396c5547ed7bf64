"""Handlers that are quick, slow, hanging or failing, and the accidents that befall a simulated group and its log."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from seamark.simulation.parallel.log import PartitionLog, SimulatedRecord
from seamark.simulation.parallel.member import SimulatedMember
from seamark.simulation.parallel.world import Chances, HandlerOwner, Report, World
from seamark.simulation.world.event_loop import EventLoop
from seamark.topic_partition import TopicPartition


class HandlerFailed(Exception):
    """What a simulated handler raises."""


class DrawnHandlers:
    """Each call takes a time drawn by chance, and ends well or not. One that hangs ends when the trouble is over."""

    def __init__(self, loop: EventLoop, rng: Random, chances: Chances) -> None:
        self._loop = loop
        self._rng = rng
        self._chances = chances
        self._hanging: list[tuple[HandlerOwner, Report]] = []

    def start(self, member: HandlerOwner, records: list[SimulatedRecord], report: Report) -> None:
        rng = self._rng
        if rng.random() < self._chances.hangs:
            self._hanging.append((member, report))
            return
        is_bad = any(record.is_poison for record in records) or rng.random() < self._chances.failures
        error = HandlerFailed("it did not work") if is_bad else None
        duration_ms = int(rng.random() ** 4 * (6_000 if rng.random() < 0.1 else 400))
        self._loop.call_later(duration_ms, report, error)

    def member_gone(self, member: HandlerOwner) -> None:
        self._hanging = [entry for entry in self._hanging if entry[0] is not member]

    def end_hanging(self) -> None:
        hanging, self._hanging = self._hanging, []
        for _, report in hanging:
            self._loop.call_later(1 + int(self._rng.random() * 500), report, None)


class Accidents:
    """``happen`` lets one befall the group; what needs an end later is ended by ``end_all``."""

    def __init__(
        self,
        world: World,
        handlers: DrawnHandlers,
        members: list[SimulatedMember],
        *,
        replace: Callable[[SimulatedMember], None],
        add_member: Callable[[], None],
        add_partition: Callable[[], None],
    ) -> None:
        self._world = world
        self._handlers = handlers
        self._members = members
        self._replace = replace
        self._add_member = add_member
        self._add_partition = add_partition
        self._kinds: tuple[Callable[[], None], ...] = (
            self._crash,
            self._crash,
            self._stop,
            self._freeze,
            self._lose,
            self._add_member,
            self._rebalance,
            self._rebalance,
            self._seek_back,
            self._cut,
            self._compact,
            self._retain,
            self._trouble_with_commits,
            self._trouble_with_commits,
            self._trouble_with_handlers,
            self._hang,
            self._add_partition,
            self._operate,
            self._ask,
            self._trouble_with_polls,
            self._set_aside,
        )

    def happen(self) -> None:
        rng = self._world.rng
        kind = self._kinds[int(rng.random() * len(self._kinds))]
        self._world.events.append((self._world.loop.now_ms, "accident", kind.__name__.strip("_")))
        kind()

    def end_all(self) -> None:
        group, chances = self._world.group, self._world.chances
        group.refusals = group.lost_answers = 0.0
        chances.refused_letters = chances.failures = chances.hangs = chances.deaths = chances.failing_polls = 0.0
        chances.set_aside.clear()
        self._handlers.end_hanging()

    def _one(self) -> SimulatedMember | None:
        alive = [member for member in self._members if member.is_alive]
        return self._world.rng.choice(alive) if alive else None

    def _crash(self) -> None:
        member = self._one()
        if member is not None:
            self._crash_member(member)

    def _crash_member(self, member: SimulatedMember) -> None:
        member.crash()
        # Nobody misses it before its session ends.
        self._world.loop.call_later(200 + int(self._world.rng.random() * 4_000), self._bury, member)

    def _bury(self, member: SimulatedMember) -> None:
        self._world.group.leave(member.port)
        self._replace(member)

    def _stop(self) -> None:
        member = self._one()
        if member is not None:
            member.stop()

    def _freeze(self) -> None:
        member, rng = self._one(), self._world.rng
        if member is not None and not member.is_frozen:
            duration_ms = 100 + int(rng.random() * 9_000)
            member.freeze(duration_ms)
            if rng.random() < 0.6:
                # Its session ends while it is frozen; it hears of that when it is back.
                self._world.loop.call_later(duration_ms // 2, self._world.group.leave, member.port)
                member.port.hear_of_loss_later()

    def _lose(self) -> None:
        member = self._one()
        if member is not None:
            self._world.group.leave(member.port)
            member.port.hear_of_loss_later()

    def _rebalance(self) -> None:
        self._world.group.rebalance()

    def _seek_back(self) -> None:
        member, rng = self._one(), self._world.rng
        if member is None or not member.port.positions:
            return
        partition = rng.choice(list(member.port.positions))
        position = max(0, member.port.positions[partition] - 1 - int(rng.random() * 12))
        member.port.seek(partition, position)
        self._world.truth.may_run_again.update(self._world.logs[partition].records)
        self._world.events.append((self._world.loop.now_ms, "seek", member.name, str(partition), position))

    def _cut(self) -> None:
        log = self._a_log()
        length = log.log_end - log.log_start
        offset = log.log_end - min(length, 1 + int(self._world.rng.random() * 8))
        log.cut(offset)
        # A power failure may take consumers with it: whoever comes next knows of the cut from the leader epochs alone.
        is_power_failure = self._world.rng.random() < 0.5
        for member in self._members:
            if member.port.positions.get(log.name, 0) <= offset:
                continue
            if is_power_failure and member.is_alive:
                self._crash_member(member)
            else:
                # Clients check their positions against a new leader.
                member.port.seek(log.name, offset)

    def _compact(self) -> None:
        self._a_log().compact(self._world.rng)

    def _retain(self) -> None:
        log = self._a_log()
        log.delete_before(log.log_start + int(self._world.rng.random() * (log.log_end - log.log_start)))

    def _trouble_with_commits(self) -> None:
        rng, group = self._world.rng, self._world.group
        group.refusals = rng.choice((0.1, 0.5, 1.0))
        group.lost_answers = rng.choice((0.0, 0.3, 0.9))
        if rng.random() < 0.3:
            group.metadata_limit = rng.choice((20, 60, 150))
        self._world.loop.call_later(int(rng.random() * 9_000), self._commits_work_again)

    def _commits_work_again(self) -> None:
        self._world.group.refusals = self._world.group.lost_answers = 0.0

    def _trouble_with_handlers(self) -> None:
        chances, before = self._world.chances, self._world.chances.failures
        chances.failures = 0.7
        chances.refused_letters = 0.3

        def over() -> None:
            chances.failures = min(before, chances.failures)
            chances.refused_letters = 0.0

        self._world.loop.call_later(int(self._world.rng.random() * 3_000), over)

    def _hang(self) -> None:
        chances = self._world.chances
        chances.hangs = 0.3

        def over() -> None:
            chances.hangs = 0.0

        self._world.loop.call_later(int(self._world.rng.random() * 2_000), over)

    def _operate(self) -> None:
        member = self._one()
        if member is not None:
            self.give_up_oldest(member, after=1.0)

    def _ask(self) -> None:
        member = self._one()
        if member is not None:
            member.ask()

    def _trouble_with_polls(self) -> None:
        chances, rng = self._world.chances, self._world.rng
        chances.failing_polls = rng.choice((0.05, 0.4))

        def over() -> None:
            chances.failing_polls = 0.0

        self._world.loop.call_later(int(rng.random() * 2_000), over)

    def _set_aside(self) -> None:
        """A batch cannot be read until somebody gets the group past it."""
        partition, aside = self._a_log().name, self._world.chances.set_aside
        aside.add(partition)
        self._world.loop.call_later(int(self._world.rng.random() * 4_000), aside.discard, partition)

    def give_up_oldest(self, member: SimulatedMember, after: float) -> None:
        """An operator looks at what holds partitions back, and decides about the oldest."""
        held = [(stall.partition, stall.offset) for stall in member.engine.stalls(member.now, after)]
        held += [(work.partition, work.offset) for work in member.engine.outcomes.parked]
        if held:
            partition, offset = held[0]
            self._world.events.append((self._world.loop.now_ms, "give up", member.name, str(partition), offset))
            member.give_up(partition, offset, to_dead_letters=self._world.rng.random() < 0.5)

    def _a_log(self) -> PartitionLog:
        names: list[TopicPartition] = list(self._world.logs)
        return self._world.logs[self._world.rng.choice(names)]
