"""DescribeGroups and ListGroups."""

import pytest

from seamark.coordinator import DescribeGroups, ListGroups, Settings
from seamark.coordinator.replies import DescribedGroup, DescribedMember
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, assignment_of, subscription


# covers: D35
def test_a_stable_group_is_described_with_protocol_members_subscriptions_and_assignments():
    driver = Driver()
    member_id, static = driver.form_group(None, "i")
    assert driver.describe() == DescribedGroup(
        "g",
        ErrorCode.NONE,
        None,
        "Stable",
        "consumer",
        "range",
        [
            DescribedMember(member_id, None, "c", "/127.0.0.1", subscription("t"), assignment_of(member_id)),
            DescribedMember(static, "i", "c", "/127.0.0.1", subscription("t"), assignment_of(static)),
        ],
    )


# covers: D35
def test_protocol_and_subscriptions_are_filled_only_in_stable():
    driver = Driver()
    first, _ = driver.form_group(None, None)
    driver.send_join(first)
    described = driver.describe()
    assert (described.state, described.protocol_type, described.protocol) == ("PreparingRebalance", "consumer", "")
    assert {each.metadata for each in described.members} == {b""}
    assert len(described.members) == 2


# covers: D35
def test_an_unknown_group_is_dead_and_from_version_6_also_an_error():
    driver = Driver()
    described = driver.describe("nope", missing_is_error=False)
    assert (described.state, described.error, described.error_message) == ("Dead", ErrorCode.NONE, None)
    described = driver.describe("nope")
    assert (described.state, described.error) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert "nope" in described.error_message


# covers: D35, D3
def test_the_empty_group_id_can_be_described_and_none_cannot():
    driver = Driver()
    driver.commit_code(group_id="")
    assert driver.describe("").state == "Empty"
    assert driver.describe(None).error is ErrorCode.INVALID_GROUP_ID


# covers: D35
def test_loading_and_foreign_partitions_answer_per_group():
    driver = Driver(is_loaded=False)
    reply = driver.ask(DescribeGroups(["a", None]))
    assert [each.error for each in reply.groups] == [ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_GROUP_ID]
    driver.shard.begin_load()
    assert driver.describe().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.ask(ListGroups()).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# covers: D1, D35
@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], {"simple", "stable", "preparing"}),
        (["stable"], [], {"stable"}),
        (["STABLE", "Empty"], [], {"stable", "simple"}),
        (["preparingrebalance"], ["Classic"], {"preparing"}),
        (["Stable"], ["consumer"], set()),
        ([], ["CLASSIC"], {"simple", "stable", "preparing"}),
        ([], ["share", "classic"], {"simple", "stable", "preparing"}),
        (["NoSuchState"], [], set()),
    ],
)
def test_groups_are_listed_by_state_and_type_without_regard_to_case(states, types, found):
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    driver.commit_code(group_id="simple")
    driver.form_group(None, group_id="stable")
    driver.send_join(group_id="preparing")
    assert set(driver.list_groups(states, types)) == found


# covers: D35
def test_the_list_tells_protocol_type_state_and_type():
    driver = Driver()
    driver.form_group(None)
    driver.commit_code(group_id="simple")
    assert driver.ask(ListGroups()).groups == [
        ("g", "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
    ]


# covers: F11
def test_a_group_whose_first_commit_is_not_stored_is_not_there_yet():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    assert driver.list_groups() == {}
    assert driver.describe().error is ErrorCode.GROUP_ID_NOT_FOUND
    driver.acknowledge()
    assert driver.list_groups() == {"g": "Empty"}


# covers: D24, D35
def test_a_group_whose_last_member_left_before_anything_was_stored_is_seen_empty_at_once():
    driver = Driver()
    driver.hold_appends()
    token = driver.send_join()
    driver.advance(3_000)
    member_id = driver.reply(token).member_id
    assert driver.leave(member_id).members[0].error is ErrorCode.NONE
    assert driver.describe().state == "Empty"
    assert driver.list_groups() == {"g": "Empty"}
    driver.acknowledge()
    assert driver.describe().state == "Empty"
