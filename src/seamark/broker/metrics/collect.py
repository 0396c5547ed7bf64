"""All families of the broker's metrics: what is counted with each answer, and what is read when they are asked for."""

from __future__ import annotations

import resource
import sys
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from seamark._version import __version__
from seamark.broker.clock import BrokerClock
from seamark.broker.cluster.cluster import Cluster
from seamark.broker.groups.runtime import GroupRuntime
from seamark.broker.metrics.names import (
    GROUP_COUNTERS,
    GROUP_GAUGES,
    group_counter_name,
    group_gauge_name,
    group_rate_name,
)
from seamark.broker.net.connections import Connections
from seamark.broker.net.context import RequestContext
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.sharing.turns import Turns
from seamark.prometheus_text import Family

# What rates are over.
WINDOW_SECONDS = 30.0
# Seconds; from a request that touches only memory to a rebalance that waits for its members.
BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Rates:
    """Rates of counters over the last half minute, for those who look without a time series of their own.

    Fed with the counters' values now and then; a counter that starts over counts from nothing.

    >>> rates = Rates()
    >>> rates.sample(0.0, {"commits": 100})
    >>> rates.sample(10.0, {"commits": 150})
    >>> rates.per_second("commits")
    5.0
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def sample(self, now: float, values: dict[str, int]) -> None:
        samples = self._samples
        if samples and any(value < samples[-1][1].get(name, 0) for name, value in values.items()):
            samples.clear()
        samples.append((now, dict(values)))
        # One sample at or beyond the window's start stays, so that the window is always covered.
        while len(samples) > 2 and samples[1][0] <= now - WINDOW_SECONDS:
            samples.popleft()

    def per_second(self, name: str) -> float:
        if len(self._samples) < 2:
            return 0.0
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return (after.get(name, 0) - before.get(name, 0)) / (ended - began) if ended > began else 0.0


class ApiCost:
    __slots__ = ("buckets", "bytes_in", "bytes_out", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def count(self) -> int:
        return sum(self.buckets)


class RequestCosts:
    """What a node's requests cost: how many of each API, how long they took, how many bytes went each way.

    Owned by the event loop's thread. ``answered`` is called for every answer, so it only adds to numbers.
    """

    def __init__(self, clock: BrokerClock) -> None:
        self._clock = clock
        self.by_api: dict[str, ApiCost] = {}

    def answered(self, context: RequestContext, size: int) -> None:
        name = context.endpoint.api.name
        cost = self.by_api.get(name)
        if cost is None:
            cost = self.by_api[name] = ApiCost()
        seconds = self._clock.monotonic() - context.started
        cost.buckets[bisect_left(BOUNDS, seconds)] += 1
        cost.seconds += seconds
        # Both with the four bytes of their length, as they went over the wire.
        cost.bytes_in += context.request_bytes + 4
        cost.bytes_out += size


class MeasuredNode(Protocol):
    """What is measured of a node."""

    on_answer: Callable[[RequestContext, int], None] | None

    @property
    def id(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def connections(self) -> Connections: ...

    @property
    def groups(self) -> GroupRuntime: ...


class MeasuredBroker(Protocol):
    """What is measured of a broker."""

    @property
    def nodes(self) -> Sequence[MeasuredNode]: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def security(self) -> Gatekeeper: ...

    @property
    def turns(self) -> Turns: ...


class NodeMetrics:
    """What is kept for one node between two looks at it."""

    def __init__(self, node: MeasuredNode) -> None:
        self.node = node
        self.costs = RequestCosts(node.clock)
        self.rates = Rates()

    def sample(self, now: float) -> None:
        self.rates.sample(now, self.node.groups.coordinator.counters())


def families(broker: MeasuredBroker, nodes: list[NodeMetrics]) -> Iterator[Family]:
    yield from _about_the_broker(broker)
    yield from _about_connections(broker)
    yield from _about_requests(nodes)
    yield from _about_groups(nodes)
    yield from _about_logs(broker)


def _about_the_broker(broker: MeasuredBroker) -> Iterator[Family]:
    info = Family("seamark_broker_info", "gauge", "Version and cluster id of the broker, as labels.")
    info.add(1, version=__version__, cluster_id=broker.cluster.cluster_id)
    yield info
    running = Family("seamark_node_up", "gauge", "1 if the node is running, 0 if it is stopped.")
    for node in broker.nodes:
        running.add(int(node.is_running), node=node.id)
    yield running
    cpu = Family("process_cpu_seconds_total", "counter", "CPU time of the process.")
    cpu.add(time.process_time())
    yield cpu
    memory = Family("process_max_resident_memory_bytes", "gauge", "Maximum resident memory of the process.")
    # In kilobytes, but in bytes on macOS.
    memory.add(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    yield memory


def _about_connections(broker: MeasuredBroker) -> Iterator[Family]:
    connections = Family("seamark_connections", "gauge", "Open connections.")
    refused = Family("seamark_connections_refused_total", "counter", "Connections closed because a limit was reached.")
    for node in broker.nodes:
        connections.add(len(node.connections), node=node.id)
        refused.add(node.connections.refused, node=node.id)
    yield connections
    yield refused
    rests = Family("seamark_rests_total", "counter", "Delays imposed on clients whose requests blocked others.")
    rests.add(broker.turns.rests)
    yield rests
    counts = broker.security.counts
    for name, value, meaning in (
        ("seamark_authentication_successes_total", counts.successes, "Successful authentications."),
        ("seamark_authentication_failures_total", counts.failures, "Failed authentications."),
        ("seamark_authorization_denials_total", counts.denials, "Authorization checks that were denied."),
    ):
        family = Family(name, "counter", meaning)
        family.add(value)
        yield family


def _about_requests(nodes: list[NodeMetrics]) -> Iterator[Family]:
    count = Family("seamark_requests_total", "counter", "Requests handled.")
    seconds = Family("seamark_request_seconds", "histogram", "Time from the arrival of a request to its response.")
    received = Family("seamark_request_bytes_total", "counter", "Bytes received in requests.")
    sent = Family("seamark_response_bytes_total", "counter", "Bytes sent in responses.")
    for metrics in nodes:
        for api, cost in sorted(metrics.costs.by_api.items()):
            count.add(cost.count, node=metrics.node.id, api=api)
            seconds.add_histogram(BOUNDS, cost.buckets, cost.seconds, node=metrics.node.id, api=api)
            received.add(cost.bytes_in, node=metrics.node.id, api=api)
            sent.add(cost.bytes_out, node=metrics.node.id, api=api)
    yield from (count, seconds, received, sent)


def _about_groups(nodes: list[NodeMetrics]) -> Iterator[Family]:
    coordinators = [(metrics, metrics.node.groups.coordinator) for metrics in nodes]
    gauges = [(metrics.node.id, coordinator.gauges()) for metrics, coordinator in coordinators]
    counters = [(metrics, coordinator.counters()) for metrics, coordinator in coordinators]
    for kafkas, meaning in GROUP_GAUGES.items():
        gauge = Family(group_gauge_name(kafkas), "gauge", meaning)
        for node_id, values in gauges:
            # A coordinator without a partition has no values yet.
            gauge.add(values.get(kafkas, 0), node=node_id)
        yield gauge
    for stem, meaning in GROUP_COUNTERS.items():
        counter = Family(group_counter_name(stem), "counter", meaning)
        what = f"{meaning.removesuffix('.')}, per second over the last {WINDOW_SECONDS:.0f} seconds."
        rate = Family(group_rate_name(stem), "gauge", what)
        for metrics, values in counters:
            counter.add(values.get(f"{stem}-count", 0), node=metrics.node.id)
            rate.add(round(metrics.rates.per_second(f"{stem}-count"), 6), node=metrics.node.id)
        yield counter
        yield rate


def _about_logs(broker: MeasuredBroker) -> Iterator[Family]:
    leading = Family("seamark_leader_partitions", "gauge", "Partitions that the node leads.")
    led = dict.fromkeys((node.id for node in broker.nodes), 0)
    size = Family("seamark_log_size_bytes", "gauge", "Bytes in the partition's log.")
    start = Family("seamark_log_start_offset", "gauge", "First readable offset.")
    end = Family("seamark_log_end_offset", "gauge", "Next offset to write.")
    segments = Family("seamark_log_segments", "gauge", "Segments of the partition's log.")
    for partition in broker.cluster.partitions():
        if partition.leader in led:
            led[partition.leader] += 1
        # Most partitions of __consumer_offsets have never been written to, and have no log.
        if partition.is_open:
            labels = {"topic": partition.topic.name, "partition": partition.index}
            size.add(partition.log.size, **labels)
            start.add(partition.log_start, **labels)
            end.add(partition.log_end, **labels)
            segments.add(len(partition.log.segments), **labels)
    for node_id, count in led.items():
        leading.add(count, node=node_id)
    yield from (leading, size, start, end, segments)
