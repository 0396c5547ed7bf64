"""A shell around one membership for tests: virtual time, a coordinator that answers by script, a listener that notes.

``story`` is everything the member did, in order, as short words: ``join``, ``sync``, ``commit``, ``hold{t-0}``,
``revoked{t-0}``, ``assigned{}``, ``own{t-0}``, ``leave``. What the member waits for is answered by the test.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from seamark.assignors import ClusterTopics, MemberAssignment, load_assignors
from seamark.client.core.effects import (
    CallListener,
    CommitBeforeJoin,
    Effect,
    FindCoordinator,
    ForgetCoordinator,
    HoldBack,
    LogLine,
    Own,
    Raise,
    RefreshMetadata,
    Release,
    SendToCoordinator,
    Tickets,
)
from seamark.client.core.membership.membership import Membership
from seamark.client.core.membership.messages import assignment_bytes
from seamark.client.core.metrics import ConsumerMetrics
from seamark.client.core.settings import MembershipSettings
from seamark.client.requests import Request, VersionedRequest
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import Subscription, encode_subscription
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from seamark.wire.schema.schema import Message

NAMES = {JoinGroupRequest: "join", SyncGroupRequest: "sync", HeartbeatRequest: "heartbeat", LeaveGroupRequest: "leave"}


def tp(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def tps(text: str) -> tuple[TopicPartition, ...]:
    return tuple(tp(word) for word in text.split())


def braces(partitions: Iterable[TopicPartition]) -> str:
    return "{" + ",".join(map(str, partitions)) + "}"


def in_newest_version(request: Request) -> Message:
    return request.make(request.request.versions.last) if isinstance(request, VersionedRequest) else request


class MemberDriver:
    def __init__(
        self,
        topics: Iterable[str] = ("t",),
        *,
        strategy: object = "range",
        cluster: Mapping[str, int] | None = None,
        has_pattern: bool = False,
        auto_commit: bool = False,
        seed: int = 1,
        **settings: object,
    ) -> None:
        self.now_ms = 1000
        self.metrics = ConsumerMetrics(self.now_ms)
        self.membership = Membership(
            MembershipSettings(group_id="g", auto_commit=auto_commit, **settings),
            load_assignors(strategy) if strategy else (),
            tickets=Tickets(),
            metrics=self.metrics,
            rng=random.Random(seed),
        )
        self.cluster = ClusterTopics(dict(cluster if cluster is not None else {"t": 4, "u": 2}))
        self.covered = frozenset(self.cluster.partition_counts)
        self.knows_coordinator = True
        self.answers_metadata = True
        self.finishes_commits = True
        self.answers_heartbeats = False
        self.story: list[str] = []
        self.log: list[LogLine] = []
        self.errors: list[BaseException] = []
        self.outbox: list[SendToCoordinator] = []
        self.metadata_requests: list[frozenset[str] | None] = []
        self.listener_raises: dict[str, list[BaseException]] = {}
        self.holds_listener = False
        self.held_call: CallListener | None = None
        self.membership.subscribe(topics, has_pattern=has_pattern)

    # -- carrying out

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendToCoordinator():
                effect = effect._replace(request=in_newest_version(effect.request))
                self.outbox.append(effect)
                name = NAMES[type(effect.request)]
                if name != "heartbeat":
                    self.story.append(name)
                elif self.answers_heartbeats:
                    self.answer_heartbeat()
            case FindCoordinator():
                if self.knows_coordinator:
                    self.carry_out(self.membership.coordinator_found(self.now_ms))
            case ForgetCoordinator():
                self.story.append("forget")
            case RefreshMetadata(topics):
                self.metadata_requests.append(topics)
                if self.answers_metadata:
                    self.give_metadata(topics)
            case CommitBeforeJoin():
                self.story.append("commit")
                if self.finishes_commits:
                    self.carry_out(self.membership.commit_before_join_finished(self.now_ms))
            case HoldBack(partitions):
                self.story.append("hold" + braces(partitions))
            case Own(partitions):
                self.story.append("own" + braces(partitions))
            case Release(partitions):
                self.story.append("release" + braces(partitions))
            case CallListener(call, partitions):
                self.story.append(call.name.lower() + braces(partitions))
                if self.holds_listener:
                    self.held_call = effect
                else:
                    raised = self.listener_raises.get(call.name.lower()) or [None]
                    self.carry_out(self.membership.listener_returned(raised.pop(0), self.now_ms))
            case Raise(error):
                self.errors.append(error)
            case LogLine():
                self.log.append(effect)
            case _:
                raise AssertionError(effect)

    def give_metadata(self, topics: frozenset[str] | None = None) -> None:
        self.covered = self.covered | (topics or frozenset())
        self.carry_out(self.membership.metadata_changed(self.cluster, self.covered, self.now_ms))

    # -- the caller

    def poll(self) -> None:
        """Poll for as long as something happens without an answer from outside; raise what poll raises."""
        while True:
            effects = self.membership.poll(self.now_ms)
            self.carry_out(effects)
            if self.errors:
                raise self.errors.pop(0)
            if not any(not isinstance(effect, LogLine | SendToCoordinator) for effect in effects):
                return
            if not self.knows_coordinator or (not self.answers_metadata and self.metadata_requests):
                return

    def return_from_listener(self, error: BaseException | None = None) -> None:
        self.held_call = None
        self.carry_out(self.membership.listener_returned(error, self.now_ms))

    def advance(self, milliseconds: int) -> None:
        """Let time pass; ticks come when they are due, as on the I/O thread."""
        end = self.now_ms + milliseconds
        while (due := self.membership.next_tick_ms) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.carry_out(self.membership.tick(self.now_ms))
        self.now_ms = end

    # -- the coordinator

    def sent(self, kind: type) -> list:
        return [each.request for each in self.outbox if isinstance(each.request, kind)]

    def take(self, kind: type) -> SendToCoordinator:
        found = next(each for each in self.outbox if isinstance(each.request, kind))
        self.outbox.remove(found)
        return found

    def answer_join(
        self,
        code: ErrorCode = ErrorCode.NONE,
        *,
        generation: int = 1,
        member_id: str = "me",
        leader: str = "other",
        protocol: str | None = None,
        members: Mapping[str, Subscription | bytes] | None = None,
        skip_assignment: bool = False,
        protocol_type: str | None = "consumer",
    ) -> JoinGroupRequest:
        sent = self.take(JoinGroupRequest)
        protocol = protocol if protocol is not None else sent.request.protocols[0].name
        response = JoinGroupResponse(
            error_code=code,
            generation_id=generation if code is ErrorCode.NONE else -1,
            protocol_type=protocol_type,
            protocol_name=protocol,
            leader=leader,
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=name, metadata=each if isinstance(each, bytes) else encode_subscription(each)
                )
                for name, each in (members or {}).items()
            ],
        )
        self.carry_out(self.membership.answered(sent.ticket, response, self.now_ms))
        return sent.request

    def answer_sync(self, assigned: str = "", code: ErrorCode = ErrorCode.NONE, **fields: object) -> SyncGroupRequest:
        sent = self.take(SyncGroupRequest)
        given: dict = {
            "error_code": code,
            "protocol_type": "consumer",
            "protocol_name": sent.request.protocol_name,
            "assignment": assignment_bytes(MemberAssignment(tps(assigned))),
        }
        self.carry_out(self.membership.answered(sent.ticket, SyncGroupResponse(**(given | fields)), self.now_ms))
        return sent.request

    def answer_heartbeat(self, code: ErrorCode = ErrorCode.NONE) -> HeartbeatRequest:
        sent = self.take(HeartbeatRequest)
        self.carry_out(self.membership.answered(sent.ticket, HeartbeatResponse(error_code=code), self.now_ms))
        return sent.request

    def answer_leave(self) -> LeaveGroupRequest:
        sent = self.take(LeaveGroupRequest)
        self.carry_out(self.membership.answered(sent.ticket, LeaveGroupResponse(), self.now_ms))
        return sent.request

    def fail(self, kind: type, error: Exception) -> None:
        self.carry_out(self.membership.failed(self.take(kind).ticket, error, self.now_ms))

    def settle(self, assigned: str = "t-0 t-1", *, generation: int = 1, **join: object) -> None:
        """Go through a whole rebalance as a follower."""
        self.poll()
        self.answer_join(generation=generation, **join)
        self.answer_sync(assigned)
        self.poll()

    def beat(self, code: ErrorCode) -> None:
        """Let the next heartbeat be sent and answered."""
        self.advance(self.membership.settings.heartbeat_interval_ms)
        self.answer_heartbeat(code)
