"""Members of a group that mean harm: the others say who does what, take nothing of it, and go on."""

import logging
import threading

import pytest

from seamark.client.admin.types import NewTopic
from seamark.client.config.config import ClientConfig
from seamark.client.errors import AssignmentUnusable
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember, LeaveGroupResponse
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.consumers import Consumers, poll_all
from tests.support.waiting import eventually

WAIT_S = 60.0


def assigned(topic, *partitions):
    return encode_assignment(
        Assignment(assigned_partitions=[TopicPartitions(topic=topic, partitions=list(partitions))])
    )


class RawMember:
    """A member made of requests."""

    def __init__(self, bootstrap, group, topics):
        self._network = NetworkClient(ClientConfig.from_options({"bootstrap.servers": bootstrap}))
        self._group, self._topics = group, topics
        self.member_id = ""

    def _send(self, request, response):
        sending = self._network.send_to_coordinator(
            self._group, request, response, deadline=Deadline(WAIT_S), timeout_ms=int(WAIT_S * 1000)
        )
        return IoThread.get().run(sending)

    def join(self):
        """Until the coordinator answers, which it does when every member has come; the first time tells the id."""
        subscription = encode_subscription(Subscription(topics=self._topics))
        is_first = not self.member_id
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        self.joined = self._send(request, JoinGroupResponse)
        self.member_id = self.joined.member_id
        if is_first:
            self.join()

    def sync(self, assignment=b""):
        """As the leader, with this for every member."""
        members = [each.member_id for each in self.joined.members]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=self.joined.protocol_name,
            assignments=[SyncGroupRequestAssignment(member_id=name, assignment=assignment) for name in members],
        )
        self._send(request, SyncGroupResponse)

    def is_rebalancing(self):
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self.joined.generation_id, member_id=self.member_id
        )
        return self._send(request, HeartbeatResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self):
        member = LeaveGroupRequestMember(member_id=self.member_id)
        self._send(LeaveGroupRequest(group_id=self._group, members=[member]), LeaveGroupResponse)
        IoThread.get().run(self._network.close())


class Leading:
    """Leads the group in a thread of its own, and gives every other member ``assignment``."""

    def __init__(self, leader, assignment):
        self._leader = leader
        self.assignment = assignment
        self._is_over = threading.Event()
        # First in the group, so that it leads.
        leader.join()
        leader.sync()
        self._thread = threading.Thread(target=self._lead, daemon=True)
        self._thread.start()

    def _lead(self):
        while not self._is_over.wait(0.05):
            if self._leader.is_rebalancing():
                self._leader.join()
                self._leader.sync(self.assignment)

    def end(self):
        self._is_over.set()
        self._thread.join(WAIT_S)
        self._leader.leave()


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
        assigned(topic, 0, -7): f"cannot be read (it contains the invalid partition -7 of topic '{topic}')",
    }
    lies = {
        assigned("strange", 0): "partitions of strange, to which this member is not subscribed",
        assigned(topic, *range(100_000)): "100,000 partitions of topics that have 1",
    }
    leader = RawMember(bootstrap, group, [topic])
    leading = Leading(leader, next(iter(nonsense)))
    who = f"the group's leader, member {leader.member_id!r}, "
    victim = consumers.add(group, [topic], partition_assignment_strategy="range")
    for assignment, reason in nonsense.items():
        leading.assignment = assignment
        error = raised_by(victim, reason)
        assert (error.group, error.leader) == (group, leader.member_id)
        assert f"group {group!r}: the assignment from {who}{reason}" in str(error)
        assert "stop that member (seamark groups describe shows where it runs), or use another group.id" in str(error)
    for assignment, what in lies.items():
        leading.assignment = assignment
        poll_past_errors(victim, lambda what=what: f"{who}assigned {what}" in caplog.text)
    leading.assignment = assigned(topic, 0, 0)
    poll_past_errors(victim, lambda: victim.assignment() == {TopicPartition(topic, 0)})
    assert {each.leader for each in caplog.records if getattr(each, "event", "") == "assignment_refused"} == {
        leader.member_id
    }
    leading.end()


def raised_by(consumer, reason):
    """The first error that has this reason; before it others may come, of what was assigned before."""
    errors = []
    poll_past_errors(consumer, lambda: any(reason in each.reason for each in errors), errors)
    return errors[-1]


def poll_past_errors(consumer, is_so, errors=None):
    def look():
        try:
            consumer.poll(0.1)
        except AssignmentUnusable as error:
            if errors is not None:
                errors.append(error)
        return is_so()

    eventually(look, "what the leader's assignment leads to")


def test_topics_that_only_another_member_names_are_no_error_of_the_leader(place, caplog):
    bootstrap, topic, group, consumers = place
    caplog.set_level(logging.WARNING, "seamark.client")
    leader = consumers.add(group, [topic], partition_assignment_strategy="range", max_poll_interval_ms=60_000)
    poll_all([leader], lambda: len(leader.assignment()) == 1)
    stranger = RawMember(bootstrap, group, ["not a name", ""])
    joining = threading.Thread(target=stranger.join, daemon=True)
    joining.start()
    # What poll raises fails the test.
    poll_all([leader], lambda: not joining.is_alive() and len(leader.assignment()) == 1)
    [line] = [each for each in caplog.records if getattr(each, "event", "") == "group_topics_refused"]
    assert line.topics == ("", "not a name")
    assert stranger.joined.leader == leader.group_metadata().member_id
    stranger.leave()


def test_a_member_whose_leader_does_not_assign_anything_can_leave_at_once(place, admin):
    bootstrap, topic, group, consumers = place
    leader = RawMember(bootstrap, group, [topic])
    leader.join()
    leader.sync()
    victim = consumers.add(group, [topic], partition_assignment_strategy="range")
    # Joins again when the other one has come, and never assigns.
    joining = threading.Thread(
        target=lambda: (eventually(leader.is_rebalancing, "the join"), leader.join()), daemon=True
    )
    joining.start()
    poll_all([victim], lambda: not joining.is_alive())
    assert len(leader.joined.members) == 2
    victim.poll(1.0)
    victim.close()
    members = [each.member_id for each in admin.describe_groups([group])[group].members]
    assert members == [leader.member_id], "LeaveGroup waited behind the SyncGroup that is not answered"
    leader.leave()
