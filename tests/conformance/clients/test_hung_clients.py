"""What counts as a client that waits for itself, and what does not: a story is only told again for the former."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conformance.clients.kafka_python_program import Fetcher, KafkaConnectionManager, NetworkSelector, own_wait
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]


@pytest.fixture
def net():
    selector = NetworkSelector()
    selector.start()
    yield selector
    selector.stop(5000)
    selector.close()


def in_a_thread(work, *arguments):
    def run():
        # Stopping the loop fails whoever waits for it.
        with pytest.raises(Exception, match="stopped"):
            work(*arguments)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def waits(thread):
    names = []
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return "run" in names and "wait" in names


async def never(*_arguments):
    from kafka.future import Future

    await Future()


@pytest.mark.parametrize("limit_ms", [100, None])
def test_only_a_wait_with_a_time_limit_is_the_clients_own(net, limit_ms):
    manager = SimpleNamespace(_net=net)
    # The loop is busy elsewhere, so nothing ends by its time.
    busy, is_busy = threading.Event(), threading.Event()
    net.call_soon_threadsafe(lambda: (is_busy.set(), busy.wait(60)))
    assert is_busy.wait(30)
    from kafka.future import Future

    wait_for = KafkaConnectionManager.wait_for.__get__(manager)
    thread = in_a_thread(net.run, wait_for, Future(), limit_ms)
    eventually(lambda: waits(thread), "the thread waits")
    assert (own_wait(thread) is not None) == (limit_ms is not None)
    busy.set()


def test_sending_fetches_is_the_clients_own_and_asking_the_group_is_not(net):
    fetcher = SimpleNamespace(_create_fetch_requests=dict, _fetch_futures=[], _clean_done_fetch_futures=never)
    sending = in_a_thread(net.run, Fetcher._send_fetches_async.__get__(fetcher))
    joining = in_a_thread(net.run, never)
    for thread in (sending, joining):
        eventually(lambda thread=thread: waits(thread), "the thread waits")
    assert own_wait(sending) is own_wait(sending) is not None
    assert own_wait(joining) is None


STORIES = """
from tests.conformance.clients.program import ClientHung, ProgramFailed
from tests.conformance.clients import test_client_stories as stories

told = []


@stories.told_again_if_the_client_hangs
def test_hangs_once():
    told.append("once")
    if len(told) == 1:
        raise ClientHung("the proof")


@stories.told_again_if_the_client_hangs
def test_hangs_twice():
    raise ClientHung("the proof")


@stories.told_again_if_the_client_hangs
def test_is_slow():
    told.append("slow")
    assert told.count("slow") == 1
    raise ProgramFailed("did not answer in time")


@stories.told_again_if_the_client_hangs
def test_hangs_once_too_often():
    told.append("often")
    if told.count("often") == 1:
        raise ClientHung("the proof")
"""


def test_a_story_is_told_again_once_counted_and_shown(tmp_path):
    (tmp_path / "test_stories.py").write_text(STORIES)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "--rootdir", str(ROOT), "-c", "pyproject.toml"]
    ran = subprocess.run(
        [*command, "-p", "tests.conftest", str(tmp_path / "test_stories.py")],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "3 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "3 tests were told again because a client of others hung" in ran.stdout
    assert "test_hangs_once: the proof" in ran.stdout
    assert "3 clients hung in this run, more than 2" in ran.stdout
    assert "did not answer in time" in ran.stdout
