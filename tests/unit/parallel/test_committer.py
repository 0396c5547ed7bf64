"""The committer's vectors: what is committed, run by run, from what was in flight and done."""

import doctest
import threading
from collections import deque

import pytest

import seamark.parallel.core.committer
from seamark.parallel.core.committer import LARGEST_LONG, OffsetCommitter
from seamark.parallel.core.frontier import InvariantViolation
from seamark.wire.offsets.done_ahead import DoneAhead, decode

TERM = 1


def committer_of(*keys, **options):
    committer = OffsetCommitter(**options)
    for key in keys:
        committer.assigned(key, TERM, position=-1)
    return committer


def offsets_of(decisions):
    return {decision.key: decision.offset for decision in decisions}


def run_with(committer, in_flight=(), done=(), key="s/p0"):
    """One run after these were put in flight and these were done; the offset to commit, or None."""
    if in_flight:
        committer.in_flight(key, TERM, sorted(in_flight))
    if done:
        committer.done(key, TERM, sorted(done))
    return offsets_of(committer.run()).get(key)


def test_the_specification_in_the_class_comment_runs():
    results = doctest.testmod(seamark.parallel.core.committer)
    assert results.attempted >= 8
    assert results.failed == 0


# covers: H19, H2, H6, H7, H12, H13
@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([({5, 6, 7}, {5, 6, 7}, 8)], id="V1"),
        pytest.param([({5, 6, 7}, {6, 7}, 5), ((), {5}, 8)], id="V2"),
        pytest.param([({10, 11, 12, 13}, {10, 12}, 11), ((), {13}, 11), ((), {11}, 14)], id="V3"),
        pytest.param([({0}, (), 0), ((), {0}, 1)], id="V4"),
        pytest.param([({100, 101}, {101}, 100), ({102}, {102}, 100), ((), (), 100), ((), {100}, 103)], id="V5"),
        pytest.param([((), (), None)], id="V6"),
    ],
)
def test_vectors_give_these_offsets_run_by_run(runs):
    committer = committer_of("s/p0")
    for in_flight, done, expected in runs:
        assert run_with(committer, in_flight, done) == expected


# covers: H4, H9, H18
def test_the_raw_offset_is_matched_and_the_next_one_committed():
    committer = committer_of("s/p0")
    assert run_with(committer, {5}, ()) == 5
    committer.in_flight("s/p0", TERM, [6, 7])
    assert run_with(committer, (), {6, 7}) == 5
    assert run_with(committer, (), {5}) == 8


# covers: H14
def test_the_same_partition_of_two_subscriptions_is_two_keys():
    keys = [("s1", 0), ("s2", 0), ("s1", 1)]
    committer = committer_of(*keys)
    committer.in_flight(("s1", 0), TERM, [5])
    committer.done(("s1", 0), TERM, [5])
    committer.in_flight(("s2", 0), TERM, [5])
    committer.in_flight(("s1", 1), TERM, [9])
    committer.done(("s1", 1), TERM, [9])
    assert offsets_of(committer.run()) == {("s1", 0): 6, ("s2", 0): 5, ("s1", 1): 10}


class TellingQueue(deque):
    """Calls ``at_read`` while somebody reads it."""

    at_read = None

    def popleft(self):
        if self.at_read:
            at_read, self.at_read = self.at_read, None
            at_read()
        return super().popleft()


def hermes(in_flight_first, between):
    """The algorithm as the requirements tell it, with either order of the drains; yields what each run publishes."""
    in_flight_queue, committed_queue = deque(), deque()
    in_flight, highest = set(), None

    def drain_committed():
        drained = set(committed_queue)
        committed_queue.clear()
        return drained

    def drain_in_flight():
        in_flight.update(in_flight_queue)
        in_flight_queue.clear()

    in_flight_queue.append(1)
    committed_queue.append(1)
    for offset in between:
        done = drain_committed() if not in_flight_first else drain_in_flight()
        if offset:
            in_flight_queue.append(offset)
            committed_queue.append(offset)
        if in_flight_first:
            done = drain_committed()
        else:
            drain_in_flight()
        in_flight -= done
        highest = max([offset + 1 for offset in done] + ([highest] if highest else []))
        yield min([highest, *in_flight])


# covers: H16, H15, H8, H11
def test_what_comes_while_a_run_reads_never_holds_the_partition_back():
    committer = committer_of("s/p0")
    committer.run()
    queue = committer._queue = TellingQueue()
    committer.in_flight("s/p0", TERM, [1])
    committer.done("s/p0", TERM, [1])

    def put(offset):
        committer.in_flight("s/p0", TERM, [offset])
        committer.done("s/p0", TERM, [offset])

    published = []
    for offset in (2, 3, None):
        queue.at_read = (lambda offset=offset: put(offset)) if offset else None
        published.append(offsets_of(committer.run())["s/p0"])
    assert published == [2, 3, 4] == list(hermes(in_flight_first=False, between=[2, 3, None]))


# covers: H15, H16
def test_the_other_order_of_reading_goes_backwards_and_stays_there():
    assert list(hermes(in_flight_first=True, between=[2, 3, None])) == [3, 2, 2]


# covers: H20
def test_only_in_flight_repeats_the_minimum_and_gaps_do_no_harm():
    committer = committer_of("s/p0")
    assert run_with(committer, {3, 7, 20}) == 3
    assert run_with(committer) == 3
    assert run_with(committer, (), {3}) == 7
    assert run_with(committer, (), {7, 20}) == 21


# covers: H23
def test_a_published_maximum_is_forgotten():
    committer = committer_of("s/p0")
    assert run_with(committer, {5}, {5}) == 6
    assert run_with(committer) is None
    assert run_with(committer, {6}) == 6


# covers: H25
def test_a_commit_that_could_not_be_sent_is_said_again():
    committer = committer_of("s/p0")
    committer.in_flight("s/p0", TERM, [5])
    committer.done("s/p0", TERM, [5])
    decisions = committer.run()
    committer.not_published(decisions)
    assert committer.run() == decisions
    committer.published(decisions)
    assert committer.run() == []


# covers: H24
def test_reports_of_an_older_term_or_of_a_partition_that_went_are_counted_and_dropped():
    committer = committer_of("s/p0", "s/p1")
    committer.in_flight("s/p0", 1, [5, 6])
    committer.in_flight("s/p1", 1, [7])
    committer.run()
    committer.released("s/p0", 1)
    committer.released("s/p1", 1)
    committer.assigned("s/p0", 2, position=5)
    committer.in_flight("s/p0", 2, [5])
    committer.done("s/p0", 1, [5, 6])
    committer.done("s/p1", 1, [7])
    committer.in_flight("s/p1", 1, [8])
    assert offsets_of(committer.run()) == {"s/p0": 5}
    assert committer.metrics().obsolete_count == 4


# covers: H24
def test_letting_go_of_an_older_term_does_not_touch_the_present_one():
    committer = committer_of("s/p0")
    committer.assigned("s/p0", 2, position=0)
    committer.released("s/p0", 1)
    committer.in_flight("s/p0", 2, [0])
    assert offsets_of(committer.run()) == {"s/p0": 0}
    committer.published([decision._replace(term=1) for decision in committer.run()])
    assert not committer.run()[0].is_repeat


# covers: H25
@pytest.mark.parametrize(("offset", "is_valid"), [(0, True), (LARGEST_LONG - 2, True), (LARGEST_LONG - 1, False)])
def test_only_offsets_that_kafka_can_hold_are_published(offset, is_valid):
    committer = committer_of("s/p0")
    expected = offset + 1 if is_valid else None
    assert run_with(committer, {offset}, {offset}) == expected
    assert committer.metrics().invalid_count == (not is_valid)


# covers: H17, H25
def test_a_broken_contract_ends_the_committer_loudly():
    committer = committer_of("s/p0")
    committer.in_flight("s/p0", TERM, [5])
    committer.done("s/p0", TERM, [6])
    with pytest.raises(InvariantViolation, match="offset 6 is reported as done"):
        committer.run()
    with pytest.raises(InvariantViolation, match="the committer stopped"):
        committer.run()


def test_a_term_that_goes_backwards_is_refused():
    committer = committer_of("s/p0")
    committer.assigned("s/p0", 1, position=0)
    with pytest.raises(InvariantViolation, match="assigned in term 1, but term 1 had already begun"):
        committer.run()


# covers: H5, H21, H26
def test_many_threads_may_report_while_the_owner_runs():
    committer = committer_of(*range(4))
    count = 2_000

    def work(key):
        for offset in range(count):
            committer.in_flight(key, TERM, [offset])
            committer.done(key, TERM, [offset])

    threads = [threading.Thread(target=work, args=(key,)) for key in range(4)]
    for thread in threads:
        thread.start()
    last = {}
    while any(thread.is_alive() for thread in threads):
        for key, offset in offsets_of(committer.run()).items():
            assert offset >= last.get(key, 0)
            last[key] = offset
    for thread in threads:
        thread.join()
    committer.run()
    assert {key: frontier.frontier for key, frontier in committer.frontiers().items()} == dict.fromkeys(range(4), count)
    assert committer.metrics().in_flight == 0


# covers: H28
def test_metrics_tell_runs_ends_obsolete_reports_and_queue_lengths():
    times = iter([10.0, 10.25])
    committer = committer_of("s/p0", seconds=lambda: next(times))
    committer.in_flight("s/p0", TERM, [1, 2, 3])
    committer.done("s/p0", TERM, [1])
    committer.done("s/p0", 9, [2])
    before = committer.metrics()
    assert (before.queued, before.runs) == (4, 0)
    committer.run()
    after = committer.metrics()
    assert (after.runs, after.last_run_s, after.committed_count, after.obsolete_count) == (1, 0.25, 1, 1)
    assert (after.queued, after.in_flight) == (0, 2)


# covers: I9
def test_a_poll_is_confirmed_only_when_all_of_it_is_done():
    committer = OffsetCommitter(whole_polls=True)
    committer.assigned("p", TERM, 0, committed=(0, ""))
    committer.in_flight("p", TERM, range(10))
    committer.done("p", TERM, [0, 1, 2, 4, 5, 6, 7, 8, 9])
    assert [(decision.offset, decision.is_repeat) for decision in committer.run()] == [(0, True)]
    committer.done("p", TERM, [3])
    assert [(decision.offset, decision.is_repeat) for decision in committer.run()] == [(10, False)]


# covers: I9
def test_a_later_poll_is_not_confirmed_before_an_earlier_one():
    committer = committer_of("p", whole_polls=True)
    committer.in_flight("p", TERM, [3, 4])
    committer.in_flight("p", TERM, [5, 6], position=9)
    committer.done("p", TERM, [5, 6, 4])
    assert offsets_of(committer.run()) == {"p": 3}
    committer.done("p", TERM, [3])
    assert offsets_of(committer.run()) == {"p": 9}


# covers: I2, I4
def test_at_most_once_commits_what_was_polled_before_any_of_it_is_done():
    committer = OffsetCommitter(at_once=True)
    committer.assigned("p", TERM, 0)
    committer.in_flight("p", TERM, range(10))
    assert offsets_of(committer.run()) == {"p": 10}
    committer.done("p", TERM, range(7))
    assert {decision.offset for decision in committer.run()} == {10}


# covers: I3
def test_at_least_once_commits_nothing_before_it_is_done():
    committer = OffsetCommitter()
    committer.assigned("p", TERM, 0, committed=(0, ""))
    committer.in_flight("p", TERM, range(10))
    assert [decision.is_repeat for decision in committer.run()] == [True]


def test_what_is_done_ahead_is_in_the_metadata_and_can_be_left_out_or_capped():
    for length, expected in ((4096, DoneAhead(0, [(1, 400)])), (0, None)):
        committer = committer_of("p", metadata_length=length)
        committer.in_flight("p", TERM, range(400))
        committer.done("p", TERM, range(1, 400))
        [decision] = committer.run()
        assert decode(decision.metadata, decision.offset) == expected
    committer = committer_of("p", metadata_length=126)
    committer.in_flight("p", TERM, range(40_000))
    committer.done("p", TERM, [offset for offset in range(1, 40_000) if offset * offset % 7 > 2])
    [decision] = committer.run()
    assert 0 < len(decision.metadata) <= 126


def test_a_commit_is_a_repeat_only_if_offset_and_metadata_are_the_same():
    committer = OffsetCommitter()
    committer.assigned("p", TERM, 0, committed=(0, ""))
    committer.in_flight("p", TERM, [0, 1, 2])
    assert [decision.is_repeat for decision in committer.run()] == [True]
    committer.done("p", TERM, [1])
    decisions = committer.run()
    assert [decision.is_repeat for decision in decisions] == [False]
    committer.published(decisions)
    assert [decision.is_repeat for decision in committer.run()] == [True]
