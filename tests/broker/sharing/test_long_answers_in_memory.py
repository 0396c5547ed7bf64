"""Many clients that ask for a long answer at once: only a part of all that is in memory at a time."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from seamark import Broker
from seamark.broker.net import context
from seamark.broker.sharing import answers_in_progress, turns
from seamark.broker.sharing.answers_in_progress import AnswersInProgress
from seamark.wire.protocol.messages.metadata import MetadataRequest
from tests.support.broker_driver import Client
from tests.support.waiting import eventually

MOST, SHORT = 100_000, 2000
REQUEST = MetadataRequest(topics=None)


@pytest.fixture(scope="module")
def broker():
    with Broker() as running, Client(running.bootstrap) as client:
        for number in range(300):
            assert client.create_topic(f"{number:04}-{'x' * 190}").error_code == 0
        yield running


@pytest.fixture
def largest(monkeypatch):
    """What there was in memory at most; everybody takes the smallest turns, so that all answers grow side by side."""
    monkeypatch.setattr(answers_in_progress, "MAX_BYTES", MOST)
    monkeypatch.setattr(context, "SHORT_BYTES", SHORT)
    monkeypatch.setattr(context, "_PIECES_PER_CHUNK", 16)
    for name in ("FIRST_SECONDS", "TURN_SECONDS", "LONE_TURN_SECONDS"):
        monkeypatch.setattr(turns, name, 1e-9)
    seen = [0]
    grown = AnswersInProgress.grown

    def watch(progress, *arguments):
        room = grown(progress, *arguments)
        seen[0] = max(seen[0], progress.byte_count)
        return room

    monkeypatch.setattr(AnswersInProgress, "grown", watch)
    return seen


def is_idle(broker):
    progress = broker._server.answers_in_progress
    return broker._call(lambda: len(progress) == progress.byte_count == 0)


def test_answers_of_a_crowd_are_whole_and_never_all_in_memory(broker, largest):
    with ExitStack() as stack:
        crowd = [stack.enter_context(Client(broker.bootstrap)) for _ in range(30)]
        for client in crowd:
            client.send(REQUEST, 12)
        answers = [client.receive(REQUEST, 12, 60) for client in crowd]
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0].topics) == 300
    whole = len(answers[0].topics) * 200
    assert MOST < largest[0] < MOST + whole * 2 + len(crowd) * SHORT * 2 < len(crowd) * whole // 4
    assert is_idle(broker)


def test_those_that_leave_while_they_wait_leave_nothing_behind(broker, largest):
    with ExitStack() as stack:
        crowd = [stack.enter_context(Client(broker.bootstrap)) for _ in range(30)]
        for client in crowd:
            client.send(REQUEST, 12)
        eventually(lambda: largest[0] > MOST, "some wait for room")
        for client in crowd[::2]:
            client.wire.close()
        for client in crowd[1::2]:
            assert len(client.receive(REQUEST, 12, 60).topics) == 300
    eventually(lambda: is_idle(broker), "everybody is forgotten")
