"""One seed of a check: members run the user's handler over its records while accidents happen, until all is done.

Accidents are drawn by steps of handler calls, not by time: any step may be the last before a crash. The promises are
those of the simulation: nothing lost, keys in order, commits never past unfinished work, repeats only of what no commit
had said was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from seamark.counts import counted
from seamark.parallel.core.budget import record_size
from seamark.parallel.settings import Settings
from seamark.simulation.parallel.group import SimulatedGroup
from seamark.simulation.parallel.member import Chances, SimulatedMember, World
from seamark.simulation.parallel.truth import Truth
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Transcript
from seamark.simulation.world.violations import InvariantViolated
from seamark.testing.check_handlers import Handler, UserHandlers
from seamark.testing.check_records import GivenRecord, make_logs

_STEP_MS = 250
# So long may a handler sleep or wait to be tried again.
_PATIENCE_MS = 3_600_000
_POLL_RECORDS = 20
# While a handler sleeps, members need not look for records many times a second: that would be most of the work.
_TURNS_BEFORE_REST = 100


class CheckLifetime:
    def __init__(
        self, seed: int, handler: Handler, records: Sequence[GivenRecord], settings: Settings, *, overlap: bool
    ) -> None:
        """``overlap``: members lose partitions without knowing, so that late calls run beside the new owner's."""
        self.transcript = Transcript()
        rng = self._rng = Random(f"check {seed}")
        loop = self._loop = EventLoop()
        self.logs = make_logs(records, 1 + int(rng.random() * 4))
        self.truth = Truth(settings, self.logs)
        events = self.transcript.events
        self.group = SimulatedGroup(
            loop,
            rng,
            events,
            self.truth,
            self.logs,
            is_cooperative=rng.random() < 0.5,
            rebalance_timeout_ms=12_000 if overlap else _PATIENCE_MS,
        )
        self.group.refusals = rng.choice((0.0, 0.0, 0.2))
        self.group.lost_answers = rng.choice((0.0, 0.0, 0.2))
        self.handlers = UserHandlers(handler, loop, rng.random, batch=settings.batch, on_moment=self._moment)
        largest = max(record_size(record) for log in self.logs.values() for record in log.records)
        self._world = World(
            loop,
            rng,
            events,
            self.truth,
            self.logs,
            self.group,
            self.handlers,
            Chances(),
            _POLL_RECORDS,
            largest,
            0,
            self._stopped,
            turns_before_rest=_TURNS_BEFORE_REST,
        )
        self._members: list[SimulatedMember] = []
        # Each record takes two steps, and what is repeated takes more.
        count = int(rng.random() * 7)
        self._accidents = sorted((int(rng.random() * 2.5 * len(records)) for _ in range(count)), reverse=True)
        self._kinds = [self._crash, self._crash, self._stop, self._rebalance]
        if overlap:
            self._kinds += [self._lose, self._freeze]
        self._moments = 0
        self.crashes = 0

    def run(self) -> None:
        """Raise ``InvariantViolated`` if a promise is broken."""
        try:
            for _ in range(1 + int(self._rng.random() * 3)):
                self._loop.call_later(int(self._rng.random() * 400), self._add_member)
            seen, since_ms = 0, 0
            while (reason := self._unsettled()) is not None:
                if self._moments > seen:
                    seen, since_ms = self._moments, self._loop.now_ms
                if self._loop.now_ms - since_ms > _PATIENCE_MS:
                    raise InvariantViolated("everything finishes", reason)
                self._loop.run_until(max(self._loop.now_ms + _STEP_MS, self._loop.next_ms()))
        finally:
            self.handlers.close()
        left = self.truth.left()
        if left and not self.truth.is_at_most_once:
            raise InvariantViolated("no record is lost", f"{left[0]} was never processed")

    def _unsettled(self) -> str | None:
        for partition, log in self.logs.items():
            committed = self.group.committed.get(partition)
            if committed is None or committed.offset < log.log_end:
                return f"{partition} is committed up to {committed.offset if committed else 0} of {log.log_end}"
        for member in self._members:
            if member.is_alive and (not member.is_idle or member.engine.budget.held_records):
                return f"{member.name} still has {counted(member.engine.budget.held_records, 'record')}"
        return None

    # Accidents.

    def _moment(self) -> None:
        self._moments += 1
        while self._accidents and self._accidents[-1] <= self._moments:
            self._accidents.pop()
            self._kinds[int(self._rng.random() * len(self._kinds))]()

    def _one(self) -> SimulatedMember | None:
        alive = [member for member in self._members if member.is_alive]
        return self._rng.choice(alive) if alive else None

    def _crash(self) -> None:
        member = self._one()
        if member is not None:
            self.crashes += 1
            member.crash()
            self._loop.call_later(100 + int(self._rng.random() * 2_000), self._bury, member)

    def _bury(self, member: SimulatedMember) -> None:
        self.group.leave(member)
        self._add_member()

    def _lose(self) -> None:
        member = self._one()
        if member is not None:
            self.group.leave(member)
            member.hear_of_loss_later()

    def _freeze(self) -> None:
        member = self._one()
        if member is not None and not member.is_frozen:
            duration_ms = 100 + int(self._rng.random() * 4_000)
            member.freeze(duration_ms)
            self._loop.call_later(duration_ms // 2, self.group.leave, member)
            member.hear_of_loss_later()

    def _stop(self) -> None:
        member = self._one()
        if member is not None:
            member.stop()

    def _rebalance(self) -> None:
        # From inside a call: the group acts a moment later.
        self._loop.call_later(1, self.group.rebalance)

    def _add_member(self) -> None:
        member = SimulatedMember(f"m{len(self._members) + 1}", self._world)
        self._members.append(member)
        self.group.join(member)

    def _stopped(self, member: SimulatedMember, reason: str | None) -> None:
        if reason is not None:
            error = self.handlers.last_error
            raise InvariantViolated("the handler succeeds", f"{member.name} stopped: {reason}") from error
        self._loop.call_later(50 + int(self._rng.random() * 500), self._add_member)
