"""A whole consumer core with virtual time and answers by script; what it wants from outside piles up in ``wanted``."""

from __future__ import annotations

import random

from seamark.assignors import MemberAssignment, load_assignors
from seamark.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from seamark.client.core.consumer_core import ConsumerCore
from seamark.client.core.effects import FindCoordinator, SendToCoordinator, SendToNode
from seamark.client.core.listener import NO_LISTENER, Listener
from seamark.client.core.membership.messages import assignment_bytes
from seamark.client.core.positions.reset import ResetPolicy
from seamark.client.core.settings import ConsumerSettings, MembershipSettings
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from seamark.wire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.membership_driver import in_newest_version, tps


def view_of(counts: dict[str, int], *, epoch: int = 0, leader: int = 1, version: int = 1, errors=None, internal=()):
    """A cluster of one broker, or of none for ``leader`` -1."""
    topics = {}
    for name, count in counts.items():
        partitions = {index: PartitionView(index, leader, epoch, (1,), (1,)) for index in range(count)}
        error = (errors or {}).get(name, ErrorCode.NONE)
        topics[name] = TopicView(name, bytes(16), name in internal, partitions, error)
    return ClusterView(version=version, brokers={1: Node(1, "h", 1)}, topics=topics)


class CoreDriver:
    def __init__(
        self,
        *,
        group="g",
        policy="earliest",
        strategy="range",
        auto_commit=False,
        interval_ms=5000,
        knows_coordinator=True,
        view=None,
        **membership,
    ):
        self.now_ms = 1000
        self.wall_ms = 1_700_000_000_000
        self.core = ConsumerCore(
            ConsumerSettings(
                membership=MembershipSettings(group_id=group, auto_commit=auto_commit, **membership),
                assignors=load_assignors(strategy),
                reset_policy=ResetPolicy.parse(policy),
                auto_commit_interval_ms=interval_ms,
            ),
            now_ms=self.now_ms,
            rng=random.Random(1),
            wall_ms=lambda: self.wall_ms,
        )
        self.knows_coordinator = knows_coordinator
        self.wanted = []
        self.requests = []
        self.fetching = {}
        self.heard = []
        self.core.metadata_changed(view or view_of({"t": 4}), self.now_ms)

    # -- carrying out

    def pump(self):
        while effects := self.core.take_outbox():
            for effect in effects:
                self.wanted.append(effect)
                match effect:
                    case SendToCoordinator() | SendToNode():
                        self.requests.append(effect._replace(request=in_newest_version(effect.request)))
                    case FindCoordinator() if self.knows_coordinator:
                        self.core.coordinator_found(self.now_ms)
                    case _ if type(effect).__name__ == "StartFetching":
                        self.fetching[effect.partition] = (effect.offset, effect.term)
                    case _ if type(effect).__name__ == "StopFetching":
                        for partition in effect.partitions:
                            self.fetching.pop(partition, None)

    def names(self):
        return [type(each.request).__name__.removesuffix("Request") for each in self.requests]

    def poll(self):
        """One poll that does not wait; raises what it raises."""
        while True:
            knew = self.core.membership.is_coordinator_known
            self.core.poll(self.now_ms)
            self.pump()
            if self.core.membership.is_coordinator_known and not knew:
                continue
            call = self.core.take_listener_call()
            if call is not None:
                self.heard.append((call.call.value, [str(each) for each in call.partitions]))
                self.core.listener_returned(None, self.now_ms)
                self.pump()
                continue
            error = self.core.take_error()
            if error is not None:
                raise error
            return

    def advance(self, milliseconds):
        end = self.now_ms + milliseconds
        while (at := self.core.next_tick_ms(self.now_ms)) is not None and at <= end:
            self.now_ms = max(at, self.now_ms)
            self.core.tick(self.now_ms)
            self.pump()
        self.now_ms = end

    # -- answering

    def take(self, kind):
        found = next(each for each in self.requests if isinstance(each.request, kind))
        self.requests.remove(found)
        return found

    def answer(self, kind, response):
        sent = self.take(kind)
        self.core.answered(sent.ticket, response, self.now_ms)
        self.pump()
        return sent.request

    def fail(self, kind, error):
        self.core.failed(self.take(kind).ticket, error, self.now_ms)
        self.pump()

    def join(self, topics=("t",), assigned="t-0 t-1", generation=1, listener: Listener = NO_LISTENER):
        if topics is not None:
            self.core.subscribe(topics, listener, self.now_ms)
        self.poll()
        self.answer(
            JoinGroupRequest,
            JoinGroupResponse(
                error_code=0, generation_id=generation, protocol_name="range", leader="o", member_id="me"
            ),
        )
        self.answer(
            SyncGroupRequest,
            SyncGroupResponse(error_code=0, assignment=assignment_bytes(MemberAssignment(tps(assigned)))),
        )
        self.poll()

    def assign(self, text="t-0"):
        self.core.assign(tps(text), self.now_ms)
        self.pump()

    def committed(self, offsets, code=ErrorCode.NONE, partition_code=ErrorCode.NONE):
        """Answer the OffsetFetch: offset, or (offset, epoch), or -1 per partition."""
        request = next(each for each in self.requests if isinstance(each.request, OffsetFetchRequest)).request
        topics = []
        for topic in request.groups[0].topics:
            partitions = []
            for index in topic.partition_indexes:
                value = offsets.get(str(TopicPartition(topic.name, index)), -1)
                offset, epoch = value if isinstance(value, tuple) else (value, -1)
                partitions.append(
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        metadata="",
                        error_code=partition_code,
                    )
                )
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        group = OffsetFetchResponseGroup(group_id="g", topics=topics if code is ErrorCode.NONE else [], error_code=code)
        return self.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))

    def listed(self, offset, code=ErrorCode.NONE, timestamp=-1):
        request = next(each for each in self.requests if isinstance(each.request, ListOffsetsRequest)).request
        topics = [
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsResponsePartition(
                        partition_index=each.partition_index, error_code=code, timestamp=timestamp, offset=offset
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return self.answer(ListOffsetsRequest, ListOffsetsResponse(topics=topics))

    def epoch_ended(self, epoch, end_offset, code=ErrorCode.NONE):
        request = next(each for each in self.requests if isinstance(each.request, OffsetForLeaderEpochRequest)).request
        topics = [
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic,
                partitions=[
                    OffsetForLeaderEpochResponsePartition(
                        partition=each.partition, error_code=code, leader_epoch=epoch, end_offset=end_offset
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return self.answer(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(topics=topics))

    def commit_answered(self, code=ErrorCode.NONE):
        request = next(each for each in self.requests if isinstance(each.request, OffsetCommitRequest)).request
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return self.answer(OffsetCommitRequest, OffsetCommitResponse(topics=topics))
