"""The lane for long work: a turn has an end, who waits gets a turn, and one unfolded batch is held at a time."""

from __future__ import annotations

from collections import deque

from seamark.broker.reading_thread import Reading
from seamark.broker.slow_lane import TURN, Pause, SlowLane


class Loop:
    """Runs what was planned when it is told to."""

    def __init__(self) -> None:
        self._planned: deque = deque()

    def call_soon(self, callback) -> None:
        self._planned.append(callback)

    def turn(self) -> bool:
        planned, self._planned = self._planned, deque()
        for callback in planned:
            callback()
        return bool(planned)


class Thread:
    """Reads when it is told to."""

    def __init__(self) -> None:
        self._begun: deque[Reading] = deque()

    def begin(self, reading: Reading, *, first: bool) -> None:
        assert first, "producers wait for a batch"
        self._begun.append(reading)

    def finish(self) -> None:
        reading = self._begun.popleft()
        reading.run()
        reading.done()


def worker(lane: SlowLane, name: str, costs: list[int], done: list[str]):
    for cost in costs:
        while not lane.may_spend(cost):
            yield Pause.NEXT
        done.append(name)


def no_failure() -> None:
    raise AssertionError("nothing may fail here")


def test_a_turn_has_room_for_so_much_and_the_next_for_as_much_again():
    loop = Loop()
    lane = SlowLane(loop, Thread())
    assert lane.may_spend(TURN - 10)
    assert lane.may_spend(10)
    assert not lane.may_spend(1)
    loop.turn()
    assert lane.may_spend(TURN)


def test_work_that_is_larger_than_a_turn_has_one_for_itself():
    loop = Loop()
    lane = SlowLane(loop, Thread())
    assert lane.may_spend(1)
    assert not lane.may_spend(10 * TURN)
    loop.turn()
    assert lane.may_spend(10 * TURN)
    assert not lane.may_spend(1)


def test_many_large_pieces_of_one_do_not_keep_another_from_its_turn():
    loop = Loop()
    lane = SlowLane(loop, Thread())
    done: list[str] = []
    lane.add(worker(lane, "hostile", [TURN] * 50, done), no_failure)
    lane.add(worker(lane, "honest", [TURN] * 2, done), no_failure)
    while loop.turn():
        pass
    assert [number for number, name in enumerate(done) if name == "honest"][-1] <= 4
    assert len(done) == 52
    assert len(lane) == 0


def test_who_waits_gets_on_although_every_turn_is_spent_by_others():
    loop = Loop()
    lane = SlowLane(loop, Thread())
    done: list[str] = []
    lane.add(worker(lane, "waiting", [TURN] * 3, done), no_failure)
    turns = 0
    while len(lane):
        loop.turn()
        lane.may_spend(TURN)
        turns += 1
    assert done == ["waiting"] * 3
    assert turns <= 4


def test_who_holds_memory_goes_on_before_another_takes_some():
    loop = Loop()
    lane = SlowLane(loop, Thread())
    holding = most = 0

    def unfolding(slices: int):
        nonlocal holding, most
        while not lane.may_spend(TURN):
            yield Pause.NEXT
        holding += 1
        most = max(most, holding)
        for _ in range(slices):
            yield Pause.HOLDING
            lane.spend(TURN)
        holding -= 1

    for _ in range(5):
        lane.add(unfolding(7), no_failure)
    while loop.turn():
        pass
    assert (most, holding, len(lane)) == (1, 0, 0)


def test_what_fails_is_told_once_and_the_others_go_on(caplog):
    loop = Loop()
    lane = SlowLane(loop, Thread())
    done: list[str] = []
    failed: list[str] = []

    def broken():
        yield Pause.NEXT
        raise RuntimeError("a bug")

    lane.add(broken(), lambda: failed.append("broken"))
    lane.add(worker(lane, "sound", [TURN] * 2, done), no_failure)
    while loop.turn():
        pass
    assert failed == ["broken"]
    assert done == ["sound", "sound"]
    assert "a request failed in the slow lane" in caplog.text


def test_who_has_something_read_beside_the_loop_goes_on_when_that_is_done_and_before_the_others():
    loop, thread = Loop(), Thread()
    lane = SlowLane(loop, thread)
    done: list[str] = []

    def reader():
        reading = Reading(lambda: "unfolded")
        yield reading
        done.append(reading.result())

    lane.add(reader(), no_failure)
    lane.add(worker(lane, "other", [1], done), no_failure)
    while loop.turn():
        pass
    assert done == []
    thread.finish()
    while loop.turn():
        pass
    assert done == ["unfolded", "other"]


def test_what_fails_beside_the_loop_is_raised_where_its_result_is_asked_for():
    loop, thread = Loop(), Thread()
    lane = SlowLane(loop, thread)
    told: list[str] = []

    def reader():
        reading = Reading(lambda: 1 // 0)
        yield reading
        try:
            reading.result()
        except ZeroDivisionError as error:
            told.append(str(error))

    lane.add(reader(), no_failure)
    loop.turn()
    thread.finish()
    loop.turn()
    assert told == ["integer division or modulo by zero"]
