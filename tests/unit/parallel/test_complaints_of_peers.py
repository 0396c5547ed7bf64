"""What users of other parallel consumers suffer from, each as a test that we do not.

The comment of a test names the thread it comes from. Where a complaint is about a whole running process (heartbeats,
speed), it is answered by the end-to-end tests and the benchmarks.
"""

from types import SimpleNamespace

import pytest

from seamark.errors import UsageError
from seamark.parallel.core.columns import batch_of_records
from seamark.parallel.core.ports import Committed, MetadataTooLong, PolledColumns
from seamark.parallel.core.work import CommitOffsets, PausePartitions, ResumePartitions, StartCall, Stopped
from seamark.parallel.observe.metrics import metrics_text
from seamark.parallel.observe.status import State, Status
from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Park, Retry, Skip
from seamark.wire.offsets.done_ahead import DEFAULT_LENGTH, decode, encode, encoded_size
from tests.unit.parallel.test_engine import ONCE, P0, P1, Driver

# confluentinc/parallel-consumer


# confluentinc/parallel-consumer#857, #606
def test_consumption_goes_on_after_a_rebalance_even_of_a_partition_that_was_paused():
    driver = Driver(buffer_records=10, concurrency=1)
    assert PausePartitions([P0]) in driver.poll(list(range(9)))
    driver.do("lost", [P0])
    driver.do("assigned", {P0: Committed(0)})
    assert driver.engine.budget.paused() == []
    driver.succeed(0)
    driver.poll(list(range(3)))
    assert driver.started() == [0]


# confluentinc/parallel-consumer#909
def test_a_fresh_record_is_run_although_a_stale_one_had_its_offset():
    driver = Driver(concurrency=9)
    driver.poll([0, 1], keys=["a", "b"])
    stale = driver.calls.pop((P0, 0))
    driver.do("revoked", [P0])
    driver.do("release", [P0])
    driver.do("assigned", {P0: Committed(0)})
    driver.poll([0, 1], keys=["a", "b"])
    assert (P0, 0) not in driver.calls, "of one key one call is under way"
    driver.do("succeeded", stale)
    assert (P0, 0) in driver.calls
    driver.succeed(0)
    assert driver.commit() == {P0: 1}


# confluentinc/parallel-consumer#637
def test_a_handler_that_hangs_holds_a_rebalance_up_no_longer_than_it_is_waited_for():
    driver = Driver()
    driver.poll([0, 1])
    driver.succeed(1)
    driver.do("revoked", [P0])
    assert not driver.engine.is_drained([P0])
    [commit] = [each for each in driver.do("release", [P0]) if isinstance(each, CommitOffsets)]
    assert commit.offsets[P0].offset == 0
    assert driver.engine.assignments.terms() == {}


# astubbs/parallel-consumer#121
def test_frequent_rebalances_never_lead_to_an_offset_of_an_earlier_stay():
    driver = Driver()
    stale = []
    for _ in range(50):
        driver.poll([0, 1, 2], keys=[1, 2, 3])
        stale += [driver.calls.pop(place) for place in list(driver.calls)]
        driver.do("lost", [P0])
        driver.do("assigned", {P0: Committed(0)})
    for call in stale:
        driver.do("succeeded", call)
    assert driver.wait(1.0) == []
    driver.poll([0, 1, 2], keys=[1, 2, 3])
    driver.succeed(1, 2)
    assert driver.commit() == {P0: 0}


# confluentinc/parallel-consumer#716
def test_memory_is_bounded_by_bytes_not_by_a_number_of_records():
    driver = Driver(buffer_bytes=20_000, concurrency=1)
    assert PausePartitions([P0]) in driver.poll(list(range(26)))
    assert driver.engine.budget.held_bytes < 20_000


# confluentinc/parallel-consumer#832
def test_a_map_that_does_not_fit_neither_stops_polling_nor_lets_memory_grow():
    driver = Driver(done_ahead=20, buffer_records=300, concurrency=300)
    driver.poll(list(range(0, 250)))
    driver.succeed(*range(1, 250, 2))
    assert driver.commit() == {P0: 0}
    assert driver.engine.budget.room_records() >= 1
    driver.poll([250])
    assert (P0, 250) in driver.calls


# confluentinc/parallel-consumer#859
def test_metrics_do_not_grow_with_the_number_of_records():
    driver = Driver(concurrency=100)

    def size():
        return len(metrics_text(Status(State.RUNNING, "g", tally=dict.fromkeys(driver.engine.counters.as_dict(), 7))))

    before = size()
    for offset in range(500):
        driver.poll([offset])
        driver.succeed(offset)
    assert size() == before
    driver.commit()
    assert driver.engine.committer.metrics().committed_count == 500


# confluentinc/parallel-consumer#647
def test_a_map_beyond_the_broker_s_limit_shrinks_and_consumption_goes_on():
    driver = Driver(concurrency=20_000, buffer_records=100_000)
    driver.poll(list(range(12_000)))
    driver.succeed(*[offset for offset in range(1, 12_000) if offset * offset % 11 > 3])
    [commit] = driver.wait(1.0)
    text = commit.offsets[P0].metadata
    assert 0 < len(text) <= DEFAULT_LENGTH
    assert decode(text, 0).count > 1000
    driver.do("commit_finished", commit.ticket, {P0: MetadataTooLong("OFFSET_METADATA_TOO_LARGE")})
    [shorter] = driver.wait(1.0)
    assert 0 < len(shorter.offsets[P0].metadata) <= DEFAULT_LENGTH // 2
    driver.poll([12_000])
    assert (P0, 12_000) in driver.calls


# confluentinc/parallel-consumer#53
@pytest.mark.parametrize("stride", [2, 3, 7])
def test_the_size_of_the_map_is_known_exactly_before_it_is_sent(stride):
    done = list(range(1, 4000, stride))
    size = encoded_size(0, done)
    assert len(encode(0, done, size).text) == size
    shortened = encode(0, done, size - 1)
    assert len(shortened.text) < size
    assert shortened.dropped > 0


# confluentinc/parallel-consumer#196, #310
def test_attempts_have_an_end_and_then_the_record_goes_to_a_dead_letter_topic():
    driver = Driver(retry=Retry(attempts=3, delay=0.1, jitter=0), then=DeadLetter(max_ratio=None))
    driver.poll([0])
    for _ in range(2):
        driver.fail(0)
        driver.wait(1.0)
    [letter] = [each for each in driver.fail(0) if hasattr(each, "topic")]
    assert (letter.topic, letter.work.attempts) == ("orders.dead-letters", 3)


# confluentinc/parallel-consumer#827
@pytest.mark.parametrize("way", ["stop", "revoke"])
def test_closing_commits_what_is_finished_and_nothing_else(way):
    driver = Driver(concurrency=2, drain=5.0, commit=Commit(interval=60.0))
    driver.poll([0, 1, 2, 3])
    driver.succeed(1)
    if way == "stop":
        driver.do("stop")
        actions = driver.wait(5.0)
    else:
        driver.do("revoked", [P0])
        actions = driver.do("release", [P0])
    [commit] = [each for each in actions if isinstance(each, CommitOffsets)]
    assert commit.must_wait
    assert commit.offsets[P0].offset == 0
    assert list(decode(commit.offsets[P0].metadata, 0)) == [1]


# astubbs/parallel-consumer#118
def test_metadata_of_another_tool_does_not_break_the_assignment():
    driver = Driver(committed={P0: Committed(5, '{"owner": "somebody"}'), P1: Committed(7, "")})
    driver.poll([5])
    driver.poll([7], partition=P1)
    assert set(driver.calls) == {(P0, 5), (P1, 7)}


# tomorrow9913/Pyrallel-Consumer


# peers.md finding 1
@pytest.mark.parametrize("position", [-1, 8])
def test_offsets_0_2_4_6_all_done_are_committed(position):
    driver = Driver()
    driver.poll([0, 2, 4, 6], position=position)
    driver.succeed(6, 2, 0, 4)
    assert driver.commit() == {P0: 8 if position == 8 else 7}


# peers.md section 2, pyrallel-consumer: the snapshot falls back to nothing when it overflows
def test_a_map_that_overflows_keeps_what_is_nearest_to_the_committed_offset():
    encoded = encode(0, [offset for offset in range(1, 5000) if offset * offset % 13 > 6], 300)
    assert encoded.kept > 0
    kept = list(decode(encoded.text, 0))
    assert kept == [offset for offset in range(1, kept[-1] + 1) if offset * offset % 13 > 6]


# peers.md section 2, pyrallel-consumer: the dead letter's payload is lost when a cache evicts it
def test_a_dead_letter_keeps_its_record_until_it_is_stored_and_counts_as_memory():
    driver = Driver(retry=ONCE, then=DeadLetter(max_ratio=None), buffer_records=1000)
    driver.poll(list(range(50)))
    letters = [driver.fail(offset)[0] for offset in range(50)]
    assert all(letter.work.record.value == b"v" for letter in letters)
    held = driver.engine.budget.held_bytes
    for letter in letters:
        driver.do("dead_letter_written", letter.work, None)
    assert held > 0
    assert driver.engine.budget.held_bytes == 0


# peers.md section 2, pyrallel-consumer: commits only when a record completes, no batch handler
def test_commits_are_periodic_and_handlers_may_take_batches():
    driver = Driver(batch=Batch(records=4, wait=0.0), commit=Commit(interval=5.0), order=Order.NONE)
    driver.poll(list(range(8)))
    assert [len(call.works) for call in driver.all_of(StartCall)] == [4, 4]
    driver.do("succeeded", driver.all_of(StartCall)[1])
    driver.wait(4.9)
    assert driver.all_of(CommitOffsets) == []
    assert driver.committed_by(driver.wait(0.1)) == {P0: 0}


# quixio/quix-streams


# quixio/quix-streams#1124
def test_a_partition_that_is_paused_is_always_resumed_when_there_is_room():
    driver = Driver(committed={P0: Committed(0), P1: Committed(0)}, buffer_records=20, concurrency=100)
    driver.poll(list(range(15)))
    driver.poll(list(range(4)), partition=P1)
    assert driver.engine.budget.paused()
    for offset in range(15):
        driver.succeed(offset)
    driver.succeed(*range(4), partition=P1)
    assert driver.engine.budget.paused() == []
    resumed = {each for action in driver.all_of(ResumePartitions) for each in action.partitions}
    assert resumed == {each for action in driver.all_of(PausePartitions) for each in action.partitions}


# quixio/quix-streams#1114; getsentry/self-hosted#478, #1199
def test_a_committed_offset_older_than_the_log_does_no_harm():
    driver = Driver(committed={P0: Committed(10, encode(10, [12, 13]).text)})
    driver.poll([500, 501])
    driver.succeed(500, 501)
    assert driver.commit() == {P0: 502}


# quixio/quix-streams#1067, #1146
def test_a_rebalance_in_the_middle_of_catching_up_starts_from_what_was_committed():
    driver = Driver(committed={P0: Committed(3)})
    driver.poll([3, 4, 5])
    driver.do("revoked", [P0])
    driver.do("release", [P0])
    driver.do("assigned", {P0: Committed(3)})
    driver.do("revoked", [P0])
    driver.do("release", [P0])
    driver.do("assigned", {P0: Committed(3)})
    assert driver.poll([3, 4, 5]) is not None
    for place in [(P0, 3), (P0, 4), (P0, 5)]:
        assert place in driver.calls


# quixio/quix-streams#1131
def test_a_full_buffer_never_makes_polling_stop():
    driver = Driver(buffer_records=5, concurrency=1)
    driver.poll(list(range(9)))
    assert driver.engine.budget.room_records() >= 1


# getsentry/arroyo


# getsentry/self-hosted#4346
def test_no_free_handler_means_waiting_and_not_a_crash():
    driver = Driver(concurrency=1, order=Order.NONE)
    driver.poll(list(range(50)))
    assert driver.started() == [0]
    for offset in range(50):
        driver.succeed(offset)
    assert driver.commit() == {P0: 50}


# getsentry/arroyo#168
def test_a_commit_refused_during_a_cooperative_rebalance_is_said_again_and_kept_partitions_go_on():
    driver = Driver(committed={P0: Committed(0), P1: Committed(0)}, concurrency=4)
    driver.poll([0, 1])
    driver.poll([0], partition=P1)
    driver.succeed(0)
    [commit] = driver.wait(1.0)
    driver.do("commit_finished", commit.ticket, dict.fromkeys(commit.offsets, RuntimeError("REBALANCE_IN_PROGRESS")))
    driver.do("revoked", [P1])
    driver.do("release", [P1])
    driver.succeed(1)
    assert driver.all_of(CommitOffsets)[-1].offsets[P0].offset >= 1
    assert driver.all_of(Stopped) == []


# getsentry/arroyo#299
def test_back_pressure_and_a_rebalance_do_not_submit_a_record_twice():
    driver = Driver(buffer_records=4, concurrency=1, order=Order.NONE)
    driver.poll([0, 1, 2, 3])
    driver.do("revoked", [P0])
    driver.succeed(0)
    driver.do("release", [P0])
    driver.do("assigned", {P0: Committed(1)})
    driver.poll([1, 2, 3])
    for offset in (1, 2, 3):
        driver.succeed(offset)
    assert [work.offset for call in driver.all_of(StartCall) for work in call.works] == [0, 1, 2, 3]


# getsentry/arroyo#412
def test_records_that_come_of_a_paused_partition_are_taken():
    driver = Driver(buffer_records=10, concurrency=100)
    assert PausePartitions([P0]) in driver.poll(list(range(9)))
    driver.poll([9, 10])
    assert {(P0, 9), (P0, 10)} <= set(driver.calls)


# getsentry/snuba#6639, getsentry/arroyo#404
def test_nothing_is_kept_of_records_that_are_over_when_there_is_no_dead_letter_topic():
    driver = Driver(concurrency=10)
    for offset in range(2000):
        driver.poll([offset], keys=[offset])
        driver.succeed(offset)
    driver.commit()
    assert driver.engine.budget.held_records == 0
    assert driver.engine.lanes.lane_count() == 0
    assert driver.engine.committer.metrics().in_flight == 0


# dpkp/kafka-python


# dpkp/kafka-python#544
def test_a_slow_handler_does_not_lead_to_the_same_record_twice():
    driver = Driver()
    driver.poll([0, 1, 2])
    driver.succeed(1, 2)
    for _ in range(30):
        driver.committed_by(driver.wait(1.0))
    [commit] = driver.all_of(CommitOffsets)
    restarted = Driver(committed={P0: Committed(*commit.offsets[P0])})
    restarted.poll([0, 1, 2])
    assert restarted.started() == [0]


# dpkp/kafka-python#2179, #2610; confluentinc/confluent-kafka-python#368
@pytest.mark.parametrize("code", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"])
def test_a_commit_refused_after_a_rebalance_ends_nothing(code):
    driver = Driver()
    driver.poll([0, 1])
    driver.succeed(0)
    [commit] = driver.wait(1.0)
    driver.do("commit_finished", commit.ticket, {P0: RuntimeError(code)})
    driver.do("lost", [P0])
    driver.do("assigned", {P0: Committed(0)})
    driver.poll([0, 1])
    assert (P0, 0) in driver.calls
    assert not driver.engine.is_over


# ag2ai/faststream


# ag2ai/faststream#2217
def test_many_records_run_at_once():
    driver = Driver(concurrency=64)
    driver.poll(list(range(100)))
    assert len(driver.calls) == 64


# ag2ai/faststream#1980, #1001
def test_a_failed_record_is_not_passed_by_the_commit_of_a_later_one():
    driver = Driver(retry=Retry(attempts=9, delay=100.0, jitter=0))
    driver.poll([0, 1, 2])
    driver.fail(0)
    driver.succeed(1, 2)
    assert driver.commit() == {P0: 0}


# ag2ai/faststream#1446
def test_a_retry_that_was_asked_for_happens():
    driver = Driver(retry=Retry(attempts=2, delay=0.5, jitter=0))
    driver.poll([0])
    driver.fail(0)
    driver.wait(0.5)
    driver.succeed(0)
    assert (driver.engine.counters.retried, driver.engine.counters.done) == (1, 1)


# spring-projects/spring-kafka


# spring-projects/spring-kafka#4258, #4342, #3295
def test_markers_and_aborted_transactions_never_pause_a_partition_for_ever():
    driver = Driver(concurrency=50)
    position = 0
    for _ in range(20):
        driver.poll([position, position + 1], position=position + 5)
        driver.succeed(position + 1, position)
        position += 5
    driver.poll([], position=position + 7)
    assert driver.commit() == {P0: position + 7}
    assert driver.engine.budget.paused() == []


# spring-projects/spring-kafka#2410
def test_a_failed_record_comes_back_and_the_partition_goes_on():
    driver = Driver(retry=Retry(attempts=5, delay=0.1, jitter=0), order=Order.PARTITION)
    driver.poll([0, 1])
    for _ in range(3):
        driver.fail(0)
        driver.wait(2.0)
    driver.succeed(0)
    driver.succeed(1)
    assert driver.commit() == {P0: 2}


# spring-projects/spring-kafka#2678
def test_giving_up_a_later_record_does_not_pass_an_earlier_one():
    driver = Driver(retry=ONCE, then=Skip(max_ratio=None))
    driver.poll([0, 1, 2])
    driver.fail(1)
    driver.fail(2)
    assert driver.commit() == {P0: 0}


# spring-projects/spring-kafka#2128
def test_a_record_that_waits_for_its_retry_does_not_delay_a_rebalance():
    driver = Driver(retry=Retry(attempts=9, delay=600.0, max_delay=600.0))
    driver.poll([0, 1])
    driver.fail(0)
    driver.succeed(1)
    driver.do("revoked", [P0])
    assert driver.engine.is_drained([P0])


# spring-projects/spring-kafka#4414
def test_records_that_a_filter_hid_leave_no_hole_in_the_books():
    driver = Driver()
    driver.poll([3, 9, 20], position=40)
    driver.succeed(20, 3, 9)
    assert driver.commit() == {P0: 40}


# What was found here, by the simulation.


def test_a_log_that_is_cut_above_an_unfinished_record_does_not_let_the_commit_pass_it():
    driver = Driver()
    driver.poll([0, 1, 2, 3, 4])
    driver.succeed(1, 2, 3, 4)
    driver.poll([3, 4])
    driver.succeed(3, 4)
    assert driver.commit() == {P0: 0}
    driver.succeed(0)
    assert driver.commit() == {P0: 5}


def test_a_key_whose_record_waits_below_a_cut_keeps_its_order():
    driver = Driver(retry=Retry(attempts=3, delay=5.0, jitter=0), concurrency=9, commit=Commit(interval=60.0))
    driver.poll([0, 1, 2], keys=["a", "a", "b"])
    driver.fail(0)
    driver.poll([2, 3], keys=["b", "a"])
    assert (P0, 3) not in driver.calls
    # The call of the first pass ends late, and then the record is run again.
    driver.succeed(2)
    driver.succeed(2)
    driver.wait(5.0)
    driver.succeed(0)
    driver.succeed(1)
    driver.succeed(3)
    assert driver.committed_by(driver.wait(60.0)) == {P0: 4}
    assert driver.engine.budget.held_records == 0


def test_records_polled_while_stopping_are_left_alone():
    driver = Driver(drain=30.0)
    driver.poll([0])
    driver.do("stop")
    for start in range(1, 2000, 100):
        driver.poll(list(range(start, start + 100)))
    assert driver.engine.budget.held_records == 1
    assert driver.engine.counters.unowned == 2000


def test_a_parked_record_of_a_partition_that_goes_cannot_be_decided_about():
    driver = Driver(retry=ONCE, then=Park())
    driver.poll([0, 1], keys=["a", "b"])
    driver.fail(0)
    driver.do("revoked", [P0])
    with pytest.raises(UsageError, match="cannot be given up"):
        driver.do("skip", P0, 0)
    driver.succeed(1)
    assert driver.engine.budget.held_records == 0


def test_at_most_once_a_parked_record_can_be_decided_about():
    driver = Driver(retry=ONCE, then=Park(), delivery="at_most_once")
    driver.committed_by(driver.poll([0, 1], keys=["a", "a"]))
    driver.fail(0)
    driver.do("skip", P0, 0)
    driver.succeed(1)
    assert driver.engine.budget.held_records == 0


def test_a_record_dead_lettered_by_call_while_its_batch_fails_is_over_when_the_copy_is_stored():
    driver = Driver(batch=Batch(records=3, wait=0.0), retry=ONCE, then=Park(), concurrency=1)
    driver.poll([0, 1, 2], keys=["a", "a", "a"])
    [call] = driver.all_of(StartCall)
    [letter] = driver.do("dead_letter", P0, 1)
    driver.do("failed", call, ValueError("no"))
    driver.do("dead_letter_written", letter.work, None)
    driver.succeed(0)
    driver.succeed(2)
    assert [[work.offset for work in each.works] for each in driver.all_of(StartCall)] == [[0, 1, 2], [0], [2]]
    assert driver.commit() == {P0: 3}
    assert driver.engine.budget.held_bytes == 0


def test_at_most_once_an_accepted_commit_covers_the_one_before_it():
    driver = Driver(delivery="at_most_once", commit=Commit(interval=0.1))
    [first] = driver.poll([0, 1], keys=["a", "a"])
    driver.poll([2], keys=["a"])
    second = next(each for each in driver.do("release", []) if isinstance(each, CommitOffsets))
    driver.do("commit_finished", second.ticket, {P0: None})
    assert driver.started() == [0]
    driver.do("commit_finished", first.ticket, {P0: None})
    for offset in (0, 1, 2):
        driver.succeed(offset)
    assert [work.offset for call in driver.all_of(StartCall) for work in call.works] == [0, 1, 2]


def columns_of(*offsets):
    rows = [
        SimpleNamespace(
            topic="orders",
            partition=0,
            offset=offset,
            key=None,
            value=b"v",
            headers=(),
            timestamp_ms=1,
            timestamp_type=0,
        )
        for offset in offsets
    ]
    return PolledColumns(P0, batch_of_records(rows), list(offsets))


def test_a_row_of_columns_cannot_be_given_up_alone_while_its_call_runs():
    driver = Driver(batch=Batch(records=2, wait=0.0, arrow=True), order=Order.NONE, retry=ONCE, then=Park())
    driver.do("polled_columns", columns_of(0, 1, 2))
    for offset in range(3):
        with pytest.raises(UsageError, match="runs in one Arrow batch"):
            driver.do("dead_letter", P0, offset)
    [two, one] = driver.all_of(StartCall)
    driver.do("succeeded", two)
    driver.do("failed", one, ValueError("no"))
    driver.do("skip", P0, 2)
    assert driver.commit() == {P0: 3}
    assert driver.engine.budget.held_bytes == 0


def test_at_most_once_a_cut_takes_the_rows_that_come_again_out_of_columns_that_wait_for_their_commit():
    driver = Driver(batch=Batch(records=5, wait=0.0, arrow=True), order=Order.NONE, delivery="at_most_once")
    [first] = driver.do("polled_columns", columns_of(0, 1, 2, 3, 4))
    driver.do("polled_columns", columns_of(3, 4))
    second = driver.do("commit_finished", first.ticket, {P0: None})
    driver.committed_by(second)
    rows = [offset for call in driver.all_of(StartCall) for work in call.works for offset in work.offsets]
    assert sorted(rows) == [0, 1, 2, 3, 4]
    for call in driver.all_of(StartCall):
        driver.do("succeeded", call)
    assert driver.engine.counters.done == 5
    assert driver.engine.budget.held_records == 0


def test_a_rewind_opens_the_lane_of_a_record_whose_dead_letter_nobody_waits_for():
    driver = Driver(order=Order.PARTITION, retry=ONCE, then=DeadLetter(max_ratio=None))
    driver.poll([0, 1, 2])
    driver.succeed(0)
    [letter] = driver.fail(1)
    driver.poll([1, 2])
    driver.do("dead_letter_written", letter.work, None)
    driver.succeed(1)
    driver.succeed(2)
    assert driver.commit() == {P0: 3}
    assert driver.engine.budget.held_bytes == 0


def test_a_copy_on_its_way_counts_as_memory_after_its_partition_has_gone():
    driver = Driver(batch=Batch(records=2, wait=0.0), retry=ONCE, then=Park(), concurrency=1)
    driver.poll([0, 1], keys=["a", "a"])
    [call] = driver.all_of(StartCall)
    [letter] = driver.do("dead_letter", P0, 1)
    driver.do("failed", call, ValueError("no"))
    driver.do("revoked", [P0])
    driver.succeed(0)
    driver.do("release", [P0])
    assert driver.engine.budget.held_bytes == letter.work.size_bytes
    driver.do("dead_letter_written", letter.work, None)
    assert driver.engine.budget.held_bytes == 0
