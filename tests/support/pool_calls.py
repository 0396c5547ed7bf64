"""Calls for a pool without a consumer around it, and what it reports of them."""

from __future__ import annotations

import time

from seamark.parallel.core.work import InFlightRecord, StartCall
from seamark.parallel.pools.pool import Mailbox
from seamark.topic_partition import TopicPartition

PLACE = TopicPartition("t", 0)


class Rec:
    """A record as the ports make it."""

    def __init__(
        self,
        topic="t",
        partition=0,
        offset=0,
        key=None,
        value=None,
        headers=(),
        timestamp_ms=0,
        timestamp_type=0,
        leader_epoch=-1,
    ):
        self.topic, self.partition, self.offset, self.key, self.value = topic, partition, offset, key, value
        self.headers, self.timestamp_ms, self.timestamp_type = headers, timestamp_ms, timestamp_type
        self.leader_epoch = leader_epoch


def calls_with(values, headers=()):
    """One call for each value; the offset is its place."""
    return [
        StartCall((InFlightRecord(PLACE, 1, offset, Rec(offset=offset, value=value, headers=headers)),))
        for offset, value in enumerate(values)
    ]


def calls_of(count):
    return calls_with([b"%d" % number for number in range(count)])


def drained(mailbox: Mailbox, count, seconds=20.0):
    """What was reported, once it is all there."""
    succeeded, failed = [], []
    end = time.monotonic() + seconds
    while len(succeeded) + len(failed) < count:
        assert time.monotonic() < end, f"{len(succeeded)} and {len(failed)} of {count}"
        mailbox.wait_here(0.05)
        succeeded += mailbox.take_succeeded()
        while mailbox.failed:
            failed.append(mailbox.failed.popleft())
        while mailbox.cancelled:
            failed.append(mailbox.cancelled.popleft()[:2])
    return succeeded, failed
