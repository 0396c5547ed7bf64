"""What each node's requests cost: how many of each API, how long they took, how many bytes went each way.

``answered`` is called for every answer, so it only adds to numbers.
"""

from __future__ import annotations

from bisect import bisect_left

from seamark.broker.clock import BrokerClock
from seamark.broker.net.context import RequestContext

# Seconds; from a request that touches only memory to a rebalance that waits for its members.
BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


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
    """Of one node; owned by the event loop's thread."""

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
