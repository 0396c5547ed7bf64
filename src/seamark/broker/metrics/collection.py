"""All families of the broker's metrics, read from its parts at the moment they are asked for."""

from __future__ import annotations

import resource
import sys
import time
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
from seamark.broker.metrics.rates import WINDOW_SECONDS, Rates
from seamark.broker.metrics.requests import BOUNDS, RequestCosts
from seamark.broker.net.connections import Connections
from seamark.broker.net.context import RequestContext
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.sharing.turns import Turns
from seamark.prometheus_text import Family


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
    info = Family("seamark_broker_info", "gauge", "The broker, as labels.")
    info.add(1, version=__version__, cluster_id=broker.cluster.cluster_id)
    yield info
    running = Family("seamark_node_up", "gauge", "Whether the node serves.")
    for node in broker.nodes:
        running.add(int(node.is_running), node=node.id)
    yield running
    cpu = Family("process_cpu_seconds_total", "counter", "Processor time of the process.")
    cpu.add(time.process_time())
    yield cpu
    memory = Family("process_max_resident_memory_bytes", "gauge", "The most memory that the process has held.")
    # In kilobytes, but in bytes on macOS.
    memory.add(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    yield memory


def _about_connections(broker: MeasuredBroker) -> Iterator[Family]:
    connections = Family("seamark_connections", "gauge", "Open connections.")
    refused = Family("seamark_connections_refused_total", "counter", "Connections closed because of a limit.")
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
        ("seamark_authentication_successes_total", counts.successes, "Logins that succeeded."),
        ("seamark_authentication_failures_total", counts.failures, "Logins that failed."),
        ("seamark_authorization_denials_total", counts.denials, "Questions for a right that were answered no."),
    ):
        family = Family(name, "counter", meaning)
        family.add(value)
        yield family


def _about_requests(nodes: list[NodeMetrics]) -> Iterator[Family]:
    count = Family("seamark_requests_total", "counter", "Requests answered.")
    seconds = Family("seamark_request_seconds", "histogram", "Time from a request's arrival to its answer.")
    received = Family("seamark_request_bytes_total", "counter", "Bytes of requests.")
    sent = Family("seamark_response_bytes_total", "counter", "Bytes of answers.")
    for each in nodes:
        for api, cost in sorted(each.costs.by_api.items()):
            count.add(cost.count, node=each.node.id, api=api)
            seconds.add_histogram(BOUNDS, cost.buckets, cost.seconds, node=each.node.id, api=api)
            received.add(cost.bytes_in, node=each.node.id, api=api)
            sent.add(cost.bytes_out, node=each.node.id, api=api)
    yield from (count, seconds, received, sent)


def _about_groups(nodes: list[NodeMetrics]) -> Iterator[Family]:
    coordinators = [(each, each.node.groups.coordinator) for each in nodes]
    gauges = [(each.node.id, coordinator.gauges()) for each, coordinator in coordinators]
    counters = [(each, coordinator.counters()) for each, coordinator in coordinators]
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
        for each, values in counters:
            counter.add(values.get(f"{stem}-count", 0), node=each.node.id)
            rate.add(round(each.rates.per_second(f"{stem}-count"), 6), node=each.node.id)
        yield counter
        yield rate


def _about_logs(broker: MeasuredBroker) -> Iterator[Family]:
    leading = Family("seamark_leader_partitions", "gauge", "Partitions that the node leads.")
    led = dict.fromkeys((node.id for node in broker.nodes), 0)
    size = Family("seamark_log_size_bytes", "gauge", "Bytes in the partition's log.")
    start = Family("seamark_log_start_offset", "gauge", "First readable offset.")
    end = Family("seamark_log_end_offset", "gauge", "Next offset to be written.")
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
