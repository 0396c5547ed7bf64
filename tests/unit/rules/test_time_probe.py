"""The search for the age of an offset by questions that Kafka can answer."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.rules.time_lag import Anchor
from seamark.rules.time_probe import TimeProbe, ages_at


def probed(written_at, position, now_ms):
    """What is found, and with how many questions."""
    probe = TimeProbe(position, len(written_at), now_ms)
    asked = 0
    while (at := probe.next_ask()) is not None:
        found = next((offset for offset, when in enumerate(written_at) if when >= at), -1)
        probe.answered(at, found, written_at[found] if found >= 0 else -1)
        asked += 1
    return probe.result(), asked


@settings(deadline=None, max_examples=300)
@given(
    steps=st.lists(st.integers(0, 3_600_000), min_size=1, max_size=40),
    after_ms=st.integers(0, 10_000_000),
    position=st.integers(0, 39),
)
def test_the_true_age_is_within_the_error_and_few_questions_are_asked(steps, after_ms, position):
    written_at = [1_700_000_000_000 + sum(steps[: index + 1]) for index in range(len(steps))]
    now_ms = written_at[-1] + after_ms
    position %= len(written_at)
    found, asked = probed(written_at, position, now_ms)
    true = (now_ms - written_at[position]) / 1000
    assert abs(found.seconds - true) <= found.error + 1e-9
    assert found.error <= max(1.0, 0.05 * true)
    assert asked <= 24


@settings(deadline=None)
@given(times=st.lists(st.integers(0, 2_000_000_000_000), min_size=1, max_size=20), position=st.integers(0, 19))
def test_times_that_go_back_and_forth_end_the_search_with_an_answer(times, position):
    found, asked = probed(times, position % len(times), 1_700_000_000_000)
    assert found.seconds >= 0
    assert asked <= 24


def test_a_group_that_has_caught_up_needs_no_question():
    found, asked = probed([1, 2, 3], 3, 1_000)
    assert (found.seconds, asked) == (0.0, 0)


class Logs:
    """Logs with a record every ten seconds; those in ``silent`` do not answer."""

    def __init__(self, *silent):
        self.silent = set(silent)

    def ask(self, times):
        answered = {}
        for log, at in times.items():
            found = next((offset for offset in range(100) if 10_000 * offset >= at), -1)
            if log not in self.silent:
                answered[log] = Anchor(found, 10_000 * found if found >= 0 else -1)
        return answered


def test_many_positions_of_many_logs_are_found_together():
    found = ages_at({"a": ([10, 99, 100], 100), "b": ({50}, 100)}, 1_000_000, Logs().ask)
    assert {log: sorted(ages) for log, ages in found.items()} == {"a": [10, 99, 100], "b": [50]}
    for ages in found.values():
        for position, age in ages.items():
            true = 0 if position == 100 else 1000 - 10 * position
            assert abs(age.seconds - true) <= age.error + 1e-9
    assert found["a"][100].method == "caught up"


def test_a_log_that_does_not_answer_is_left_out_and_keeps_no_other_from_being_asked():
    found = ages_at({"a": ([10, 20], 100), "b": ([50], 100)}, 1_000_000, Logs("a").ask)
    assert list(found) == ["b"]


def test_a_log_that_falls_silent_is_known_as_far_as_it_answered():
    logs = Logs()

    def ask(times):
        answer = logs.ask(times)
        if "a" in answer and answer["a"].offset == 10:
            logs.silent.add("a")
        return answer

    found = ages_at({"a": ([10, 20], 100)}, 1_000_000, ask)["a"]
    assert (found[10].seconds, found[10].method) == (900.0, "read")
    # Between what is known of the first and the end of the log.
    assert found[20].method == "interpolated"
    assert abs(found[20].seconds - 800) <= found[20].error
