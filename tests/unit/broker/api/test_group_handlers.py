"""The group handlers: who may ask what (B12 to B14, L1 to L4), and what each version can say."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from seamark.broker.api.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from seamark.broker.net.listener import Listener
from seamark.coordinator.commands import CommitOffsets, DeleteGroups, FetchOffsets
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.error_codes import ErrorCode
from tests.conformance.differential.group_requests import commit_fields, fetch_fields, join_fields
from tests.conformance.differential.script import build, plain
from tests.unit.broker.api.handler_harness import Served

GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def world() -> Served:
    made = Served()
    made.with_offsets_topic()
    made.create_topic("t", 2)
    made.create_topic("secret", 1)
    return made


def ask(
    world: Served, handler: ModuleType, version: int, rights: set[tuple[str, str, str]] | None = None, **values: Any
) -> dict[str, Any]:
    """The answer as plain values."""
    client = world.client(rights=rights)
    client.send(build(api_named(handler.API).request, values), version)
    world.timers.fire_due()
    world.settle()
    answer = client.answer
    assert answer is not None
    found = plain(answer, version)
    assert isinstance(found, dict)
    return found


READ_G = {("READ", "GROUP", "g")}
DESCRIBE_G = {("DESCRIBE", "GROUP", "g")}


@pytest.mark.parametrize(
    ("handler", "version", "values"),
    [
        (join_group, 9, join_fields("g")),
        (sync_group, 5, {"group_id": "g"}),
        (heartbeat, 4, {"group_id": "g"}),
        (leave_group, 5, {"group_id": "g"}),
        (offset_delete, 0, {"group_id": "g"}),
    ],
)
def test_members_need_the_right_to_read_the_group(
    world: Served, handler: ModuleType, version: int, values: dict[str, Any]
) -> None:  # L4
    assert ask(world, handler, version, DESCRIBE_G, **values)["error_code"] == GROUP_DENIED
    allowed = {("DELETE", "GROUP", "g")} if handler is offset_delete else READ_G
    assert ask(world, handler, version, allowed, **values)["error_code"] != GROUP_DENIED


def test_a_commit_needs_the_group_and_each_topic(world: Served) -> None:  # L4
    fields = commit_fields("g", "t", 8, 0)
    fields["topics"] += commit_fields("g", "secret", 8, 0, 5)["topics"] + commit_fields("g", "absent", 8, 0)["topics"]
    denied = ask(world, offset_commit, 8, set(), **fields)
    assert {each["error_code"] for topic in denied["topics"] for each in topic["partitions"]} == {GROUP_DENIED}
    partly = ask(world, offset_commit, 8, READ_G | {("READ", "TOPIC", "t")}, **fields)
    found = {topic["name"]: {each["error_code"] for each in topic["partitions"]} for topic in partly["topics"]}
    # A topic that may not be read is refused so whether or not it exists.
    assert found == {"t": {0}, "secret": {TOPIC_DENIED}, "absent": {TOPIC_DENIED}}
    assert world.committed("g", "secret") == -1
    none = ask(world, offset_commit, 8, READ_G, **fields)
    assert [topic["name"] for topic in none["topics"]] == ["t", "secret", "absent"]


def test_a_fetch_needs_the_group_and_hides_topics(world: Served) -> None:  # L4
    ask(world, offset_commit, 8, **commit_fields("g", "t", 8, 0))
    ask(world, offset_commit, 8, **commit_fields("g", "secret", 8, 0))
    rights = DESCRIBE_G | {("DESCRIBE", "TOPIC", "t")}
    wanted = {"secret": [0], "t": [0]}
    assert ask(world, offset_fetch, 5, set(), **fetch_fields("g", 5, wanted))["error_code"] == GROUP_DENIED
    some = ask(world, offset_fetch, 5, rights, **fetch_fields("g", 5, wanted))["topics"]
    assert [(topic["name"], topic["partitions"][0]["error_code"]) for topic in some] == [
        ("t", 0),
        ("secret", TOPIC_DENIED),
    ]
    assert some[1]["partitions"][0]["committed_offset"] == -1
    everything = ask(world, offset_fetch, 5, rights, **fetch_fields("g", 5, None))["topics"]
    assert [topic["name"] for topic in everything] == ["t"]


def test_each_group_of_a_fetch_has_its_own_error_in_the_order_of_the_request(world: Served) -> None:  # A32
    ask(world, offset_commit, 8, **commit_fields("g", "t", 8, 0))
    groups = [fetch_fields(name, 8, {"t": [0]})["groups"][0] for name in ("x", "g", "y")]
    answer = ask(world, offset_fetch, 8, DESCRIBE_G | {("DESCRIBE", "TOPIC", "t")}, groups=groups)
    assert [(each["group_id"], each["error_code"]) for each in answer["groups"]] == [
        ("x", GROUP_DENIED),
        ("g", 0),
        ("y", GROUP_DENIED),
    ]


def test_a_fetch_of_very_many_partitions_is_asked_for_in_portions(
    world: Served, monkeypatch: pytest.MonkeyPatch
) -> None:  # A32
    monkeypatch.setattr(offset_fetch, "_PARTITIONS_AT_ONCE", 10)
    world.create_topic("wide", 25)
    offsets = [(each, 100 + each, -1, "") for each in range(25)]
    world.ask(CommitOffsets("g", [("t", [(0, 1, -1, ""), (1, 2, -1, "")]), ("wide", offsets)]))  # type: ignore[list-item]
    world.settle()
    runtime = world.groups[0]
    asked: list[int] = []
    submit = runtime.submit

    def noting(command: Any, asker: Any) -> None:
        asked.append(sum(len(partitions) for _, partitions in command.topics))
        submit(command, asker)

    monkeypatch.setattr(runtime, "submit", noting)
    expected = [("t", [(0, 1), (1, 2)]), ("wide", [(each, 100 + each) for each in range(25)])]
    rights = DESCRIBE_G | {("DESCRIBE", "TOPIC", name) for name in ("t", "wide")}
    for named in ({"t": [0, 1], "wide": list(range(25))}, None):
        for allowed in (None, rights):
            asked.clear()
            answer = ask(world, offset_fetch, 5, allowed, **fetch_fields("g", 5, named))
            assert max(asked) == 10
            assert sum(asked) == 27
            found = [
                (topic["name"], [(each["partition_index"], each["committed_offset"]) for each in topic["partitions"]])
                for topic in answer["topics"]
            ]
            assert found == expected
    hidden = ask(world, offset_fetch, 5, rights - {("DESCRIBE", "TOPIC", "t")}, **fetch_fields("g", 5, None))
    assert [topic["name"] for topic in hidden["topics"]] == ["wide"]


def test_before_version_2_a_fetch_has_the_groups_error_in_its_partitions(world: Served) -> None:  # A32
    answer = ask(world, offset_fetch, 1, set(), **fetch_fields("g", 1, {"t": [0, 1]}))
    [topic] = answer["topics"]
    assert [
        (each["partition_index"], each["error_code"], each["committed_offset"]) for each in topic["partitions"]
    ] == [
        (0, GROUP_DENIED, -1),
        (1, GROUP_DENIED, -1),
    ]


def test_describe_list_and_delete_show_only_what_may_be_seen(world: Served) -> None:  # L4
    for group in ("g", "hidden"):
        ask(world, offset_commit, 8, **commit_fields(group, "t", 8, 0))
    described = ask(world, describe_groups, 6, DESCRIBE_G, groups=["g", "hidden"], include_authorized_operations=True)
    assert {each["group_id"]: each["error_code"] for each in described["groups"]} == {"g": 0, "hidden": GROUP_DENIED}
    [seen] = [each for each in described["groups"] if each["group_id"] == "g"]
    assert seen["authorized_operations"] == 1 << 8
    newer = ask(world, consumer_group_describe, 1, DESCRIBE_G, group_ids=["g", "hidden"])
    assert {each["group_id"]: each["error_code"] for each in newer["groups"]} == {
        "g": ErrorCode.GROUP_ID_NOT_FOUND,
        "hidden": GROUP_DENIED,
    }
    assert [each["group_id"] for each in ask(world, list_groups, 5, DESCRIBE_G)["groups"]] == ["g"]
    cluster = {("DESCRIBE", "CLUSTER", "kafka-cluster")}
    assert len(ask(world, list_groups, 5, cluster)["groups"]) == 2
    deleted = ask(world, delete_groups, 2, {("DELETE", "GROUP", "g")}, groups_names=["hidden", "g"])
    assert {each["group_id"]: each["error_code"] for each in deleted["results"]} == {"g": 0, "hidden": GROUP_DENIED}
    assert world.committed("hidden") == 42


def test_offsets_are_deleted_only_of_topics_that_may_be_read(world: Served) -> None:  # L4
    ask(world, offset_commit, 8, **commit_fields("g", "secret", 8, 0))
    topics = [{"name": "secret", "partitions": [{"partition_index": 0}]}]
    answer = ask(world, offset_delete, 0, {("DELETE", "GROUP", "g")}, group_id="g", topics=topics)
    assert answer["topics"][0]["partitions"] == [{"partition_index": 0, "error_code": TOPIC_DENIED}]
    assert world.committed("g", "secret") == 42


def test_an_unauthorized_question_for_a_coordinator_makes_no_topic() -> None:  # B12, B14, L3
    world = Served()
    answer = ask(world, find_coordinator, 2, set(), key="g")
    assert (answer["error_code"], answer["node_id"], answer["host"], answer["port"]) == (GROUP_DENIED, -1, "", -1)
    assert world.cluster.offsets_topic() is None


def test_the_first_question_makes_the_topic_and_the_second_is_answered() -> None:  # B17, B20
    world = Served()
    first = ask(world, find_coordinator, 2, key="g")
    assert first["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    topic = world.cluster.offsets_topic()
    assert topic is not None
    assert len(topic.partitions) == 50
    second = ask(world, find_coordinator, 4, coordinator_keys=["g", "h"])
    assert [(each["key"], each["error_code"], each["port"]) for each in second["coordinators"]] == [
        ("g", 0, 9092),
        ("h", 0, 9092),
    ]


def test_a_leader_without_the_callers_listener_is_not_given_away(world: Served) -> None:  # B20
    node: Any = world.cluster.nodes[0]
    node.listeners = [Listener("INTERNAL", "10.0.0.1", 9999)]
    answer = ask(world, find_coordinator, 2, key="g")
    assert (answer["error_code"], answer["node_id"]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_a_leader_that_does_not_run_is_not_given_away(world: Served) -> None:  # B19
    world.cluster.nodes[0].is_running = False
    assert ask(world, find_coordinator, 2, key="g")["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_id_is_refused_at_once_with_the_reason(world: Served, version: int) -> None:  # B13, L2
    fields: dict[str, Any] = {"key": "tx"} if version < 4 else {"coordinator_keys": ["tx"]}
    answer = ask(world, find_coordinator, version, key_type=1, **fields)
    found = answer if version < 4 else answer["coordinators"][0]
    assert found["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "transactions" in found["error_message"]
    assert found["node_id"] == -1


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [2, 3, -1, 127])
def test_other_key_types_are_invalid(world: Served, version: int, key_type: int) -> None:
    fields: dict[str, Any] = {"key": "x"} if version < 4 else {"coordinator_keys": ["x"]}
    answer = ask(world, find_coordinator, version, key_type=key_type, **fields)
    found = answer if version < 4 else answer["coordinators"][0]
    assert found["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1])
def test_the_newer_group_protocol_is_refused_with_a_sentence(world: Served, version: int) -> None:
    answer = ask(world, consumer_group_heartbeat, version, group_id="g", member_id="m", subscribed_topic_names=["t"])
    assert answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert "classic" in answer["error_message"]


def test_join_version_0_takes_the_session_timeout_for_the_rebalance(world: Served) -> None:
    answer = ask(world, join_group, 0, **join_fields("g", version=0, session_timeout_ms=6000))
    assert answer["error_code"] == 0
    member = next(
        iter(world.groups[0].coordinator.shards[world.groups[0].partition_for("g")].groups["g"].members.values())
    )
    assert member.rebalance_timeout_ms == 6000


# covers: A17
@pytest.mark.parametrize(("given", "is_kept"), [(5, True), (-1, False)])
def test_a_commit_with_version_1_is_served_and_keeps_the_time_it_brings(
    world: Served, given: int, *, is_kept: bool
) -> None:
    fields = commit_fields("g", "t", 1, 0)
    fields["topics"][0]["partitions"][0]["commit_timestamp"] = given
    assert ask(world, offset_commit, 1, **fields)["topics"][0]["partitions"][0]["error_code"] == 0
    assert (
        ask(world, offset_fetch, 1, **fetch_fields("g", 1, {"t": [0]}))["topics"][0]["partitions"][0][
            "committed_offset"
        ]
        == 42
    )
    group = world.groups[0].coordinator.shards[world.groups[0].partition_for("g")].groups["g"]
    assert group.offsets["t", 0].commit_ms == (5 if is_kept else world.clock.now_ms())


def test_an_offset_delete_of_many_partitions_is_asked_for_some_at_a_time(world: Served) -> None:
    world.create_topic("wide", 2500)
    partitions = [{"partition_index": each} for each in range(2500)]
    offsets = [(each, 1, -1, "") for each in range(2500)]
    world.ask(CommitOffsets("g", [("wide", offsets)]))  # type: ignore[list-item]
    world.settle()
    runtime = world.groups[0]
    asked: list[int] = []
    submit = runtime.submit

    def noting(command: Any, asker: Any) -> None:
        asked.append(sum(len(each) for _, each in command.topics))
        submit(command, asker)

    runtime.submit = noting  # type: ignore[method-assign]
    topics = [{"name": "wide", "partitions": partitions}, {"name": "t", "partitions": [{"partition_index": 5}]}]
    answer = ask(world, offset_delete, 0, group_id="g", topics=topics)
    runtime.submit = submit  # type: ignore[method-assign]
    assert asked == [1000, 1000, 500]
    found = {
        (topic["name"], each["partition_index"]): each["error_code"]
        for topic in answer["topics"]
        for each in topic["partitions"]
    }
    assert answer["error_code"] == 0
    assert found.pop(("t", 5)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(found) == 2500
    assert set(found.values()) == {0}
    assert world.ask(FetchOffsets("g")).reply.topics == []


def test_an_offset_delete_that_is_refused_on_its_way_answers_the_refusal_alone(world: Served) -> None:
    world.create_topic("wide", 2500)
    partitions = [{"partition_index": each} for each in range(2500)]
    world.ask(CommitOffsets("g", [("wide", [(0, 1, -1, "")])]))  # type: ignore[list-item]
    world.settle()
    client = world.client()
    request = build(
        api_named("OffsetDelete").request, {"group_id": "g", "topics": [{"name": "wide", "partitions": partitions}]}
    )
    client.send(request, 0)
    world.ask(DeleteGroups(["g"]))
    world.settle()
    answer = client.answer
    assert answer.error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.GROUP_ID_NOT_FOUND)
    assert answer.topics == []
