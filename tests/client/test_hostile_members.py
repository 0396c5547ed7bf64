"""Members of a group that mean harm: the others say who does what, take nothing of it, and go on."""

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

    def leave(self):
        member = LeaveGroupRequestMember(member_id=self.member_id)
        self._send(LeaveGroupRequest(group_id=self._group, members=[member]), LeaveGroupResponse)
        IoThread.get().run(self._network.close())


def lead(leader, assignments):
    """Give the other members one after the other of these, in a rebalance each."""
    left = list(assignments)
    while left:
        leader.join()
        leader.sync(b"" if len(leader.joined.members) < 2 else left.pop(0))


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
    leader = RawMember(bootstrap, group, [topic])
    # First in the group, so that it leads.
    leader.join()
    leader.sync()
    assignments = [*nonsense, assigned("strange", 0), assigned(topic, *range(100_000)), assigned(topic, 0, 0)]
    leading = threading.Thread(target=lead, args=(leader, assignments), daemon=True)
    leading.start()
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
    refused = [each for each in caplog.records if getattr(each, "event", "") == "assignment_refused"]
    what = ["partitions of strange, which is not", "100,000 partitions of topics that have 1"]
    for line, assigned_what in zip(refused, what, strict=True):
        assert line.leader == leader.member_id
        assert f"the group's leader, member {leader.member_id!r}, assigned {assigned_what}" in line.getMessage()
    leading.join(WAIT_S)
    leader.leave()


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
