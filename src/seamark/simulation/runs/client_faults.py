"""What goes wrong around real clients, beside all that does at a broker: nodes, coordinators, user code.

A node that goes is replaced by the others in what it leads and coordinates. After ``hush`` nobody comes back any more,
so that what is calm can be seen to stay so.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from seamark.simulation.broker.broker import SimulatedBroker
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.members.clients import Member
from seamark.simulation.members.consumer_member import ConsumerMember
from seamark.simulation.runs.faults import Faults
from seamark.simulation.world.deliveries import Deliveries
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.topic_logs import TopicLogs
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.wire_network import WireNetwork

_MOST_PARTITIONS = 5


class ClientFaults(Faults):
    def __init__(
        self,
        loop: EventLoop,
        rng: random.Random,
        events: list[Event],
        broker: SimulatedBroker,
        invariants: Invariants,
        members: Sequence[ConsumerMember],
        network: WireNetwork,
        logs: TopicLogs,
        homes: list[int],
        deliveries: Deliveries,
    ) -> None:
        super().__init__(loop, rng, events, broker, invariants, members, _no_zombies)
        self._consumers = members
        self._wire = network
        self._logs = logs
        self._homes = homes
        self._deliveries = deliveries
        self._is_hushed = False

    def hush(self) -> None:
        """From now on nobody comes back any more either."""
        self._is_hushed = True

    def _start(self, member: Member) -> None:
        if not self._is_hushed:
            super()._start(member)

    def end_all(self) -> None:
        super().end_all()
        self._broker.load_ms = 400
        for member in self._consumers:
            member.slow_down(0)
        for node in self._wire.lives:
            if node not in self._wire.up:
                self._start_node(node)

    # -- nodes and coordinators

    def _node_crash(self) -> None:
        """A node goes; the others take over what it led and coordinated. It comes back later."""
        up = sorted(self._wire.up)
        if len(up) < 2 or not self._broker.is_up:
            return
        node = up.pop(int(self._rng.random() * len(up)))
        self._direct += 1
        self._events.append((self._loop.now_ms, "node down", node))
        self._wire.stop_node(node)
        self._logs.move_leaders(node, up)
        for number, home in enumerate(self._homes):
            if home == node:
                self._move(number, up[int(self._rng.random() * len(up))])
        self._loop.call_later(500 + int(self._rng.random() * 6000), self._start_node, node)

    def _start_node(self, node: int) -> None:
        if node not in self._wire.up:
            self._events.append((self._loop.now_ms, "node up", node))
            self._wire.start_node(node)

    def _coordinator_move(self) -> None:
        up = sorted(self._wire.up)
        number = int(self._rng.random() * len(self._homes))
        others = [node for node in up if node != self._homes[number]]
        if others:
            self._direct += 1
            self._move(number, others[int(self._rng.random() * len(others))])

    def _move(self, number: int, node: int) -> None:
        self._events.append((self._loop.now_ms, "moves", f"partition {number} to node {node}"))
        self._broker.unload(number, int(self._rng.random() ** 2 * 3000))
        self._homes[number] = node

    def _loading(self) -> None:
        """Loading takes long."""
        self._broker.load_ms = 3000
        self._unload()
        self._loop.call_later(4000, self._load_fast)

    def _load_fast(self) -> None:
        self._broker.load_ms = 400

    # -- connections

    @property
    def injected(self) -> int:
        return super().injected + min(self._wire.torn, 1) + min(self._wire.refused, 1)

    def _torn_frames(self) -> None:
        """Streams end or hesitate in the middle of an answer, or end in front of it."""
        self._wire.tear_chance = 0.02 + self._rng.random() * 0.15
        self._for_a_while(self._calm_network)

    def _refused_connections(self) -> None:
        """Nodes refuse connections or take long to accept one; some connections are lost, and somebody starts anew."""
        self._wire.refuse_chance = 0.2 + self._rng.random() * 0.5
        for member in self._consumers:
            member.disconnect()
        newcomer = self._consumers[int(self._rng.random() * len(self._consumers))]
        newcomer.crash()
        self._loop.call_later(int(self._rng.random() * 300), self._start, newcomer)
        self._for_a_while(self._calm_network)

    def _calm_network(self) -> None:
        super()._calm_network()
        self._wire.tear_chance = self._wire.refuse_chance = 0.0

    # -- clients

    def _duplicate(self) -> None:
        self._deliveries.is_exact = False
        super()._duplicate()

    def _slow_processing(self) -> None:
        """User code keeps its consumer waiting for about as long as it may stay away, or longer."""
        member = self._any_member()
        if isinstance(member, ConsumerMember):
            limit_ms = member.settings.membership.max_poll_interval_ms
            duration_ms = int(limit_ms * (0.5 + self._rng.random()))
            if member.slow_down(duration_ms):
                self._direct += 1
                self._events.append((self._loop.now_ms, "slow", member.name, duration_ms))

    def _expansion(self) -> None:
        self.expand()

    def expand(self) -> bool:
        """Give a topic one more partition, whatever the time; False if all have enough."""
        topics = sorted(topic for topic, count in self._logs.counts.items() if count < _MOST_PARTITIONS)
        if topics:
            topic = topics[int(self._rng.random() * len(topics))]
            self._direct += 1
            self._logs.expand(topic, self._wire.up)
            self._events.append((self._loop.now_ms, "expands", topic, self._logs.counts[topic]))
        return bool(topics)


def _no_zombies(member: object) -> None:
    raise AssertionError(f"{member} is the real client: it has no impostors here")
