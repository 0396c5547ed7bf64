"""The scheduler event by event: what starts, what is committed, what a rebalance or a failure leads to."""

from types import SimpleNamespace

import pytest

from seamark.errors import UsageError
from seamark.parallel.core.commits import GIVE_UP_AFTER_S
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import Committed, MetadataTooLong, Polled
from seamark.parallel.core.work import (
    CommitOffsets,
    PausePartitions,
    RecordState,
    ResumePartitions,
    StartCall,
    Stopped,
    WriteDeadLetter,
)
from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Park, Retry, Settings, Skip
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import decode, encode

P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)
ONCE = Retry(attempts=1)


class Driver:
    """An engine, its clock, and what it asked for."""

    def __init__(self, *, committed=None, **settings):
        self.now = 0.0
        self.engine = Engine(Settings(**settings), self.now, chance=lambda: 0.0)
        self.actions = []
        self.calls = {}
        self.do("assigned", committed or {P0: Committed(0)})

    def do(self, event, *arguments, **keywords):
        actions = getattr(self.engine, event)(*arguments, now=self.now, **keywords)
        for action in actions:
            if isinstance(action, StartCall):
                for work in action.works:
                    self.calls[work.partition, work.offset] = action
        self.actions += actions
        return actions

    def poll(self, offsets, partition=P0, keys=None, position=-1, epoch=0):
        keys = keys or [None] * len(offsets)
        records = [
            SimpleNamespace(offset=offset, key=key, value=b"v", headers=(), timestamp_ms=1, leader_epoch=epoch)
            for offset, key in zip(offsets, keys, strict=True)
        ]
        return self.do("polled", Polled(partition, records, position))

    def succeed(self, *offsets, partition=P0):
        return [action for offset in offsets for action in self.do("succeeded", self.calls.pop((partition, offset)))]

    def fail(self, offset, error=None, partition=P0):
        return self.do("failed", self.calls.pop((partition, offset)), error or ValueError("no"))

    def wait(self, seconds):
        self.now += seconds
        return self.do("tick")

    def committed_by(self, actions):
        """Accept the commits among ``actions``; what they say."""
        said = {}
        for action in actions:
            if isinstance(action, CommitOffsets):
                said.update({partition: to_commit.offset for partition, to_commit in action.offsets.items()})
                self.do("commit_finished", action.ticket, dict.fromkeys(action.offsets))
        return said

    def commit(self):
        return self.committed_by(self.wait(1.0))

    def started(self):
        return sorted(offset for _, offset in self.calls)

    def all_of(self, kind):
        return [action for action in self.actions if isinstance(action, kind)]


# covers: H2, H17
def test_out_of_order_inside_and_safe_offsets_outside():
    driver = Driver()
    driver.poll([0, 1, 2, 4])
    driver.succeed(1, 2, 4)
    assert driver.commit() == {P0: 0}
    assert driver.commit() == {}
    driver.succeed(0)
    assert driver.commit() == {P0: 5}


# peers: the frontier of a rival waits for hwm + 1 and stays at 0 on such a topic
def test_a_topic_whose_every_second_offset_is_a_marker_keeps_committing():
    driver = Driver()
    driver.poll([0, 2, 4, 6], position=8)
    driver.succeed(0, 2, 4, 6)
    assert driver.commit() == {P0: 8}


# covers: I1
def test_a_new_owner_runs_only_what_the_map_does_not_say():
    metadata = encode(10, [11, 12]).text
    driver = Driver(committed={P0: Committed(10, metadata)})
    driver.poll([10, 11, 12, 13])
    assert driver.started() == [10, 13]
    assert driver.engine.counters.spared == 2
    driver.succeed(13)
    [commit] = [action for action in driver.wait(1.0) if isinstance(action, CommitOffsets)]
    assert list(decode(commit.offsets[P0].metadata, 10)) == [11, 12, 13]
    driver.succeed(10)
    driver.committed_by([commit])
    assert driver.commit() == {P0: 14}


# peers: foreign commit metadata crashes assignment
@pytest.mark.parametrize("metadata", ["{'app': 1}", "\x00" * 9, "sm1rAAAAA~~~~", "sm9rAAAAAbody", "x" * 40_000])
def test_metadata_of_somebody_else_is_counted_and_left_alone(metadata):
    driver = Driver(committed={P0: Committed(3, metadata)})
    driver.poll([3, 4])
    assert driver.started() == [3, 4]
    assert driver.engine.counters.foreign_metadata == 1


# peers: a fresh record is dropped when a stale one holds its offset
def test_a_late_result_changes_nothing_and_the_fresh_record_is_run():
    driver = Driver()
    driver.poll([0, 1], keys=["a", "b"])
    old = driver.calls.pop((P0, 0))
    driver.do("lost", [P0])
    driver.do("assigned", {P0: Committed(0)})
    driver.poll([0, 1], keys=["c", "d"])
    driver.do("succeeded", old)
    assert (driver.engine.counters.late, driver.engine.counters.done) == (1, 0)
    assert driver.commit() == {}
    driver.succeed(0, 1)
    assert driver.commit() == {P0: 2}


def test_a_late_failure_is_neither_retried_nor_dead_lettered():
    driver = Driver(retry=ONCE, then=DeadLetter())
    driver.poll([0])
    driver.do("lost", [P0])
    assert driver.fail(0) == []
    assert driver.engine.budget.held_records == 0


# covers: H24
# peers: message loss on close and revoke; consumption stops after a rebalance
def test_a_revoked_partition_drains_commits_and_the_kept_one_goes_on():
    driver = Driver(committed={P0: Committed(0), P1: Committed(0)}, concurrency=4)
    driver.poll([0, 1, 2], keys=["a", "a", "b"])
    driver.poll([0, 1], keys=["a", "a"], partition=P1)
    driver.do("revoked", [P0])
    assert not driver.engine.is_drained([P0])
    driver.succeed(0)
    assert (P0, 1) not in driver.calls, "a partition that goes starts nothing more"
    driver.succeed(0, partition=P1)
    assert (P1, 1) in driver.calls
    driver.succeed(2)
    assert driver.engine.is_drained([P0])
    released = driver.do("release", [P0])
    [commit] = [action for action in released if isinstance(action, CommitOffsets)]
    assert commit.must_wait
    assert driver.committed_by(released) == {P0: 1, P1: 1}
    assert list(decode(commit.offsets[P0].metadata, 1)) == [2]
    driver.succeed(1, partition=P1)
    assert driver.commit() == {P1: 2}


def test_records_polled_of_a_partition_that_goes_are_not_taken():
    driver = Driver()
    driver.do("revoked", [P0])
    driver.poll([0, 1])
    assert driver.started() == []
    assert driver.engine.counters.unowned == 2
    driver.do("release", [P0])
    driver.do("assigned", {P0: Committed(0)})
    driver.poll([0, 1])
    assert driver.started() == [0, 1]


def test_a_seek_back_runs_the_records_again_under_a_new_term():
    driver = Driver()
    driver.poll([0, 1, 2])
    driver.succeed(1, 2)
    first = driver.calls.pop((P0, 0))
    driver.poll([0, 1])
    assert driver.started() == [0, 1]
    driver.do("succeeded", first)
    driver.succeed(1)
    assert driver.commit() == {P0: 0}
    driver.succeed(0)
    assert driver.commit() == {P0: 2}


def test_a_retry_waits_its_time_keeps_its_key_and_blocks_no_other():
    driver = Driver(retry=Retry(attempts=3, delay=1.0, jitter=0), commit=Commit(interval=100))
    driver.poll([0, 1, 2], keys=["a", "a", "b"])
    driver.fail(0)
    driver.succeed(2)
    assert driver.started() == []
    assert driver.engine.next_at() == 1.0
    driver.wait(0.9)
    assert driver.started() == []
    driver.wait(0.1)
    assert driver.started() == [0]
    driver.succeed(0)
    assert driver.started() == [1]


def test_the_last_attempt_stops_the_consumer_and_the_record_is_not_committed():
    driver = Driver(retry=ONCE)
    driver.poll([0, 1, 2])
    driver.succeed(0)
    driver.fail(1)
    assert driver.poll([3]) == []
    actions = driver.succeed(2)
    [commit] = [action for action in actions if isinstance(action, CommitOffsets)]
    assert (commit.offsets[P0].offset, commit.must_wait) == (1, True)
    assert driver.all_of(Stopped) == []
    driver.committed_by(actions)
    [(reason, cause)] = driver.all_of(Stopped)
    assert (reason, str(cause)) == ("orders-0 offset 1 failed once: ValueError: no", "no")
    assert driver.engine.is_over
    assert driver.wait(1) == []


# peers: max retries and dead-letter queue
def test_a_dead_letter_is_committed_past_only_when_it_is_stored():
    driver = Driver(retry=ONCE, then=DeadLetter(topic="{topic}.dead", max_ratio=None))
    driver.poll([0, 1], keys=["a", "a"])
    error = ValueError("poison")
    [letter] = driver.fail(0, error)
    assert letter == WriteDeadLetter(letter.work, "orders.dead", error)
    assert driver.started() == []
    assert driver.commit() == {}
    driver.do("dead_letter_written", letter.work, None)
    assert driver.started() == [1]
    assert driver.commit() == {P0: 1}
    assert driver.engine.counters.dead_lettered == 1


def test_a_dead_letter_that_is_refused_stops_the_consumer_and_keeps_the_record():
    driver = Driver(retry=ONCE, then=DeadLetter())
    driver.poll([0])
    [letter] = driver.fail(0)
    driver.do("dead_letter_written", letter.work, RuntimeError("no such topic"))
    [stopped] = driver.all_of(Stopped)
    assert stopped.reason == "orders-0 offset 0 could not be written to its dead-letter topic: no such topic"
    assert not driver.all_of(CommitOffsets)
    with pytest.raises(UsageError, match="was not being written"):
        driver.do("dead_letter_written", letter.work, None)


def test_skipped_records_are_passed_and_counted_until_too_many_are():
    driver = Driver(retry=ONCE, then=Skip(max_ratio=0.5, window=4))
    driver.poll(list(range(6)))
    driver.succeed(0)
    for offset in (1, 2):
        driver.fail(offset)
    assert driver.commit() == {P0: 3}
    driver.fail(3)
    driver.succeed(4)
    driver.committed_by(driver.succeed(5))
    [stopped] = driver.all_of(Stopped)
    assert stopped.reason == "3 of the last 4 records were given up, more than the limit of 50%"
    assert driver.engine.counters.skipped == 3
    assert driver.engine.budget.held_records == 0


def test_a_skipped_record_lets_its_key_go_on():
    driver = Driver(retry=ONCE, then=Skip(max_ratio=None))
    driver.poll([0, 1], keys=["a", "a"])
    driver.fail(0)
    assert driver.started() == [1]


def test_a_parked_record_holds_its_key_and_its_frontier_and_nothing_else():
    driver = Driver(retry=ONCE, then=Park(records=1))
    driver.poll([0, 1, 2], keys=["a", "a", "b"])
    driver.fail(0)
    driver.succeed(2)
    assert driver.commit() == {P0: 0}
    assert [work.offset for work in driver.engine.outcomes.parked] == [0]
    driver.do("skip", P0, 0)
    assert driver.started() == [1]
    assert driver.commit() == {P0: 1}
    driver.fail(1)
    assert next(iter(driver.engine.outcomes.parked)).state is RecordState.PARKED
    driver.poll([3])
    driver.fail(3)
    assert driver.all_of(Stopped)[0].reason.startswith("1 record already parked")


# peers: names the blocking offset at run time
def test_a_hanging_record_is_named_and_can_be_skipped_while_it_runs():
    driver = Driver(stall_after=60.0)
    driver.poll([0, 1, 2], keys=["slow", "slow", "b"])
    driver.succeed(2)
    assert driver.engine.stalls(now=59.0) == []
    [stall] = driver.engine.stalls(now=61.0)
    assert (stall.partition, stall.offset, stall.key, stall.state) == (P0, 0, "slow", RecordState.RUNNING)
    driver.do("skip", P0, 0)
    assert driver.commit() == {P0: 1}
    assert (P0, 1) not in driver.calls, "the key waits for the call that still runs"
    driver.fail(0)
    assert driver.started() == [1]
    driver.succeed(1)
    assert driver.commit() == {P0: 3}
    assert driver.engine.budget.held_records == 0


def test_a_running_record_can_be_dead_lettered_by_call_whatever_its_handler_does():
    for outcome in ("fail", "succeed"):
        driver = Driver(retry=ONCE, then=DeadLetter(max_ratio=None))
        driver.poll([0])
        [letter] = driver.do("dead_letter", P0, 0)
        assert letter.topic == "orders.dead-letters"
        with pytest.raises(UsageError, match="already"):
            driver.do("dead_letter", P0, 0)
        getattr(driver, outcome)(0)
        driver.do("dead_letter_written", letter.work, None)
        assert driver.commit() == {P0: 1}
        assert driver.engine.budget.held_bytes == 0


def test_only_records_that_are_held_up_can_be_given_up():
    driver = Driver(concurrency=1)
    driver.poll([0, 1])
    with pytest.raises(UsageError, match="offset 9 is not in flight here"):
        driver.do("skip", P0, 9)
    with pytest.raises(UsageError, match="offset 1 cannot be given up: it is waiting"):
        driver.do("skip", P0, 1)
    with pytest.raises(UsageError, match="not in flight"):
        driver.do("dead_letter", P1, 0)


# peers: polling continues under back-pressure; out of memory
def test_a_full_buffer_pauses_the_partition_and_an_empty_one_resumes_it():
    driver = Driver(buffer_records=10, concurrency=2)
    assert PausePartitions([P0]) in driver.poll(list(range(9)))
    assert driver.engine.budget.room_records() == 1
    for offset in range(9):
        driver.succeed(offset)
    assert driver.all_of(ResumePartitions) == [ResumePartitions([P0])]
    assert driver.engine.budget.held_bytes == 0


def test_batches_wait_for_more_records_but_not_for_long():
    driver = Driver(batch=Batch(records=3, wait=0.5), commit=Commit(interval=100))
    driver.poll([0, 1])
    assert driver.started() == []
    assert driver.engine.next_at() == 0.5
    driver.poll([2, 3])
    assert [len(call.works) for call in driver.all_of(StartCall)] == [3]
    driver.wait(0.5)
    assert driver.started() == [0, 1, 2, 3]


def test_one_bad_record_of_a_batch_is_not_blamed_on_the_others():
    driver = Driver(batch=Batch(records=3, wait=0.0), retry=ONCE, then=DeadLetter(max_ratio=None), concurrency=1)
    driver.poll([0, 1, 2], keys=["a", "a", "b"])
    driver.fail(0)
    seen = 1
    while seen < len(driver.all_of(StartCall)):
        single = driver.all_of(StartCall)[seen]
        seen += 1
        assert len(single.works) == 1
        if single.works[0].offset == 1:
            driver.do("failed", single, ValueError("poison"))
        else:
            driver.do("succeeded", single)
    assert [letter.work.offset for letter in driver.all_of(WriteDeadLetter)] == [1]
    assert seen == 4
    assert driver.engine.counters.done == 2


# covers: I10, I11
def test_a_commit_does_not_block_and_only_one_is_under_way():
    driver = Driver()
    driver.poll([0, 1, 2])
    driver.succeed(0)
    [commit] = driver.wait(1.0)
    assert not commit.must_wait
    driver.succeed(1)
    assert driver.wait(1.0) == []
    again = driver.do("commit_finished", commit.ticket, {P0: None})
    assert driver.committed_by(again) == {P0: 2}


# covers: I12
def test_a_synchronous_commit_waits():
    driver = Driver(commit=Commit(sync=True))
    driver.poll([0])
    driver.succeed(0)
    [commit] = driver.wait(1.0)
    assert commit.must_wait


def test_a_commit_is_made_when_enough_records_are_done():
    driver = Driver(commit=Commit(interval=60, records=2))
    driver.poll([0, 1, 2])
    assert driver.succeed(0) == []
    assert driver.committed_by(driver.succeed(1)) == {P0: 2}


# covers: H25
def test_a_refused_commit_is_said_again_and_refusals_without_end_stop_the_consumer():
    driver = Driver()
    driver.poll([0, 1])
    driver.succeed(0)
    [first] = driver.wait(1.0)
    driver.do("commit_finished", first.ticket, {P0: RuntimeError("COORDINATOR_LOAD_IN_PROGRESS")})
    [second] = driver.wait(1.0)
    assert second.offsets == first.offsets
    driver.do("commit_finished", second.ticket, {})
    [third] = driver.wait(GIVE_UP_AFTER_S)
    driver.do("commit_finished", third.ticket, {P0: RuntimeError("GROUP_AUTHORIZATION_FAILED")})
    driver.committed_by(driver.succeed(1))
    [stopped] = driver.all_of(Stopped)
    assert "no commit was accepted for 301 s" in stopped.reason
    assert "GROUP_AUTHORIZATION_FAILED" in stopped.reason


# peers: commit metadata over the limit makes consumption pause
def test_metadata_that_the_broker_finds_too_long_shrinks_until_it_fits():
    driver = Driver(concurrency=1000)
    driver.poll(list(range(600)))
    driver.succeed(*[offset for offset in range(1, 600) if offset * offset % 7 > 2])
    lengths = []
    while not lengths or lengths[-1] > 70:
        [commit] = driver.wait(1.0)
        lengths.append(len(commit.offsets[P0].metadata))
        driver.do("commit_finished", commit.ticket, {P0: MetadataTooLong("INVALID_COMMIT_OFFSET_SIZE")})
    assert lengths == sorted(lengths, reverse=True)
    assert {commit.offsets[P0].offset for commit in driver.all_of(CommitOffsets)} == {0}


# covers: I9
def test_whole_polls_are_confirmed_together():
    driver = Driver(delivery="whole_batch")
    driver.poll(list(range(10)))
    driver.succeed(0, 1, 2, 4, 5, 6, 7, 8, 9)
    assert driver.commit() == {}
    driver.succeed(3)
    assert driver.commit() == {P0: 10}


# covers: I2, I4
def test_at_most_once_commits_before_it_runs_so_a_crash_loses_what_was_not_processed():
    driver = Driver(delivery="at_most_once", order=Order.PARTITION)
    actions = driver.poll(list(range(10)))
    assert driver.started() == []
    assert driver.committed_by(actions) == {P0: 10}
    for offset in range(7):
        driver.succeed(offset)
    assert driver.started() == [7]
    restarted = Driver(committed={P0: Committed(10)}, delivery="at_most_once")
    restarted.committed_by(restarted.poll([10]))
    assert restarted.started() == [10]


# covers: I3, I4
def test_at_least_once_repeats_what_was_not_committed_before_a_crash():
    driver = Driver()
    driver.poll(list(range(10)))
    driver.succeed(*range(7))
    assert driver.all_of(CommitOffsets) == []
    restarted = Driver()
    restarted.poll(list(range(10)))
    assert restarted.started() == list(range(10))


# covers: I6
def test_done_but_uncommitted_work_is_repeated_by_the_next_owner_after_a_loss():
    driver = Driver(commit=Commit(interval=5.0))
    driver.poll(list(range(10)))
    driver.wait(1.0)
    driver.succeed(*range(10))
    driver.wait(1.0)
    driver.do("lost", [P0])
    assert driver.all_of(CommitOffsets) == []


def test_at_most_once_runs_nothing_whose_commit_was_refused():
    driver = Driver(delivery="at_most_once")
    [commit] = driver.poll([0, 1])
    driver.do("commit_finished", commit.ticket, {P0: RuntimeError("no")})
    assert driver.started() == []
    [again] = driver.wait(1.0)
    driver.do("commit_finished", again.ticket, {P0: None})
    assert driver.started() == [0, 1]


def test_at_most_once_a_commit_that_is_taken_covers_records_whose_earlier_commit_was_refused():
    driver = Driver(delivery="at_most_once", concurrency=9)
    [first] = driver.poll([0, 1])
    driver.poll([2])
    # What another partition is let go with comes while the first is under way.
    [second] = [action for action in driver.do("release", [P1]) if isinstance(action, CommitOffsets)]
    driver.do("commit_finished", first.ticket, {P0: RuntimeError("no")})
    assert driver.started() == []
    driver.do("commit_finished", second.ticket, {P0: None})
    assert driver.started() == [0, 1, 2]


def test_at_most_once_never_tries_again_not_even_a_batch():
    driver = Driver(delivery="at_most_once", batch=Batch(records=3, wait=0.0), then=Skip(max_ratio=None))
    driver.committed_by(driver.poll([0, 1, 2, 3], keys=["a", "a", "b", "a"]))
    driver.fail(0)
    assert driver.engine.counters.skipped == 3
    assert (P0, 3) in driver.calls
    assert len(driver.all_of(StartCall)) == 2


def test_at_most_once_a_revoked_partition_runs_what_it_has_committed():
    driver = Driver(delivery="at_most_once", concurrency=1)
    driver.committed_by(driver.poll([0, 1]))
    awaiting_commit = driver.poll([2, 3])
    driver.do("revoked", [P0])
    assert not driver.engine.is_drained([P0])
    driver.succeed(0)
    driver.committed_by(awaiting_commit)
    for offset in (1, 2, 3):
        assert not driver.engine.is_drained([P0])
        driver.succeed(offset)
    assert driver.engine.is_drained([P0])


def test_at_most_once_what_is_committed_and_goes_with_its_partition_is_counted_as_lost():
    driver = Driver(delivery="at_most_once", concurrency=1)
    driver.committed_by(driver.poll([0, 1, 2]))
    awaiting_commit = driver.poll([3, 4])
    driver.do("lost", [P0])
    # The first one runs, and is late when it ends; the commit of the last two was under way.
    assert driver.engine.counters.lost == 2
    driver.committed_by(awaiting_commit)
    assert driver.engine.counters.lost == 4
    driver.succeed(0)
    assert (driver.engine.counters.late, driver.engine.counters.done) == (1, 0)


def test_at_most_once_a_truncated_log_does_not_take_the_commit_back_to_what_is_running():
    driver = Driver(delivery="at_most_once", order=Order.PARTITION)
    driver.committed_by(driver.poll([0, 1, 2, 3]))
    [refused] = driver.poll([4, 5, 6])
    driver.do("commit_finished", refused.ticket, {P0: RuntimeError("no")})
    driver.poll([6, 7], epoch=1)
    driver.do("revoked", [P0])
    for offset in (0, 1, 2, 3):
        driver.succeed(offset)
    assert min(driver.committed_by(driver.do("release", [P0])).values(), default=4) >= 4


def test_at_most_once_a_stop_commits_nothing_that_it_will_not_run():
    driver = Driver(delivery="at_most_once")
    [commit] = driver.poll([0, 1])
    driver.poll([2, 3])
    driver.do("stop")
    assert driver.all_of(Stopped) == []
    driver.committed_by([commit])
    driver.succeed(0, 1)
    assert driver.all_of(Stopped) == [Stopped(None)]
    assert [action.offsets[P0].offset for action in driver.all_of(CommitOffsets)] == [2]


def test_stopping_drains_up_to_its_deadline_and_commits():
    driver = Driver(drain=10.0)
    driver.poll([0, 1])
    driver.do("stop")
    assert driver.poll([2]) == []
    driver.succeed(0)
    assert driver.engine.next_at() <= 10.0
    actions = driver.wait(10.0)
    assert driver.committed_by(actions) == {P0: 1}
    assert driver.all_of(Stopped) == [Stopped(None)]


# covers: H25
def test_a_committer_that_cannot_compute_stops_everything_without_a_commit():
    driver = Driver()
    driver.poll([5, 3])
    actions = driver.wait(1.0)
    [stopped] = [action for action in actions if isinstance(action, Stopped)]
    assert stopped.reason.startswith("the committer cannot continue: offset 3 was polled")
    assert driver.all_of(CommitOffsets) == []
    assert driver.engine.is_over
