"""What is under way when a member finds out that it is out of its group is neither done twice nor told twice."""

from seamark.assignors import MemberAssignment
from seamark.client.core.assignment_state import Position
from seamark.client.core.membership.context import MemberState
from seamark.client.core.membership.messages import assignment_bytes
from seamark.client.errors import ConnectionFailed
from seamark.client.records import Offset
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import Subscription
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequest
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.core_driver import CoreDriver
from tests.support.membership_driver import MemberDriver


# covers: C17, C31
def test_a_leader_that_is_removed_while_it_waits_for_metadata_joins_again():
    driver = MemberDriver(["t"], cluster={"t": 2})
    driver.answers_metadata = False
    driver.poll()
    driver.answer_join(leader="me", members={"me": Subscription(topics=["t", "u"])})
    assert driver.sent(SyncGroupRequest) == []
    driver.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    driver.give_metadata(frozenset({"t", "u"}))
    driver.poll()
    assert driver.errors == []
    assert driver.story[-1] == "join"
    assert driver.sent(JoinGroupRequest)[-1].member_id == ""


# covers: C30, C32
def test_what_a_slow_listener_has_given_up_is_not_lost_as_well():
    driver = MemberDriver(max_poll_interval_ms=10_000)
    driver.settle("t-0 t-1")
    driver.story.clear()
    driver.holds_listener = True
    driver.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.poll()
    assert driver.story == ["revoked{t-0,t-1}"]
    driver.answers_heartbeats = True
    driver.advance(15_000)
    assert driver.membership.state is MemberState.UNJOINED
    driver.return_from_listener()
    driver.holds_listener = False
    driver.poll()
    assert driver.story == ["revoked{t-0,t-1}", "leave", "own{}", "join"]


# covers: C30, C31
def test_what_a_cooperative_member_has_given_up_is_not_lost_as_well():
    driver = MemberDriver(strategy="cooperative-sticky")
    driver.settle("t-0 t-1")
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    driver.answer_join(generation=2)
    driver.answer_sync("t-0")
    driver.story.clear()
    driver.holds_listener = True
    driver.poll()
    assert driver.story == ["revoked{t-1}"]
    driver.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    driver.return_from_listener()
    driver.holds_listener = False
    driver.poll()
    assert driver.story == ["revoked{t-1}", "own{t-0}", "lost{t-0}", "own{}", "join"]


# covers: C22
def test_a_leader_that_returns_to_its_assignment_does_not_take_its_first_metadata_for_a_change():
    driver = MemberDriver(["t"], cluster={}, instance_id="i")
    driver.covered = frozenset()
    driver.poll()
    driver.answer_join(leader="me", members={"me": Subscription(topics=["t"])}, skip_assignment=True)
    driver.answer_sync("t-0")
    driver.poll()
    driver.story.clear()
    driver.cluster = type(driver.cluster)({"t": 1})
    driver.give_metadata(frozenset({"t"}))
    driver.poll()
    assert driver.story == []
    driver.cluster = type(driver.cluster)({"t": 2})
    driver.give_metadata()
    driver.poll()
    assert "join" in driver.story


# covers: I5, I14
def test_a_retry_of_the_commit_before_a_join_leaves_out_what_was_handed_out_since():
    driver = CoreDriver(strategy="cooperative-sticky", auto_commit=True)
    core = driver.core
    core.subscribe(["t"], core.subscription.listener, driver.now_ms)
    driver.poll()
    partition = TopicPartition("t", 0)
    driver.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            error_code=0, generation_id=1, protocol_name="cooperative-sticky", leader="other", member_id="me"
        ),
    )
    assignment = assignment_bytes(MemberAssignment((partition,)))
    driver.answer(SyncGroupRequest, SyncGroupResponse(error_code=0, assignment=assignment))
    driver.poll()
    driver.committed({"t-0": 5})
    state = core.assignment.require(partition)
    core.assignment.consumed(partition, state.term, Position(8))
    core._route(core.membership.request_rejoin("test"))
    driver.poll()
    first = driver.take(OffsetCommitRequest)
    assert first.request.topics[0].partitions[0].committed_offset == 8
    # The caller has got more and is busy with it when the retry is due.
    core.assignment.consumed(partition, state.term, Position(11))
    core.failed(first.ticket, ConnectionFailed("broker:9092", "connection reset"), driver.now_ms)
    core.coordinator_found(driver.now_ms)
    driver.pump()
    driver.advance(2000)
    assert driver.take(OffsetCommitRequest).request.topics[0].partitions[0].committed_offset == 8


# covers: B24, I14
def test_a_commit_before_a_join_that_waits_for_a_coordinator_keeps_the_offsets_it_took_its_place_with():
    driver = CoreDriver(knows_coordinator=False)
    commits, membership = driver.core.commits, driver.core.membership
    partition = TopicPartition("t", 0)
    membership._wanted = None
    position = 5
    commits.start_unreported(
        {partition: Offset(position)},
        driver.now_ms,
        lambda commit, now_ms: None,
        deadline_ms=driver.now_ms + 60_000,
        renew=lambda: {partition: Offset(position)},
    )
    commits.start_async({partition: Offset(5)}, driver.now_ms)
    position = 14
    driver.core.coordinator_found(driver.now_ms)
    driver.pump()
    sent = [each.request for each in driver.requests if isinstance(each.request, OffsetCommitRequest)]
    assert [each.topics[0].partitions[0].committed_offset for each in sent] == [5, 5]
