"""Faults of groups on a whole broker, and groups over the restart of one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seamark.broker import Broker
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from tests.conformance.differential.group_requests import commit_fields, fetch_fields, join, sync_fields
from tests.conformance.differential.script import Recorder

SETTINGS = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(nodes=3, settings=SETTINGS) as running:
        running.create_topic("t", 2)
        yield running


class Client:
    """Asks the node that coordinates the group."""

    def __init__(self, broker: Broker) -> None:
        self._recorders = [Recorder(node.bootstrap) for node in broker.nodes]

    def coordinator(self, group: str) -> int:
        deadline = time.monotonic() + 10
        while (found := self._recorders[0].quietly("FindCoordinator", 2, key=group)).error_code:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return int(found.node_id)

    def at(self, group: str) -> Recorder:
        return self._recorders[self.coordinator(group)]

    def ask(self, group: str, api: str, version: int, **values: Any) -> Any:
        """Ask as a client does: again, while the coordinator loads."""
        deadline = time.monotonic() + 10
        while True:
            answer = self.at(group).quietly(api, version, **values)
            if getattr(answer, "error_code", 0) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def commit(self, group: str, offset: int) -> int:
        answer = self.ask(group, "OffsetCommit", 8, **commit_fields(group, "t", 8, 0, offset=offset))
        return int(answer.topics[0].partitions[0].error_code)

    def committed(self, group: str) -> int:
        answer = self.ask(group, "OffsetFetch", 5, **fetch_fields(group, 5, {"t": [0]}))
        assert answer.error_code == 0
        return int(answer.topics[0].partitions[0].committed_offset)

    def stable_group(self, group: str, **more: Any) -> str:
        self.committed(group)
        recorder = self.at(group)
        joined = join(recorder, group, 9, **more)
        fields = sync_fields(group, joined, 5, {joined.member_id: b"all"})
        if "group_instance_id" in more:
            fields["group_instance_id"] = more["group_instance_id"]
        assert recorder.ask("SyncGroup", 5, **fields).error_code == 0
        return str(joined.member_id)

    def state(self, group: str) -> str:
        return str(self.ask(group, "DescribeGroups", 5, groups=[group]).groups[0].group_state)

    def close(self) -> None:
        for recorder in self._recorders:
            recorder.close()


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    made = Client(broker)
    yield made
    made.close()


def test_an_expired_member_is_out_of_the_group_at_once(broker: Broker, client: Client) -> None:
    member = client.stable_group("g")
    broker.faults.expire_member("g", member)
    assert client.state("g") == "Empty"


def test_a_member_can_be_expired_by_its_instance_id(broker: Broker, client: Client) -> None:
    client.stable_group("g", group_instance_id="one")
    broker.faults.expire_member("g", "one")
    assert client.state("g") == "Empty"


def test_expiring_who_is_not_there_says_who_is(broker: Broker, client: Client) -> None:
    with pytest.raises(UsageError, match="there is no group g"):
        broker.faults.expire_member("g", "m")
    member = client.stable_group("g")
    with pytest.raises(UsageError, match=f"no member m; its members are: {member}"):
        broker.faults.expire_member("g", "m")


def test_a_moved_coordinator_has_everything_the_old_one_had(broker: Broker, client: Client) -> None:
    client.committed("g")
    assert client.commit("g", 5) == ErrorCode.NONE
    for node in (2, 0, 1):
        broker.faults.move_coordinator("g", node)
        assert client.coordinator("g") == node
        assert client.committed("g") == 5
    with pytest.raises(UsageError, match="nodes 0 to 2"):
        broker.faults.move_coordinator("g", 3)


def test_the_groups_of_a_stopped_node_go_on_at_another(broker: Broker, client: Client) -> None:
    broker.faults.move_coordinator("g", 2)
    client.committed("g")
    assert client.commit("g", 5) == ErrorCode.NONE
    broker.nodes[2].stop()
    assert client.coordinator("g") != 2
    assert client.committed("g") == 5
    broker.nodes[2].start()
    assert client.committed("g") == 5


def test_held_loading_ends_with_its_block(broker: Broker, client: Client) -> None:
    client.committed("g")
    client.commit("g", 5)
    with broker.faults.hold_loading("g") as hold:
        answer = client.at("g").quietly("OffsetFetch", 5, **fetch_fields("g", 5, {"t": [0]}))
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.faults.move_coordinator("g", (client.coordinator("g") + 1) % 3)
        answer = client.at("g").quietly("OffsetFetch", 5, **fetch_fields("g", 5, {"t": [0]}))
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    hold.release()
    assert client.committed("g") == 5


def test_advancing_the_clock_ends_sessions(broker: Broker, client: Client) -> None:
    client.stable_group("g")
    broker.advance(29)
    assert client.state("g") == "Stable"
    broker.advance(2)
    assert client.state("g") == "Empty"


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_groups_and_offsets_survive_a_restart(tmp_path: Path, durability: str) -> None:  # F13
    with Broker(data=tmp_path, settings=SETTINGS, durability=durability) as first:
        first.create_topic("t", 2)
        client = Client(first)
        member = client.stable_group("g")
        simple = [f"simple-{number}" for number in range(20)]
        for number, group in enumerate(simple):
            assert client.commit(group, number) == ErrorCode.NONE
        client.close()
    with Broker(data=tmp_path, settings=SETTINGS, durability=durability) as second:
        client = Client(second)
        assert [client.committed(group) for group in simple] == list(range(20))
        [group] = client.ask("g", "DescribeGroups", 5, groups=["g"]).groups
        assert (group.group_state, [each.member_id for each in group.members]) == ("Stable", [member])
        assert client.ask("g", "Heartbeat", 3, group_id="g", member_id=member, generation_id=1).error_code == 0
        client.close()
