"""Long answers that grow side by side: their sum is bounded, the first one always goes on, and nobody is forgotten."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seamark.broker.sharing import answers_in_progress
from seamark.broker.sharing.answers_in_progress import AnswersInProgress

STEP = 1000
MOST = 10 * STEP


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(answers_in_progress, "MAX_BYTES", MOST)


class Context:
    def __init__(self, name, party="p"):
        self.name = name
        self.connection = SimpleNamespace(share=SimpleNamespace(party=party))
        self.on_end = None
        self.size = 0


class World:
    """Clients whose answers grow by a step in turn, to so many steps each."""

    def __init__(self, count, steps):
        self.progress = AnswersInProgress()
        self.steps = steps
        self.contexts = [Context(number) for number in range(count)]
        self.ready = list(self.contexts)
        self.ended = []
        self.largest = 0

    def end(self, context):
        self.ended.append(context.name)
        callback, context.on_end = context.on_end, None
        callback()

    def turn(self):
        context = self.ready.pop(0)
        if context.size == self.steps * STEP:
            self.end(context)
            return
        context.size += STEP
        room = self.progress.grown(context, context.size)
        self.largest = max(self.largest, self.progress.byte_count)
        if room is None or not room.begin(SimpleNamespace(resume=lambda: self.ready.append(context))):
            self.ready.append(context)

    def run(self):
        while self.ready:
            self.turn()


@pytest.mark.parametrize("count", [1, 5, 40, 160])
def test_all_are_written_and_what_is_in_memory_does_not_grow_with_their_length(count):
    world = World(count, steps=30)
    world.run()
    assert sorted(world.ended) == list(range(count))
    assert world.progress.byte_count == len(world.progress) == 0
    # One whole answer, the limit, and a step of each that has begun.
    assert world.largest <= 30 * STEP + MOST + count * STEP


def test_short_sums_make_nobody_wait():
    world = World(3, steps=3)
    world.run()
    assert world.ended == [0, 1, 2]
    assert world.largest == 9 * STEP


def test_one_whose_connection_ends_while_it_waits_is_woken_to_drop_what_it_has():
    world = World(30, steps=20)
    for _ in range(200):
        world.turn()
    asleep = [context for context in world.contexts if context not in world.ready and context.name not in world.ended]
    assert len(asleep) > 10
    before = world.progress.byte_count
    for context in asleep[:10]:
        world.end(context)
        assert context in world.ready
        world.ready.remove(context)
    assert world.progress.byte_count <= before - 10 * STEP
    world.run()
    assert sorted(world.ended) == list(range(30))
    assert world.progress.byte_count == 0


def test_who_has_little_under_way_does_not_wait_for_others():
    world = World(40, steps=30)
    for _ in range(200):
        world.turn()
    assert world.progress.byte_count > MOST
    other = Context("other", party="q")
    for size in (1000, 2000, 2500):
        assert world.progress.grown(other, size) is None
    assert world.progress.grown(other, 3000) is not None
    callback, other.on_end = other.on_end, None
    callback()
    world.run()
    assert world.progress.byte_count == 0
