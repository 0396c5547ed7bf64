"""Moves between two stores in memory: made, refused, interrupted at every step, taken back."""

import contextlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.moves import Choices, Journal, MoveInterrupted, MoveInUse, Mover
from seamark.plans import BadPlan, WrongCluster
from seamark.stores import StoredOffset
from seamark.stores.errors import StoreUnavailable
from tests.unit.moves.world import NOW_MS, FusedStore, Killed, World, at

CONTENTS = {"a": {0: 10, 1: 11, 2: 12}, "b": {0: 20, 1: 21}, "c": {0: 30, 1: 31}}
THERE = {"a": {0: 1, 2: 12}, "c": {0: 99}, "other": {0: 5}}


def world(tmp_path, **options):
    return World(tmp_path, CONTENTS, THERE, **options)


def results(outcomes):
    return {group: outcome.result for group, outcome in outcomes.items()}


def test_offsets_are_moved_and_others_are_left_alone(tmp_path):
    here = world(tmp_path)
    assert results(here.move()) == {"a": "moved", "b": "moved", "c": "moved"}
    assert here.held() == {**CONTENTS, "other": {0: 5}}
    assert here.held(here.source_store) == CONTENTS
    assert results(here.move()) == {"a": "already", "b": "already", "c": "already"}


def test_a_move_is_taken_back_offset_by_offset(tmp_path):
    here = world(tmp_path)
    here.move()
    assert results(here.go_back(dry_run=True)) == {"a": "returned", "b": "returned", "c": "returned"}
    assert here.held()["b"] == CONTENTS["b"]
    assert results(here.go_back()) == {"a": "returned", "b": "returned", "c": "returned"}
    assert here.held() == THERE
    assert here.go_back() == {}
    # What was taken back may be moved again.
    assert results(here.move()) == {"a": "moved", "b": "moved", "c": "moved"}


def test_a_kill_at_any_step_is_resumed_to_the_same_end_and_no_offset_is_ever_wrong(tmp_path):
    counting = world(tmp_path)
    counting.light(None)
    counting.move()
    wanted, steps = counting.held(), counting.fuse.burnt
    assert steps > 15
    for step in range(steps):
        directory = tmp_path / str(step)
        directory.mkdir()
        here = world(directory)
        here.light(step)
        with pytest.raises(Killed):
            here.move()
        for group, offsets in here.held().items():
            for index, offset in offsets.items():
                assert offset in (THERE.get(group, {}).get(index), CONTENTS.get(group, {}).get(index))
        here.light(None)
        assert set(results(here.move()).values()) <= {"moved", "already"}
        assert here.held() == wanted


def test_a_kill_at_any_step_can_be_taken_back(tmp_path):
    counting = world(tmp_path)
    counting.light(None)
    counting.move()
    for step in range(counting.fuse.burnt):
        directory = tmp_path / str(step)
        directory.mkdir()
        here = world(directory)
        here.light(step)
        with pytest.raises(Killed):
            here.move()
        here.light(None)
        assert set(results(here.go_back()).values()) <= {"returned", "already"}
        assert here.held() == THERE


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60)), min_size=1, max_size=6))
def test_any_sequence_of_kills_moves_and_rollbacks_ends_as_the_last_command_says(tmp_path_factory, attempts):
    here = world(tmp_path_factory.mktemp("moves"))
    for forward, steps in attempts:
        here.light(steps)
        with contextlib.suppress(Killed):
            here.move() if forward else here.go_back()
    here.light(None)
    here.move()
    assert here.held() == {**CONTENTS, "other": {0: 5}}
    here.go_back()
    assert here.held() == THERE


def test_a_group_that_went_on_after_it_was_moved_is_not_touched_by_a_resume(tmp_path):
    here = world(tmp_path)
    here.move()
    here.target_store.write("a", {at(0): StoredOffset(77)})
    assert results(here.move())["a"] == "already"
    assert here.held()["a"][0] == 77
    outcome = here.go_back()["a"]
    assert (outcome.result, outcome.reason) == ("held back", "moved by another client since: orders-0 is at 77")


def test_a_target_that_changed_since_the_plan_holds_its_group_back(tmp_path):
    here = world(tmp_path)
    here.target_store.write("b", {at(1): StoredOffset(3)})
    found = here.move()
    assert results(found) == {"a": "moved", "b": "held back", "c": "moved"}
    assert "orders-1 is at 3 on the target, not at no offset" in found["b"].reason
    assert here.held()["b"] == {1: 3}


def test_a_source_that_went_on_since_the_plan_holds_its_group_back(tmp_path):
    here = world(tmp_path)
    here.source_store.write("b", {at(0): StoredOffset(25)})
    found = here.move()
    assert results(found)["b"] == "held back"
    assert "the source has changed since the plan was made: orders-0 is at 25, not at 20" in found["b"].reason
    assert "b" not in here.held()


def test_a_source_that_goes_on_while_it_is_moved_is_reported_and_can_be_taken_back(tmp_path):
    here = world(tmp_path)
    write_many = here.target_store.write_many

    def meanwhile(items):
        yield from write_many(items)
        here.source_store.write("b", {at(0): StoredOffset(25)})

    here.target_store.write_many = meanwhile
    found = here.move()
    assert results(found) == {"a": "moved", "b": "failed", "c": "moved"}
    assert results(here.go_back())["b"] == "returned"


@pytest.mark.parametrize("side", ["source_store", "target_store"])
def test_an_active_group_on_either_side_is_held_back_and_named(tmp_path, side):
    here = world(tmp_path)
    getattr(here, side).members = {"b": ["worker-1 at 10.0.0.1"]}
    found = here.move()
    assert results(found) == {"a": "moved", "b": "held back", "c": "moved"}
    assert "worker-1 at 10.0.0.1" in found["b"].reason


def test_an_active_group_is_named_in_the_plan(tmp_path):
    store = FusedStore.active_members_many
    try:
        FusedStore.active_members_many = lambda self, groups: (
            (group, ["w"] if group == "b" else []) for group in groups
        )
        here = world(tmp_path)
    finally:
        FusedStore.active_members_many = store
    assert [bool(group.problem) for group in here.plan] == [False, True, False]
    assert here.plan.totals.groups_with_problems == 1


def test_a_problem_with_one_partition_holds_its_group_back_unless_parts_are_wanted(tmp_path):
    here = world(tmp_path, problems={at(2): "topic 'orders' has only 2 partitions in there"})
    found = here.move()
    assert results(found) == {"a": "held back", "b": "moved", "c": "moved"}
    assert found["a"].reason == "orders-2: topic 'orders' has only 2 partitions in there"
    assert here.held()["a"] == THERE["a"]
    assert results(here.move(partial=True))["a"] == "moved"
    assert here.held()["a"] == {0: 10, 1: 11, 2: 12}


def test_larger_offsets_of_the_target_are_kept_on_request(tmp_path):
    # covers: G8
    here = world(tmp_path, choices=Choices(keep_larger=True))
    here.move()
    assert here.held()["c"] == {0: 99, 1: 31}


def test_an_offset_that_goes_back_is_noted_in_the_plan(tmp_path):
    third = list(world(tmp_path).plan)[2]
    assert third.moves[0].note == "rewound by 69"


def test_groups_can_be_renamed(tmp_path):
    here = world(tmp_path, choices=Choices(to_group="{group}-new"))
    here.move()
    assert here.held() == {**THERE, **{f"{group}-new": offsets for group, offsets in CONTENTS.items()}}
    here.go_back()
    assert here.held() == THERE


def test_a_lost_connection_stops_the_move_and_says_how_far_it_got(tmp_path):
    contents = {f"g{number:04}": {0: number} for number in range(600)}
    here = World(tmp_path, contents)
    read_many = here.target_store.read_many
    lost = StoreUnavailable("kafka b:9092", "the connection was lost")
    seen = []

    def dying(groups):
        seen.append(groups)
        if len(seen) > 2:
            raise lost
        return read_many(groups)

    here.target_store.read_many = dying
    with pytest.raises(MoveInterrupted, match="groups moved: 500 of 600") as raised:
        here.move()
    assert raised.value.cause is lost
    here.target_store.read_many = read_many
    assert sorted(set(results(here.move()).values())) == ["already", "moved"]
    assert here.held() == contents


def test_a_connection_lost_while_writing_does_not_wait_for_every_group(tmp_path):
    contents = {f"g{number:04}": {0: number} for number in range(20)}
    here = World(tmp_path, contents)
    write_many, asked = here.target_store.write_many, []

    def failing(items):
        for group, offsets in items:
            asked.append(group)
            yield group, dict.fromkeys(offsets, StoreUnavailable("kafka b:9092", "no answer"))

    here.target_store.write_many = failing
    assert set(results(here.move()).values()) == {"failed"}
    assert len(asked) == 1
    here.target_store.write_many = write_many
    assert set(results(here.move()).values()) == {"moved"}


def test_a_plan_for_another_cluster_is_refused_before_anything(tmp_path):
    here = world(tmp_path)
    here.target._cluster_id = "another"
    with pytest.raises(WrongCluster):
        here.move()
    assert here.held() == THERE


def test_two_processes_cannot_move_at_once(tmp_path):
    here = world(tmp_path)
    with Journal(here.plan, now_ms=NOW_MS), pytest.raises(MoveInUse, match="in use by another process"):
        here.move()


def test_the_journal_of_another_plan_is_refused(tmp_path):
    here = world(tmp_path)
    here.move()
    here.path.unlink()
    other = World(tmp_path, {"z": {0: 1}})
    with pytest.raises(BadPlan, match="not the journal of"):
        other.move()
    assert other.held() == {}


@pytest.mark.parametrize("line", ['{"state":"moved","groups":[99]}', '{"state":"gone","groups":[0]}', "[]", "{"])
def test_a_damaged_journal_is_refused(tmp_path, line):
    here = world(tmp_path)
    here.move()
    path = here.plan.journal_path
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BadPlan, match="the journal is damaged: line 4"):
        here.move()


def test_more_groups_take_no_more_memory(tmp_path):
    peaks = []
    for count in (550, 1300):
        directory = tmp_path / str(count)
        directory.mkdir()
        tracemalloc.start()
        try:
            here = World(directory, {f"g{number:05}": {0: 5} for number in range(count)})
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            with Journal(here.plan, now_ms=NOW_MS) as journal:
                summary = Mover(here.plan, here.source, here.target, journal, lambda: NOW_MS).run()
            peaks.append(tracemalloc.get_traced_memory()[1] - held)
        finally:
            tracemalloc.stop()
        assert (summary.groups, summary.offsets, summary.left) == (count, count, 0)
    assert peaks[1] < 1.2 * peaks[0]
