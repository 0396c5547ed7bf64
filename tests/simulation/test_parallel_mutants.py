"""The checks of the parallel lifetimes can fail: each core broken on purpose is found within a few seeds."""

import pytest

from seamark.parallel.core import (
    assignments,
    budget,
    committer,
    engine,
    frontier,
    intake,
    lanes,
    outcomes,
)
from seamark.parallel.core.budget import Changes
from seamark.parallel.core.frontier import Frontier
from seamark.parallel.pools import process_calls
from seamark.simulation.parallel.lifetime import ParallelLifetime, ParallelLifetimeFailed
from seamark.wire.offsets.done_ahead import DoneAhead

SEEDS = 120


def commit_what_was_polled(monkeypatch):
    monkeypatch.setattr(Frontier, "frontier", property(lambda self: self.position))


def say_done_of_what_is_in_flight(monkeypatch):
    def done_ahead(self):
        start = self.frontier
        return DoneAhead(start, [(start + 1, self.position)] if self.position > start + 1 else [])

    monkeypatch.setattr(frontier.Frontier, "done_ahead", done_ahead)


def forget_what_is_done_ahead(monkeypatch):
    monkeypatch.setattr(frontier.Frontier, "done_ahead", lambda self: DoneAhead(self.frontier))


def run_what_the_map_says_is_done(monkeypatch):
    original = assignments.Assignments.begin
    monkeypatch.setattr(
        assignments.Assignments,
        "begin",
        lambda self, partition, position, known=None, committed=None, epochs=(): original(
            self, partition, position, None, committed, epochs
        ),
    )


def take_late_results_for_present_ones(monkeypatch):
    monkeypatch.setattr(assignments.Assignments, "is_live", lambda self, work: self.get(work.partition) is not None)


def start_whatever_comes(monkeypatch):
    def add(self, works):
        for work in works:
            work.lane = None
        original(self, works)

    original = lanes.Lanes.add
    monkeypatch.setattr(lanes.Lanes, "add", add)


def let_others_overtake_a_retry(monkeypatch):
    original = lanes.Lanes.hold

    def hold(self, batch):
        original(self, batch)
        self.release(batch)

    monkeypatch.setattr(lanes.Lanes, "hold", hold)


def never_pause(monkeypatch):
    monkeypatch.setattr(budget.Budget, "changes", lambda self: Changes([], []))


def keep_what_a_partition_left_behind(monkeypatch):
    monkeypatch.setattr(outcomes.RecordOutcomes, "drop", lambda self, partition, since=0: [])


def forget_records_below_a_rewind(monkeypatch):
    monkeypatch.setattr(
        intake.Intake,
        "_start_over",
        lambda self, partition, term, position: (
            self._drop_waiting(partition, 0),
            self._assignments.begin(partition, position),
        )[1],
    )


def run_before_the_commit_is_known(monkeypatch):
    original = assignments.AwaitingCommit.answered

    def answered(self, ticket, results):
        accepted, refused = original(self, ticket, results)
        return accepted + refused, []

    monkeypatch.setattr(assignments.AwaitingCommit, "answered", answered)


def take_a_refused_commit_for_granted(monkeypatch):
    monkeypatch.setattr(committer.OffsetCommitter, "not_published", committer.OffsetCommitter.published)


def do_not_count_what_is_late(monkeypatch):
    original = engine.Engine.succeeded_all

    def succeeded_all(self, calls, now):
        late = self.counters.late
        actions = original(self, calls, now)
        self.counters.late = late
        return actions

    monkeypatch.setattr(engine.Engine, "succeeded_all", succeeded_all)


def forget_calls_that_were_taken_back(monkeypatch):
    def withdrawn(self, calls, now):
        for call in calls:
            self._lanes.hold(call.works)
        return self.tick(now)

    monkeypatch.setattr(engine.Engine, "withdrawn", withdrawn)


def lose_a_row_of_failed_columns(monkeypatch):
    original = intake.Intake.split_batch
    monkeypatch.setattr(intake.Intake, "split_batch", lambda self, works: original(self, works)[1:] or [])


def believe_that_what_ended_ended_well(monkeypatch):
    """A call that raised, and whose answer was not read, counts as done when its process dies."""
    monkeypatch.setattr(process_calls, "RETURNED", process_calls.RAISED)


def run_what_was_begun_elsewhere(monkeypatch):
    monkeypatch.setattr(process_calls, "BEGUN", process_calls.NOT_BEGUN)


def say_returned_before_the_handler_is_called(monkeypatch):
    monkeypatch.setattr(process_calls, "BEGUN", process_calls.RETURNED)


def forget_the_calls_of_a_dead_process(monkeypatch):
    original = process_calls.OwnerSide.process_gone
    monkeypatch.setattr(
        process_calls.OwnerSide, "process_gone", lambda self, exit_code: (original(self, exit_code)[0], [])
    )


def run_all_calls_of_a_dead_process_elsewhere(monkeypatch):
    def process_gone(self, exit_code):
        held = list(self.held)
        self.held.clear()
        return [], held

    monkeypatch.setattr(process_calls.OwnerSide, "process_gone", process_gone)


def put_an_error_down_to_the_wrong_call(monkeypatch):
    original = process_calls.OwnerSide.answered

    def answered(self, answer):
        outcomes = original(self, answer)
        errors = [ending.error for ending in outcomes]
        return [
            process_calls.Ending(ending.call, error) for ending, error in zip(outcomes, reversed(errors), strict=True)
        ]

    monkeypatch.setattr(process_calls.OwnerSide, "answered", answered)


def read_states_of_other_calls(monkeypatch):
    original = process_calls.OwnerSide.answered

    def answered(self, answer):
        place = self._place
        outcomes = original(self, answer)
        self._place = place
        return outcomes

    monkeypatch.setattr(process_calls.OwnerSide, "answered", answered)


def commit_no_leader_epoch(monkeypatch):
    monkeypatch.setattr(committer.OffsetCommitter, "_epoch", staticmethod(lambda assignment, offset, metadata: -1))


def commit_the_first_epoch_for_ever(monkeypatch):
    monkeypatch.setattr(
        committer.OffsetCommitter, "_epoch", staticmethod(lambda assignment, offset, metadata: assignment.epochs.first)
    )


def stay_before_gaps(monkeypatch):
    monkeypatch.setattr(Frontier, "advance", lambda self, term, position: None)


def apply_the_map_to_whatever_replaced_its_records(monkeypatch):
    monkeypatch.setattr(assignments.Assignments, "cut_known", lambda self, partition, assignment, offset: 0)


MUTANTS = [
    believe_that_what_ended_ended_well,
    run_what_was_begun_elsewhere,
    say_returned_before_the_handler_is_called,
    forget_the_calls_of_a_dead_process,
    run_all_calls_of_a_dead_process_elsewhere,
    put_an_error_down_to_the_wrong_call,
    read_states_of_other_calls,
    commit_no_leader_epoch,
    commit_the_first_epoch_for_ever,
    stay_before_gaps,
    apply_the_map_to_whatever_replaced_its_records,
    forget_calls_that_were_taken_back,
    lose_a_row_of_failed_columns,
    commit_what_was_polled,
    say_done_of_what_is_in_flight,
    forget_what_is_done_ahead,
    run_what_the_map_says_is_done,
    take_late_results_for_present_ones,
    start_whatever_comes,
    let_others_overtake_a_retry,
    never_pause,
    keep_what_a_partition_left_behind,
    forget_records_below_a_rewind,
    run_before_the_commit_is_known,
    take_a_refused_commit_for_granted,
    do_not_count_what_is_late,
]


# Where to begin, for those that few seeds find: the seeds before these would only take time.
FIRST_SEEDS = {
    apply_the_map_to_whatever_replaced_its_records: 200,
    commit_no_leader_epoch: 45,
    forget_records_below_a_rewind: 90,
    lose_a_row_of_failed_columns: 20,
    run_before_the_commit_is_known: 25,
    take_a_refused_commit_for_granted: 30,
}


# covers: H2, H22, H24, I2
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_core_broken_on_purpose_is_found(mutant, monkeypatch):
    mutant(monkeypatch)
    first = FIRST_SEEDS.get(mutant, 0)
    for seed in range(first, first + SEEDS):
        try:
            ParallelLifetime(seed).run()
        except ParallelLifetimeFailed:
            return
    pytest.fail(f"{SEEDS} lifetimes were lived through with a broken core")
