"""What goes wrong in a lifetime and when: one method per kind of fault.

A fault that lasts ends by itself, and ``end_all`` ends the rest. ``injected`` counts faults that had an effect: a
window in which nothing was sent is none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from seamark.simulation.broker.broker import SimulatedBroker
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.broker.watch import LONGEST_TURN_MS
from seamark.simulation.members.clients import Member
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event

_CALM_LATENCY_MS = 4
_LARGE_BYTES = 1_048_588


class Faults:
    """The hand of fate, for one lifetime."""

    def __init__(
        self,
        loop: EventLoop,
        rng: random.Random,
        events: list[Event],
        broker: SimulatedBroker,
        invariants: Invariants,
        members: Sequence[Member],
        raise_zombie: Callable[[Member], None],
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._events = events
        self._broker = broker
        self._invariants = invariants
        self._members = members
        self._raise_zombie = raise_zombie
        self._direct = 0
        self._calm_disk_delay_ms = broker.timing.delay_ms
        self._calm_turn_ms = broker.timing.turn_ms
        self._is_over = False

    @property
    def injected(self) -> int:
        broker = self._broker
        network = broker.network
        return (
            self._direct
            + broker.crashes
            + broker.unloads
            + min(network.dropped, 1)
            + min(network.copied, 1)
            + min(broker.disk.faults.injected, 1)
        )

    def inject(self, kind: str) -> None:
        """Let one fault happen now."""
        if self._is_over:
            return
        self._events.append((self._loop.now_ms, "fault", kind))
        getattr(self, f"_{kind}")()

    def end_all(self) -> None:
        """From now on nothing goes wrong."""
        self._is_over = True
        self._events.append((self._loop.now_ms, "fault", "no more"))
        self._calm_network()
        self._calm_disk()
        self._calm_loop()
        self._allow_large_batches()
        self._broker.timing.reorders = False

    def _for_a_while(self, end: Callable[[], None]) -> None:
        self._loop.call_later(500 + int(self._rng.random() * 7000), end)

    def _calm_network(self) -> None:
        network = self._broker.network
        network.latency_ms = _CALM_LATENCY_MS
        network.drop_chance = network.copy_chance = 0.0

    def _calm_disk(self) -> None:
        self._broker.disk.arm()
        self._broker.timing.delay_ms = self._calm_disk_delay_ms

    def _any_member(self) -> Member | None:
        running = [member for member in self._members if member.is_running]
        return running[int(self._rng.random() * len(running))] if running else None

    # -- the broker

    def _kill(self) -> None:
        self._broker.restart_delay_ms = 100 + int(self._rng.random() * 3000)
        self._broker.crash(lose_power=False)

    def _power_loss(self) -> None:
        self._broker.restart_delay_ms = 100 + int(self._rng.random() * 3000)
        self._broker.crash(lose_power=True)

    def _crash_at_write(self) -> None:
        self._broker.restart_delay_ms = 100 + int(self._rng.random() * 1000)
        self._broker.crashes_lose_power = self._rng.random() < 0.6
        # Soon: during appends. Later: also inside compaction, syncs and the opening after another crash.
        self._broker.disk.arm(crash_countdown=int(self._rng.random() ** 2 * 40))

    def _restart(self) -> None:
        if self._broker.is_up:
            self._direct += 1
        self._broker.restart_delay_ms = 50 + int(self._rng.random() * 1000)
        self._broker.restart()

    def _unload(self) -> None:
        number = int(self._rng.random() * len(self._invariants.books))
        self._broker.unload(number, int(self._rng.random() ** 2 * 6000))

    def _clock_step(self) -> None:
        step_ms = int((self._rng.random() - 0.5) * 30_000)
        self._events.append((self._loop.now_ms, "clock", step_ms))
        self._broker.timing.clock_error_ms += step_ms
        self._direct += 1

    # -- the disk

    def _slow_disk(self) -> None:
        self._broker.timing.delay_ms = 200 + int(self._rng.random() ** 2 * 9000)
        self._broker.timing.reorders = self._rng.random() < 0.5
        self._direct += 1
        self._for_a_while(self._calm_disk)

    def _disk_full(self) -> None:
        self._broker.disk.arm(free_bytes=int(self._rng.random() * 300))
        self._for_a_while(self._calm_disk)

    def _io_error(self) -> None:
        draw = self._rng.random()
        self._broker.disk.arm(
            append_errors=draw * 0.5,
            truncate_errors=0.5 if draw > 0.6 else 0.0,
            sync_errors=0.2 if draw < 0.6 else 0.0,
        )
        self._for_a_while(self._calm_disk)

    # -- the loop and what it writes at once

    def _busy_broker(self) -> None:
        """What is to come in the loop's next turn comes late, and much is written together."""
        self._broker.timing.turn_ms = 200 + int(self._rng.random() * (LONGEST_TURN_MS - 200))
        self._direct += 1
        self._for_a_while(self._calm_loop)

    def _calm_loop(self) -> None:
        self._broker.timing.turn_ms = self._calm_turn_ms

    def _small_batches(self) -> None:
        """The topic takes batches that hold some appends, not all of a turn, and not the largest."""
        self._broker.config.max_message_bytes = 180 + int(self._rng.random() ** 2 * 1000)
        self._busy_broker()
        self._for_a_while(self._allow_large_batches)

    def _allow_large_batches(self) -> None:
        self._broker.config.max_message_bytes = _LARGE_BYTES

    # -- the network

    def _disconnect(self) -> None:
        member = self._any_member()
        if member is not None and member.disconnect():
            self._direct += 1

    def _drop(self) -> None:
        self._broker.network.drop_chance = 0.02 + self._rng.random() * 0.2
        self._for_a_while(self._calm_network)

    def _delay(self) -> None:
        self._broker.network.latency_ms = 50 + int(self._rng.random() * 2000)
        self._direct += 1
        self._for_a_while(self._calm_network)

    def _duplicate(self) -> None:
        self._broker.network.copy_chance = 0.1 + self._rng.random() * 0.4
        self._for_a_while(self._calm_network)

    # -- the members

    def _member_crash(self) -> None:
        member = self._any_member()
        if member is not None:
            self._direct += 1
            self._events.append((self._loop.now_ms, "ends", member.name))
            member.crash()
            if self._rng.random() < 0.8:
                self._loop.call_later(int(self._rng.random() ** 2 * 12_000), self._start, member)

    def _member_pause(self) -> None:
        member = self._any_member()
        if member is not None:
            self._direct += 1
            self._events.append((self._loop.now_ms, "pauses", member.name))
            member.pause(1000 + int(self._rng.random() * 15_000))

    def _zombie(self) -> None:
        member = self._any_member()
        if member is not None and member.member_id:
            self._direct += 1
            self._raise_zombie(member)

    def _churn(self) -> None:
        """Not a fault, but what makes groups rebalance: somebody comes or goes."""
        member = self._members[int(self._rng.random() * len(self._members))]
        if member.is_running:
            self._events.append((self._loop.now_ms, "leaves", member.name))
            member.leave()
            if self._rng.random() < 0.7:
                self._loop.call_later(int(self._rng.random() * 5000), self._start, member)
        else:
            self._start(member)

    def _start(self, member: Member) -> None:
        self._events.append((self._loop.now_ms, "starts", member.name))
        member.start()

    def bounce(self, member: Member) -> None:
        """Make a member leave and come back."""
        self._events.append((self._loop.now_ms, "leaves", member.name))
        member.leave()
        self._loop.call_later(200, self._start, member)

    def cut_off(self, member: Member) -> None:
        """Break a member's connection, whatever the time."""
        if member.disconnect():
            self._direct += 1
