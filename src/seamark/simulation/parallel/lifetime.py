"""A lifetime of a group of parallel consumers: engines in virtual time over a log with gaps, from one random seed.

First chaos: records are written, accidents happen. Then calm: nothing goes wrong any more, and everything that was
promised must come to its end. Every step is checked; a broken promise is told with its seed, and the same seed takes
the same course again.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from seamark.errors import SeamarkError
from seamark.parallel.core.budget import RECORD_OVERHEAD_BYTES
from seamark.parallel.core.ports import Committed
from seamark.parallel.settings import Park
from seamark.simulation.parallel.cases import Case, draw_case
from seamark.simulation.parallel.faults import Accidents, DrawnHandlers
from seamark.simulation.parallel.group import SimulatedGroup
from seamark.simulation.parallel.log import PartitionLog
from seamark.simulation.parallel.member import SimulatedMember
from seamark.simulation.parallel.threads import Threads
from seamark.simulation.parallel.truth import Truth
from seamark.simulation.parallel.world import Chances, World
from seamark.simulation.world.transcript import Transcript
from seamark.simulation.world.violations import SHOWN_EVENTS, InvariantViolated
from seamark.topic_partition import TopicPartition

_TOPIC = "orders"
_VALUE = b"v" * 40
_CALM_STEP_MS = 500
# Longer than every timeout and the longest delay between attempts, several times over.
_PATIENCE_MS = 400_000


class ParallelLifetimeFailed(SeamarkError):
    """A promise of the parallel consumer was broken, or its code raised."""

    def __init__(self, seed: int, moment_ms: int, reason: str, transcript: str) -> None:
        super().__init__(
            f"seed {seed} failed at {moment_ms} ms: {reason}\n"
            f"replay it with: seamark.simulation.parallel.lifetime.ParallelLifetime({seed}).run()"
        )
        self.seed = seed
        self.moment_ms = moment_ms
        self.reason = reason
        self.transcript = transcript

    def __reduce__(self) -> tuple[type[ParallelLifetimeFailed], tuple[int, int, str, str]]:
        return type(self), (self.seed, self.moment_ms, self.reason, self.transcript)


@dataclass(frozen=True, slots=True)
class ParallelOutcome:
    """What a lifetime that kept its promises was made of."""

    seed: int
    records: int
    runs: int
    repeats: int
    given_up: int
    commits: int
    rebalances: int
    crashes: int
    process_deaths: int
    accidents: int
    virtual_ms: int


class ParallelLifetime:
    """``run`` it once. ``transcript`` tells what happened, also after a failure."""

    def __init__(self, seed: int, case: Case | None = None) -> None:
        self.seed = seed
        self.transcript = Transcript()
        rng = self._rng = Random(f"parallel {seed}")
        drawn = draw_case(rng, Random(f"parallel {seed} processes"))
        # A case of the caller's own leaves all else as the seed draws it.
        self.case = case or drawn
        loop = self._loop = Threads(lambda: int(rng.random() ** 4 * 20))
        self.logs = {
            partition: PartitionLog(partition, int(rng.random() ** 3 * 50))
            for partition in (TopicPartition(_TOPIC, number) for number in range(self.case.partitions))
        }
        self.truth = Truth(self.case.settings, self.logs)
        self.group = SimulatedGroup(
            loop, rng, self.transcript.events, self.truth, self.logs, is_cooperative=self.case.is_cooperative
        )
        self.group.metadata_limit = self.case.metadata_limit
        chances = Chances(failures=self.case.failure_chance, deaths=self.case.death_chance)
        handlers = DrawnHandlers(loop, rng, chances)
        self._world = World(
            loop,
            rng,
            self.transcript.events,
            self.truth,
            self.logs,
            self.group,
            handlers,
            chances,
            self.case.poll_records,
            RECORD_OVERHEAD_BYTES + len(_VALUE) + 16,
            self.case.ahead,
            self._restart,
            min(self.case.processes, self.case.settings.concurrency),
        )
        self.members: list[SimulatedMember] = []
        self._accidents = Accidents(
            self._world,
            handlers,
            self.members,
            replace=lambda _: self._add_member(),
            add_member=self._add_member,
            add_partition=self._add_partition,
        )
        self._member_number = 0
        self._crashes = 0

    # The course of it.

    def run(self) -> ParallelOutcome:
        """Live through it; raise ``ParallelLifetimeFailed`` when a promise is broken."""
        try:
            self._run()
        except Exception as error:
            reason = str(error) if isinstance(error, InvariantViolated) else f"{type(error).__name__}: {error}"
            raise ParallelLifetimeFailed(
                self.seed, self._loop.now_ms, reason, self.transcript.text(SHOWN_EVENTS)
            ) from error
        finally:
            self._loop.close()
        kinds = [event[1] for event in self.transcript.events]
        return ParallelOutcome(
            self.seed,
            sum(len(log.records) for log in self.logs.values()),
            self.truth.runs.total(),
            self.truth.repeats,
            len(self.truth.given_up),
            self.truth.commits,
            self.group.rebalances,
            kinds.count("crash"),
            kinds.count("process died"),
            self.case.faults,
            self._loop.now_ms,
        )

    def _run(self) -> None:
        rng, loop, case = self._rng, self._loop, self.case
        for _ in range(case.records // 2):
            self._write()
        for _ in range(case.members):
            loop.call_later(int(rng.random() ** 2 * 3_000), self._add_member)
        chaos_ms = 6_000 + int(rng.random() * 14_000)
        for _ in range(case.records - case.records // 2):
            loop.call_later(int(rng.random() * chaos_ms), self._write)
        for _ in range(case.faults):
            loop.call_later(500 + int(rng.random() * chaos_ms), self._accidents.happen)
        loop.run_until(chaos_ms + 500)
        self._accidents.end_all()
        self._calm_down()

    def _calm_down(self) -> None:
        deadline_ms = self._loop.now_ms + _PATIENCE_MS
        while (reason := self._unsettled()) is not None:
            if self._loop.now_ms > deadline_ms:
                raise InvariantViolated("all work finishes", reason)
            self._loop.run_until(self._loop.now_ms + _CALM_STEP_MS)
            # A hang that was drawn on the last moment, and parked records, wait for somebody.
            self._accidents.end_all()
            if isinstance(self.case.settings.then, Park):
                for member in [each for each in self.members if each.is_alive]:
                    self._accidents.give_up_oldest(member, after=0.5)
        self._check_end()

    def _unsettled(self) -> str | None:
        """Why this is not the end yet."""
        for partition, log in self.logs.items():
            committed = self.group.committed.get(partition, Committed(-1))
            reached = log.still_there(committed.offset, committed.leader_epoch)
            # An offset is not committed again for its epoch alone. If a truncated log grew back to it by nothing but a
            # gap, the commit names the epoch before that: who starts from it reads the gap again.
            is_read = committed.offset >= log.log_end and not log.has_records(reached)
            if log.log_end > log.log_start and reached < log.log_end and not is_read:
                return f"{partition} is committed up to {committed}, its log ends at {log.log_end}"
        for member in self.members:
            budget = member.engine.budget
            if member.is_alive and (not member.is_idle or budget.held_records or budget.held_bytes):
                return f"{member.name} is busy: {member.engine.counters}, {budget.held_records} records are held"
        return None

    def _check_end(self) -> None:
        left = self.truth.left()
        if left and not self.truth.is_at_most_once:
            raise InvariantViolated("no record is lost", f"{left[0]} was never processed")

    # What accidents need.

    def _add_member(self) -> None:
        self._member_number += 1
        member = SimulatedMember(f"m{self._member_number}", self._world)
        self.members.append(member)

    def _restart(self, name: str, reason: str | None) -> None:  # noqa: ARG002 - whatever it was
        self._loop.call_later(100 + int(self._rng.random() * 2_000), self._add_member)

    def _add_partition(self) -> None:
        partition = TopicPartition(_TOPIC, len(self.logs))
        self.logs[partition] = PartitionLog(partition)
        self.group.rebalance()

    def _write(self) -> None:
        rng, case = self._rng, self.case
        log = self.logs[rng.choice(list(self.logs))]
        if rng.random() < case.gap_chance:
            log.append_gap(1 + int(rng.random() ** 2 * 6))
        key = b"k%d" % int(rng.random() * case.keys) if rng.random() < 0.9 else None
        log.append(key, _VALUE, is_poison=rng.random() < case.poison_chance)
        if rng.random() < case.gap_chance / 3:
            log.append_gap(1)
