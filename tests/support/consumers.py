"""Consumers in tests: made with short times, closed at the end, and polled together until something is true."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from seamark.client.config.config import ClientConfig
from seamark.client.consumer.consumer import Consumer
from seamark.client.errors import CommitFailed, RebalanceInProgress, RetriableCommitFailed
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember, LeaveGroupResponse

# Kafka's smallest session; heartbeats often enough that a rebalance is noticed soon.
QUICK = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
    "auto.offset.reset": "earliest",
    "default.api.timeout.ms": 20_000,
    "metadata.max.age.ms": 1000,
}


class Consumers:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.made: list[Consumer] = []

    def add(self, group: str | None, topics: object = None, *, listener: dict | None = None, **keywords) -> Consumer:
        config = {**QUICK, "bootstrap.servers": self.bootstrap}
        if group is not None:
            config["group.id"] = group
        config |= {name.replace("_", "."): value for name, value in keywords.items()}
        consumer = Consumer(config)
        self.made.append(consumer)
        if topics is not None:
            consumer.subscribe(topics, **(listener or {}))
        return consumer

    def close(self) -> None:
        for consumer in self.made:
            consumer.close(timeout=5.0)


def remove_member(bootstrap: str, group: str, member_id: str) -> None:
    """Have the coordinator drop a member behind its back."""
    request = LeaveGroupRequest(group_id=group, members=[LeaveGroupRequestMember(member_id=member_id)])

    async def send() -> None:
        network = NetworkClient(ClientConfig.from_options({"bootstrap.servers": bootstrap}))
        try:
            answer = await network.send_to_coordinator(group, request, LeaveGroupResponse, deadline=Deadline(10))
        finally:
            await network.close()
        assert [answer.error_code, answer.members[0].error_code] == [0, 0]

    IoThread.get().run(send())


def poll_all(
    consumers: Sequence[Consumer], until: Callable[[], bool], timeout: float = 30.0, collect: list | None = None
) -> None:
    """Poll everyone in turn until ``until`` holds."""
    end = time.monotonic() + timeout
    while not until():
        assert time.monotonic() < end, f"not within {timeout} s: {[sorted(c.assignment()) for c in consumers]}"
        for consumer in consumers:
            records = consumer.poll(0.05)
            if collect is not None:
                collect.extend(records)


def commit_at_rest(consumers: Sequence[Consumer], timeout: float = 30.0) -> None:
    """Have everyone commit what it has consumed.

    A group may rebalance once more after its members have their shares; a commit meanwhile is refused, as Kafka's own
    client refuses it, and who polls can commit again. Only records that were seen before may arrive in those polls.
    """
    end = time.monotonic() + timeout
    waiting = list(consumers)
    while waiting:
        assert time.monotonic() < end, f"no commit within {timeout} s"
        for consumer in list(waiting):
            try:
                consumer.commit()
            except (CommitFailed, RebalanceInProgress, RetriableCommitFailed):
                for each in consumers:
                    each.poll(0.05)
            else:
                waiting.remove(consumer)


def owners(consumers: Sequence[Consumer]) -> dict[TopicPartition, int]:
    """Each assigned partition with the number of its owner; fails for one with two."""
    found: dict[TopicPartition, int] = {}
    for number, consumer in enumerate(consumers):
        for partition in consumer.assignment():
            assert partition not in found, f"{partition} is owned twice"
            found[partition] = number
    return found


def shares(consumers: Sequence[Consumer], count: int) -> Callable[[], bool]:
    """Is every one of ``count`` partitions owned, and does everyone own its share?"""
    least = count // len(consumers)

    def is_shared() -> bool:
        sizes = [len(consumer.assignment()) for consumer in consumers]
        return sum(sizes) == count and min(sizes) >= least

    return is_shared
