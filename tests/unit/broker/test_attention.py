"""A broker that is the process stays awake for a moment after an answer, and only for a moment."""

import psutil
import pytest

from benchmarks.broker_process import BrokerProcess
from seamark.broker.attention import SECONDS, Attention
from tests.support.broker_driver import Client


class ScriptedLoop:
    """Rounds are made by hand, at times that the test says."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def call_soon(self, function):
        self.calls.append(function)

    def round(self, after):
        self.now += after
        calls, self.calls = self.calls, []
        for each in calls:
            each()
        return bool(self.calls)


@pytest.fixture
def loop():
    return ScriptedLoop()


@pytest.fixture
def attention(loop):
    return Attention(loop, lambda: loop.now)


def test_the_loop_goes_round_for_a_while_after_an_answer_and_then_sleeps(loop, attention):
    assert not loop.calls
    attention.answered()
    assert [loop.round(SECONDS * 0.3) for _ in range(4)] == [True, True, True, False]
    assert not loop.calls


def test_the_next_answer_begins_the_while_anew_and_adds_no_second_round(loop, attention):
    attention.answered()
    assert loop.round(SECONDS * 0.9)
    attention.answered()
    attention.answered()
    assert len(loop.calls) == 1
    assert loop.round(SECONDS * 0.9)
    assert not loop.round(SECONDS * 0.2)
    attention.answered()
    assert loop.round(SECONDS * 0.5)


def test_a_process_that_nobody_asks_sleeps(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker, Client(broker.bootstrap) as client:
        for _ in range(50):
            client.metadata()
        process = psutil.Process(broker.pid)
        before = process.cpu_times()
        with pytest.raises(psutil.TimeoutExpired):
            process.wait(1.5)
        after = process.cpu_times()
    assert after.user + after.system - before.user - before.system < 0.5
