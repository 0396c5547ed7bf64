"""What is held of requests: bounded in sum, and those who hold most for longest go."""

from __future__ import annotations

import pytest

from seamark.broker.sharing.held_bytes import HeldBytes


class Holder:
    def __init__(self, held):
        self._held = held
        self.reason = ""

    def close(self, reason):
        self.reason = reason
        self._held.take_out(self)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def held(clock):
    return HeldBytes(lambda: 1000, clock)


def test_who_holds_most_for_longest_goes_first(held, clock):
    patient, hoarder, busy = Holder(held), Holder(held), Holder(held)
    held.change(patient, 10)
    held.change(hoarder, 400)
    clock.now = 60.0
    held.change(busy, 800)
    assert "400 bytes of unfinished requests when those of all clients reached 1210" in hoarder.reason
    assert busy.reason == "", "what just came is worth little time"
    assert patient.reason == "", "what is small may wait for long"
    assert held.total == 810


def test_one_that_holds_too_much_alone_goes(held):
    alone = Holder(held)
    held.change(alone, 1001)
    assert alone.reason
    assert (held.total, len(held)) == (0, 0)


def test_holding_less_is_never_a_reason(held):
    holder = Holder(held)
    held.change(holder, 900)
    held._limit = lambda: 100
    held.change(holder, 500)
    assert not holder.reason
    held.change(holder, 0)
    assert (held.total, len(held)) == (0, 0)


def test_time_counts_from_when_anything_was_held(held, clock):
    streaming, stuck = Holder(held), Holder(held)
    held.change(stuck, 300)
    for now in range(1, 50):
        clock.now = float(now)
        held.change(streaming, 300)
        held.change(streaming, 0)
    held.change(streaming, 500)
    held.change(Holder(held), 300)
    assert stuck.reason
    assert not streaming.reason


def test_room_is_made_at_once_and_not_for_each_request_anew(held, clock, monkeypatch):
    looks = []
    make_room = HeldBytes._make_room
    monkeypatch.setattr(HeldBytes, "_make_room", lambda self: looks.append(len(self)) or make_room(self))
    for _ in range(400):
        clock.now += 0.1
        held.change(Holder(held), 10)
    assert held.total <= 1000
    # Four times the limit came in, and each look frees a quarter of it.
    assert len(looks) <= 16
