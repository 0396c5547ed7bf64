"""The search for the age of an offset by questions that Kafka can answer."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.rules.ages import ages_at
from seamark.rules.time_lag import CAUGHT_UP, TimeLag
from seamark.rules.time_probe import Places, TimeProbe, least_ages

NOW_MS = 1_700_000_000_000


class Record(NamedTuple):
    offset: int
    timestamp_ms: int


NONE = Record(-1, -1)


def first_at(log, at_ms):
    """What Kafka answers: the lowest offset whose record is of that time or later."""
    return next((record for record in log if record.timestamp_ms >= at_ms), NONE)


def probed(log, position, log_end, now_ms):
    """What is found, and with how many questions."""
    probe = TimeProbe(position, log_end, now_ms)
    asked = 0
    while (at := probe.next_ask()) is not None:
        probe.answered(at, *first_at(log, at))
        asked += 1
    return probe.result(), asked


def holds(found, log, position, now_ms):
    """Whether what is said of a position is true of its first unread record."""
    written_ms = next(record.timestamp_ms for record in log if record.offset >= position)
    true = max(0, now_ms - written_ms) / 1000
    return found.seconds == true if found.is_exact else found.seconds <= true


@settings(deadline=None, max_examples=300)
@given(
    steps=st.lists(st.integers(0, 3_600_000), min_size=1, max_size=40),
    after_ms=st.integers(0, 10_000_000),
    position=st.integers(0, 39),
)
def test_where_times_rise_the_bound_is_no_further_off_than_the_next_record(steps, after_ms, position):
    log = [Record(index, NOW_MS + sum(steps[: index + 1])) for index in range(len(steps))]
    now_ms = log[-1].timestamp_ms + after_ms
    position %= len(log)
    found, asked = probed(log, position, len(log), now_ms)
    assert holds(found, log, position, now_ms)
    assert asked <= 24
    # Times are told apart down to this; the bound is that of a record not later than the next one that differs.
    own_ms = log[position].timestamp_ms
    near_ms = own_ms + max(1000, 0.05 * (now_ms - own_ms))
    next_ms = next((each.timestamp_ms for each in log if each.timestamp_ms >= near_ms), near_ms)
    assert found.seconds >= (now_ms - next_ms) / 1000 - 1e-9


times = st.one_of(st.integers(0, 10_000), st.integers(NOW_MS - 7_200_000, NOW_MS + 60_000))


@st.composite
def logs(draw):
    """Records with times in any order and gaps between their offsets, and the end of the log."""
    offset = draw(st.integers(0, 5))
    log = []
    for timestamp_ms in draw(st.lists(times, min_size=1, max_size=25)):
        log.append(Record(offset, timestamp_ms))
        offset += draw(st.sampled_from([1, 1, 1, 2, 7]))
    return log, log[-1].offset + 1


@settings(deadline=None, max_examples=500)
@given(logs(), st.integers(0, 200))
def test_for_times_in_any_order_and_gaps_the_true_age_lies_within_what_is_stated(made, position):
    log, log_end = made
    position %= log_end
    found, asked = probed(log, position, log_end, NOW_MS)
    assert holds(found, log, position, NOW_MS)
    assert asked <= 24


@settings(deadline=None, max_examples=200)
@given(logs(), st.sets(st.integers(0, 200), min_size=1, max_size=40), st.integers(0, 6), st.booleans())
def test_many_places_are_true_whether_they_are_read_or_not(made, wanted, most_reads, may_read):
    log, log_end = made
    positions = {position % (log_end + 1) for position in wanted}

    def read(places):
        assert len(places) <= most_reads
        times_ms = {place: next(each.timestamp_ms for each in log if each.offset >= place[1]) for place in places}
        return times_ms if may_read else {}

    found = ages_at(
        {"log": Places(positions, log_end)},
        NOW_MS,
        read=read,
        ask=lambda asked: {"log": first_at(log, asked["log"])},
        most_reads=most_reads,
    )["log"]
    assert set(found) == positions
    for position, age in found.items():
        assert age.method == "caught up" if position == log_end else holds(age, log, position, NOW_MS)


def test_a_record_an_hour_old_between_new_ones_is_not_said_to_be_new():
    log = [Record(index, NOW_MS - 61_000 + index) for index in range(10)]
    log[5] = Record(5, NOW_MS - 3_600_000)
    found, _ = probed(log, 5, 10, NOW_MS)
    assert (found.method, found.seconds <= 3600) == ("at least", True)
    read = ages_at(
        {"log": Places([5], 10)}, NOW_MS, read=lambda _: {("log", 5): log[5].timestamp_ms}, ask=dict, most_reads=1
    )
    assert read["log"][5] == TimeLag(3600.0, "read")


def test_a_record_behind_a_gap_is_not_taken_for_older_than_it_is():
    log = [Record(0, NOW_MS - 3_600_000), Record(9, NOW_MS - 2000)]
    found, _ = probed(log, 3, 10, NOW_MS)
    assert found.seconds <= 2


def test_a_group_that_has_caught_up_needs_no_question():
    found, asked = probed([Record(index, index) for index in range(3)], 3, 3, 1_000)
    assert (found.seconds, asked) == (0.0, 0)


class Logs:
    """Logs with a record every ten seconds; those in ``silent`` do not answer."""

    def __init__(self, *silent):
        self.silent = set(silent)
        self.records = [Record(offset, 10_000 * offset) for offset in range(100)]

    def ask(self, asked):
        return {log: first_at(self.records, at) for log, at in asked.items() if log not in self.silent}


def test_many_positions_of_many_logs_are_found_together():
    logs = Logs()
    found = least_ages({"a": Places([10, 99, 100], 100), "b": Places({50}, 100)}, 1_000_000, logs.ask)
    assert {log: sorted(ages) for log, ages in found.items()} == {"a": [10, 99, 100], "b": [50]}
    assert found["a"][100].method == "caught up"
    assert all(holds(found["a"][position], logs.records, position, 1_000_000) for position in (10, 99))


def test_a_log_that_does_not_answer_is_not_known_and_keeps_no_other_from_being_asked():
    found = least_ages({"a": Places([10, 20], 100), "b": Places([50], 100)}, 1_000_000, Logs("a").ask)
    assert (found["a"], list(found["b"])) == ({}, [50])


def test_a_log_that_falls_silent_is_known_as_far_as_it_answered():
    logs = Logs()

    def ask(asked):
        answer = logs.ask(asked)
        if "a" in answer and answer["a"].offset == 10:
            logs.silent.add("a")
        return answer

    found = least_ages({"a": Places([10, 20], 100)}, 1_000_000, ask)["a"]
    assert found == {10: TimeLag(900.0, "read")}


def test_those_furthest_behind_are_read_first():
    asked = []

    def read(places):
        asked.extend(places)
        return {}

    ages_at({"a": Places([90, 10], 100), "b": Places([50], 100)}, 1_000_000, read=read, ask=Logs().ask, most_reads=2)
    assert asked == [("a", 10), ("b", 50)]


def test_a_record_without_a_time_gets_a_bound_and_a_place_without_a_record_is_caught_up():
    places = {"a": Places([10, 99], 100)}
    found = ages_at(
        places, 1_000_000, read=lambda _: {("a", 10): -1, ("a", 99): None}, ask=Logs().ask, most_reads=9
    )["a"]  # fmt: skip
    assert (found[10].seconds, found[99]) == (900.0, CAUGHT_UP)
