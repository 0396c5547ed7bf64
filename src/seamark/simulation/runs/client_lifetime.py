"""One lifetime of groups made of real clients: the client as it ships, over the wire, against the coordinator's cores.

The coordinator process, its disk and its invariants are those of every lifetime. In front of it stand the nodes of a
cluster, which clients find and lose. A time of faults, with records coming in all the time, is followed by a quiet
one: every group must become stable with its living members, own every partition once, process and commit every record,
and then stay as it is for longer than a session. At last all consumers are closed.
"""

from __future__ import annotations

import random

from seamark.coordinator import Settings
from seamark.simulation.broker.broker import SimulatedBroker
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.broker.node_front import PORT, NodeFront, host_of
from seamark.simulation.members.client_cast import draw_group
from seamark.simulation.members.consumer_member import ConsumerMember
from seamark.simulation.runs.calm import check_leftovers, unsettled_group
from seamark.simulation.runs.client_faults import ClientFaults
from seamark.simulation.runs.lifetime import (
    LEAST_COMMITS,
    LEAST_FAULTS,
    LEAST_MESSAGES,
    LEAST_REBALANCES,
    Outcome,
    live,
)
from seamark.simulation.world.deliveries import Deliveries, Promise
from seamark.simulation.world.disk import SimulatedDisk
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.scenarios import Scenario
from seamark.simulation.world.topic_logs import TopicLogs
from seamark.simulation.world.transcript import Transcript
from seamark.simulation.world.violations import InvariantViolated
from seamark.simulation.world.wire_network import WireNetwork
from seamark.storage import Durability, LogSettings
from seamark.topic_partition import TopicPartition

TOPICS = {"orders": 3, "audit": 2}
_NODES = 3
_PATIENCE_MS = 120_000
_LOOK_EVERY_MS = 500
# More than a batch, a commit and a close may take.
_LONGEST_CLOSE_MS = 20_000
_MANY_MEMBERS = 1000
# Several times what the longest takes.
_MOST_STEPS = 40_000


class ClientLifetime:
    """``run`` it once. ``transcript`` tells what happened, also after a failure."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.seed = seed
        self.scenario = scenario
        self.transcript = Transcript()
        events = self._events = self.transcript.events
        rng = self._rng = random.Random(f"{scenario.name} {seed}")
        loop = self._loop = EventLoop(_MOST_STEPS)
        offsets_partitions = 1 if rng.random() < 0.5 else 2
        self.invariants = Invariants(offsets_partitions)
        self._id_number = 0
        self._settings = self._draw_settings()
        topics = dict(TOPICS)
        self.broker = SimulatedBroker(
            loop,
            rng,
            events,
            SimulatedDisk(rng),
            self.invariants,
            settings=self._settings,
            log_settings=self._draw_log_settings(),
            offsets_partitions=offsets_partitions,
            topics=topics,
            make_id=self._make_id,
            make_network=WireNetwork,
        )
        self.broker.timing.delay_ms = int(rng.random() * 12) if rng.random() < 0.5 else 0
        self.broker.timing.turn_ms = int(rng.random() ** 3 * 100) if rng.random() < 0.5 else 0
        network = self.broker.network
        assert isinstance(network, WireNetwork)
        self._network = network
        self.logs = TopicLogs(topics, _NODES)
        self.deliveries = Deliveries()
        homes = [int(rng.random() * _NODES) for _ in range(offsets_partitions)]
        for node in range(_NODES):
            network.start_node(node)
        self.members: list[ConsumerMember] = []
        self._groups = ["billing"] if rng.random() < 0.88 else ["billing", "search"]
        self._draw_cast()
        # Before KIP-814 the leader of a group that comes back with its instance id does not know that it leads, so
        # that nobody sees a new partition.
        is_old = rng.random() < 0.3 and not any(member.instance_id for member in self.members)
        front = NodeFront(self.broker, network, self.logs, homes, self.deliveries, is_old=is_old)
        network.deliver_to(front.receive)
        self._faults = ClientFaults(
            loop, rng, events, self.broker, self.invariants, self.members, network, self.logs, homes, self.deliveries
        )
        self._is_producing = True
        # When to give a partition one more record, if its last commit is still missing.
        self._remind_ms = 0
        # The same for a rebalance that nobody can know is needed.
        self._rebalance_ms = 0

    def _make_id(self) -> str:
        self._id_number += 1
        return f"{self._id_number:03}"

    # -- what the seed decides

    def _draw_settings(self) -> Settings:
        rng = self._rng
        return Settings(
            initial_rebalance_delay_ms=int(rng.random() * 2) * int(rng.random() * 1500),
            commit_timeout_ms=1500 + int(rng.random() * 3500),
            # Offsets that expire are another matter than those that are lost.
            retention_minutes=1000,
            new_member_timeout_ms=20_000,
            max_group_size=_MANY_MEMBERS,
            min_session_timeout_ms=1000,
        )

    def _draw_log_settings(self) -> LogSettings:
        rng = self._rng
        loses_power = "power_loss" in self.scenario.faults or "crash_at_write" in self.scenario.faults
        durability = "commit" if loses_power or rng.random() < 0.3 else "os"
        return LogSettings(
            segment_bytes=600 + int(rng.random() ** 2 * 8000),
            index_interval_bytes=int(rng.random() * 2) * 500,
            min_cleanable_dirty_ratio=0.3,
            durability=Durability(durability),
        )

    def _draw_cast(self) -> None:
        rng = self._rng
        bootstrap = ",".join(f"{host_of(node)}:{PORT}" for node in range(_NODES))
        for group_id in self._groups:
            promise = self.scenario.promise
            if promise is None:
                # A copy that comes late takes a commit back, and with it the promise.
                is_safe = "duplicate" not in self.scenario.faults
                promise = "at most once" if is_safe and rng.random() < 0.4 else "at least once"
            self.deliveries.add_group(group_id, Promise(promise))
            for part in draw_group(rng, self.scenario, group_id, Promise(promise), bootstrap):
                self.members.append(
                    ConsumerMember(
                        part.name,
                        part.options,
                        part.settings,
                        part.habits,
                        part.topics,
                        self._loop,
                        rng,
                        self._events,
                        self._network,
                        self.logs,
                        self.deliveries,
                        self._is_let_in,
                    )
                )

    def _is_let_in(self, group_id: str, member_id: str, generation: int) -> bool:
        return self.invariants.ledger(group_id).is_let_in(member_id, generation)

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
            self._network.delivered,
            self.invariants.commits,
            self.invariants.rebalances,
            self._faults.injected,
            self.broker.crashes,
            self.invariants.checks,
            self.deliveries.processed,
            self.deliveries.repeated,
        )

    def _run(self) -> None:
        rng, loop = self._rng, self._loop
        self.broker.start()
        for member in self.members:
            loop.call_later(int(rng.random() ** 2 * 3000), member.start)
        loop.call_later(200, self._produce)
        chaos_ms = 6000 + int(rng.random() * 5000)
        kinds, weights = list(self.scenario.faults), list(self.scenario.faults.values())
        span = self.scenario.most_faults - self.scenario.least_faults + 1
        for kind in rng.choices(kinds, weights, k=self.scenario.least_faults + int(rng.random() * span)):
            loop.call_at(1000 + int(rng.random() * (chaos_ms - 1000)), self._faults.inject, kind)
        loop.run_until(chaos_ms)
        self._faults.end_all()
        self._rebalance_ms = loop.now_ms + 15_000
        self._calm_down()
        self._stay_calm()
        self._end()

    def _produce(self) -> None:
        """Records come in small numbers, here and there."""
        if self._is_producing:
            rng = self._rng
            partitions = list(self.logs.partitions.values())
            partitions[int(rng.random() * len(partitions))].append(1 + int(rng.random() * 10))
            self._loop.call_later(150 + int(rng.random() * 700), self._produce)

    def _calm_down(self) -> None:
        deadline_ms = self._loop.now_ms + _PATIENCE_MS
        while True:
            self._loop.run_until(self._loop.now_ms + _LOOK_EVERY_MS)
            reason = self._unsettled()
            if reason is None and self._has_seen_enough():
                if not self._is_producing:
                    return
                self._is_producing = False
                self._faults.hush()
                self._remind_ms = self._loop.now_ms + 4000
            if self._loop.now_ms > deadline_ms:
                raise InvariantViolated(
                    "after the faults a group settles, owns and drains everything",
                    reason or "nothing more is scheduled",
                )

    def _unsettled(self) -> str | None:
        if not self.broker.is_serving:
            return "the broker does not serve every partition"
        if self._loop.now_ms < self._network.last_copy_ms:
            return "copies of requests are under way"
        for member in self.members:
            if member.is_running and not member.is_settled:
                return f"member {member.name} of {member.group_id} has no assignment"
        for group_id in self._groups:
            running = [each for each in self.members if each.group_id == group_id and each.is_running]
            reason = unsettled_group(self.broker, group_id, running, _MANY_MEMBERS) or self._unowned(group_id, running)
            if reason is not None:
                return f"group {group_id}: {reason}"
        return None

    def _unowned(self, group_id: str, running: list[ConsumerMember]) -> str | None:
        counts = self.logs.counts
        topics = sorted({topic for each in running for topic in each.topics})
        wanted = sorted((topic, number) for topic in topics for number in range(counts[topic]))
        owned = sorted(partition for each in running for partition in each.owned)
        if owned != wanted:
            self._remind_static(running)
            return f"it owns {owned}, wants {wanted}"
        return None if self._is_producing else self._undone(group_id, wanted)

    def _remind_static(self, running: list[ConsumerMember]) -> None:
        """Make a group rebalance that cannot know that it should.

        A member that comes back with its instance id is given what it had, without a rebalance. If it was away in the
        middle of a cooperative one, or was the leader while a partition was added, nobody knows of what is unowned:
        Kafka's protocol leaves it at that until the next rebalance.
        """
        if any(each.instance_id for each in running) and self._loop.now_ms >= self._rebalance_ms:
            self._rebalance_ms = self._loop.now_ms + 15_000
            group = [each for each in self.members if each.group_id == running[0].group_id]
            newcomer = next((each for each in group if each not in running and not each.instance_id), None)
            if newcomer is not None:
                newcomer.start()
            elif not self._faults.expand():
                self._faults.bounce(next((each for each in running if not each.instance_id), running[0]))

    def _undone(self, group_id: str, wanted: list[tuple[str, int]]) -> str | None:
        ends = {TopicPartition(*each): self.logs.partitions[TopicPartition(*each)].end for each in wanted}
        if undone := self.deliveries.unprocessed(group_id, ends):
            return f"{', '.join(map(str, undone))} are not processed to their ends"
        if undone := self.deliveries.uncommitted(group_id, ends):
            if self._loop.now_ms >= self._remind_ms:
                # A commit that failed is made good by the next one, and that needs something to commit.
                self._remind_ms = self._loop.now_ms + 4000
                self.logs.partitions[undone[0]].append(1)
            return f"{', '.join(map(str, undone))} are not committed to their ends"
        return None

    def _has_seen_enough(self) -> bool:
        """Everything is calm: has the lifetime had its share? If not, add to it."""
        outcome = self.outcome
        for group_id in self._groups:
            inside = [each for each in self.members if each.group_id == group_id]
            if not any(each.is_running for each in inside):
                inside[0].start()
                return False
        running = next(each for each in self.members if each.is_running)
        if outcome.rebalances < LEAST_REBALANCES:
            # Members with an instance id come back to what they had; a new partition is for everybody.
            if not self._faults.expand():
                self._faults.bounce(next((each for each in self.members if not each.instance_id), running))
            return False
        if outcome.faults < LEAST_FAULTS:
            self._faults.cut_off(running)
            return False
        return outcome.commits >= LEAST_COMMITS and outcome.messages >= LEAST_MESSAGES

    def _stay_calm(self) -> None:
        """Nothing happens for longer than a session: members must keep their places by themselves."""
        before = {each.name: each.generation for each in self.members if each.is_running}
        longest_ms = max(each.settings.membership.session_timeout_ms for each in self.members)
        self._loop.run_until(self._loop.now_ms + longest_ms + 1000)
        after = {each.name: each.generation for each in self.members if each.is_running}
        if after != before:
            raise InvariantViolated("a group without faults stays unchanged", f"{before} has become {after}")
        reason = self._unsettled()
        if reason is not None:
            raise InvariantViolated("a group without faults stays unchanged", reason)

    def _close_all(self) -> None:
        """Whoever is left closes its consumer, in the middle of its work, in its time, and leaves nothing behind."""
        rng = self._rng
        for records in self.logs.partitions.values():
            records.append(1 + int(rng.random() * 8))
        for member in self.members:
            self._loop.call_later(int(rng.random() * 300), member.leave)
        self._loop.run_until(self._loop.now_ms + 300)
        deadline_ms = self._loop.now_ms + _LONGEST_CLOSE_MS
        while running := [each.name for each in self.members if each.is_running]:
            if self._loop.now_ms > deadline_ms:
                raise InvariantViolated("a consumer is closed in its time", f"{running} are not")
            self._loop.run_until(self._loop.now_ms + 100)

    def _end(self) -> None:
        self._close_all()
        for member in self.members:
            member.fall_silent()
        for _ in range(20):
            if not self.invariants.outstanding and not self.broker.has_open_appends:
                break
            self._loop.run_until(self._loop.now_ms + 300)
        check_leftovers(self.broker, self.invariants, self._groups, self.logs.counts)
        for number in range(len(self.invariants.books)):
            self.invariants.check_shard(number, self.broker.coordinator)
            log = self.broker.log_of(number)
            if log is not None:
                self.invariants.check_log(number, log, self.broker.disk, "at the end")
