"""The coordinator of a broker: routing by group, and requests that span shards."""

import pytest

from seamark.coordinator import (
    CommitOffsets,
    Coordinator,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    Settings,
    SyncGroup,
)
from seamark.coordinator.replies import CommitReply, JoinReply
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import join_command

# At 50 partitions: aaa 21, demoGroup 38, test 48.
GROUPS = {"aaa": 21, "demoGroup": 38, "test": 48}


class Broker:
    """A coordinator with all partitions loaded and a log that acknowledges when told to."""

    def __init__(self, *, loads: bool = True) -> None:
        self.coordinator = Coordinator(
            50, Settings(), partition_count={"t": 4}.get, make_id=iter(map(str, range(100))).__next__
        )
        self.waiting = []
        self.replies = {}
        if loads:
            for partition in GROUPS.values():
                self.coordinator.begin_load(partition)
                self.take(self.coordinator.finish_load(partition, 0))

    def take(self, effects):
        self.waiting += effects.appends
        for token, reply in effects.replies:
            assert token not in self.replies
            self.replies[token] = reply

    def ask(self, command, token="x"):
        self.replies.pop(token, None)
        self.take(self.coordinator.handle(command, token, 0))
        return self.replies.get(token)

    def acknowledge(self):
        while self.waiting:
            append = self.waiting.pop(0)
            self.take(self.coordinator.stored(append.partition, append.ticket, 1))

    def commit(self, group_id):
        self.ask(CommitOffsets(group_id, [("t", [(0, 1, -1, "")])]), group_id)
        self.acknowledge()


# covers: B5, F10
def test_commits_and_fetches_of_a_group_meet_in_its_shard():
    broker = Broker()
    for group_id, partition in GROUPS.items():
        broker.ask(CommitOffsets(group_id, [("t", [(0, 7, -1, "")])]), group_id)
        assert broker.waiting[-1].partition == partition
    broker.acknowledge()
    for group_id in GROUPS:
        assert broker.ask(FetchOffsets(group_id, [("t", [0])])).topics[0][1][0].offset == 7
    assert broker.coordinator.gauges()["NumOffsets"] == 3
    assert broker.coordinator.counters()["offset-commit-count"] == 3


# covers: D3
def test_a_coordinator_that_is_not_running_says_so_before_anything_else():
    broker = Broker()
    broker.coordinator.is_running = False
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.ask(join_command("m", group_id="", session_timeout_ms=0)) == JoinReply(refused, "m")
    assert broker.ask(SyncGroup("", "m", 1)).error is refused
    assert broker.ask(Heartbeat("", "m", 1)).error is refused
    assert broker.ask(LeaveGroup("", [LeavingMember("m")])).error is refused
    assert broker.ask(FetchOffsets(None)).error is refused
    assert broker.ask(DeleteOffsets("", [])).error is refused
    assert broker.ask(ListGroups()).error is refused
    assert broker.ask(ForgetTopics(["t"])).error is refused
    assert broker.ask(DeleteGroups(["g"])).groups == [("g", refused)]
    assert broker.ask(DescribeGroups(["g"])).groups[0].error is refused
    commit = CommitOffsets("g", [("t", [(0, 1, -1, "")])])
    assert broker.ask(commit) == CommitReply([("t", [(0, refused)])])


# covers: D3, D4
def test_invalid_requests_are_refused_even_where_the_group_is_not():
    broker = Broker(loads=False)
    assert broker.ask(join_command("m", group_id="")).error is ErrorCode.INVALID_GROUP_ID
    assert broker.ask(join_command("m", session_timeout_ms=1)).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert broker.ask(join_command("m")) == JoinReply(ErrorCode.NOT_COORDINATOR, "")


# covers: B5, L3
@pytest.mark.parametrize("command", [Heartbeat("g", "m", 1), SyncGroup("g", "m", 1), DeleteOffsets("g", [])])
def test_groups_of_partitions_led_elsewhere_are_not_coordinated_here(command):
    assert Broker(loads=False).ask(command).error is ErrorCode.NOT_COORDINATOR


# covers: D35
def test_groups_of_many_shards_are_described_in_the_order_asked():
    broker = Broker()
    broker.commit("test")
    reply = broker.ask(DescribeGroups(["test", "my-group", "aaa", None, "test"], missing_is_error=False))
    assert [(each.group_id, each.state, each.error) for each in reply.groups] == [
        ("test", "Empty", ErrorCode.NONE),
        ("my-group", "", ErrorCode.NOT_COORDINATOR),
        ("aaa", "Dead", ErrorCode.NONE),
        (None, "", ErrorCode.INVALID_GROUP_ID),
        ("test", "Empty", ErrorCode.NONE),
    ]


# covers: D35, F14
def test_listing_covers_all_shards_here_and_fails_while_one_is_loading():
    broker = Broker()
    assert broker.ask(ListGroups()).groups == []
    for group_id in GROUPS:
        broker.commit(group_id)
    assert {each.group_id for each in broker.ask(ListGroups()).groups} == set(GROUPS)
    broker.take(broker.coordinator.unload(48, 0))
    assert {each.group_id for each in broker.ask(ListGroups()).groups} == {"aaa", "demoGroup"}
    broker.coordinator.begin_load(48)
    reply = broker.ask(ListGroups())
    assert (reply.error, reply.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert Broker(loads=False).ask(ListGroups()).groups == []


# covers: N4
def test_deleting_groups_of_many_shards_is_answered_once_when_all_are_stored():
    broker = Broker()
    for group_id in ("aaa", "test"):
        broker.commit(group_id)
    assert broker.ask(DeleteGroups(["test", "demoGroup", "aaa", "my-group"]), "delete") is None
    first, second = broker.waiting
    broker.take(broker.coordinator.stored(first.partition, first.ticket, 1))
    assert "delete" not in broker.replies
    broker.take(broker.coordinator.failed(second.partition, second.ticket, ErrorCode.NOT_ENOUGH_REPLICAS, 1))
    assert broker.replies["delete"].groups == [
        ("test", ErrorCode.NONE),
        ("demoGroup", ErrorCode.GROUP_ID_NOT_FOUND),
        ("aaa", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("my-group", ErrorCode.NOT_COORDINATOR),
    ]


# covers: N4, F15
def test_an_unload_settles_its_part_of_a_spanning_request():
    broker = Broker()
    for group_id in ("aaa", "test"):
        broker.commit(group_id)
    broker.ask(ForgetTopics(["t"]), "forget")
    broker.ask(CommitOffsets("test", [("t", [(1, 1, -1, "")])]), "commit")
    broker.take(broker.coordinator.unload(48, 0))
    assert "forget" not in broker.replies
    assert broker.replies["commit"] == CommitReply([("t", [(1, ErrorCode.NOT_COORDINATOR)])])
    broker.take(broker.coordinator.stored(21, 1, 0))
    reply = broker.replies["forget"]
    assert (reply.error, reply.removed) == (ErrorCode.NOT_COORDINATOR, 1)


# covers: F9
def test_timers_find_their_shard_by_the_partition_in_their_key():
    broker = Broker()
    effects = broker.coordinator.handle(join_command(group_id="demoGroup"), "join", 0)
    [timer] = [timer for timer in effects.timers if timer.key[1] == "join"]
    assert timer.key[0] == 38
    broker.take(broker.coordinator.fire(timer.key, timer.deadline_ms))
    assert broker.replies["join"].generation == 1
