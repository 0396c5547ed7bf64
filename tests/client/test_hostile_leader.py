"""A group whose leader sends what is no assignment: the other members say who does what, take nothing, and recover."""

import logging
import threading

import pytest

from seamark.client.admin_types import NewTopic
from seamark.client.config import ClientConfig
from seamark.client.deadline import Deadline
from seamark.client.errors import AssignmentUnusable
from seamark.client.io_thread import IoThread
from seamark.client.network import NetworkClient
from seamark.topic_partition import TopicPartition
from seamark.wire.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from seamark.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from seamark.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember, LeaveGroupResponse
from seamark.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.consumers import Consumers, poll_all

WAIT_S = 60.0


def assigned(topic, *partitions):
    return encode_assignment(
        Assignment(assigned_partitions=[TopicPartitions(topic=topic, partitions=list(partitions))])
    )


class HostileLeader:
    """Joins first, so that it leads, and gives every other member the next of its assignments in each round."""

    def __init__(self, bootstrap, group, topic, assignments):
        self._network = NetworkClient(ClientConfig.from_options({"bootstrap.servers": bootstrap}))
        self._group, self._topic = group, topic
        self._left = list(assignments)
        self.member_id = ""
        self._join()
        self.member_id = self._answer.member_id
        self._join()
        self._sync()
        self._thread = threading.Thread(target=self._lead, daemon=True)
        self._thread.start()

    def _send(self, request, response):
        sending = self._network.send_to_coordinator(
            self._group, request, response, deadline=Deadline(WAIT_S), timeout_ms=int(WAIT_S * 1000)
        )
        return IoThread.get().run(sending)

    def _join(self):
        subscription = encode_subscription(Subscription(topics=[self._topic]))
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        self._answer = self._send(request, JoinGroupResponse)

    def _sync(self, assignment=b""):
        everybody = [each.member_id for each in self._answer.members]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._answer.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=self._answer.protocol_name,
            assignments=[SyncGroupRequestAssignment(member_id=name, assignment=assignment) for name in everybody],
        )
        self._send(request, SyncGroupResponse)

    def _lead(self):
        while self._left:
            # With its own subscription as the leader it starts a round; the answer comes when all have joined again.
            self._join()
            is_alone = len(self._answer.members) < 2
            self._sync(b"" if is_alone else self._left.pop(0))

    def leave(self):
        self._thread.join(WAIT_S)
        member = LeaveGroupRequestMember(member_id=self.member_id)
        self._send(LeaveGroupRequest(group_id=self._group, members=[member]), LeaveGroupResponse)
        IoThread.get().run(self._network.close())


@pytest.fixture
def place(kafka_like, admin, fresh_name):
    topic = fresh_name("topic")
    admin.create_topics([NewTopic(topic, 1, 1)]).raise_if_failed()
    consumers = Consumers(kafka_like.bootstrap)
    yield kafka_like.bootstrap, topic, fresh_name("group"), consumers
    consumers.close()


def test_a_leader_that_assigns_nonsense_is_named_and_its_members_recover(place, caplog):
    bootstrap, topic, group, consumers = place
    caplog.set_level(logging.WARNING, "seamark.client")
    nonsense = {
        b"\x00": "cannot be read",
        b"": "is empty",
        assigned(topic, 0, -7): f"cannot be read (it names partition -7 of topic '{topic}')",
    }
    leader = HostileLeader(bootstrap, group, topic, [*nonsense, assigned("strange", 0), assigned(topic, 0, 0)])
    victim = consumers.add(group, [topic], partition_assignment_strategy="range")
    errors = []
    while len(errors) < len(nonsense):
        try:
            victim.poll(WAIT_S)
        except AssignmentUnusable as error:
            errors.append(error)
    for error, reason in zip(errors, nonsense.values(), strict=True):
        assert (error.group, error.leader) == (group, leader.member_id)
        assert f"group {group!r}: the assignment from the group's leader, member {leader.member_id!r}, {reason}" in str(
            error
        )
        assert "stop that member (seamark groups describe shows where it runs), or use a group.id of your own" in str(
            error
        )
    poll_all([victim], lambda: victim.assignment() == {TopicPartition(topic, 0)})
    [line] = [each for each in caplog.records if getattr(each, "event", "") == "assignment_refused"]
    assert line.leader == leader.member_id
    assert f"the group's leader, member {leader.member_id!r}, assigned partitions of strange" in line.getMessage()
    leader.leave()
