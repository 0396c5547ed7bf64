"""What consumers change of the interpreter while they run, and that it is given back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from seamark.parallel.run.process import relaxed_gc


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    threshold, switch = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(switch)


def test_the_collector_looks_less_often_while_a_consumer_runs() -> None:
    with relaxed_gc(for_a_loop=False):
        assert gc.get_threshold() == (10_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_threshold_that_the_program_has_set_is_left_alone() -> None:
    for chosen in ((50_000, 5, 5), (0, 10, 10)):
        gc.set_threshold(*chosen)
        with relaxed_gc(for_a_loop=False):
            assert gc.get_threshold() == chosen
        assert gc.get_threshold() == chosen


def test_a_threshold_that_is_set_while_a_consumer_runs_stays() -> None:
    with relaxed_gc(for_a_loop=False):
        gc.set_threshold(1_234, 10, 10)
    assert gc.get_threshold() == (1_234, 10, 10)


def test_the_last_of_several_consumers_gives_everything_back() -> None:
    switch = sys.getswitchinterval()
    first, second = relaxed_gc(for_a_loop=True), relaxed_gc(for_a_loop=False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (10_000, 10, 10)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)
    assert sys.getswitchinterval() == switch


def test_threads_take_turns_more_often_only_beside_a_loop() -> None:
    switch = sys.getswitchinterval()
    with relaxed_gc(for_a_loop=False):
        assert sys.getswitchinterval() == switch
    with relaxed_gc(for_a_loop=True):
        assert sys.getswitchinterval() < switch
