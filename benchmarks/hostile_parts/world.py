"""What the attacked broker holds, so that short requests can have long answers.

The state is made once through the public protocol and copied for every broker that is started on it: many topics, one
of them with many partitions, groups with offsets, one group with an offset for each partition there is, and one with
many members. A hostile client knows all these names; finding them out costs it three requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.hostile_parts.login import Address
from seamark.wire.protocol.consumer_protocol import Subscription, encode_subscription
from seamark.wire.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.broker_driver import Client, batch_of

WIDE = "wide"
PLAIN = "plain"
COMPACTED = "compacted"
# What the first partition of some topics holds.
FIRST_RECORDS = 100
BIG_GROUP = "group-with-all-offsets"
CROWDED_GROUP = "group-with-members"
# Topics that one CreateTopics request makes: few enough for any limit on what one request may change.
_TOPICS_PER_REQUEST = 100
_SESSION_MS = 1_800_000


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    topics: int
    wide_partitions: int
    groups: int
    members: int


FULL = Size(topics=500, wide_partitions=300, groups=1_000, members=1_000)
QUICK = Size(topics=100, wide_partitions=50, groups=100, members=100)
TINY = Size(topics=20, wide_partitions=10, groups=10, members=5)


@dataclass(frozen=True)
class World:
    """The names of what exists."""

    topics: tuple[str, ...]
    topic_ids: tuple[bytes, ...]
    groups: tuple[str, ...]
    members: tuple[str, ...]


def fill(address: Address, size: Size) -> World:
    """Make the state on a broker that is empty."""
    numbered = [f"topic-{number:05d}" for number in range(size.topics)]
    with address.connect(120) as client:
        _create(client, dict.fromkeys(numbered, 1))
        _create(client, {WIDE: size.wide_partitions, PLAIN: 100})
        # A segment holds no more than one large batch, so that what is behind it is soon cleaned.
        cleaned = {"cleanup.policy": "compact", "segment.bytes": "1100000", "min.cleanable.dirty.ratio": "0.01"}
        _create(client, {COMPACTED: 100}, cleaned)
        for topic in (PLAIN, *numbered[:20]):
            client.produce(topic, batch_of(*[b"x" * 100] * FIRST_RECORDS))
        _wait_for_a_coordinator(client)
        offsets = {WIDE: size.wide_partitions, **dict.fromkeys(numbered, 1)}
        _commit(client, BIG_GROUP, offsets)
        groups = [f"group-{number:05d}" for number in range(size.groups)]
        for group in groups:
            _commit(client, group, {WIDE: 4})
    # The broker's waiting for the rest of a new group ends when no more members come.
    members = tuple(_join(address, size.members))
    with address.connect(60) as client:
        ids = {each.name: each.topic_id for each in client.metadata().topics}
    topics = (WIDE, PLAIN, COMPACTED, *numbered)
    return World(
        topics=topics,
        topic_ids=tuple(ids[name] for name in topics),
        groups=(BIG_GROUP, CROWDED_GROUP, *groups),
        members=members,
    )


def _create(client: Client, topics: dict[str, int], configs: dict[str, str] | None = None) -> None:
    settings = [CreateTopicsRequestConfig(name=name, value=value) for name, value in (configs or {}).items()]
    wanted = [
        CreateTopicsRequestTopic(name=name, num_partitions=count, replication_factor=1, configs=settings)
        for name, count in topics.items()
    ]
    for first in range(0, len(wanted), _TOPICS_PER_REQUEST):
        answer = client.ask(CreateTopicsRequest(topics=wanted[first : first + _TOPICS_PER_REQUEST], timeout_ms=60_000))
        refused = [(each.name, each.error_code) for each in answer.topics if each.error_code]
        if refused:
            raise RuntimeError(f"topics were not made: {refused[:3]}")


def _wait_for_a_coordinator(client: Client) -> None:
    deadline = time.monotonic() + 30
    while client.ask(FindCoordinatorRequest(key="g"), 1).error_code:
        if time.monotonic() > deadline:
            raise RuntimeError("no coordinator was found")
        time.sleep(0.05)


def _commit(client: Client, group: str, partitions_of: dict[str, int]) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=each, committed_offset=7, committed_metadata="")
                for each in range(count)
            ],
        )
        for name, count in partitions_of.items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    deadline = time.monotonic() + 30
    while True:
        answer = client.ask(request, 8)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if codes == {0}:
            return
        if codes - {14, 15, 16} or time.monotonic() > deadline:
            raise RuntimeError(f"the commit of {group} was refused: {codes}")
        time.sleep(0.05)


def _join(address: Address, count: int) -> Iterator[str]:
    """Let so many members join one group, and lead it to its first assignment; their ids."""
    protocol = JoinGroupRequestProtocol(
        name="range", metadata=encode_subscription(Subscription(topics=["topic-00000"]))
    )
    request = JoinGroupRequest(
        group_id=CROWDED_GROUP, session_timeout_ms=_SESSION_MS, rebalance_timeout_ms=10_000, member_id="",
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip
    joining: list[Client] = []
    try:
        for _ in range(count):
            joining.append(address.connect(60))
            joining[-1].send(request, 3)
        joined: list[Any] = [each.receive(request, 3) for each in joining]
        if any(each.error_code for each in joined):
            raise RuntimeError(f"a member was refused: {[each.error_code for each in joined][:5]}")
        [leading] = [each for each in joined if each.leader == each.member_id]
        shares = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"") for each in joined]
        sync = SyncGroupRequest(
            group_id=CROWDED_GROUP, generation_id=leading.generation_id, member_id=leading.member_id, assignments=shares
        )
        joining[joined.index(leading)].ask(sync, 2)
        for each in joined:
            yield each.member_id
    finally:
        for connection in joining:
            connection.close()
