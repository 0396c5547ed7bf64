"""The search for the age of an offset by questions that Kafka can answer."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.rules.time_probe import TimeProbe


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
