"""OffsetFetch: from the table, in every state, stable or not."""

import pytest

from seamark.coordinator import FetchOffsets, Settings
from seamark.coordinator.replies import FetchedOffset
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver


# covers: F25, F10
def test_no_committed_offset_unknown_topic_and_missing_group_all_give_minus_one_without_error():
    driver = Driver()
    assert driver.fetch() == FetchedOffset(0, -1, -1, "", ErrorCode.NONE)
    driver.commit_code()
    assert driver.fetch("t", 1) == FetchedOffset(1)
    assert driver.fetch("nope", 0) == FetchedOffset(0)
    assert driver.fetch_all("missing") == {}


# covers: F17, F25
def test_offset_epoch_and_metadata_come_back_as_committed():
    driver = Driver()
    driver.commit({("t", 2): 9}, metadata="note", leader_epoch=4)
    assert driver.fetch("t", 2) == FetchedOffset(2, 9, 4, "note", ErrorCode.NONE)


# covers: F10, F19
def test_all_topics_are_told_by_topic_and_named_ones_in_the_order_asked():
    driver = Driver()
    driver.commit({("u", 1): 1, ("t", 0): 2, ("u", 0): 3})
    assert driver.fetch_all() == {("u", 1): 1, ("t", 0): 2, ("u", 0): 3}
    reply = driver.ask(FetchOffsets("g"))
    assert sorted(topic for topic, _ in reply.topics) == ["t", "u"]
    reply = driver.ask(FetchOffsets("g", [("t", [1, 0]), ("u", [1])]))
    assert [(topic, [each.offset for each in found]) for topic, found in reply.topics] == [("t", [-1, 2]), ("u", [1])]


# covers: F11
def test_a_stable_fetch_waits_for_the_append_while_a_plain_one_sees_the_old_value():
    driver = Driver()
    driver.commit_code(offset=5)
    driver.hold_appends()
    driver.send_commit({("t", 0): 10})
    token = driver.send_stable_fetch()
    assert driver.fetch().offset == 5
    assert driver.is_waiting(token)
    driver.acknowledge()
    assert driver.reply(token).topics[0][1][0].offset == 10
    assert driver.fetch().offset == 10


# covers: F11, F9
def test_a_stable_fetch_gives_up_with_not_coordinator_after_the_commit_timeout():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 10})
    driver.advance(2000)
    token = driver.send_stable_fetch()
    driver.advance(4999)
    assert driver.is_waiting(token)
    driver.advance(1)
    reply = driver.reply(token)
    assert (reply.group_id, reply.error, reply.topics) == ("g", ErrorCode.NOT_COORDINATOR, [])
    late = driver.send_stable_fetch()
    driver.acknowledge()
    assert driver.reply(late).topics[0][1][0].offset == 10


# covers: F11
def test_a_stable_fetch_waits_for_the_newest_append_of_its_group_and_for_no_other():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1}, group_id="other")
    assert not driver.is_waiting(driver.send_stable_fetch())
    driver.send_commit({("t", 0): 1})
    driver.send_commit({("t", 0): 2})
    token = driver.send_stable_fetch()
    driver.acknowledge(2)
    assert driver.is_waiting(token)
    driver.acknowledge(1)
    assert driver.reply(token).topics[0][1][0].offset == 2


# covers: F11, F28
def test_a_refused_append_lets_the_stable_fetch_see_what_was_there():
    driver = Driver()
    driver.commit_code(offset=5)
    driver.hold_appends()
    driver.send_commit({("t", 0): 10})
    token = driver.send_stable_fetch()
    driver.refuse()
    assert driver.reply(token).topics[0][1][0].offset == 5


# covers: F11
def test_after_the_newest_append_is_refused_an_earlier_one_is_still_waited_for():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    driver.send_commit({("t", 0): 2})
    driver.carry_out(driver.shard.failed(1, ErrorCode.KAFKA_STORAGE_ERROR, 0))
    token = driver.send_stable_fetch()
    assert driver.is_waiting(token)
    driver.carry_out(driver.shard.stored(0, 0))
    assert driver.reply(token).topics[0][1][0].offset == 1


# covers: F14, F22, F23
def test_moved_and_loading_coordinators_answer_with_their_own_codes():
    driver = Driver(is_loaded=False)
    reply = driver.ask(FetchOffsets("g", [("t", [0])]))
    assert (reply.error, reply.topics) == (ErrorCode.NOT_COORDINATOR, [])
    driver.shard.begin_load()
    reply = driver.ask(FetchOffsets("g", [("t", [0])]))
    assert (reply.error, reply.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    driver.carry_out(driver.shard.finish_load(0))
    assert driver.fetch().offset == -1


# covers: D3
def test_a_fetch_needs_a_group_id_that_may_be_empty():
    driver = Driver()
    assert driver.ask(FetchOffsets(None)).error is ErrorCode.INVALID_GROUP_ID
    assert driver.ask(FetchOffsets("")).error is ErrorCode.NONE


# covers: F27
@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_fetch_is_answered_in_every_state(state):
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    driver.commit_code(offset=3)
    if state != "Empty":
        token = driver.send_join()
    if state in ("CompletingRebalance", "Stable"):
        driver.advance(0)
    if state == "Stable":
        driver.send_sync(driver.reply(token).member_id, 1, {})
    assert driver.state() == state
    assert driver.fetch().offset == 3
