"""The frontier never passes unfinished work, never waits for an offset that is not there, and obeys its term."""

import doctest

import pytest

import seamark.parallel.core.frontier
from seamark.parallel.core.frontier import MAX_RANGES, Frontier, InvariantViolation
from seamark.wire.offsets.done_ahead import DoneAhead


def frontier_with(in_flight, position=0, **keywords):
    frontier = Frontier(1, position, **keywords)
    frontier.take_all(1, in_flight)
    return frontier


def test_the_specification_in_the_class_comment_runs():
    results = doctest.testmod(seamark.parallel.core.frontier)
    assert results.attempted >= 9
    assert results.failed == 0


# covers: H4, H2
def test_nothing_is_subtracted_from_the_smallest_offset_in_flight():
    frontier = frontier_with([5, 6, 7])
    frontier.done_all(1, [6, 7])
    assert frontier.frontier == 5


# covers: H20
def test_offsets_with_gaps_move_like_any_others():
    frontier = frontier_with([0, 2, 4, 6])
    for offset, expected in ((0, 2), (2, 4), (4, 6), (6, 7)):
        frontier.done(1, offset)
        assert frontier.frontier == expected


# covers: H20
def test_a_poll_that_went_past_a_marker_moves_the_frontier_past_it():
    frontier = frontier_with([8, 9])
    frontier.advance(1, 11)
    assert frontier.frontier == 8
    frontier.done_all(1, [8, 9])
    assert frontier.frontier == 11
    frontier.advance(1, 10)
    frontier.advance(9, 99)
    assert frontier.frontier == 11


# covers: H3
def test_a_fresh_partition_is_done_up_to_its_position():
    assert Frontier(1, 42).frontier == 42


# covers: H22
def test_what_is_done_is_not_kept():
    frontier = frontier_with(range(1000))
    frontier.done_all(1, range(1, 1000))
    assert len(frontier) == 1
    assert frontier.offsets() == [0]
    assert frontier.done_ahead().ranges == [(1, 1000)]


# covers: H24
def test_a_result_of_an_older_term_is_counted_and_dropped():
    frontier = frontier_with([5, 6])
    frontier.rewind(2, 5)
    assert frontier.take(1, 5) is False
    assert frontier.take(2, 5) is True
    assert frontier.done(1, 5) is False
    assert (frontier.frontier, frontier.late) == (5, 2)
    assert frontier.take_all(1, [7, 8]) == 0
    assert frontier.late == 4


def test_a_result_that_comes_twice_changes_nothing():
    frontier = frontier_with([5, 6])
    assert frontier.done(1, 5) is True
    assert frontier.done(1, 5) is False
    assert frontier.frontier == 6


def test_a_poll_that_goes_back_without_a_new_term_is_refused_in_one_sentence():
    frontier = frontier_with([5, 6])
    with pytest.raises(InvariantViolation, match=r"^offset 6 was polled in term 1 after the position had reached 7"):
        frontier.take(1, 6)
    with pytest.raises(InvariantViolation, match="offset 8 was polled"):
        frontier.take_all(1, [8, 8])
    with pytest.raises(InvariantViolation, match="term 1 does not follow term 1"):
        frontier.rewind(1, 0)


def test_an_end_that_was_never_polled_is_refused():
    frontier = frontier_with([5])
    with pytest.raises(
        InvariantViolation, match="offset 9 is reported as done, but the partition was polled only up to 6"
    ):
        frontier.done(1, 9)


def test_offsets_that_the_last_owner_had_done_are_not_run_again():
    frontier = Frontier(1, 10, DoneAhead(10, [(12, 14), (20, 30)]))
    assert [frontier.take(1, offset) for offset in (10, 11, 12, 13, 14)] == [True, True, False, False, True]
    assert frontier.spared == 2
    frontier.done_all(1, [10, 11])
    assert frontier.frontier == 14


def test_what_the_last_owner_said_beyond_the_position_is_handed_on():
    frontier = Frontier(1, 10, DoneAhead(10, [(12, 14), (20, 30)]))
    frontier.take(1, 10)
    assert frontier.done_ahead().ranges == [(12, 14), (20, 30)]
    frontier.done(1, 10)
    assert frontier.done_ahead() == DoneAhead(11, [(12, 14), (20, 30)])
    frontier.take_all(1, [11, 12, 13, 14])
    frontier.done(1, 11)
    assert frontier.done_ahead() == DoneAhead(14, [(20, 30)])


def test_the_frontier_never_passes_the_position_even_if_the_map_goes_on():
    frontier = Frontier(1, 10, DoneAhead(10, [(11, 100)]))
    frontier.take(1, 10)
    frontier.done(1, 10)
    assert frontier.frontier == 11
    assert frontier.done_ahead() == DoneAhead(11, [(12, 100)])


def test_a_map_is_forgotten_when_the_position_has_passed_it():
    frontier = Frontier(1, 0, DoneAhead(0, [(1, 3)]))
    assert frontier.take_all(1, [0, 1, 2, 3, 4]) == 3
    assert frontier.done_ahead() == DoneAhead(0, [(1, 3)])
    frontier.done_all(1, [0, 3])
    assert frontier.done_ahead() == DoneAhead(4)


def test_the_record_that_holds_the_frontier_back_is_at_hand():
    frontier = Frontier(1, 0)
    frontier.take(1, 3, "three")
    frontier.take(1, 4, "four")
    assert frontier.first == "three"
    assert frontier.item(4) == "four"
    frontier.done(1, 3)
    assert frontier.first == "four"
    frontier.done(1, 4)
    assert frontier.first is None
    assert not frontier.is_in_flight(4)


def test_the_map_offered_for_metadata_is_bounded_from_the_top():
    count = MAX_RANGES + 50
    frontier = frontier_with(range(0, 2 * count, 2))
    done = frontier.done_ahead()
    assert done.ranges == [(2 * index + 1, 2 * index + 2) for index in range(MAX_RANGES)]


def test_asking_after_every_record_stays_right_over_many_removals():
    frontier = frontier_with(range(10_000))
    for offset in range(10_000):
        frontier.done(1, offset)
        assert frontier.frontier == offset + 1
