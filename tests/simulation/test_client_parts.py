"""The parts of a lifetime of real clients, each by itself: what it refuses, keeps in order, or answers."""

import random

import pytest

from seamark.client.cluster_view import Node
from seamark.client.consumer.calls import OnIo, UserCode
from seamark.client.errors import ConnectionFailed, NoBrokerAvailable
from seamark.client.timing import ExponentialBackoff
from seamark.coordinator.commands import CommitOffsets, OffsetToCommit
from seamark.coordinator.replies import CommitReply
from seamark.simulation.members.caller import Caller, Nested, Work
from seamark.simulation.members.consumer_shell import Done, Waiting
from seamark.simulation.world.deliveries import Belief, Deliveries, ListenerOrder, Promise
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.node_links import Exchange, Links
from seamark.simulation.world.process_clock import ProcessClock
from seamark.simulation.world.topic_logs import TopicLogs
from seamark.simulation.world.violations import InvariantViolated
from seamark.simulation.world.wire_network import WireNetwork
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

T0 = TopicPartition("t", 0)


def deliveries(promise=Promise.AT_LEAST_ONCE):
    made = Deliveries()
    made.add_group("g", promise)
    return made


def commit(offset, code=ErrorCode.NONE):
    return CommitOffsets("g", [("t", [OffsetToCommit(0, offset)])], 1, "m"), CommitReply([("t", [(0, code)])])


# covers: I2
def test_a_record_that_is_passed_over_breaks_at_least_once():
    made = deliveries()
    made.note_processed("g", "m", T0, 0)
    made.note_processed("g", "m", T0, 0)
    assert (made.processed, made.repeated) == (2, 1)
    with pytest.raises(InvariantViolated, match="no record is passed over"):
        made.note_processed("g", "m", T0, 2)


def test_an_offset_ahead_of_the_work_breaks_at_least_once():
    made = deliveries()
    made.note_processed("g", "m", T0, 0)
    made.check_attempt(commit(1)[0])
    with pytest.raises(InvariantViolated, match="what is committed was processed"):
        made.check_attempt(commit(2)[0])


# covers: I3
def test_a_record_before_its_commit_or_twice_breaks_at_most_once():
    made = deliveries(Promise.AT_MOST_ONCE)
    with pytest.raises(InvariantViolated, match="once its offset is committed"):
        made.note_processed("g", "m", T0, 0)
    made.check_acknowledged(*commit(1))
    made.note_processed("g", "m", T0, 0)
    with pytest.raises(InvariantViolated, match="processed twice"):
        made.note_processed("g", "m", T0, 0)


def test_committed_offsets_do_not_go_back_unless_a_copy_was_sent():
    made = deliveries()
    made.check_acknowledged(*commit(5))
    made.check_acknowledged(*commit(3, ErrorCode.ILLEGAL_GENERATION))
    with pytest.raises(InvariantViolated, match="never goes back"):
        made.check_acknowledged(*commit(4))
    made.is_exact = False
    made.check_acknowledged(*commit(4))
    assert made.of("g", T0).acknowledged == 4


def test_an_application_is_told_of_no_commit_that_nobody_acknowledged():
    made = deliveries()
    made.check_acknowledged(*commit(5))
    made.check_told("g", "m", {T0: 5})
    with pytest.raises(InvariantViolated, match="is stored"):
        made.check_told("g", "m", {T0: 6})


@pytest.mark.parametrize("offset", [4, 8])
def test_an_owner_starts_at_the_committed_offset(offset):
    made = deliveries()
    made.note_processed("g", "m", T0, 0)
    made.of("g", T0).done_until = 7
    made.check_attempt(commit(7)[0])
    made.check_acknowledged(*commit(5))
    for fine in (5, 7):
        made.check_start("g", "m", T0, fine, 100)
    with pytest.raises(InvariantViolated, match="where the group has committed"):
        made.check_start("g", "m", T0, offset, 100)


def test_a_partition_has_one_owner_in_a_generation():
    made = deliveries()
    made.check_belief("g", Belief("a", "a", 3, (T0,)), "a")
    made.check_belief("g", Belief("b", "b", 4, (T0,)), "b")
    made.check_belief("g", Belief("a2", "a", 3, (T0,)), "a2")
    made.check_belief("g", None, "b")
    with pytest.raises(InvariantViolated, match="one owner per partition"):
        made.check_belief("g", Belief("b", "b", 3, (T0,)), "b")


def test_what_is_undone_is_named():
    made = deliveries()
    made.note_processed("g", "m", T0, 0)
    ends = {T0: 1, TopicPartition("t", 1): 0}
    assert made.unprocessed("g", ends) == []
    assert made.uncommitted("g", ends) == [T0]
    made.check_acknowledged(*commit(1))
    assert made.uncommitted("g", ends) == []
    assert made.unprocessed("g", {T0: 2}) == [T0]


# covers: I15, C30
def test_a_listener_hears_of_everything_once_and_in_order():
    order = ListenerOrder("m")
    order.assigned([T0])
    order.given(T0, 4)
    order.given(T0, 5)
    for wrong in (
        lambda: order.given(T0, 7),
        lambda: order.assigned([T0]),
        lambda: order.gone([TopicPartition("t", 1)]),
        lambda: order.given(TopicPartition("t", 1), 0),
        lambda: order.commit_reported(2),
    ):
        with pytest.raises(InvariantViolated):
            wrong()
    order.gone([T0])
    order.assigned([T0])
    order.given(T0, 2)
    first, second = order.commit_started(), order.commit_started()
    order.commit_reported(first)
    order.commit_reported(second)


# -- processes


def test_what_reaches_a_paused_process_is_done_in_order_when_it_goes_on():
    loop = EventLoop()
    clock = ProcessClock(loop)
    seen = []
    clock.pause(100)
    clock.run(seen.append, "first")
    clock.call_later(50, seen.append, "second")
    loop.run_until(99)
    assert seen == []
    loop.run_until(100)
    assert seen == ["first", "second"]
    clock.end()
    clock.run(seen.append, "never")
    loop.run_until(200)
    assert seen == ["first", "second"]


def test_a_caller_runs_work_user_code_and_waits():
    loop = EventLoop()
    clock = ProcessClock(loop)
    ended, told = [], []

    async def wait():
        await Waiting(30)
        return "woken"

    def nested():
        yield Work(5)
        told.append("nested")

    def program():
        told.append((yield OnIo(wait())))
        yield UserCode(lambda: Nested(nested()))
        try:
            yield UserCode(lambda: 1 / 0)
        except ZeroDivisionError:
            told.append("caught")
        yield OnIo(Done())

    caller = Caller(clock, ended.append)
    caller.begin(program())
    loop.run_until(29)
    assert told == []
    loop.run_until(100)
    assert told == ["woken", "nested", "caught"]
    assert ended == [None]


def test_a_caller_looks_again_when_something_changes_and_ends_without_another_word():
    loop = EventLoop()
    caller = Caller(ProcessClock(loop), lambda error: None)
    rounds = []

    async def wait():
        while True:
            rounds.append(loop.now_ms)
            await Waiting(None)

    def program():
        try:
            yield OnIo(wait())
        finally:
            yield OnIo(wait())

    caller.begin(program())
    loop.call_later(10, caller.look_again)
    loop.run_until(20)
    assert rounds == [0, 10]
    caller.end()
    caller.look_again()
    loop.run_until(40)
    assert rounds == [0, 10]


# -- the network


class Front:
    """Answers ApiVersions and heartbeats."""

    def __init__(self):
        self.loop = EventLoop()
        self.network = WireNetwork(self.loop, random.Random(1), [], self.receive)
        self.network.is_broker_up = True
        self.is_mute = False
        self.clock = ProcessClock(self.loop)
        nodes = [Node(number, f"node-{number}", 9092) for number in range(2)]
        self.lost = 0
        self.links = Links("m", nodes, self.clock, self.network, ExponentialBackoff(50, 1000, jitter=0), self.on_lost)
        self.nodes = nodes
        self.answers, self.failures = [], []

    def on_lost(self):
        self.lost += 1

    def receive(self, request):
        request.version = int.from_bytes(request.frame[2:4], "big")
        if int.from_bytes(request.frame[:2], "big") == 18:
            entry = ApiVersionsResponseApi(api_key=12, min_version=0, max_version=4)
            self.network.answer_with(request, ApiVersionsResponse(api_keys=[entry]))
        elif not self.is_mute:
            self.network.answer_with(request, HeartbeatResponse(error_code=27))

    def exchange(self, timeout_ms=1000):
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        return Exchange(request, HeartbeatResponse, timeout_ms, self.answers.append, self.failures.append)


# covers: B9, B10
def test_a_link_negotiates_and_carries_frames_both_ways():
    front = Front()
    front.network.start_node(0)
    front.links.link(front.nodes[0]).send(front.exchange())
    front.loop.run_until(500)
    assert [answer.error_code for answer in front.answers] == [27]
    assert front.network.delivered == 4


# covers: B21
def test_a_node_that_is_down_refuses_and_is_tried_again_after_the_backoff():
    front = Front()
    link = front.links.link(front.nodes[0])
    link.send(front.exchange())
    front.loop.run_until(10)
    assert isinstance(front.failures[0], ConnectionFailed)
    assert link.is_backing_off
    front.network.start_node(0)
    link.send(front.exchange())
    front.loop.run_until(49)
    assert front.answers == []
    front.loop.run_until(300)
    assert len(front.answers) == 1


def test_a_request_that_is_not_answered_in_time_ends_its_connection():
    front = Front()
    front.network.start_node(0)
    front.is_mute = True
    link = front.links.link(front.nodes[0])
    link.send(front.exchange(timeout_ms=200))
    link.send(front.exchange(timeout_ms=900))
    front.loop.run_until(400)
    assert len(front.failures) == 2
    assert front.lost == 1
    assert not link.is_ready


def test_any_node_will_do_until_the_time_is_over():
    front = Front()
    front.network.start_node(1)
    front.links.send_to_any(front.exchange())
    front.loop.run_until(900)
    assert len(front.answers) == 1
    front.network.stop_node(1)
    front.links.send_to_any(front.exchange(timeout_ms=600))
    front.loop.run_until(6000)
    assert isinstance(front.failures[0], NoBrokerAvailable)


def test_a_node_that_stops_takes_its_connections_with_it():
    front = Front()
    front.network.start_node(0)
    link = front.links.link(front.nodes[0])
    link.send(front.exchange())
    front.loop.run_until(200)
    connection = link.connection
    assert front.network.flows(connection)
    front.network.stop_node(0)
    assert not front.network.flows(connection)
    front.network.start_node(0)
    assert not front.network.is_served(connection)


# -- the logs


def test_a_partition_knows_the_epochs_of_its_records():
    logs = TopicLogs({"t": 2}, 3)
    records = logs.partitions[T0]
    records.append(3)
    records.lead(2)
    records.append(2)
    assert [records.epoch_of(offset) for offset in range(5)] == [0, 0, 0, 1, 1]
    assert records.end_of(0) == (0, 3)
    assert records.end_of(1) == (1, 5)
    assert records.end_of(7) == (1, 5)


def test_new_partitions_and_leaders_are_on_nodes_that_are_there():
    logs = TopicLogs({"t": 2}, 3)
    logs.expand("t", {0})
    assert logs.counts == {"t": 3}
    assert logs.partitions[TopicPartition("t", 2)].leader == 0
    logs.move_leaders(0, [1, 2])
    assert {records.leader for records in logs.partitions.values()} <= {1, 2}
