"""A key's records run one after the other; other keys overtake; idle keys cost nothing."""

import pytest

from seamark.errors import UsageError
from seamark.parallel.core.lanes import Lanes, lane_of
from seamark.parallel.core.work import RecordState
from seamark.parallel.settings import Order
from tests.unit.parallel.lane_cases import ORDERS, OTHERS, offsets, taken, work, works


def test_one_record_of_a_key_runs_at_a_time_and_other_keys_overtake():
    lanes = Lanes(10)
    lanes.add(works("aab.a"))
    first, other, free = taken(lanes)
    assert offsets([first, other, free]) == [0, 2, 3]
    assert first.state is RecordState.RUNNING
    lanes.finish([first])
    [second] = taken(lanes)
    assert second.offset == 1
    lanes.finish([second])
    assert offsets(taken(lanes)) == [4]


def test_concurrency_is_never_exceeded():
    lanes = Lanes(2)
    lanes.add(works("abcd"))
    running = taken(lanes)
    assert len(running) == 2 == lanes.calls
    lanes.finish(running[:1])
    assert offsets(taken(lanes)) == [2]
    assert lanes.ready_count == 1


def test_an_idle_key_costs_nothing():
    lanes = Lanes(1)
    for start in range(0, 5000, 500):
        lanes.add([work(offset, lane=offset) for offset in range(start, start + 500)])
        for _ in range(500):
            lanes.finish([lanes.take()])
    assert lanes.lane_count() == 0
    assert lanes.running() == []


def test_a_record_that_is_tried_again_keeps_its_place_and_blocks_no_other_key():
    lanes = Lanes(10)
    lanes.add(works("aab"))
    failed, other = taken(lanes)
    lanes.hold([failed])
    lanes.finish([other])
    assert taken(lanes) == []
    assert lanes.calls == 0
    lanes.retry([failed])
    assert offsets(taken(lanes)) == [0]
    lanes.finish([failed])
    assert offsets(taken(lanes)) == [1]


def test_a_held_record_that_is_given_up_lets_its_key_go_on():
    lanes = Lanes(10)
    lanes.add(works("aa"))
    [failed] = taken(lanes)
    lanes.hold([failed])
    lanes.release([failed])
    assert offsets(taken(lanes)) == [1]


def test_a_free_record_comes_back_even_if_nothing_else_is_held():
    lanes = Lanes(10)
    lanes.add(works(".a"))
    free, keyed = taken(lanes)
    lanes.hold([free])
    lanes.finish([keyed])
    lanes.retry([free])
    assert taken(lanes) == [free]


def test_partitions_take_turns():
    lanes = Lanes(6)
    lanes.add(works("." * 100, ORDERS))
    lanes.add(works("." * 3, OTHERS))
    assert [each.partition for each in taken(lanes)] == [ORDERS, OTHERS] * 3


def test_a_batch_may_hold_followers_of_a_key_side_by_side_in_order():
    lanes = Lanes(2)
    lanes.add(works("abaab"))
    batch = lanes.take_batch(4)
    assert [(each.lane, each.offset) for each in batch] == [("a", 0), ("a", 2), ("a", 3), ("b", 1)]
    assert lanes.take_batch(4) == []
    lanes.finish(batch)
    assert offsets(lanes.take_batch(4)) == [4]


def test_a_lane_whose_records_come_from_several_polls_is_opened_once():
    lanes = Lanes(2)
    lanes.add(works("aaa"))
    lanes.finish(lanes.take_batch(2))
    [last] = lanes.take_batch(2)
    lanes.add([work(3, "a")])
    assert lanes.take_batch(2) == []
    lanes.finish([last])
    assert offsets(lanes.take_batch(2)) == [3]
    assert lanes.lane_count() == 1


def test_a_batch_is_one_call():
    lanes = Lanes(1)
    lanes.add(works("...."))
    batch = lanes.take_batch(3)
    assert len(batch) == 3
    assert (lanes.calls, lanes.take_batch(3)) == (1, [])
    lanes.finish(batch)
    assert lanes.calls == 0


def test_a_batch_that_is_taken_apart_keeps_the_order_of_its_keys():
    lanes = Lanes(10)
    lanes.add(works("aabaa."))
    batch = lanes.take_batch(5)
    assert offsets(batch) == [0, 1, 3, 4, 2]
    lanes.hold(batch)
    for each in batch:
        each.alone = True
    lanes.retry(batch)
    assert offsets(lanes.take_batch(5)) == [5]
    started = taken(lanes)
    assert offsets(started) == [0, 2]
    order = []
    while started:
        each = started.pop(0)
        if each.lane == "a":
            order.append(each.offset)
        lanes.finish([each])
        following = lanes.take_batch(5)
        assert len(following) <= 1
        started += following
    assert order == [0, 1, 3, 4]


def test_what_waits_is_dropped_with_its_partition_and_the_rest_goes_on():
    lanes = Lanes(1)
    lanes.add(works("aab", ORDERS))
    lanes.add(works("a", OTHERS))
    [running] = taken(lanes)
    assert sorted(offsets(lanes.drop(ORDERS))) == [1, 2]
    lanes.finish([running])
    assert [each.partition for each in taken(lanes)] == [OTHERS]
    assert lanes.drop(ORDERS) == []


def test_a_key_whose_old_call_is_still_under_way_waits_for_it_after_a_reassignment():
    lanes = Lanes(10)
    lanes.add(works("ab"))
    old_a, old_b = taken(lanes)
    lanes.finish([old_b])
    lanes.drop(ORDERS)
    lanes.add([work(0, "a", term=2), work(1, "b", term=2)])
    [new_b] = taken(lanes)
    assert (new_b.lane, new_b.term) == ("b", 2)
    lanes.finish([old_a])
    [new_a] = taken(lanes)
    assert (new_a.lane, new_a.term) == ("a", 2)


def test_an_end_that_was_not_running_is_refused():
    lanes = Lanes(1)
    with pytest.raises(UsageError, match="was not running"):
        lanes.finish([work(1)])
    with pytest.raises(UsageError, match="concurrency"):
        Lanes(0)


def test_lanes_follow_the_order_that_was_asked_for():
    by_key, by_partition, free = (lane_of(order) for order in (Order.KEY, Order.PARTITION, Order.NONE))
    assert by_key(b"k") == b"k"
    assert by_key(None) is None
    assert by_key({"id": 1}) == by_key({"id": 1}) != by_key({"id": 2})
    assert by_partition(b"k") == by_partition(None)
    assert by_partition(b"k") is not None
    assert free(b"k") is None
