"""Samples of stretches in which nothing moved are left out, and no rule can tell."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.monitor.watching import _keep
from seamark.rules.status import Patience, partition_status
from seamark.rules.time_lag import Sample, seconds_to_catch_up

STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, -1]), st.sampled_from([0, 0, 0, 1, 3])), max_size=60)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(2, 12), st.booleans())
def test_states_are_the_same_as_with_every_look(steps, looks, is_active):
    whole = deque(maxlen=looks)
    times = deque(maxlen=looks)
    kept = deque(maxlen=looks)
    committed, end = 5, 10
    for number, (read, written) in enumerate(steps):
        committed, end = max(0, committed + read), end + written
        at_ms = number * 10_000
        times.append(at_ms)
        whole.append(Sample(at_ms, committed, end))
        _keep(kept, Sample(at_ms, committed, end), times[0])
        patience = Patience(seconds=30)
        assert partition_status(list(kept), is_active=is_active, patience=patience) == partition_status(
            list(whole), is_active=is_active, patience=patience
        )
        assert seconds_to_catch_up(list(kept)) == seconds_to_catch_up(list(whole))
        assert {each[1:] for each in kept} == {each[1:] for each in whole}


def test_a_partition_at_rest_costs_two_samples():
    kept = deque(maxlen=100)
    for at in range(500):
        _keep(kept, Sample(at, 7, 9), max(0, at - 99))
    assert list(kept) == [Sample(400, 7, 9), Sample(499, 7, 9)]
