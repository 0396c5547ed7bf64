"""OffsetCommit: acceptance, visibility after the append, timeouts, failures."""

import pytest

from seamark.coordinator import CommitOffsets, DeleteGroups, Settings
from seamark.coordinator.replies import CommitReply
from seamark.coordinator.storing.records import OffsetCommitted
from seamark.wire.protocol.error_codes import LEGACY_NAMES, ErrorCode
from tests.support.coordinator_driver import Driver, codes

NONE = ErrorCode.NONE


# covers: F1, F2, F17
def test_the_next_owner_resumes_at_the_committed_position():
    driver = Driver()
    last_processed = 41
    assert driver.commit_code(offset=last_processed + 1, metadata="by worker 1") is NONE
    found = driver.fetch()
    assert (found.offset, found.metadata) == (42, "by worker 1")
    driver.reload()
    assert driver.fetch().offset == 42


# covers: F3, F7
def test_the_last_write_counts_not_the_largest_so_tracking_the_largest_is_up_to_the_consumer():
    driver = Driver()
    for offset in (100, 150, 120):
        driver.commit_code(offset=offset)
    assert driver.fetch().offset == 120
    driver.reload(compacted=True)
    assert driver.fetch().offset == 120


# covers: F4, F5, F6, F32
def test_a_commit_is_appended_as_one_record_per_partition():
    driver = Driver()
    driver.advance(1234)
    driver.commit({("t", 0): 5, ("u", 1): 6}, metadata="m", leader_epoch=3)
    assert driver.log == [
        OffsetCommitted("g", "t", 0, 5, 3, "m", 1234, -1),
        OffsetCommitted("g", "u", 1, 6, 3, "m", 1234, -1),
    ]


# covers: F8, F10, F11, F32
def test_reply_and_visibility_wait_for_the_acknowledgement():
    driver = Driver()
    driver.commit_code(offset=5)
    driver.hold_appends()
    token = driver.send_commit({("t", 0): 10})
    assert driver.is_waiting(token)
    assert driver.fetch().offset == 5
    driver.acknowledge()
    assert codes(driver.reply(token)) == {("t", 0): NONE}
    assert driver.fetch().offset == 10


# covers: F11
def test_several_commits_of_one_key_in_flight_keep_their_order():
    driver = Driver()
    driver.hold_appends()
    tokens = [driver.send_commit({("t", 0): offset}) for offset in (1, 2, 3)]
    driver.acknowledge(1)
    assert driver.fetch().offset == 1
    driver.acknowledge(1)
    assert driver.fetch().offset == 2
    assert [driver.is_waiting(token) for token in tokens] == [False, False, True]
    driver.acknowledge()
    assert driver.fetch().offset == 3


# covers: F8, F11
def test_an_acknowledgement_that_overtakes_an_earlier_one_waits_for_it():
    driver = Driver()
    driver.hold_appends()
    tokens = [driver.send_commit({("t", 0): offset}) for offset in (1, 2)]
    driver.carry_out(driver.shard.stored(1, 0))
    assert driver.fetch().offset == -1
    assert all(driver.is_waiting(token) for token in tokens)
    driver.carry_out(driver.shard.stored(0, 0))
    assert driver.fetch().offset == 2
    assert not driver.unanswered


# covers: F8
def test_a_failure_in_front_lets_an_early_acknowledgement_through():
    driver = Driver()
    driver.hold_appends()
    tokens = [driver.send_commit({("t", 0): offset}) for offset in (1, 2, 3)]
    driver.carry_out(driver.shard.failed(1, ErrorCode.KAFKA_STORAGE_ERROR, 0))
    driver.carry_out(driver.shard.stored(2, 0))
    assert driver.is_waiting(tokens[2])
    driver.carry_out(driver.shard.failed(0, ErrorCode.KAFKA_STORAGE_ERROR, 0))
    assert driver.fetch().offset == 3
    assert not driver.unanswered


# covers: F9
def test_a_commit_that_is_not_acknowledged_in_time_fails_but_counts_when_it_arrives_late():
    driver = Driver()
    driver.commit_code(offset=5)
    driver.hold_appends()
    token = driver.send_commit({("t", 0): 10})
    driver.advance(4999)
    assert driver.is_waiting(token)
    driver.advance(1)
    assert codes(driver.reply(token)) == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.fetch().offset == 5
    driver.acknowledge()
    assert driver.fetch().offset == 10
    driver.check_stored_state()


# covers: F9, F28
def test_the_log_itself_may_report_the_timeout_and_the_outcome_later():
    driver = Driver()
    driver.hold_appends()
    token = driver.send_commit({("t", 0): 10})
    driver.carry_out(driver.shard.failed(0, ErrorCode.REQUEST_TIMED_OUT, 0))
    assert codes(driver.reply(token)) == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    driver.carry_out(driver.shard.failed(0, ErrorCode.REQUEST_TIMED_OUT, 0))
    driver.carry_out(driver.shard.failed(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0))
    assert driver.fetch().offset == -1
    assert not driver.has_group()


# covers: F9
def test_each_commit_has_its_own_deadline_and_one_timer_serves_them_all():
    driver = Driver(Settings(commit_timeout_ms=1000))
    driver.hold_appends()
    first = driver.send_commit({("t", 0): 1})
    driver.advance(600)
    second = driver.send_commit({("t", 0): 2})
    assert [key for key in driver.timers if key[1] == "append"] == [(7, "append", "", "")]
    driver.advance(400)
    assert (driver.is_waiting(first), driver.is_waiting(second)) == (False, True)
    driver.advance(600)
    assert not driver.is_waiting(second)
    assert not any(key[1] == "append" for key in driver.timers)


# covers: F9
def test_the_append_timer_costs_nothing_while_commits_are_acknowledged():
    driver = Driver()
    driver.commit_code(offset=1)
    effects = driver.shard.handle(CommitOffsets("g", [("t", [(0, 2, -1, "")])]), "x", 10)
    assert not effects.timers


# covers: F18, F19, A8, A9
def test_too_large_metadata_fails_its_partition_and_the_others_commit():
    driver = Driver()
    command = CommitOffsets(
        "g", [("t", [(0, 1, -1, "x" * 4096), (1, 2, -1, "x" * 4097)]), ("u", [(0, 3, -1, None), (1, 4, -1, "")])]
    )
    reply = driver.ask(command)
    assert reply == CommitReply(
        [
            ("t", [(0, NONE), (1, ErrorCode.OFFSET_METADATA_TOO_LARGE)]),
            ("u", [(0, NONE), (1, NONE)]),
        ]
    )
    assert driver.fetch_all() == {("t", 0): 1, ("u", 0): 3, ("u", 1): 4}
    assert driver.fetch("u", 0).metadata == ""


# covers: F18
def test_the_metadata_limit_counts_utf_16_code_units():
    driver = Driver(Settings(metadata_max_bytes=4))
    assert driver.commit_code(metadata="éééé") is NONE
    assert driver.commit_code(metadata="\U0001f600\U0001f600") is NONE
    assert driver.commit_code(metadata="\U0001f600\U0001f600a") is ErrorCode.OFFSET_METADATA_TOO_LARGE


# covers: F18
def test_a_commit_of_nothing_but_too_large_metadata_writes_nothing():
    driver = Driver()
    assert driver.commit_code(metadata="x" * 5000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert not driver.log
    assert not driver.has_group()


# covers: A9, A8
def test_the_reply_groups_partitions_by_topic_in_the_order_of_the_request():
    driver = Driver()
    command = CommitOffsets("g", [("u", [(3, 1, -1, ""), (0, 1, -1, "")]), ("t", [(9, 1, -1, "")])])
    assert driver.ask(command).topics == [
        ("u", [(3, NONE), (0, NONE)]),
        ("t", [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


# covers: F26
def test_unknown_topics_and_partitions_are_rejected_first_and_the_rest_goes_on():
    driver = Driver()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    got = driver.commit({("t", 0): 1, ("t", 4): 1, ("t", -1): 1, ("nope", 0): 1, ("", 0): 1})
    assert got == {("t", 0): NONE, ("t", 4): unknown, ("t", -1): unknown, ("nope", 0): unknown, ("", 0): unknown}
    got = driver.commit({("nope", 0): 1, ("t", 0): 1}, "m", 3)
    assert got == {("nope", 0): unknown, ("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}


# covers: F26
def test_a_commit_of_unknown_partitions_only_never_reaches_the_group():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.advance(9000)
    assert driver.commit({("nope", 0): 1}, member_id, 1) == {("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    driver.advance(1000)
    assert driver.state() == "Empty"


# covers: F26, F12
@pytest.mark.parametrize("member_id", ["", "whoever"])
def test_without_generation_an_empty_or_missing_group_accepts_whatever_the_member_id(member_id):
    driver = Driver()
    assert driver.commit_code(member_id, -1) is NONE
    assert driver.state() == "Empty"
    assert driver.group().protocol_type is None
    assert driver.commit_code(member_id, -1, offset=2) is NONE


# covers: F26, F24
def test_with_a_generation_a_missing_group_is_an_illegal_generation_and_from_version_9_not_found():
    driver = Driver()
    assert driver.commit_code("m", 0, missing_group_is_not_found=False) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit_code("m", 0, missing_group_is_not_found=True) is ErrorCode.GROUP_ID_NOT_FOUND
    assert not driver.has_group()


# covers: F26, F24, F20
def test_member_and_generation_must_be_right_in_a_group_with_members():
    driver = Driver()
    member_id, static = driver.form_group(None, "i")
    assert driver.commit_code() is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit_code("nobody", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit_code("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit_code("", -1, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit_code("old", 1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    for wrong in (0, 2, -1):
        assert driver.commit_code(member_id, wrong) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit_code(member_id, 1) is NONE
    assert driver.commit_code(static, 1, instance_id="i") is NONE


# covers: F26
def test_a_former_member_of_an_empty_group_is_unknown():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.leave(member_id)
    assert driver.commit_code(member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit_code(member_id, -1) is NONE


# covers: F26
def test_a_group_that_is_being_removed_is_not_available():
    driver = Driver()
    driver.commit_code()
    driver.hold_appends()
    driver.send(DeleteGroups(["g"]))
    assert driver.commit_code() is ErrorCode.COORDINATOR_NOT_AVAILABLE


# covers: F26
@pytest.mark.parametrize("offset", [-1, -(2**63), 0, 2**63 - 1])
def test_the_broker_accepts_any_offset(offset):
    driver = Driver()
    assert driver.commit_code(offset=offset) is NONE
    assert driver.fetch().offset == offset


# covers: F27, F24
def test_stable_and_preparing_accept_commits_and_completing_answers_rebalance_in_progress():
    driver = Driver()
    first, second = driver.form_group(None, None)
    assert driver.commit_code(first, 1) is NONE
    tokens = [driver.send_join(first)]
    assert driver.state() == "PreparingRebalance"
    assert driver.commit_code(second, 1) is NONE
    tokens.append(driver.send_join(second))
    assert driver.state() == "CompletingRebalance"
    assert driver.commit_code(second, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.commit_code(second, 1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit_code("nobody", 2) is ErrorCode.UNKNOWN_MEMBER_ID


# covers: F28, F20, A38, A39
@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_append_failures_are_translated_for_all_partitions_that_reached_the_group(code, answer):
    driver = Driver()
    driver.hold_appends()
    command = CommitOffsets("g", [("t", [(0, 1, -1, ""), (1, 1, -1, "x" * 5000)]), ("nope", [(0, 1, -1, "")])])
    token = driver.send(command)
    driver.refuse(code)
    assert codes(driver.reply(token)) == {
        ("t", 0): answer,
        ("t", 1): answer,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert driver.fetch().offset == -1


# covers: F28
def test_a_refused_first_commit_leaves_no_group_behind():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    assert driver.list_groups() == {}
    driver.refuse()
    assert not driver.has_group()


# covers: F21
def test_a_commit_sent_again_after_a_lost_reply_gives_the_same_result():
    driver = Driver()
    [member_id] = driver.form_group(None)
    for _ in range(2):
        assert driver.commit_code(member_id, 1, offset=7) is NONE
    assert driver.fetch().offset == 7
    driver.check_stored_state()


# covers: F20, F22, A40, A41
def test_moved_and_loading_coordinators_answer_every_partition_with_a_retriable_code():
    driver = Driver(is_loaded=False)
    got = driver.commit({("t", 0): 1, ("nope", 0): 1})
    assert got == {("t", 0): ErrorCode.NOT_COORDINATOR, ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    driver.shard.begin_load()
    assert driver.commit_code() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for code in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ):
        assert code.is_retriable
    assert not ErrorCode.OFFSET_METADATA_TOO_LARGE.is_retriable
    assert LEGACY_NAMES["NotCoordinatorForConsumer"] is ErrorCode.NOT_COORDINATOR
    assert LEGACY_NAMES["OffsetsLoadInProgress"] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# covers: D3, F26
def test_the_empty_group_id_is_allowed_and_none_is_not():
    driver = Driver()
    assert driver.commit_code(group_id="") is NONE
    assert driver.fetch(group_id="").offset == 1
    assert driver.commit_code(group_id=None) is ErrorCode.INVALID_GROUP_ID


# covers: F6, F29
def test_a_retention_time_sent_along_is_stored_as_an_expiry_without_epoch():
    driver = Driver()
    driver.advance(500)
    driver.commit_code(retention_ms=1000, leader_epoch=9)
    assert driver.log == [OffsetCommitted("g", "t", 0, 1, -1, "", 500, 1500)]


# covers: F29
@pytest.mark.parametrize(("retention_ms", "expire_ms"), [(2**63 - 1, 2**63 - 1), (-(2**62), 0), (0, 500)])
def test_absurd_retention_times_stay_inside_the_record(retention_ms, expire_ms):
    driver = Driver()
    driver.advance(500)
    driver.commit_code(retention_ms=retention_ms)
    assert driver.log[0].expire_ms == expire_ms


# covers: F31
def test_the_number_of_offsets_is_groups_times_partitions():
    driver = Driver()
    for group_id in ("a", "b", "c"):
        driver.commit(dict.fromkeys((("t", each) for each in range(4)), 1), group_id=group_id)
        driver.commit(dict.fromkeys((("t", each) for each in range(4)), 2), group_id=group_id)
    assert driver.shard.gauges()["NumOffsets"] == 12


# covers: F26
def test_a_request_may_name_a_partition_twice_and_the_last_counts():
    driver = Driver()
    driver.ask(CommitOffsets("g", [("t", [(0, 1, -1, ""), (0, 2, -1, "")])]))
    assert driver.fetch().offset == 2


# covers: F19
def test_a_commit_of_nothing_is_answered_with_nothing():
    driver = Driver()
    assert driver.ask(CommitOffsets("g", [])) == CommitReply([])
    assert driver.ask(CommitOffsets("g", [("t", [])])) == CommitReply([("t", [])])
    assert not driver.has_group()
