"""The parts of a lifetime of real clients, each by itself: what it refuses, keeps in order, or answers."""

import asyncio
import contextlib
import random

import pytest

from seamark.client.cluster_view import Node
from seamark.client.config.config import ClientConfig
from seamark.client.errors import ClientError, ConnectionFailed, RequestTimedOut
from seamark.client.net.client import NetworkClient
from seamark.client.timing import Deadline
from seamark.coordinator.commands import CommitOffsets, OffsetToCommit
from seamark.coordinator.replies import CommitReply
from seamark.errors import ClosedError
from seamark.simulation.members.consumer_process import VirtualSurroundings
from seamark.simulation.world.deliveries import Belief, Deliveries, ListenerOrder, Promise
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.memory_transport import opener
from seamark.simulation.world.topic_logs import TopicLogs
from seamark.simulation.world.violations import InvariantViolated
from seamark.simulation.world.virtual_loop import VirtualLoop
from seamark.simulation.world.wire_network import WireNetwork
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

T0 = TopicPartition("t", 0)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


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


def virtual():
    calls = EventLoop()
    return calls, VirtualLoop(calls)


def test_tasks_timers_and_timeouts_run_in_virtual_time():
    calls, loop = virtual()
    seen = []

    async def work():
        await asyncio.sleep(0.03)
        seen.append(loop.now_ms)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await loop.create_future()
        seen.append(loop.now_ms)
        assert asyncio.get_running_loop() is loop
        return "done"

    task = loop.create_task(work())
    calls.run_until(29)
    assert seen == []
    calls.run_until(200)
    assert seen == [30, 80]
    assert task.result() == "done"
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_callbacks_run_in_the_order_in_which_they_were_made_ready():
    calls, loop = virtual()
    seen = []
    loop.call_later(0.002, seen.append, "later")
    loop.call_soon(seen.append, "first")
    loop.call_soon(seen.append, "never").cancel()
    loop.call_soon(lambda: (loop.call_soon(seen.append, "third"), seen.append("second")))
    calls.run_until(10)
    assert seen == ["first", "second", "third", "later"]


def test_a_wait_that_is_shorter_than_a_millisecond_lets_time_go_on():
    calls, loop = virtual()
    seen = []
    loop.call_later(1e-9, lambda: seen.append(loop.now_ms))
    calls.run_until(10)
    assert seen == [1]


def test_what_reaches_a_paused_process_is_done_in_order_when_it_goes_on():
    calls, loop = virtual()
    seen = []
    loop.pause(100)
    loop.enter(seen.append, "first")
    loop.call_later(0.05, seen.append, "second")
    calls.run_until(99)
    assert seen == []
    calls.run_until(100)
    assert seen == ["first", "second"]
    loop.end()
    loop.enter(seen.append, "never")
    calls.run_until(200)
    assert seen == ["first", "second"]


def test_a_process_that_ends_takes_its_coroutines_with_it_wherever_they_stand():
    calls, loop = virtual()
    seen = []

    async def stubborn():
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("torn down")
            await asyncio.sleep(10)
            seen.append("never")

    loop.create_task(stubborn())
    calls.run_until(5)
    loop.end()
    calls.run_until(50_000)
    assert seen == ["torn down"]


def test_a_task_that_nobody_asks_for_its_error_ends_the_lifetime():
    calls, loop = virtual()

    async def fail():
        raise ValueError("nobody looks")

    loop.create_task(fail())
    # It is kept as long as a process has few tasks.
    for number in range(100):
        loop.call_later(number / 1000, lambda: loop.create_task(asyncio.sleep(0)))
    with pytest.raises(ValueError, match="nobody looks"):
        calls.run_until(200)


def test_what_a_process_has_left_can_be_seen():
    calls, loop = virtual()
    task = loop.create_task(asyncio.sleep(5))
    calls.run_until(5)
    assert loop.pending_tasks == [task]
    assert [timer.due_ms for timer in loop.armed_timers] == [5000]
    calls.run_until(6000)
    assert loop.pending_tasks == []
    assert loop.armed_timers == []


# -- the network


class Front:
    """Answers ApiVersions and heartbeats to a network client whose loop and connections are virtual."""

    def __init__(self, **options):
        self.calls = EventLoop()
        self.network = WireNetwork(self.calls, random.Random(1), [], self.receive)
        self.network.is_broker_up = True
        self.is_mute = False
        self.transports = []
        self.loop = VirtualLoop(self.calls, opener("m", self.network, random.Random(2), self.transports))
        config = {"bootstrap.servers": "node-0:9092,node-1:9092", "request.timeout.ms": 1000, **options}
        self.client = NetworkClient(
            ClientConfig.from_options(config), VirtualSurroundings("m", self.loop, self.calls, random.Random(3), [])
        )
        for node in range(2):
            self.client.learn_node(Node(node, f"node-{node}", 9092))
        self.answers, self.failures = [], []

    def receive(self, request):
        request.version = int.from_bytes(request.frame[2:4], "big")
        api_key = int.from_bytes(request.frame[:2], "big")
        if api_key == 18:
            entries = [
                ApiVersionsResponseApi(api_key=kind.api_key, min_version=0, max_version=kind.versions.last)
                for kind in (HeartbeatRequest, MetadataRequest)
            ]
            self.network.answer_with(request, ApiVersionsResponse(api_keys=entries))
        elif api_key == 3:
            broker = MetadataResponseBroker(node_id=1, host="node-1", port=9092)
            self.network.answer_with(request, MetadataResponse(brokers=[broker], controller_id=1, topics=[]))
        elif not self.is_mute:
            self.network.answer_with(request, HeartbeatResponse(error_code=27))

    def send(self, node=0, timeout_ms=1000):
        self.loop.create_task(self._send(node, timeout_ms))

    async def _send(self, node, timeout_ms):
        try:
            self.answers.append(await self.client.send(node, HEARTBEAT, HeartbeatResponse, timeout_ms=timeout_ms))
        except ClientError as error:
            self.failures.append(error)


# covers: B9, B10
def test_a_connection_in_memory_negotiates_and_carries_frames_both_ways():
    front = Front()
    front.network.start_node(0)
    front.send()
    front.calls.run_until(500)
    assert [answer.error_code for answer in front.answers] == [27]
    assert front.network.delivered == 4
    assert front.transports[0].carries_group


# covers: B21
def test_a_node_that_is_down_refuses_and_is_tried_again_after_the_backoff():
    front = Front()
    front.send()
    front.calls.run_until(20)
    assert "connection refused" in str(front.failures[0])
    front.network.start_node(0)
    front.send()
    front.calls.run_until(300)
    assert len(front.answers) == 1


def test_a_request_that_is_not_answered_in_time_ends_its_connection():
    front = Front()
    front.network.start_node(0)
    front.is_mute = True
    front.send(timeout_ms=200)
    front.send(timeout_ms=900)
    front.calls.run_until(500)
    assert [type(error) for error in front.failures] == [RequestTimedOut, ConnectionFailed]
    assert not front.transports[0].connection.is_open


def test_a_connection_that_leads_nowhere_is_given_up():
    front = Front(**{"socket.connection.setup.timeout.ms": 300})
    front.network.start_node(0)
    front.network.refuse_chance = 1.0
    front.send()
    front.calls.run_until(900)
    assert "not connected within" in str(front.failures[0])
    assert front.network.refused == 1


@pytest.mark.parametrize("seed", range(12))
def test_a_torn_stream_gives_the_answer_late_or_fails_the_request(seed):
    front = Front()
    front.network.start_node(0)
    front.send()
    front.calls.run_until(200)
    front.transports[0]._rng.seed(seed)
    front.network.tear_chance = 1.0
    front.send(timeout_ms=5000)
    front.calls.run_until(6000)
    assert front.network.torn >= 1
    assert len(front.answers) + len(front.failures) == 2
    for error in front.failures:
        assert isinstance(error, ConnectionFailed)


def test_a_bootstrap_connection_that_still_waits_for_an_answer_is_closed_with_the_client():
    front = Front()
    front.network.start_node(0)
    front.network.start_node(1)
    front.is_mute = True

    async def ask_without_answer():
        deadline = Deadline(60, front.loop.time)
        with pytest.raises(ClosedError):
            await front.client.send_to_any(HEARTBEAT, HeartbeatResponse, deadline=deadline, timeout_ms=60_000)

    async def close_when_the_cluster_is_known():
        second = -2
        await front.client.connection_to(second).start()
        await front.client.refresh_metadata(Deadline(60, front.loop.time))
        await front.client.close()

    front.loop.create_task(ask_without_answer())
    front.calls.run_until(100)
    front.loop.create_task(close_when_the_cluster_is_known())
    front.calls.run_until(500)
    assert [(each.connection.node, each.connection.is_open) for each in front.transports] == [(0, False), (1, False)]
    assert front.loop.pending_tasks == []
    assert front.loop.armed_timers == []


def test_a_node_that_stops_takes_its_connections_with_it():
    front = Front()
    front.network.start_node(0)
    front.send()
    front.calls.run_until(200)
    connection = front.transports[0].connection
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
