"""The record that holds a frontier back is named with everything needed to decide about it."""

from seamark.parallel.frontier import Frontier
from seamark.parallel.stall import holding_back
from seamark.parallel.work import Where
from tests.unit.parallel.lane_cases import ORDERS, OTHERS, work


def frontier_of(*works):
    frontier = Frontier(1, 0)
    for each in works:
        frontier.take(1, each.offset, each)
    return frontier


def test_the_first_record_in_flight_is_named_with_key_age_attempts_and_place():
    slow = work(5, b"customer-7", since=10.0)
    slow.attempts, slow.where, slow.error = 3, Where.RETRYING, ValueError("no")
    frontier = frontier_of(slow, work(6, since=11.0), work(9, since=12.0))
    [stall] = holding_back({ORDERS: frontier}, now=75.5)
    assert stall[:6] == (ORDERS, 5, b"customer-7", 65.5, 3, Where.RETRYING)
    assert str(stall) == (
        "orders-0 is held at offset 5 (key b'customer-7') for 65.5 s: waiting for a retry, attempts 3, "
        "last error ValueError: no; 4 offsets behind it"
    )


def test_young_records_and_idle_partitions_are_no_stall_and_the_oldest_comes_first():
    frontiers = {
        ORDERS: frontier_of(work(1, since=50.0)),
        OTHERS: frontier_of(work(2, since=20.0, partition=OTHERS)),
    }
    assert [stall.partition for stall in holding_back(frontiers, now=60.0)] == [OTHERS, ORDERS]
    assert [stall.partition for stall in holding_back(frontiers, now=60.0, after=30.0)] == [OTHERS]
    assert holding_back({ORDERS: Frontier(1, 0)}, now=60.0) == []


def test_a_long_key_is_shown_by_its_beginning():
    [stall] = holding_back({ORDERS: frontier_of(work(1, "k" * 500))}, now=1.0)
    assert len(str(stall)) < 250
