"""Several memberships in one group with the real coordinator core between them: whole rebalances, no sockets.

Requests and answers are translated between the wire's messages and the coordinator's commands; ``requests`` and
``answers`` keep what went over the wire, member by member.
"""

from __future__ import annotations

import random

from seamark.client.core.effects import SendToCoordinator
from seamark.client.errors import ConnectionFailed
from seamark.coordinator import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, Settings, SyncGroup
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from seamark.wire.schema.schema import Message
from tests.support.coordinator_driver import Driver
from tests.support.membership_driver import MemberDriver

_LOST = ConnectionFailed("broker:9092", "connection reset")


def command_of(request: Message) -> object:
    match request:
        case JoinGroupRequest():
            return JoinGroup(
                group_id=request.group_id,
                member_id=request.member_id,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=[(each.name, each.metadata) for each in request.protocols],
                instance_id=request.group_instance_id,
                client_id="c",
                client_host="/127.0.0.1",
                reason=request.reason,
            )
        case SyncGroupRequest():
            return SyncGroup(
                group_id=request.group_id,
                member_id=request.member_id,
                generation=request.generation_id,
                assignments=[(each.member_id, each.assignment) for each in request.assignments],
                instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                protocol_required=True,
            )
        case HeartbeatRequest():
            return Heartbeat(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
        case LeaveGroupRequest():
            return LeaveGroup(
                request.group_id,
                [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members],
            )
    raise AssertionError(request)


def response_to(request: Message, reply: object) -> Message:
    match request:
        case JoinGroupRequest():
            return JoinGroupResponse(
                error_code=reply.error,
                generation_id=reply.generation,
                protocol_type=reply.protocol_type,
                protocol_name=reply.protocol_name,
                leader=reply.leader,
                skip_assignment=reply.skip_assignment,
                member_id=reply.member_id,
                members=[
                    JoinGroupResponseMember(
                        member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
                    )
                    for each in reply.members
                ],
            )
        case SyncGroupRequest():
            return SyncGroupResponse(
                error_code=reply.error,
                protocol_type=reply.protocol_type,
                protocol_name=reply.protocol_name,
                assignment=reply.assignment,
            )
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=reply.error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=reply.error)
    raise AssertionError(request)


class GroupOfMembers:
    """Members by name; ``run`` lets time pass in small steps, each member polling in each step."""

    def __init__(self, cluster: dict[str, int], *, initial_delay_ms: int = 0) -> None:
        self.cluster = dict(cluster)
        self.coordinator = Driver(Settings(initial_rebalance_delay_ms=initial_delay_ms))
        self.coordinator.topics = dict(cluster)
        self.members: dict[str, MemberDriver] = {}
        self.requests: list[tuple[str, Message]] = []
        self.answers: list[tuple[str, Message]] = []
        self._waiting: dict[object, tuple[str, SendToCoordinator]] = {}
        self.away: set[str] = set()
        # With a chance, a request is lost on its way, or its answer is: the member sees a broken connection.
        self.rng = random.Random(0)
        self.loss = 0.0

    def add(self, name: str, topics: tuple[str, ...] = ("t",), **settings: object) -> MemberDriver:
        given = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000, "max_poll_interval_ms": 20_000} | settings
        member = MemberDriver(topics, cluster=self.cluster, **given)
        member.now_ms = self.coordinator.now_ms
        self.members[name] = member
        return member

    def run(self, milliseconds: int, step_ms: int = 100) -> None:
        end = self.coordinator.now_ms + milliseconds
        while self.coordinator.now_ms < end:
            self.exchange()
            self.coordinator.advance(step_ms)
            for name in sorted(self.members):
                member = self.members[name]
                member.advance(self.coordinator.now_ms - member.now_ms)
                if name not in self.away:
                    member.poll()
        self.exchange()

    def exchange(self) -> None:
        """Carry requests and answers until nothing is left to carry, members polling in between."""
        is_busy = True
        while is_busy:
            is_busy = False
            for name in sorted(self.members):
                member = self.members[name]
                if name not in self.away:
                    member.poll()
                while member.outbox:
                    sent = member.outbox.pop(0)
                    is_busy = True
                    if self.rng.random() < self.loss:
                        member.carry_out(member.membership.failed(sent.ticket, _LOST, member.now_ms))
                        continue
                    self.requests.append((name, sent.request))
                    token = self.coordinator.send(command_of(sent.request))
                    self._waiting[token] = (name, sent)
            for token in [token for token in self._waiting if token in self.coordinator.replies]:
                name, sent = self._waiting.pop(token)
                response = response_to(sent.request, self.coordinator.replies[token])
                self.answers.append((name, response))
                member = self.members.get(name)
                if member is None:
                    continue
                if self.rng.random() < self.loss:
                    member.carry_out(member.membership.failed(sent.ticket, _LOST, member.now_ms))
                else:
                    member.carry_out(member.membership.answered(sent.ticket, response, member.now_ms))
                is_busy = True

    def owners(self) -> dict[TopicPartition, list[str]]:
        found: dict[TopicPartition, list[str]] = {}
        for name in sorted(self.members):
            for partition in self.members[name].membership.owned:
                found.setdefault(partition, []).append(name)
        return found

    def check_owned_once(self) -> None:
        owners = self.owners()
        wanted = {topic for member in self.members.values() for topic in member.membership._topics}
        everything = {TopicPartition(topic, index) for topic in wanted for index in range(self.cluster.get(topic, 0))}
        assert set(owners) == everything
        assert all(len(names) == 1 for names in owners.values()), owners
