"""Which lane a record belongs to: what must not overtake what.

Under Order.KEY a lane is a key within a partition, as Kafka promises order for nothing else. A record without a key
has no lane.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from seamark.parallel.settings import Order

# Stands for the partition itself.
WHOLE_PARTITION = ""


def lane_of(order: Order) -> Callable[[Any], Hashable]:
    """The function that gives a key's lane inside its partition; None is no lane."""
    if order is Order.KEY:
        return _lane_of_key
    if order is Order.PARTITION:
        return _whole_partition
    return _no_lane


def _lane_of_key(key: Any) -> Hashable:
    try:
        hash(key)
    except TypeError:
        # A deserializer may make lists and dicts; what prints the same is taken for the same key.
        return repr(key)
    lane: Hashable = key
    return lane


def _whole_partition(key: Any) -> Hashable:  # noqa: ARG001 - one signature for all orders
    return WHOLE_PARTITION


def _no_lane(key: Any) -> Hashable:  # noqa: ARG001 - one signature for all orders
    return None
