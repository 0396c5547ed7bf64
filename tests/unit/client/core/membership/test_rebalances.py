"""Eager and cooperative rebalances, the leader's work, and whole groups over the real coordinator core."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.assignors import Assignor, BadAssignment, ClusterTopics, MemberAssignment
from seamark.client.core.membership.context import MemberState
from seamark.client.errors import AssignmentUnusable
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import Subscription, TopicPartitions
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest
from tests.support.group_of_members import GroupOfMembers
from tests.support.membership_driver import MemberDriver


def words(driver, *kinds):
    return [word for word in driver.story if word.partition("{")[0] in kinds]


# covers: C30
def test_an_eager_member_is_told_of_nothing_on_its_first_join_and_of_an_empty_set_later():
    driver = MemberDriver()
    driver.settle("")
    assert driver.story == ["join", "sync", "own{}", "assigned{}", "release{}"]
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    assert driver.story[-2:] == ["revoked{}", "join"]


# covers: C30, C23
def test_an_eager_member_stops_fetching_commits_revokes_and_then_joins_owning_nothing():
    driver = MemberDriver(auto_commit=True)
    driver.settle("t-0 t-1")
    driver.story.clear()
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    driver.answer_join(generation=2)
    driver.answer_sync("t-1")
    driver.poll()
    assert driver.story == [
        "hold{t-0,t-1}",
        "commit",
        "revoked{t-0,t-1}",
        "own{}",
        "join",
        "sync",
        "own{t-1}",
        "assigned{t-1}",
        "release{t-1}",
    ]


# covers: C30
def test_a_cooperative_member_keeps_its_partitions_revokes_what_went_and_joins_again():
    driver = MemberDriver(["u"], strategy="cooperative-sticky", auto_commit=True)
    driver.settle("u-0 u-1")
    driver.story.clear()
    driver.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.poll()
    driver.answer_join(generation=2)
    driver.answer_sync("u-0")
    driver.poll()
    assert driver.story == [
        "commit",
        "join",
        "sync",
        "revoked{u-1}",
        "own{u-0}",
        "assigned{}",
        "release{}",
        "commit",
        "join",
    ]
    assert driver.sent(JoinGroupRequest)[0].reason == "need to revoke partitions and re-join"


# covers: C30
def test_a_cooperative_member_revokes_before_the_join_only_what_it_no_longer_subscribes_to():
    driver = MemberDriver(["t", "u"], strategy="cooperative-sticky")
    driver.settle("t-0 u-0")
    driver.story.clear()
    driver.carry_out(driver.membership.subscribe(["t"]))
    driver.poll()
    assert driver.story == ["revoked{u-0}", "own{t-0}", "join"]


# covers: C30
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_after_an_illegal_generation_everything_is_lost_and_the_member_id_is_kept(strategy):
    driver = MemberDriver(strategy=strategy)
    driver.settle("t-0")
    driver.beat(ErrorCode.ILLEGAL_GENERATION)
    driver.story.clear()
    driver.poll()
    assert driver.story == ["lost{t-0}", "own{}", "join"]
    assert driver.sent(JoinGroupRequest)[0].member_id == "me"


# covers: C30
def test_a_cooperative_member_that_the_join_does_not_know_loses_what_it_kept():
    driver = MemberDriver(strategy="cooperative-sticky")
    driver.settle("t-0")
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    driver.story.clear()
    driver.answer_join(ErrorCode.UNKNOWN_MEMBER_ID)
    driver.poll()
    assert driver.story == ["lost{t-0}", "own{}", "join"]


def test_an_error_in_on_revoked_of_a_cooperative_member_is_raised_after_on_assigned_was_called():
    driver = MemberDriver(strategy="cooperative-sticky")
    driver.settle("t-0 t-1")
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    driver.answer_join(generation=2)
    driver.answer_sync("t-0")
    driver.story.clear()
    driver.listener_raises["revoked"] = [ValueError("first")]
    with pytest.raises(ValueError, match="first"):
        driver.poll()
    assert driver.story == ["revoked{t-1}", "own{t-0}", "assigned{}", "release{}"]
    driver.poll()
    assert driver.story[-1] == "join"


def test_an_assignment_outside_the_subscription_is_not_taken_but_joined_again():
    driver = MemberDriver(["t"])
    driver.poll()
    driver.answer_join()
    driver.answer_sync("strange-0")
    driver.poll()
    assert driver.membership.owned == ()
    assert driver.story == ["join", "sync", "revoked{}", "join"]


def test_an_assignment_that_is_no_assignment_is_raised():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join()
    driver.answer_sync(assignment=b"\x00")
    said = r"group 'g': the assignment from the group's leader, member 'other', cannot be read \(Assignment"
    with pytest.raises(AssignmentUnusable, match=said) as raised:
        driver.poll()
    assert raised.value.is_retriable
    assert driver.membership.is_rejoin_needed


def test_more_partitions_than_there_can_be_are_refused_and_looked_up_before_the_next_join():
    driver = MemberDriver(["t"], cluster={"t": 2})
    driver.give_metadata()
    driver.poll()
    driver.answer_join()
    many = " ".join(f"t-{number}" for number in range(1005))
    driver.answer_sync(many)
    driver.poll()
    assert driver.membership.owned == ()
    assert driver.metadata_requests == [frozenset({"t"})]
    [line] = [each for each in driver.log if each.event == "assignment_refused"]
    assert (
        "leader, member 'other', assigned 1,005 partitions of topics that have 2 according to this member's metadata"
        in line.text
    )
    # The topic has grown since this member last looked.
    driver.cluster = ClusterTopics({"t": 1005})
    driver.give_metadata()
    driver.answer_join(generation=2)
    driver.answer_sync(many)
    driver.poll()
    assert len(driver.membership.owned) == 1005


# covers: C29, E2, C28
def test_a_leader_assigns_for_everyone_with_the_assignor_that_the_coordinator_chose():
    driver = MemberDriver(["t"], strategy="range,roundrobin", cluster={"t": 3})
    driver.poll()
    driver.give_metadata()
    members = {"me": Subscription(topics=["t"]), "other": Subscription(topics=["t"])}
    driver.answer_join(leader="me", protocol="roundrobin", members=members)
    [request] = driver.sent(SyncGroupRequest)
    assert [each.member_id for each in request.assignments] == ["me", "other"]
    assert request.protocol_name == "roundrobin"
    assert request.protocol_type == "consumer"


# covers: C27
def test_a_follower_syncs_with_no_assignments():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join(leader="other")
    [request] = driver.sent(SyncGroupRequest)
    assert request.assignments == []


# covers: E2
def test_a_leader_waits_for_the_metadata_of_topics_that_only_others_read():
    driver = MemberDriver(["t"], cluster={"t": 1, "v": 2})
    driver.covered = frozenset({"t"})
    driver.answers_metadata = False
    driver.give_metadata()
    driver.poll()
    driver.answer_join(leader="me", members={"me": Subscription(topics=["t"]), "other": Subscription(topics=["v"])})
    assert driver.sent(SyncGroupRequest) == []
    assert driver.metadata_requests == [frozenset({"t", "v"})]
    assert driver.membership.group_topics == {"t", "v"}
    driver.give_metadata(frozenset({"t", "v"}))
    [request] = driver.sent(SyncGroupRequest)
    assert [each.member_id for each in request.assignments] == ["me", "other"]


# covers: E3
def test_a_leader_sees_racks_user_data_and_owned_partitions_of_the_members():
    seen = []

    class Spy(Assignor):
        name = "spy"

        def assign(self, cluster, members):
            seen.extend([cluster, *members])
            return {member.member_id: MemberAssignment() for member in members}

        def subscription_user_data(self, topics):
            return b"from-me"

    driver = MemberDriver(["t"], strategy=Spy(), cluster={"t": 1}, rack="a")
    racks = {TopicPartition("t", 0): frozenset({"a", "b"})}
    driver.cluster = ClusterTopics({"t": 1}, racks)
    driver.give_metadata()
    driver.poll()
    other = Subscription(
        topics=["t"],
        user_data=b"x",
        owned_partitions=[TopicPartitions(topic="t", partitions=[0])],
        generation_id=4,
        rack_id="b",
    )
    driver.answer_join(leader="me", members={"other": other})
    assert seen[0].replica_racks == racks
    assert (seen[1].user_data, seen[1].owned, seen[1].generation, seen[1].rack) == (
        b"x",
        (TopicPartition("t", 0),),
        4,
        "b",
    )


def test_an_assignor_that_fails_is_raised_from_poll():
    class Broken(Assignor):
        name = "broken"

        def assign(self, cluster, members):
            raise RuntimeError("cannot")

    driver = MemberDriver(strategy=Broken())
    driver.poll()
    driver.give_metadata()
    driver.answer_join(leader="me", members={"me": Subscription(topics=["t"])})
    with pytest.raises(RuntimeError, match="cannot"):
        driver.poll()
    assert driver.membership.state is MemberState.UNJOINED


def test_an_assignment_that_gives_a_partition_twice_is_not_sent():
    class Twice(Assignor):
        name = "twice"

        def assign(self, cluster, members):
            return {member.member_id: MemberAssignment((TopicPartition("t", 0),)) for member in members}

    driver = MemberDriver(strategy=Twice())
    driver.poll()
    driver.give_metadata()
    driver.answer_join(leader="a", member_id="a", members=dict.fromkeys("ab", Subscription(topics=["t"])))
    with pytest.raises(BadAssignment, match="t-0 went to"):
        driver.poll()
    assert driver.sent(SyncGroupRequest) == []


def test_a_coordinator_that_answers_for_another_type_of_group_is_refused():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join(protocol_type="connect")
    with pytest.raises(Exception, match="type 'connect'"):
        driver.poll()


def test_a_sync_for_another_assignor_is_refused():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join()
    driver.answer_sync(protocol_name="sticky")
    with pytest.raises(Exception, match="response is for assignor 'sticky'"):
        driver.poll()


# covers: C22
def test_a_leader_joins_again_when_a_topic_grows_and_a_follower_does_not():
    leader, follower = MemberDriver(cluster={"t": 1}), MemberDriver(cluster={"t": 1})
    for driver in (leader, follower):
        driver.give_metadata()
        driver.poll()
        driver.answer_join(
            leader="me" if driver is leader else "other",
            members={"me": Subscription(topics=["t"])} if driver is leader else {},
        )
        driver.answer_sync("t-0")
        driver.poll()
        driver.story.clear()
        driver.cluster = ClusterTopics({"t": 2})
        driver.give_metadata()
        driver.poll()
    assert leader.story[-1] == "join"
    assert "cached metadata has changed from {'t': 1}" in leader.sent(JoinGroupRequest)[0].reason
    assert follower.story == []


# covers: C22
def test_metadata_that_changes_between_the_assignment_and_its_completion_is_noticed():
    driver = MemberDriver(cluster={"t": 1})
    driver.give_metadata()
    driver.poll()
    driver.answer_join(leader="me", members={"me": Subscription(topics=["t"])})
    driver.cluster = ClusterTopics({"t": 2})
    driver.give_metadata()
    driver.answer_sync("t-0")
    driver.poll()
    driver.poll()
    assert driver.story[-1] == "join"


def test_a_static_leader_that_may_skip_the_assignment_still_watches_the_metadata():
    driver = MemberDriver(cluster={"t": 1}, instance_id="i")
    driver.give_metadata()
    driver.poll()
    driver.answer_join(leader="me", members={"me": Subscription(topics=["t"])}, skip_assignment=True)
    assert driver.answer_sync("t-0").assignments == []
    driver.poll()
    driver.cluster = ClusterTopics({"t": 2})
    driver.give_metadata()
    assert driver.membership.is_rejoin_needed


# covers: C27, C28
def test_the_round_trip_of_three_consumers_has_one_leader_with_three_subscriptions():
    group = GroupOfMembers({"t": 3})
    group.add("Consumer2")
    group.add("Consumer3")
    group.run(3000)
    assert set(group.owners()) == {TopicPartition("t", index) for index in range(3)}
    group.requests.clear()
    group.answers.clear()
    group.add("Consumer1")
    group.run(6000)
    joins = {
        name: len(answer.members)
        for name, answer in group.answers
        if isinstance(answer, JoinGroupResponse) and answer.error_code == 0
    }
    syncs = {
        name: len(request.assignments) for name, request in group.requests if isinstance(request, SyncGroupRequest)
    }
    assert sorted(joins.values()) == [0, 0, 3]
    assert sorted(syncs.values()) == [0, 0, 3]
    [leader] = [name for name, count in joins.items() if count == 3]
    assert syncs[leader] == 3
    assert leader in ("Consumer2", "Consumer3"), "who came first leads"
    order = [(name, type(request).__name__) for name, request in group.requests]
    for name in joins:
        mine = [kind for who, kind in order if who == name and kind != "HeartbeatRequest"]
        assert mine.index("JoinGroupRequest") < mine.index("SyncGroupRequest")
    announced = [
        name for name, answer in group.answers if getattr(answer, "error_code", 0) == ErrorCode.REBALANCE_IN_PROGRESS
    ]
    assert set(announced) == {"Consumer2", "Consumer3"}
    group.check_owned_once()


# covers: C30, E11
def test_a_cooperative_joiner_gets_its_partition_in_the_second_round():
    group = GroupOfMembers({"u": 2})
    first = group.add("A", ("u",), strategy="cooperative-sticky", auto_commit=True)
    group.run(1000)
    first.story.clear()
    second = group.add("B", ("u",), strategy="cooperative-sticky", auto_commit=True)
    group.run(6000)
    assert words(first, "commit", "join", "sync", "revoked", "assigned")[:6] == [
        "commit",
        "join",
        "sync",
        "revoked{u-1}",
        "assigned{}",
        "commit",
    ]
    assert words(second, "assigned", "revoked", "lost") == ["assigned{}", "assigned{u-1}"]
    group.check_owned_once()


# covers: E6
def test_a_rolling_bounce_moves_a_group_from_range_to_cooperative():
    group = GroupOfMembers({"t": 6})
    both = "range,cooperative-sticky"
    for name in "abc":
        group.add(name, strategy=both)
    group.run(5000)
    assert {member.membership.generation.protocol for member in group.members.values()} == {"range"}
    for bounced, name in enumerate("abc", start=1):
        member = group.members.pop(name)
        member.carry_out(member.membership.leave("closed", member.now_ms))
        group.members[name] = member
        group.away.add(name)
        group.exchange()
        group.away.remove(name)
        del group.members[name]
        group.add(name + "2", strategy="cooperative-sticky")
        group.run(8000)
        group.check_owned_once()
        assert {member.membership.generation.protocol for member in group.members.values()} == {"cooperative-sticky"}
        eager = [member for member in group.members.values() if member.membership.protocol.name == "EAGER"]
        assert len(eager) == 3 - bounced


# covers: C32, D-side session expiry
def test_a_caller_that_stays_away_gives_its_partitions_to_the_others_and_comes_back():
    group = GroupOfMembers({"t": 4})
    group.add("a", max_poll_interval_ms=5000)
    group.add("b", max_poll_interval_ms=5000)
    group.run(4000)
    group.check_owned_once()
    away = group.members["a"]
    group.away.add("a")
    group.run(12_000)
    assert len(group.members["b"].membership.owned) == 4
    group.away.remove("a")
    away.story.clear()
    group.run(5000)
    assert away.story[0] == "lost{t-0,t-1}"
    group.check_owned_once()


# covers: C32
def test_a_static_member_comes_back_within_its_session_without_a_rebalance():
    group = GroupOfMembers({"t": 4})
    group.add("a", instance_id="one")
    other = group.add("b", instance_id="two")
    group.run(5000)
    before = group.owners()
    generation = other.membership.generation.generation_id
    member = group.members.pop("a")
    member.carry_out(member.membership.leave("closed", member.now_ms))
    other.story.clear()
    group.add("a", instance_id="one")
    group.run(5000)
    assert group.owners() == before
    assert other.membership.generation.generation_id == generation
    assert other.story == []


def check_no_partition_twice_in_a_generation(group):
    """Members that lag behind may still think they own something; two of one generation may not."""
    seen = {}
    for name, member in group.members.items():
        if member.membership.state is MemberState.STABLE and not member.membership.is_rejoin_needed:
            for partition in member.membership.owned:
                key = (member.membership.generation.generation_id, partition)
                assert key not in seen, (key, name, seen[key])
                seen[key] = name


# covers: C17, C31, B11
@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["range", "cooperative-sticky"]),
    st.floats(0.05, 0.4),
    st.booleans(),
)
def test_a_network_that_loses_requests_and_answers_only_delays_the_group(seed, strategy, loss, is_static):
    group = GroupOfMembers({"t": 5})
    group.rng = random.Random(seed)
    for number in range(3):
        instance = {"instance_id": f"i{number}"} if is_static else {}
        group.add(f"m{number}", strategy=strategy, seed=seed + number, **instance)
    group.loss = loss
    for _ in range(12):
        group.run(2500, step_ms=250)
        check_no_partition_twice_in_a_generation(group)
    group.loss = 0.0
    for _ in range(8):
        group.run(8000, step_ms=400)
    group.check_owned_once()
    assert all(member.membership.is_settled for member in group.members.values())


TRANSCRIPT = """
import random
from tests.support.group_of_members import GroupOfMembers
group = GroupOfMembers({"t": 5, "u": 3})
group.rng = random.Random(7)
group.loss = 0.2
for number in range(4):
    group.add(f"m{number}", ("u", "t"), strategy="cooperative-sticky", seed=number, auto_commit=True)
    group.run(3000, step_ms=250)
for name, request in group.requests:
    print(name, request)
for name, member in group.members.items():
    print(name, member.story, member.now_ms)
"""


def test_the_same_seed_gives_the_same_conversation_whatever_the_order_of_hashes():
    transcripts = [
        subprocess.run(
            [sys.executable, "-c", TRANSCRIPT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[5])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert transcripts[0] == transcripts[1]
    assert "JoinGroupRequest" in transcripts[0]


# covers: C22, E1, E12
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["add", "leave", "stall", "wait", "grow"]), min_size=1, max_size=8),
    st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]),
    st.integers(0, 2**16),
)
def test_whatever_comes_and_goes_every_partition_ends_up_with_one_owner(steps, strategy, seed):
    group = GroupOfMembers({"t": 5})
    group.add("m0", strategy=strategy, seed=seed)
    count = 1
    for step in steps:
        names = sorted(group.members)
        if step == "add":
            group.add(f"m{count}", strategy=strategy, seed=seed + count)
            count += 1
        elif step == "leave" and len(names) > 1:
            member = group.members[names[seed % len(names)]]
            member.carry_out(member.membership.prepare_leave(member.now_ms))
            member.carry_out(member.membership.leave("closed", member.now_ms))
            group.away.add(names[seed % len(names)])
            group.exchange()
            del group.members[names[seed % len(names)]]
        elif step == "stall":
            group.away.add(names[-1])
            group.run(25_000, step_ms=500)
            group.away.discard(names[-1])
        elif step == "grow":
            group.cluster["t"] += 1
            for member in group.members.values():
                member.cluster = ClusterTopics(dict(group.cluster))
                member.give_metadata()
        group.run(700)
        check_no_partition_twice_in_a_generation(group)
    for _ in range(5):
        group.run(8000, step_ms=400)
    group.check_owned_once()


def joins_until_it_waits(answer):
    """Give a new member the same answer to every join; how many there are before it waits, and then joins once more."""
    driver = MemberDriver(["t"])
    driver.poll()
    joins = 0
    while driver.story.count("join") > joins:
        joins += 1
        assert joins < 10, "it joins without end"
        answer(driver)
        driver.poll()
    driver.advance(2000)
    driver.poll()
    assert driver.story.count("join") == joins + 1
    return joins


@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"])
def test_a_member_that_is_told_to_join_again_and_again_backs_off(code):
    joins = joins_until_it_waits(lambda driver: driver.answer_join(ErrorCode[code]))
    assert joins > 1, "the first is followed by another at once"


def test_assignments_outside_the_subscription_are_not_joined_for_without_end():
    def answer(driver):
        driver.answer_join()
        driver.answer_sync("strange-0")

    joins_until_it_waits(answer)


def waits(driver):
    return [line.text for line in driver.log if line.event in ("join_waits", "join_succeeds")]


def test_a_join_that_is_refused_for_long_is_logged_and_so_is_its_end():
    driver = MemberDriver(["t"])
    driver.poll()
    for _ in range(8):
        driver.answer_join(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        driver.advance(1200)
        driver.poll()
    [line] = waits(driver)
    assert line.startswith("joining the group has not succeeded for ")
    assert "COORDINATOR_LOAD_IN_PROGRESS" in line
    driver.answer_join()
    driver.answer_sync("t-0")
    driver.poll()
    driver.poll()
    assert len(waits(driver)) == 2
    assert waits(driver)[1].startswith("joining the group has succeeded, after ")


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup"])
def test_a_join_that_is_not_answered_is_logged_though_the_caller_waits_in_one_poll(request_name):
    driver = MemberDriver(["t"])
    driver.poll()
    if request_name == "SyncGroup":
        driver.answer_join()
    driver.poll()
    driver.now_ms += 6000
    assert driver.membership.next_tick_ms <= driver.now_ms
    driver.carry_out(driver.membership.tick(driver.now_ms))
    assert len(waits(driver)) == 1
    assert f"no response to {request_name} yet" in waits(driver)[0]


def test_a_coordinator_that_is_not_found_is_logged():
    driver = MemberDriver(["t"])
    driver.knows_coordinator = False
    driver.poll()
    driver.now_ms += 6000
    driver.poll()
    assert len(waits(driver)) == 1
    assert "the coordinator is unknown" in waits(driver)[0]
