"""One lifetime: a broker, its groups and their misfortunes from one seed, until all is calm again.

A time of faults is followed by a quiet one, at whose end every group must be stable with exactly its living members,
every partition owned once, every request answered and nothing left over. A lifetime goes on until it has seen at
least 100 delivered messages, 20 commits, 2 rebalances and 2 faults.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from seamark.assignors import ClusterTopics
from seamark.coordinator import Settings
from seamark.simulation.broker.broker import SimulatedBroker
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.members.bystanders import Administrator, Bystander, SimpleConsumer, Zombie
from seamark.simulation.members.clients import Member
from seamark.simulation.members.member import MemberSettings, ModelMember
from seamark.simulation.runs.calm import check_leftovers, unsettled
from seamark.simulation.runs.faults import Faults
from seamark.simulation.world.disk import SimulatedDisk
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.scenarios import Scenario
from seamark.simulation.world.transcript import Transcript
from seamark.simulation.world.violations import SHOWN_EVENTS, InvariantViolated, LifetimeFailed
from seamark.storage import Durability, LogSettings

LEAST_MESSAGES = 100
LEAST_COMMITS = 20
LEAST_REBALANCES = 2
LEAST_FAULTS = 2

TOPICS = {"orders": 3, "audit": 2}
# By then every timeout of the longest kind has passed several times over.
_PATIENCE_MS = 400_000
_LOOK_EVERY_MS = 700


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a lifetime that held all promises was made of."""

    scenario: str
    seed: int
    steps: int
    virtual_ms: int
    messages: int
    commits: int
    rebalances: int
    faults: int
    crashes: int
    log_checks: int
    # Records that applications processed, and how often one of them was processed before; only with real clients.
    processed: int = 0
    repeated: int = 0


class Lifetime:
    """``run`` it once. ``transcript`` tells what happened, also after a failure."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.seed = seed
        self.scenario = scenario
        self.transcript = Transcript()
        self._events = self.transcript.events
        rng = self._rng = random.Random(f"{scenario.name} {seed}")
        loop = self._loop = EventLoop()
        offsets_partitions = 1 if rng.random() < 0.6 else 2
        self.invariants = Invariants(offsets_partitions)
        self._id_number = 0
        self._settings = self._draw_settings()
        self.broker = SimulatedBroker(
            loop,
            rng,
            self._events,
            SimulatedDisk(rng),
            self.invariants,
            settings=self._settings,
            log_settings=self._draw_log_settings(),
            offsets_partitions=offsets_partitions,
            topics=TOPICS,
            make_id=self._make_id,
        )
        self.broker.timing.delay_ms = int(rng.random() * 12) if rng.random() < 0.5 else 0
        self.broker.timing.turn_ms = int(rng.random() ** 4 * 1000) if rng.random() < 0.6 else 0
        self.members: list[Member] = []
        self._bystanders: list[Bystander] = []
        self._draw_cast()
        self._faults = Faults(loop, rng, self._events, self.broker, self.invariants, self.members, self._raise_zombie)

    def _make_id(self) -> str:
        self._id_number += 1
        return f"{self._id_number:03}"

    # -- what the seed decides

    def _draw_settings(self) -> Settings:
        rng = self._rng
        return Settings(
            initial_rebalance_delay_ms=int(rng.random() * 2) * int(rng.random() * 3000),
            commit_timeout_ms=1500 + int(rng.random() * 3500),
            retention_minutes=1,
            retention_check_interval_ms=5000 + int(rng.random() * 20_000),
            new_member_timeout_ms=20_000,
            max_group_size=self.scenario.max_group_size or 1000,
            # So small that most removals are done in parts, with whatever happens in between.
            sweep_size=3,
        )

    def _draw_log_settings(self) -> LogSettings:
        rng = self._rng
        durability = self.scenario.durability or ("os" if rng.random() < 0.5 else "commit")
        return LogSettings(
            segment_bytes=400 + int(rng.random() ** 2 * 6000),
            index_interval_bytes=int(rng.random() * 2) * 500,
            delete_retention_ms=int(rng.random() * 2) * 20_000,
            min_compaction_lag_ms=int(rng.random() * 1.3) * 3000,
            min_cleanable_dirty_ratio=0.3,
            durability=Durability(durability),
            log_append_time=rng.random() < 0.1,
        )

    def _draw_cast(self) -> None:
        rng = self._rng
        cluster = ClusterTopics(TOPICS)
        groups = ["billing"] if rng.random() < 0.6 else ["billing", "search"]
        instances: list[tuple[str, str]] = []
        subscriptions: dict[str, tuple[str, ...]] = {}
        for group_id in groups:
            count = 2 + int(rng.random() * (self.scenario.most_members - 1))
            for number in range(count):
                instance_id = None
                if rng.random() < self.scenario.static_chance:
                    # Now and then two processes are given one identity.
                    taken = number if rng.random() < 0.85 else max(number - 1, 0)
                    instance_id = f"{group_id}-i{taken}"
                    instances.append((group_id, instance_id))
                # One identity has one subscription: a static member that returns keeps its assignment whatever it asks.
                wishes = ("orders", "audit") if rng.random() < 0.7 else ("orders",)
                settings = MemberSettings(
                    group_id,
                    wishes if instance_id is None else subscriptions.setdefault(instance_id, wishes),
                    # All offer both: after a load only the protocol that was stored is known of the others, and a
                    # joiner without it would be refused for as long as they stay.
                    ("range", "roundrobin") if rng.random() < 0.7 else ("roundrobin", "range"),
                    instance_id,
                    session_timeout_ms=6000 + int(rng.random() * 4000),
                    rebalance_timeout_ms=3000 + int(rng.random() * 7000),
                    heartbeat_ms=1500 + int(rng.random() * 1000),
                    requires_known_id=rng.random() < 0.8,
                    skips_assignment=rng.random() < 0.7,
                    requires_stable=rng.random() < 0.6,
                )
                name = f"{group_id[0]}{number}"
                self.members.append(ModelMember(name, settings, cluster, self._loop, rng, self.broker.network))
        if self.scenario.has_simple_consumer and rng.random() < 0.5:
            names = ["simple", *groups]
            self._bystanders.append(
                SimpleConsumer("simple", self._loop, rng, self.broker.network, groups=names, topics=TOPICS)
            )
        if self.scenario.has_administrator and rng.random() < 0.6:
            self._bystanders.append(
                Administrator(
                    "admin",
                    self._loop,
                    rng,
                    self.broker.network,
                    groups=["simple", *groups],
                    topics=TOPICS,
                    instances=instances,
                )
            )
        self._groups = groups

    def _raise_zombie(self, member: Member) -> None:
        self._bystanders.append(
            Zombie(f"zombie of {member.name}", self._loop, self._rng, self.broker.network, member=member)
        )

    # -- the course of it

    def run(self) -> Outcome:
        """Live through it; raise ``LifetimeFailed`` when a promise is broken."""
        live(self._run, self.scenario.name, self.seed, self._loop, self.transcript)
        return self.outcome

    @property
    def outcome(self) -> Outcome:
        return Outcome(
            self.scenario.name,
            self.seed,
            self._loop.steps,
            self._loop.now_ms,
            self.broker.network.delivered,
            self.invariants.commits,
            self.invariants.rebalances,
            self._faults.injected,
            self.broker.crashes,
            self.invariants.checks,
        )

    def _run(self) -> None:
        rng, loop = self._rng, self._loop
        self.broker.start()
        for member in self.members:
            loop.call_later(int(rng.random() ** 2 * 6000), member.start)
        chaos_ms = 12_000 + int(rng.random() * 14_000)
        kinds, weights = list(self.scenario.faults), list(self.scenario.faults.values())
        span = self.scenario.most_faults - self.scenario.least_faults + 1
        for kind in rng.choices(kinds, weights, k=self.scenario.least_faults + int(rng.random() * span)):
            loop.call_at(2000 + int(rng.random() * (chaos_ms - 2000)), self._faults.inject, kind)
        loop.run_until(chaos_ms)
        self._faults.end_all()
        for bystander in self._bystanders:
            bystander.fall_silent()
        self._calm_down()
        self._end()

    def _calm_down(self) -> None:
        deadline_ms = self._loop.now_ms + _PATIENCE_MS
        while True:
            self._loop.run_until(self._loop.now_ms + _LOOK_EVERY_MS)
            reason = unsettled(self.broker, self.invariants, self._groups, self.members, self._settings, TOPICS)
            if reason is None and self._has_seen_enough():
                return
            if self._loop.now_ms > deadline_ms:
                raise InvariantViolated("a group becomes stable again", reason or "nothing more is scheduled")

    def _has_seen_enough(self) -> bool:
        """Everything is calm: has the lifetime had its share? If not, add to it."""
        outcome = self.outcome
        running = [member for member in self.members if member.is_running]
        if not running:
            self.members[0].start()
            return False
        inside = next(member for member in running if not member.is_turned_away)
        if outcome.rebalances < LEAST_REBALANCES:
            self._faults.bounce(inside)
            return False
        if outcome.faults < LEAST_FAULTS:
            self._faults.cut_off(inside)
            return False
        return outcome.commits >= LEAST_COMMITS and outcome.messages >= LEAST_MESSAGES

    def _end(self) -> None:
        for member in self.members:
            member.fall_silent()
        for bystander in self._bystanders:
            bystander.fall_silent()
        for _ in range(20):
            if not self.invariants.outstanding and not self.broker.has_open_appends:
                break
            self._loop.run_until(self._loop.now_ms + 300)
        check_leftovers(self.broker, self.invariants, self._groups, TOPICS)
        for number in range(len(self.invariants.books)):
            self.invariants.check_shard(number, self.broker.coordinator)
            log = self.broker.log_of(number)
            if log is not None:
                self.invariants.check_log(number, log, self.broker.disk, "at the end")


def live(run: Callable[[], None], scenario: str, seed: int, loop: EventLoop, transcript: Transcript) -> None:
    """Run a lifetime's course; whatever it ends with is told with what is needed to see it again."""
    try:
        with _quiet_logs():
            run()
    except Exception as error:
        raise LifetimeFailed(
            scenario,
            seed,
            loop.steps,
            str(error) if isinstance(error, InvariantViolated) else f"{type(error).__name__}: {error}",
            transcript.text(SHOWN_EVENTS),
        ) from error


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Damage is what a lifetime is made of: the warnings about it would be millions of lines.

    An error that the broker's shell only logs, so that others are served all the same, ends the lifetime.
    """
    loggers = [logging.getLogger(name) for name in ("seamark.storage", "seamark.client")]
    were_disabled = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    shell = logging.getLogger("seamark.broker")
    handlers, propagates, level = shell.handlers[:], shell.propagate, shell.level
    shell.handlers[:], shell.propagate = [_Raising()], False
    shell.setLevel(logging.ERROR)
    try:
        yield
    finally:
        shell.handlers[:], shell.propagate = handlers, propagates
        shell.setLevel(level)
        for logger, was_disabled in zip(loggers, were_disabled, strict=True):
            logger.disabled = was_disabled


class _Raising(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            raise record.exc_info[1]
