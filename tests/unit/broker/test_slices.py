"""Long work in slices: begun at once, in turns with other long work, and put together to few pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from seamark.broker import slices
from seamark.broker.slices import Chunks, Slices, counted_lazily, lazily
from seamark.wire.codec import encode, encode_in_steps
from seamark.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


class Loop:
    """What an event loop is asked for; ``turn`` lets happen what was put off to its next turn."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for callback in due:
            callback()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=0.0)
    monkeypatch.setattr(slices, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def steps(name: str, count: int, clock: SimpleNamespace, done: list[str]) -> Iterator[None]:
    for number in range(count):
        clock.now += 0.0008
        done.append(f"{name}{number}")
        yield


def test_short_work_is_done_at_once(clock: SimpleNamespace) -> None:
    loop, done = Loop(), list[str]()
    Slices(loop).run(steps("a", 2, clock, done))  # type: ignore[arg-type]
    assert done == ["a0", "a1"]
    assert not loop.soon


def test_long_works_take_turns_and_a_turn_of_the_loop_has_one_slice(clock: SimpleNamespace) -> None:
    loop, done = Loop(), list[str]()
    queue = Slices(loop)  # type: ignore[arg-type]
    queue.run(steps("a", 12, clock, done))
    queue.run(steps("b", 12, clock, done))
    begun = len(done)
    assert 4 <= begun <= 8
    slices_seen = []
    while loop.soon:
        assert len(loop.soon) == 1
        before = len(done)
        loop.turn()
        slices_seen.append({name[0] for name in done[before:]})
        assert len(done) - before <= 6
    assert slices_seen[:2] == [{"a"}, {"b"}]
    assert len(done) == 24
    assert len(queue) == 0


def test_work_that_fails_does_not_end_the_others(clock: SimpleNamespace) -> None:
    def failing() -> Iterator[None]:
        clock.now += 1
        yield
        raise ValueError("a bug")

    loop, done = Loop(), list[str]()
    queue = Slices(loop)  # type: ignore[arg-type]
    queue.run(failing())
    queue.run(steps("b", 12, clock, done))
    with pytest.raises(ValueError, match="a bug"):
        loop.turn()
    while loop.soon:
        loop.turn()
    assert len(done) == 12


def test_elements_are_made_while_they_are_written() -> None:
    made: list[int] = []

    def partition(number: int) -> MetadataResponsePartition:
        made.append(number)
        return MetadataResponsePartition(partition_index=number, replica_nodes=[1], isr_nodes=[1])

    lazy = MetadataResponseTopic(name="t", partitions=lazily(partition, range(5)))
    response = MetadataResponse(topics=counted_lazily(1, iter([lazy])))
    pieces: list[bytes] = []
    seen = [len(made) for _ in encode_in_steps(response, 13, pieces.append)]
    assert seen[:5] == [1, 2, 3, 4, 5]
    whole = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition(n) for n in range(5)])])
    assert b"".join(pieces) == encode(whole, 13)


def test_many_small_pieces_become_few_and_a_large_one_is_not_copied() -> None:
    chunks = Chunks()
    records = memoryview(bytes(100_000))
    for number in range(20_000):
        chunks.pieces.append(b"x")
        if number == 9000:
            chunks.pieces.append(records)
        chunks.join(1000)
    written = chunks.behind(b"head")
    assert chunks.size == 120_000
    assert len(written) < 30
    assert any(piece is records for piece in written)
    assert b"".join(written) == b"head" + b"x" * 9001 + records + b"x" * 10_999


def test_a_long_step_has_a_turn_of_its_own_and_one_that_fails_does_not_end_the_others() -> None:
    loop, done = Loop(), list[str]()
    queue = Slices(loop)  # type: ignore[arg-type]

    def fail() -> None:
        raise ValueError("a bug")

    queue.later(lambda: done.append("a"))
    queue.later(fail)
    queue.later(lambda: done.append("b"))
    assert done == [], "nothing is begun at once"
    loop.turn()
    assert done == ["a"]
    with pytest.raises(ValueError, match="a bug"):
        loop.turn()
    loop.turn()
    assert (done, len(queue), loop.soon) == (["a", "b"], 0, [])
