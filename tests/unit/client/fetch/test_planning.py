"""Which node is asked for what, and when nobody is asked."""

from __future__ import annotations

import pytest

from seamark.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from seamark.client.core.assignment_state import Position
from seamark.client.fetch.chunks import Chunk
from seamark.client.fetch.messages import FetchOutcome, outcome_of
from seamark.client.fetch.planning import FetchPlanning, PartitionFetch
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

A, B, C = (TopicPartition("t", number) for number in range(3))
FULL = 100


def view(leaders: dict[TopicPartition, int]) -> ClusterView:
    brokers = {number: Node(number, "localhost", 9000 + number) for number in (1, 2, 3)}
    partitions = {each.partition: PartitionView(each.partition, node, 4, (1,), (1,)) for each, node in leaders.items()}
    return ClusterView(1, "c", 1, brokers, {"t": TopicView("t", b"i" * 16, False, partitions)})


def planning(*partitions: TopicPartition, budget: int = 10 * FULL) -> FetchPlanning:
    made = FetchPlanning(budget_bytes=budget, partition_bytes=FULL)
    for partition in partitions:
        made.start(partition, Position(0), 1)
    return made


def arrive(state: PartitionFetch, size: int) -> None:
    state.chunks.append(Chunk(state.partition, 0, bytes(size)))
    state.arrived_bytes += size


def test_one_request_per_node_with_all_its_partitions() -> None:  # covers: K6
    work = planning(A, B, C).plan(view({A: 1, B: 2, C: 1}), 0)
    assert {each.node_id: set(each.targets) for each in work} == {1: {A, C}, 2: {B}}


def test_a_node_with_a_request_outstanding_is_not_asked_again() -> None:  # covers: K3, K9
    made = planning(A, B)
    made.pending.add(1)
    assert [each.node_id for each in made.plan(view({A: 1, B: 2}), 0)] == [2]
    made.pending.discard(1)
    assert [each.node_id for each in made.plan(view({A: 1, B: 2}), 0)] == [1, 2]


def test_an_ask_names_topic_id_offset_and_leader_epoch() -> None:
    made = planning()
    made.start(A, Position(42, 3), 1)
    [work] = made.plan(view({A: 1}), 0)
    assert work.targets[A] == (b"i" * 16, 42, 4, FULL)


def test_paused_partitions_are_not_fetched() -> None:
    made = planning(A, B)
    made.partitions[A].is_paused = True
    [work] = made.plan(view({A: 1, B: 1}), 0)
    assert set(work.targets) == {B}


def test_a_partition_without_a_leader_is_told_and_left_out() -> None:
    made = planning(A, B)
    [work] = made.plan(view({A: 1}), 0)
    assert set(work.targets) == {A}
    assert made.leaderless == [B]


def test_four_fetches_of_a_partition_may_wait_and_no_more() -> None:
    made = planning(A)
    arrive(made.partitions[A], 3 * FULL)
    assert made.plan(view({A: 1}), 0)
    arrive(made.partitions[A], FULL)
    assert not made.plan(view({A: 1}), 0)
    made.partitions[A].taken_bytes += FULL
    assert made.plan(view({A: 1}), 0)


def test_a_node_is_asked_when_half_of_its_partitions_are_hungry() -> None:
    made = planning(A, B, C)
    for partition in (A, B):
        arrive(made.partitions[partition], 4 * FULL)
    assert not made.plan(view({A: 1, B: 1, C: 1}), 0)
    made.partitions[A].taken_bytes += FULL
    [work] = made.plan(view({A: 1, B: 1, C: 1}), 0)
    assert set(work.targets) == {A, C}


def test_bytes_that_wait_are_bounded_by_the_budget() -> None:
    made = planning(A, B, budget=3 * FULL)
    arrive(made.partitions[A], FULL)
    [work] = made.plan(view({A: 1, B: 1}), 0)
    assert work.max_bytes == 2 * FULL
    arrive(made.partitions[A], FULL)
    arrive(made.partitions[B], FULL)
    assert not made.plan(view({A: 1, B: 1}), 0)


def test_a_partition_that_backs_off_is_asked_for_later() -> None:
    made = planning(A)
    made.partitions[A].retry_at_ms = 100
    assert not made.plan(view({A: 1}), 99)
    assert made.next_retry_ms(99) == 100
    assert made.plan(view({A: 1}), 100)
    assert made.next_retry_ms(100) is None


def test_a_trouble_stops_a_partition_until_it_is_heard() -> None:
    made = planning(A)
    made.partitions[A].has_failed = True
    assert not made.plan(view({A: 1}), 0)


def test_starting_again_is_another_life() -> None:
    made = planning(A)
    old = made.partitions[A]
    arrive(old, 10)
    new = made.start(A, Position(7), 2)
    assert not old.is_alive
    assert not old.chunks
    assert new.is_alive
    assert made.queued_bytes == 0


def test_the_preferred_replica_is_read_from_until_its_time_is_over() -> None:
    made = planning(A)
    made.partitions[A].replica, made.partitions[A].replica_until_ms = 2, 1000
    assert [each.node_id for each in made.plan(view({A: 1}), 0)] == [2]
    assert [each.node_id for each in made.plan(view({A: 1}), 1000)] == [1]
    made.partitions[A].replica, made.partitions[A].replica_until_ms = 9, 5000
    assert [each.node_id for each in made.plan(view({A: 1}), 1000)] == [1], "a replica that is gone is not asked"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.NONE, FetchOutcome.DATA),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, FetchOutcome.REFRESH),
        (ErrorCode.FENCED_LEADER_EPOCH, FetchOutcome.REFRESH),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, FetchOutcome.REFRESH),
        (ErrorCode.UNKNOWN_TOPIC_ID, FetchOutcome.REFRESH),
        (ErrorCode.INCONSISTENT_TOPIC_ID, FetchOutcome.REFRESH),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, FetchOutcome.AGAIN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, FetchOutcome.AGAIN),
        (ErrorCode.OFFSET_OUT_OF_RANGE, FetchOutcome.OUT_OF_RANGE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, FetchOutcome.RAISE),
        (ErrorCode.CORRUPT_MESSAGE, FetchOutcome.RAISE),
        (ErrorCode.UNSUPPORTED_VERSION, FetchOutcome.RAISE),
    ],
)
def test_each_error_of_a_partition_has_its_consequence(code: ErrorCode, outcome: FetchOutcome) -> None:
    assert outcome_of(code) is outcome


def test_no_code_is_without_a_consequence() -> None:
    for code in ErrorCode:
        assert isinstance(outcome_of(code), FetchOutcome)
