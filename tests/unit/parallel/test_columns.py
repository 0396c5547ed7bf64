"""Columns: rows run in pieces without an object each, and are records again as soon as one of them fails."""

import pytest

from seamark.errors import UsageError
from seamark.parallel.core.columns import RowRecord, batch_of_records, batch_of_works, rows_of
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import Committed, PolledColumns
from seamark.parallel.core.work import CommitOffsets, RecordState, StartCall, WriteDeadLetter
from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Retry, Settings
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import DoneAhead, encode

pytest.importorskip("pyarrow")

PLACE = TopicPartition("t", 0)
NOTHING = Committed(-1)


def records(*offsets, place=PLACE):
    return [
        RowRecord(*place, offset, b"k%d" % (offset % 3), b"v%d" % offset, (("h", b"1"), ("n", None)), 1_700_000_000_000)
        for offset in offsets
    ]


def columns(*offsets, position=None, place=PLACE):
    position = offsets[-1] + 1 if position is None else position
    return PolledColumns(place, batch_of_records(records(*offsets, place=place)), list(offsets), position)


class Shell:
    """Carries out what the engine wants; handlers are run by the test."""

    def __init__(self, committed=NOTHING, **settings):
        settings = {"batch": Batch(4, wait=0.0, arrow=True), "order": Order.NONE, "concurrency": 8, **settings}
        self.engine = Engine(Settings(**settings), 0.0, chance=lambda: 0.5)
        self.calls, self.letters, self.committed = [], [], {}
        self.now = 0.0
        self.perform(self.engine.assigned({PLACE: committed}, self.now))

    def perform(self, actions):
        for action in actions:
            if isinstance(action, StartCall):
                self.calls.append(action)
            elif isinstance(action, WriteDeadLetter):
                self.letters.append(action)
            elif isinstance(action, CommitOffsets):
                self.committed |= {partition: each.offset for partition, each in action.offsets.items()}
                results = dict.fromkeys(action.offsets)
                self.perform(self.engine.commit_finished(action.ticket, results, self.now))

    def poll(self, polled):
        self.perform(self.engine.polled_columns(polled, self.now))

    def take(self):
        calls, self.calls = self.calls, []
        return calls

    def succeed(self, *calls):
        self.perform(self.engine.succeeded_all(calls, self.now))

    def commit(self):
        self.now += 5.0
        self.perform(self.engine.tick(self.now))
        return self.committed.get(PLACE)


def offsets_of(call):
    return batch_of_works(call.works).column("offset").to_pylist()


# covers: H2, H20
def test_rows_run_in_pieces_and_the_frontier_stays_below_what_is_unfinished():
    shell = Shell()
    shell.poll(columns(0, 1, 2, 5, 6, 7, 8, 9, 20, position=25))
    first, second, third = shell.take()
    assert [offsets_of(call) for call in (first, second, third)] == [[0, 1, 2, 5], [6, 7, 8, 9], [20]]
    assert shell.engine.budget.held_records == 9
    shell.succeed(second)
    assert shell.commit() == 0
    shell.succeed(first)
    assert shell.commit() == 20
    shell.succeed(third)
    assert shell.commit() == 25
    assert (shell.engine.counters.polled, shell.engine.counters.done) == (9, 9)
    assert (shell.engine.budget.held_bytes, shell.engine.budget.held_records) == (0, 0)


# covers: H20
def test_rows_that_an_earlier_commit_says_are_done_are_left_out():
    known = DoneAhead(3, [(4, 6), (8, 9)])
    shell = Shell(Committed(3, encode(3, known, 4096).text))
    shell.poll(columns(3, 4, 5, 6, 7, 8, 9))
    (call,) = shell.take()
    assert offsets_of(call) == [3, 6, 7, 9]
    assert (shell.engine.counters.polled, shell.engine.counters.spared) == (7, 3)
    shell.succeed(call)
    assert shell.commit() == 10


# covers: H2
def test_a_piece_that_fails_is_taken_apart_and_only_the_bad_row_is_blamed():
    shell = Shell(retry=Retry(attempts=2, delay=0.0), then=DeadLetter())
    shell.poll(columns(0, 1, 2, 3))
    (piece,) = shell.take()
    with pytest.raises(UsageError, match="with 3 others"):
        shell.engine.skip(PLACE, 2, shell.now)
    shell.perform(shell.engine.failed(piece, ValueError("one of them"), shell.now))
    singles = shell.take()
    assert [offsets_of(call) for call in singles] == [[0], [1], [2], [3]]
    assert {call.works[0].attempts for call in singles} == {0}
    shell.succeed(singles[0], singles[1], singles[3])
    assert shell.commit() == 2
    shell.perform(shell.engine.failed(singles[2], ValueError("this one"), shell.now))
    shell.commit()
    (again,) = shell.take()
    shell.perform(shell.engine.failed(again, ValueError("again"), shell.now))
    (letter,) = shell.letters
    record = letter.work.record
    assert (record.offset, record.key, record.value) == (2, b"k2", b"v2")
    assert record.headers == (("h", b"1"), ("n", None))
    shell.perform(shell.engine.dead_letter_written(letter.work, None, shell.now))
    assert shell.commit() == 4
    assert (shell.engine.budget.held_bytes, shell.engine.budget.held_records) == (0, 0)


# covers: H24
def test_rows_behind_a_seek_come_again_and_those_below_go_on():
    shell = Shell(concurrency=1)
    shell.poll(columns(0, 1, 2, 3, 4, 5))
    (running,) = shell.take()
    assert offsets_of(running) == [0, 1, 2, 3]
    shell.poll(columns(2, 3, 4, 5))
    shell.succeed(running)
    assert shell.commit() == 2
    seen = []
    while calls := shell.take():
        seen += [offset for call in calls for offset in offsets_of(call)]
        shell.succeed(*calls)
    assert seen == [2, 3, 4, 5]
    assert shell.commit() == 6
    assert (shell.engine.budget.held_bytes, shell.engine.budget.held_records) == (0, 0)
    assert shell.engine.lanes.waiting_count == 0


# covers: H24
def test_results_of_a_partition_that_went_are_late_row_by_row():
    shell = Shell()
    shell.poll(columns(0, 1, 2))
    (call,) = shell.take()
    shell.perform(shell.engine.lost([PLACE], shell.now))
    shell.succeed(call)
    assert (shell.engine.counters.late, shell.engine.counters.done) == (3, 0)
    assert shell.engine.budget.held_records == 0


# covers: I2
def test_at_most_once_runs_pieces_after_their_commit():
    shell = Shell(delivery="at_most_once", commit=Commit(interval=1.0))
    shell.poll(columns(0, 1))
    assert shell.committed == {PLACE: 2}
    (call,) = shell.take()
    shell.succeed(call)
    assert shell.engine.counters.done == 2


def test_pieces_of_several_partitions_share_a_call_if_they_fit():
    shell = Shell(batch=Batch(10, wait=0.0, arrow=True), concurrency=1)
    other = TopicPartition("u", 1)
    shell.perform(shell.engine.assigned({other: Committed(-1)}, shell.now))
    shell.poll(columns(0))
    (first,) = shell.take()
    shell.poll(columns(1, 2))
    shell.poll(columns(7, 8, place=other))
    shell.succeed(first)
    (call,) = shell.take()
    batch = batch_of_works(call.works)
    assert sorted(zip(batch.column("topic").to_pylist(), batch.column("offset").to_pylist(), strict=True)) == [
        ("t", 1), ("t", 2), ("u", 7), ("u", 8),
    ]  # fmt: skip
    assert all(work.state is RecordState.RUNNING for work in call.works)


def test_records_survive_the_way_to_columns_and_back():
    plain = [RowRecord("t", 3, 9, None, None, (), 5, 1, -1), *records(1)]
    assert rows_of(batch_of_records(plain)) == plain
