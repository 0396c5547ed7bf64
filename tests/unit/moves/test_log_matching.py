"""When two logs are taken for equal, and where a group goes on when they are not: the rules alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client import Record
from seamark.moves.log_matching import Fingerprint, fingerprint, match, sample_points, shared_range
from seamark.moves.time_matching import TimeAnswer, TimeAsked, aim_by_time, time_to_ask
from seamark.plans.plan import LogRange

# A log is a list of fingerprints in the order of their offsets.
LOG = LogRange(0, 100)


def log(start=0, end=100, step=1, time_ms=lambda offset: 1000 + offset):
    return [Fingerprint(offset, time_ms(offset), offset * 7) for offset in range(start, end, step)]


def look(records, points):
    return {point: next((each for each in records if each.offset >= point), None) for point in points}


def compared(here, there, ranges=(LOG, LOG), committed=(50,)):
    points = sample_points(*ranges, committed)
    return match(points, look(here, points), look(there, points), shared_range(*ranges))


def test_equal_logs_are_equal():
    assert compared(log(), log()).is_equal


def test_points_are_the_ends_the_middle_and_both_sides_of_the_committed_offset():
    points = sample_points(LogRange(10, 1000), LogRange(0, 900), [400])
    assert {10, 899, 399, 400} <= set(points)
    assert len(points) == 10
    assert points == sorted(points)


def test_a_target_that_is_shifted_by_one_is_not_equal():
    shifted = [each._replace(offset=each.offset + 1) for each in log(end=99)]
    found = compared(log(), shifted)
    assert not found.is_equal
    assert "differ" in found.reason


def test_another_record_at_the_committed_offset_alone_is_noticed():
    changed = [each._replace(checksum=1) if each.offset == 50 else each for each in log()]
    found = compared(log(), changed)
    assert (found.is_equal, found.reason) == (False, "the logs differ at offset 50: different content")


def test_logs_with_the_same_gaps_are_equal():
    assert compared(log(step=3), log(step=3)).is_equal


def test_records_that_all_look_alike_prove_nothing():
    alike = [Fingerprint(offset, 5, 5) for offset in range(100)]
    assert "prove" in compared(alike, alike).reason


def test_logs_without_a_common_offset_are_not_equal():
    ranges = LogRange(0, 10), LogRange(20, 30)
    assert "no record in common" in compared(log(0, 10), log(20, 30), ranges).reason


def test_a_record_behind_the_end_of_the_other_log_is_no_difference():
    # The last offset of the shorter log is a marker, so that the next record there is none and here lies beyond.
    here, there = log(0, 100), [each for each in log(0, 50) if each.offset < 49]
    found = compared([each for each in here if each.offset != 49], there, (LOG, LogRange(0, 50)), (20,))
    assert found.is_equal


@given(
    keys=st.lists(st.none() | st.binary(max_size=3), min_size=2, max_size=2),
    values=st.lists(st.none() | st.binary(max_size=3), min_size=2, max_size=2),
    names=st.lists(st.text(max_size=2), min_size=2, max_size=2),
)
def test_fingerprints_differ_where_the_content_does(keys, values, names):
    records = [
        Record("t", 0, 5, key, value, ((name, b"x"),), 9) for key, value, name in zip(keys, values, names, strict=True)
    ]
    same = keys[0] == keys[1] and values[0] == values[1] and names[0] == names[1]
    assert (fingerprint(records[0]) == fingerprint(records[1])) is same


# -- by time


def asked(records, committed, start, end):
    points = {max(committed, start), committed - 1} | {start, end - 1}
    return time_to_ask(committed, look(records, [point for point in points if start <= point < end]))


def test_the_time_is_that_of_the_first_unread_record():
    assert asked(log(), 40, 0, 100) == TimeAsked(1040, True)


def test_a_group_that_has_read_everything_is_placed_by_its_last_record():
    assert asked(log(), 100, 0, 100) == TimeAsked(1099, False)


def test_records_without_a_time_tell_nothing():
    assert asked(log(time_ms=lambda _: -1), 40, 0, 100) is None
    assert time_to_ask(40, {}) is None


def test_a_target_that_begins_after_the_first_unread_record_is_a_problem():
    found = aim_by_time(TimeAsked(1040, True), 10, TimeAnswer(7, 1050), LogRange(7, 30))
    assert "may be missing" in found.problem
    assert aim_by_time(TimeAsked(1040, False), 10, TimeAnswer(7, 1050), LogRange(7, 30)).problem == ""


def test_a_mirror_that_has_nothing_so_new_is_read_from_where_it_ended():
    found = aim_by_time(TimeAsked(1040, True), 10, TimeAnswer(-1, -1), LogRange(7, 30))
    assert (found.offset, found.problem) == (30, "")


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_group_placed_by_time_never_passes_a_record_that_it_has_not_read(data):
    # covers: G6
    times = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=25))
    gaps = data.draw(st.lists(st.integers(1, 3), min_size=len(times), max_size=len(times)))
    offsets = [sum(gaps[: index + 1]) for index in range(len(times))]
    source = [Fingerprint(offset, time, index) for index, (offset, time) in enumerate(zip(offsets, times, strict=True))]
    end = offsets[-1] + 1
    committed = data.draw(st.integers(0, end))
    # The mirror drops a prefix of what was copied (retention), starts at another number, and may add to the times.
    dropped = data.draw(st.integers(0, len(source)))
    copied = data.draw(st.integers(dropped, len(source)))
    first = data.draw(st.integers(0, 5))
    late = data.draw(st.sampled_from([0, 0, 4]))
    target = [
        Fingerprint(first + index, each.timestamp_ms + late, each.checksum)
        for index, each in enumerate(source[dropped:copied])
    ]
    there = LogRange(first, first + len(target))
    overlap = data.draw(st.integers(0, 20))
    question = asked(source, committed, 0, end)
    if question is None:
        return
    after = max(0, question.timestamp_ms - overlap)
    answer = next((TimeAnswer(each.offset, each.timestamp_ms) for each in target if each.timestamp_ms >= after), None)
    found = aim_by_time(question, overlap, answer or TimeAnswer(-1, -1), there)
    unread = {each.checksum for each in source if each.offset >= committed}
    passed = {each.checksum for each in target if each.offset < found.offset}
    # Even if the target has lost the first unread record, as long as times go back by no more than the overlap.
    is_lost = bool(unread) and min(unread) < dropped
    goes_back = max(max(times[: index + 1]) - time for index, time in enumerate(times))
    if not is_lost or goes_back <= overlap:
        assert not passed & unread
    assert there.log_start <= found.offset <= there.log_end
    # What the target has lost is a problem, where times grow; it is at least said that its log begins there.
    if is_lost and target and goes_back <= overlap:
        assert "the target's log begins there" in found.note
        assert found.problem or late or times != sorted(set(times))
