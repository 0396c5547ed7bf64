"""Everything held counts; a partition that holds much is paused, the others go on, and polling never stops."""

from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.errors import ConfigError
from seamark.parallel.core.budget import HEADER_OVERHEAD_BYTES, Budget, BudgetBroken, record_size
from seamark.topic_partition import TopicPartition
from tests.unit.parallel.lane_cases import ORDERS, OTHERS


def budget_for(*partitions, max_bytes=1_000, max_records=1_000):
    budget = Budget(max_bytes, max_records)
    budget.assigned(partitions)
    return budget


def test_a_single_partition_may_fill_most_of_the_budget_before_it_is_paused():
    budget = budget_for(ORDERS)
    budget.hold(ORDERS, 800)
    assert budget.changes() == ([], [])
    budget.hold(ORDERS, 1)
    assert budget.changes() == ([ORDERS], [])
    assert budget.changes() == ([], [])


def test_it_is_resumed_only_when_it_is_well_below():
    budget = budget_for(ORDERS)
    budget.hold(ORDERS, 900, 9)
    budget.changes()
    budget.give_back(ORDERS, 200, 2)
    assert budget.changes() == ([], [])
    budget.give_back(ORDERS, 100, 1)
    assert budget.changes() == ([], [ORDERS])
    assert budget.paused() == []


def test_records_are_limited_as_well_as_bytes():
    budget = budget_for(ORDERS, max_records=10)
    budget.hold(ORDERS, 1, records=9)
    assert budget.changes().pause == [ORDERS]
    assert budget.room_records() == 1
    budget.hold(ORDERS, 1, records=9)
    assert budget.room_records() == 1


def test_what_one_partition_cannot_get_rid_of_leaves_room_for_the_others():
    budget = budget_for(ORDERS, OTHERS)
    while not budget.changes().pause:
        budget.hold(ORDERS, 10)
    assert budget.paused() == [ORDERS]
    budget.hold(OTHERS, 50)
    assert OTHERS not in budget.changes().pause


def test_a_record_larger_than_the_budget_gets_through():
    budget = budget_for(ORDERS, max_bytes=10)
    budget.hold(ORDERS, 5_000)
    assert budget.changes().pause == [ORDERS]
    budget.give_back(ORDERS, 5_000)
    assert budget.changes().resume == [ORDERS]


def test_what_a_revoked_partition_still_runs_counts_until_it_ends():
    budget = budget_for(ORDERS, OTHERS)
    budget.hold(ORDERS, 600)
    budget.released([ORDERS])
    assert budget.held_bytes == 600
    assert budget.held_by(ORDERS) == (600, 1)
    budget.give_back(ORDERS, 600)
    assert (budget.held_bytes, budget.held_by(ORDERS)) == (0, (0, 0))


def test_a_partition_that_comes_back_is_not_paused_and_still_holds_what_is_running():
    budget = budget_for(ORDERS)
    budget.hold(ORDERS, 900, 3)
    budget.changes()
    budget.released([ORDERS])
    assert budget.paused() == []
    budget.assigned([ORDERS])
    assert budget.held_by(ORDERS) == (900, 3)
    assert budget.changes().pause == [ORDERS]


def test_giving_back_more_than_was_held_is_refused():
    budget = budget_for(ORDERS)
    budget.hold(ORDERS, 5)
    with pytest.raises(BudgetBroken, match="orders-0 releases 1 record of 6 bytes"):
        budget.give_back(ORDERS, 6)
    with pytest.raises(BudgetBroken):
        budget.give_back(OTHERS, 0)
    for limits in ((0, 1), (1, 0)):
        with pytest.raises(ConfigError):
            Budget(*limits)


def test_a_record_costs_its_bytes_and_its_objects():
    record = SimpleNamespace(key=b"abc", value=b"x" * 100, headers=[("h", b"12"), ("i", None)])
    empty = SimpleNamespace(key=None, value=None, headers=())
    assert record_size(record) - record_size(empty) == 3 + 100 + 3 + 1 + 2 * HEADER_OVERHEAD_BYTES
    assert record_size(empty) > 0
    assert record_size(SimpleNamespace(key=7, value={"a": 1}, headers=())) > record_size(empty)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 6), st.integers(1, 40))
def test_what_is_held_stays_within_the_budget_and_one_poll_and_everything_flows(seed, partition_count, largest):
    random = Random(seed)
    names = [TopicPartition("t", number) for number in range(partition_count)]
    budget = budget_for(*names, max_bytes=500)
    held, paused = [], set()
    for _ in range(400):
        for name in names:
            if name not in paused and random.random() < 0.7:
                size = random.randint(1, largest)
                budget.hold(name, size)
                held.append((name, size))
        changes = budget.changes()
        paused = (paused | set(changes.pause)) - set(changes.resume)
        assert paused == set(budget.paused())
        assert budget.held_bytes <= 500 + partition_count * largest
        for _ in range(random.randrange(3)):
            if held:
                budget.give_back(*held.pop(random.randrange(len(held))))
    for each in held:
        budget.give_back(*each)
    assert budget.held_bytes == budget.held_records == 0
    budget.changes()
    assert budget.paused() == []
