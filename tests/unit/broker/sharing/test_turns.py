"""The loop's time is shared: who used little is served at once, the others in turn, and who takes too much rests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from types import SimpleNamespace

import pytest

from seamark.broker.sharing import turns
from seamark.broker.sharing.reading_thread import OneAtATime
from seamark.broker.sharing.turns import CREDIT_SECONDS, LIGHT_PART, MOST_REST_SECONDS, Rest, Share, Turns, Work

STEP = 0.0004


class Loop:
    """What an event loop is asked for; ``turn`` is two of its turns, after which what was put in line has had one."""

    def __init__(self, clock: SimpleNamespace) -> None:
        self.soon: list[Callable[[], object]] = []
        self.later: list[tuple[float, Callable[..., None], tuple]] = []
        self._clock = clock

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self.soon.append(partial(callback, *arguments))

    def call_later(self, seconds: float, callback: Callable[..., None], *arguments: object) -> None:
        self.later.append((self._clock.now + seconds, callback, arguments))

    def turn(self) -> bool:
        for _ in range(2):
            self.half_turn()
        for timer in [each for each in self.later if each[0] <= self._clock.now]:
            self.later.remove(timer)
            timer[1](*timer[2])
        return bool(self.soon)

    def half_turn(self) -> None:
        due, self.soon = self.soon, []
        for callback in due:
            callback()

    def run(self) -> None:
        """Turns, as long as there is something to do."""
        while self.turn():
            pass


@pytest.fixture
def clock(monkeypatch):
    """All time is the processor's unless ``idle`` is added to."""
    made = SimpleNamespace(now=100.0, idle=0.0)
    monkeypatch.setattr(
        turns, "time", SimpleNamespace(monotonic=lambda: made.now, thread_time=lambda: made.now - made.idle)
    )
    return made


@pytest.fixture
def loop(clock):
    return Loop(clock)


@pytest.fixture
def scheduler(loop):
    return Turns(loop)


def heavy(scheduler: Turns, clock: SimpleNamespace, name: str) -> Share:
    """A share that has used up what it may take at once."""
    share = scheduler.share(name)
    share.refill(clock.now)
    share.credit = -1.0
    return share


def steps(name: str, count: int, clock: SimpleNamespace, done: list[str], seconds: float = STEP) -> Generator[None]:
    for _ in range(count):
        clock.now += seconds
        done.append(name)
        yield


def test_short_work_of_one_who_has_used_little_is_done_at_once(clock, loop, scheduler):
    done: list[str] = []
    scheduler.run(scheduler.share("a"), steps("a", 2, clock, done))
    assert done == ["a", "a"]
    assert not loop.soon


def test_the_rest_of_long_work_waits_in_line(clock, loop, scheduler):
    done: list[str] = []
    scheduler.run(scheduler.share("a"), steps("a", 50, clock, done))
    assert 2 <= len(done) <= 4
    assert len(scheduler) == 1
    loop.run()
    assert len(done) == 50
    assert len(scheduler) == 0


def test_who_has_used_much_waits_until_it_may_again(clock, loop, scheduler):
    share = scheduler.share("a")
    share.refill(clock.now)
    scheduler.run(scheduler.share("b"), steps("b", 1, clock, []))
    assert scheduler.begin(share, clock.now) is not None
    clock.now += CREDIT_SECONDS * 1.5
    scheduler.end(share, clock.now - CREDIT_SECONDS * 1.5, 0.0)
    assert scheduler.begin(share, clock.now) is None
    clock.now += CREDIT_SECONDS / LIGHT_PART
    assert scheduler.begin(share, clock.now) is not None


def test_short_requests_are_charged_too(clock, loop, scheduler):
    share = scheduler.share("a")
    share.refill(clock.now)
    scheduler.run(scheduler.share("b"), steps("b", 1, clock, []))
    served = 0
    while scheduler.admit_short(share, clock.now):
        served += 1
    assert 500 < served < 5000
    assert scheduler.begin(share, clock.now) is None
    clock.now += 1.0
    assert scheduler.admit_short(share, clock.now)


def test_a_turn_of_the_loop_ends_after_a_moment_and_shares_take_turns(clock, loop, scheduler):
    done: list[str] = []
    for name in "ab":
        scheduler.add(heavy(scheduler, clock, name), steps(name, 30, clock, done))
    assert done == []
    while scheduler:
        before = len(done)
        loop.turn()
        assert len(done) - before <= 3
    assert abs(done[:30].count("a") - 15) <= 3
    assert len(done) == 60


def test_a_share_has_one_turn_however_many_requests_it_has(clock, loop, scheduler):
    done: list[str] = []
    hostile = heavy(scheduler, clock, "hostile")
    for _ in range(100):
        scheduler.add(hostile, steps("hostile", 30, clock, done))
    scheduler.add(heavy(scheduler, clock, "honest"), steps("honest", 30, clock, done))
    while "honest" not in done or done.count("honest") < 30:
        loop.turn()
    assert done.count("hostile") <= 40


def test_what_is_done_in_line_is_charged_too(clock, loop, scheduler):
    share = scheduler.share("a")
    share.refill(clock.now)
    scheduler.add(share, steps("a", 10, clock, []))
    loop.run()
    assert share.credit == pytest.approx(CREDIT_SECONDS - 10 * STEP)


def test_who_is_alone_is_served_at_once_whatever_it_has_used(clock, loop, scheduler):
    done: list[str] = []
    share = heavy(scheduler, clock, "a")
    scheduler.run(share, steps("a", 1, clock, done))
    assert done == ["a"]
    scheduler.run(scheduler.share("b"), steps("b", 1, clock, done))
    scheduler.run(share, steps("a", 1, clock, done))
    assert done == ["a", "b"]


def test_who_is_alone_has_longer_turns(clock, loop, scheduler):
    done: list[str] = []
    scheduler.add(heavy(scheduler, clock, "a"), steps("a", 100, clock, done))
    loop.turn()
    assert len(done) > 8
    scheduler.run(scheduler.share("b"), steps("b", 1, clock, done))
    before = len(done)
    loop.turn()
    assert len(done) - before <= 3


def test_what_has_just_arrived_comes_before_what_waits_in_line(clock, loop, scheduler):
    done: list[str] = []
    scheduler.add(heavy(scheduler, clock, "a"), steps("a", 5, clock, done))
    loop.call_soon(done.append, "arrived")
    loop.half_turn()
    loop.call_soon(done.append, "followed")
    loop.half_turn()
    assert done[0] == "arrived"
    loop.run()


def test_work_begun_while_somebody_is_served_goes_on_in_that_time(clock, loop, scheduler):
    done: list[str] = []
    share = heavy(scheduler, clock, "a")

    def outer() -> Generator[None]:
        scheduler.run(share, steps("inner", 1, clock, done))
        done.append("outer")
        yield

    scheduler.run(share, outer())
    loop.turn()
    assert done == ["inner", "outer"]


# -- steps that are long


def rester(share: Share, seconds: float, clock: SimpleNamespace, done: list[str]) -> Generator[Rest | None]:
    """Steps that wait while their share rests, as large requests do."""
    for _ in range(20):
        yield Rest(share)
        clock.now += seconds
        done.append(share.name)
        yield None


def test_beyond_its_allowance_of_long_steps_a_share_rests_while_others_are_served(clock, loop):
    rests: list[tuple[str, float, float]] = []
    scheduler = Turns(loop, lambda share, step, rest: rests.append((share.name, step, rest)))
    done: list[str] = []
    hostile = heavy(scheduler, clock, "hostile")
    scheduler.add(hostile, rester(hostile, 0.005, clock, done))
    while not rests:
        scheduler.run(scheduler.share("honest"), steps("honest", 1, clock, done))
        loop.turn()
    assert done.count("hostile") == 7, "six are within the allowance"
    assert rests[0][0] == "hostile"
    rest = rests[0][2]
    assert 0.8 < rest <= 1
    clock.now += rest - 0.1
    loop.turn()
    assert done.count("hostile") == 7
    clock.now += 0.2
    scheduler.run(scheduler.share("honest"), steps("honest", 1, clock, done))
    loop.turn()
    loop.turn()
    assert done.count("hostile") == 8
    assert scheduler.rests == 2


def test_the_more_rest_the_longer_the_next_one_does(clock, loop):
    rests: list[float] = []
    scheduler = Turns(loop, lambda _share, _step, rest: rests.append(rest))
    scheduler.run(scheduler.share("honest"), steps("honest", 1, clock, []))
    for name in "abc":
        scheduler.run(scheduler.share(name), steps(name, 1, clock, [], seconds=0.04))
    assert rests == [pytest.approx(count * rests[0]) for count in (1, 2, 3)]


def test_what_does_not_wait_for_the_rest_goes_on(clock, loop, scheduler):
    done: list[str] = []
    share = heavy(scheduler, clock, "a")
    share.is_resting = True
    scheduler.run(share, steps("a", 3, clock, done))
    loop.run()
    assert done == ["a"] * 3


@pytest.mark.parametrize("seconds", [0.15, 10.0])
def test_a_very_long_step_is_beyond_the_allowance_at_once_and_rests_have_a_bound(seconds, clock, loop, scheduler):
    done: list[str] = []
    scheduler.run(scheduler.share("honest"), steps("honest", 1, clock, done))
    hostile = heavy(scheduler, clock, "hostile")
    scheduler.run(hostile, rester(hostile, seconds, clock, done))
    loop.turn()
    assert hostile.is_resting
    assert done.count("hostile") == 1
    clock.now += MOST_REST_SECONDS
    loop.turn()
    assert not hostile.is_resting


def test_a_long_step_served_at_once_counts_too(clock, loop, scheduler):
    done: list[str] = []
    scheduler.run(scheduler.share("honest"), steps("honest", 1, clock, done))
    hostile = scheduler.share("hostile")
    scheduler.run(hostile, steps("hostile", 1, clock, done, seconds=0.2))
    assert hostile.is_resting


def test_the_first_use_of_something_is_not_held_against_anybody(clock, loop, scheduler):
    done: list[str] = []

    def first_use() -> Generator[None]:
        scheduler.note_first_use()
        yield from steps("a", 1, clock, done, seconds=0.09)

    for _ in range(5):
        scheduler.run(scheduler.share("honest"), steps("honest", 1, clock, done))
        scheduler.add(heavy(scheduler, clock, "a"), first_use())
        loop.turn()
    assert done.count("a") == 5
    assert scheduler.rests == 0


def test_connections_of_one_party_and_those_of_none_are_no_company(clock, loop, scheduler):
    done: list[str] = []
    one, other = Share("10.0.0.1:1", "10.0.0.1"), Share("10.0.0.1:2", "10.0.0.1")
    strangers = scheduler.share("unauthenticated clients at 10.0.0.2", "")
    for _ in range(5):
        for share in (other, strangers, scheduler.own):
            scheduler.run(share, steps("x", 1, clock, done))
        scheduler.run(one, steps("one", 1, clock, done, seconds=0.2))
        loop.run()
    assert scheduler.rests == 0
    scheduler.run(Share("10.0.0.3:1", "10.0.0.3"), steps("x", 1, clock, done))
    scheduler.run(one, steps("one", 1, clock, done, seconds=0.2))
    loop.run()
    assert scheduler.rests == 1


def test_who_is_alone_does_not_rest(clock, loop, scheduler):
    done: list[str] = []
    scheduler.run(heavy(scheduler, clock, "a"), steps("a", 3, clock, done, seconds=0.05))
    loop.run()
    assert len(done) == 3
    assert scheduler.rests == 0


def test_a_machine_that_was_slow_is_not_held_against_anybody(clock, loop, scheduler):
    done: list[str] = []
    scheduler.run(scheduler.share("honest"), steps("honest", 1, clock, done))

    def interrupted() -> Generator[None]:
        for _ in range(3):
            clock.now += 0.05
            clock.idle += 0.05
            done.append("a")
            yield

    scheduler.run(heavy(scheduler, clock, "a"), interrupted())
    loop.run()
    assert done.count("a") == 3
    assert scheduler.rests == 0


# -- what is waited for, and what fails


def test_who_waits_for_something_holds_up_nobody_and_goes_on_when_it_is_there(clock, loop, scheduler):
    done: list[str] = []
    waiting_work: list[Work] = []

    class Elsewhere:
        def begin(self, work: Work) -> bool:
            waiting_work.append(work)
            return True

    def waiting() -> Generator[Elsewhere]:
        yield Elsewhere()
        done.append("came back")

    scheduler.run(scheduler.share("a"), waiting())
    scheduler.run(scheduler.share("a"), steps("other", 1, clock, done))
    assert done == ["other"]
    waiting_work[0].resume()
    loop.turn()
    assert done == ["other", "came back"]


def test_one_at_a_time_holds_what_is_large_and_shares_take_turns(clock, loop, scheduler):
    once, holding, most, order = OneAtATime(), 0, 0, []

    def unfolding(number: int) -> Generator[OneAtATime | None]:
        nonlocal holding, most
        yield once
        try:
            holding += 1
            most = max(most, holding)
            for _ in range(5):
                clock.now += STEP
                yield None
            order.append(number)
            holding -= 1
        finally:
            once.release()

    for number in range(5):
        scheduler.run(scheduler.share("many"), unfolding(number))
    scheduler.run(scheduler.share("few"), unfolding(5))
    loop.run()
    assert (most, holding) == (1, 0)
    assert order == [0, 1, 5, 2, 3, 4]


def test_who_holds_what_others_wait_for_goes_on_although_its_share_rests(clock, loop, scheduler):
    once, done = OneAtATime(), list[str]()

    def holding(name: str, seconds: float) -> Generator[OneAtATime | None]:
        yield once
        try:
            for _ in range(5):
                clock.now += seconds
                yield None
            done.append(name)
        finally:
            once.release()

    hostile = heavy(scheduler, clock, "hostile")
    scheduler.run(hostile, holding("hostile", STEP))
    loop.turn()
    hostile.is_resting = True
    scheduler.run(scheduler.share("honest"), holding("honest", STEP))
    loop.run()
    assert done == ["hostile", "honest"]


def test_what_fails_is_told_and_the_others_go_on(clock, loop, scheduler, caplog):
    done: list[str] = []
    failed: list[str] = []

    def broken() -> Generator[None]:
        clock.now += 3 * STEP
        yield
        raise ValueError("a bug")

    scheduler.run(heavy(scheduler, clock, "a"), broken(), lambda: failed.append("told"))
    scheduler.run(heavy(scheduler, clock, "b"), steps("b", 5, clock, done))
    loop.run()
    assert failed == ["told"]
    assert "a request failed while it was processed in steps" in caplog.text
    scheduler.add(heavy(scheduler, clock, "a"), broken())
    scheduler.add(heavy(scheduler, clock, "b"), steps("b", 5, clock, done))
    with pytest.raises(ValueError, match="a bug"):
        loop.run()
    loop.run()
    assert len(done) == 10


def test_after_the_end_nothing_is_begun_any_more(clock, loop, scheduler):
    done: list[str] = []
    work = steps("a", 5, clock, done)
    scheduler.add(heavy(scheduler, clock, "a"), work)
    scheduler.stop()
    scheduler.add(scheduler.share("b"), steps("b", 5, clock, done))
    loop.turn()
    assert (done, len(scheduler)) == ([], 0)
    assert next(work, "closed") == "closed"


def test_shares_that_used_nothing_lately_are_forgotten(clock, scheduler, monkeypatch):
    monkeypatch.setattr(turns, "_MOST_SHARES", 10)
    spent = heavy(scheduler, clock, "spent")
    for number in range(100):
        clock.now += 0.001
        scheduler.share(f"principal {number}")
    assert scheduler.share("spent") is spent
    assert len(scheduler._shares) <= 12


@pytest.mark.parametrize("seed", range(50))
def test_nobody_is_kept_waiting_by_others_for_more_than_their_part_whatever_they_do(seed, clock, loop):
    """Random work of many shares: nothing is lost, no turn is long but for a step, and heavy shares get equal parts."""
    rng = random.Random(seed)
    scheduler = Turns(loop)
    done: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    longest_turn = 0.0

    def work(name: str, costs: list[float]) -> Generator[None]:
        for cost in costs:
            clock.now += cost
            done[name] += 1
            yield

    for _ in range(300):
        name = rng.choice("abcde")
        costs = [rng.choice((STEP / 4, STEP, 0.002)) for _ in range(rng.randrange(1, 30))]
        wanted[name] += len(costs)
        begin = scheduler.add if rng.random() < 0.5 else scheduler.run
        begin(scheduler.share(name), work(name, costs))
        before = clock.now
        loop.turn()
        longest_turn = max(longest_turn, clock.now - before)
        clock.now += rng.choice((0, 0, 0.01))
    while loop.turn() or loop.later:
        if not loop.soon:
            clock.now += MOST_REST_SECONDS
    assert done == wanted
    assert longest_turn <= turns.LONE_TURN_SECONDS + 0.002 + 1e-9
    assert len(scheduler) == 0
