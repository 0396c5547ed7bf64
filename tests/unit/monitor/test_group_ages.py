"""The ages of many groups that stand at many places of one log: few questions, and what is said holds."""

import logging
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client.admin.types import ListedOffset
from seamark.client.errors import ConnectionFailed, CorruptRecords, broker_error
from seamark.client.net.fanout import Results
from seamark.client.records import Offset
from seamark.monitor.group_ages import GroupAges
from seamark.rules.lag import lag_of
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

LOG = TopicPartition("log", 0)
NOW_MS = 10_000_000


class TimedLog:
    """Answers which record is the first at or after a time, and of what time a record is."""

    def __init__(self, written_ms, *, refusal=None):
        self.written_ms = written_ms
        self.refusal = refusal
        self.questions = 0
        self.reads = 0

    def list_offsets(self, asked, *, timeout=None):
        self.questions += 1
        found = next((at for at, when in enumerate(self.written_ms) if when >= asked[LOG]), -1)
        return Results({LOG: ListedOffset(found, self.written_ms[found] if found >= 0 else -1, -1)}, {})

    def record_times(self, places, *, timeout=None):
        places = list(places)
        self.reads += len(places)
        if self.refusal is None:
            return Results({each: self.written_ms[each.offset] for each in places}, {})
        if isinstance(self.refusal, CorruptRecords):
            return Results({}, dict.fromkeys(places, self.refusal))
        if not isinstance(self.refusal, ErrorCode):
            raise self.refusal
        return Results({}, {each: broker_error(self.refusal, "Fetch", str(each)) for each in places})


def groups_at(positions, log_end, log_start=0):
    bounds = SimpleNamespace(log_start=log_start, log_end=log_end)

    def view(position):
        committed = None if position is None else Offset(position)
        lag = lag_of(position, log_start, log_end)
        return SimpleNamespace(partition=LOG, committed=committed, bounds=bounds, lag=lag)

    return SimpleNamespace(
        groups=[SimpleNamespace(group_id=f"g{position}", partitions=[view(position)]) for position in positions]
    )


def test_the_number_of_questions_and_reads_does_not_grow_with_the_number_of_groups():
    log = TimedLog([1000 * at for at in range(5000)])
    found = GroupAges(log, most_reads=7).look(groups_at(range(0, 5001, 2), 5000), NOW_MS)
    assert len(found) == 2501
    assert log.questions <= 8 * 24
    assert log.reads == 7
    assert found["g5000", LOG].method == "caught up"


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(NOW_MS - 5_000_000, NOW_MS + 5000), min_size=1, max_size=60),
    st.sets(st.integers(0, 60), min_size=1, max_size=60),
    st.integers(0, 4),
)
def test_the_true_age_is_told_or_a_bound_of_it_whatever_the_order_of_times(written, wanted, most_reads):
    positions = {min(position, len(written)) for position in wanted}
    found = GroupAges(TimedLog(written), most_reads=most_reads).look(groups_at(positions, len(written)), NOW_MS)
    for position in positions:
        age = found[f"g{position}", LOG]
        true = 0.0 if position == len(written) else max(0, NOW_MS - written[position]) / 1000
        assert age.seconds == true if age.is_exact else age.seconds <= true


def test_a_group_below_the_log_start_is_as_old_as_the_first_record_that_is_left():
    log = TimedLog([1000 * at for at in range(100)])
    found = GroupAges(log).look(groups_at([20], 100, log_start=60), NOW_MS)
    assert found["g20", LOG].seconds == (NOW_MS - 60_000) / 1000


def test_an_offset_beyond_the_end_or_none_has_no_age():
    log = TimedLog([1000 * at for at in range(100)])
    assert GroupAges(log).look(groups_at([130, None], 100), NOW_MS) == {}
    assert GroupAges(log, reset="earliest").look(groups_at([None], 100), NOW_MS)["gNone", LOG].seconds == 10_000
    assert GroupAges(log, reset="latest").look(groups_at([None], 100), NOW_MS)["gNone", LOG].seconds == 0


def test_a_topic_that_may_not_be_read_is_asked_for_once_told_once_and_bounded(caplog):
    log = TimedLog([1000 * at for at in range(100)], refusal=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    ages = GroupAges(log)
    for _ in range(3):
        found = ages.look(groups_at([20, 30], 100), NOW_MS)
    assert found["g20", LOG].seconds <= (NOW_MS - 20_000) / 1000
    assert log.reads == 2
    (line,) = caplog.records
    assert (line.levelno, "'log'" in line.getMessage()) == (logging.WARNING, True)


def test_a_read_that_fails_leaves_a_bound_and_is_tried_again_at_the_next_look(caplog):
    log = TimedLog([1000 * at for at in range(100)], refusal=ConnectionFailed("broker:9092", "gone"))
    ages = GroupAges(log)
    assert ages.look(groups_at([20], 100), NOW_MS)["g20", LOG].seconds <= (NOW_MS - 20_000) / 1000
    assert "broker:9092" in caplog.text
    log.refusal = None
    assert ages.look(groups_at([20], 100), NOW_MS)["g20", LOG].method == "read"


def test_a_batch_that_cannot_be_read_is_read_and_told_once_and_not_at_every_look(caplog):
    log = TimedLog([1000 * at for at in range(20)], refusal=CorruptRecords(LOG, 5, "it unfolds to too much"))
    ages = GroupAges(log)
    with caplog.at_level(logging.WARNING, "seamark.monitor"):
        for _ in range(3):
            ages.look(groups_at([5], 20), NOW_MS)
    assert log.reads == 1
    [line] = [each.getMessage() for each in caplog.records]
    assert line == "The age of log-0 at offset 5 is a lower bound: it unfolds to too much"
    ages.look(groups_at([6], 20), NOW_MS)
    assert log.reads == 2, "a group that got past it is looked at again"
