"""Records for the tests of lanes, retries and budgets."""

from types import SimpleNamespace

from seamark.parallel.core.work import InFlightRecord
from seamark.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("orders", 1)


def work(offset, lane=None, partition=ORDERS, term=1, **keywords):
    record = SimpleNamespace(offset=offset, key=lane, value=b"v", headers=(), timestamp_ms=7)
    # Equal, but not the same: each poll has its own.
    return InFlightRecord(TopicPartition(*partition), term, offset, record, lane=lane, **keywords)


def works(lanes, partition=ORDERS):
    """One record per letter, whose lane is the letter; a dot has no lane."""
    return [work(offset, None if lane == "." else lane, partition) for offset, lane in enumerate(lanes)]


def taken(lanes, count=100):
    """The offsets of single records that start now."""
    found = []
    while len(found) < count and (each := lanes.take()):
        found.append(each)
    return found


def offsets(works):
    return [each.offset for each in works]
