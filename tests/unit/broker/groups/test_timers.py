"""Group timers fire in order and at their time, and time that a coordinator is told never goes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seamark.broker.groups.timers import GroupTimers, SteadyMilliseconds


def key(name: str) -> tuple[int, str, str, str]:
    return (0, "session", "g", name)


class Fired:
    """Timers that note what they fired, and when."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.timers = GroupTimers(lambda fired, now_ms: self.log.append((fired[3], now_ms)))


class ManualClock:
    def __init__(self) -> None:
        self.wall_ms = 1_000_000
        self.seconds = 50.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return self.wall_ms


def test_due_timers_fire_in_the_order_of_their_deadlines() -> None:
    fired = Fired()
    for name, deadline_ms in (("c", 30), ("a", 10), ("b", 20), ("late", 100)):
        fired.timers.arm(key(name), deadline_ms)
    fired.timers.run_due(30)
    assert fired.log == [("a", 30), ("b", 30), ("c", 30)]
    assert fired.timers.earliest_ms == 100


def test_arming_a_key_again_replaces_its_deadline() -> None:
    fired = Fired()
    fired.timers.arm(key("a"), 10)
    fired.timers.arm(key("a"), 50)
    fired.timers.run_due(20)
    assert fired.log == []
    assert fired.timers.earliest_ms == 50
    fired.timers.arm(key("a"), 30)
    fired.timers.run_due(40)
    assert fired.log == [("a", 40)]
    assert fired.timers.earliest_ms is None


def test_a_cancelled_timer_does_not_fire() -> None:
    fired = Fired()
    fired.timers.arm(key("a"), 10)
    fired.timers.cancel(key("a"))
    fired.timers.cancel(key("never armed"))
    fired.timers.run_due(100)
    assert fired.log == []
    assert len(fired.timers) == 0


def test_a_timer_that_arms_itself_in_the_past_waits_for_the_next_call() -> None:
    calls: list[int] = []

    def fire(fired: tuple[int, str, str, str], now_ms: int) -> None:
        calls.append(now_ms)
        timers.arm(fired, now_ms - 5)

    timers = GroupTimers(fire)
    timers.arm(key("a"), 1)
    timers.run_due(10)
    assert calls == [10]


def test_time_that_jumps_is_lived_through_deadline_by_deadline() -> None:
    log: list[tuple[str, int]] = []
    settled: list[int] = []

    def fire(fired: tuple[int, str, str, str], now_ms: int) -> None:
        log.append((fired[3], now_ms))
        if fired[3] == "first":
            timers.arm(key("second"), now_ms + 7)

    timers = GroupTimers(fire)
    timers.arm(key("first"), 10)
    timers.arm(key("other"), 15)
    timers.run_through(0, 100, lambda: settled.append(len(log)))
    assert log == [("first", 10), ("other", 15), ("second", 17)]
    assert settled == [1, 2, 3]


def test_a_jump_over_countless_deadlines_comes_to_an_end() -> None:
    count = 0

    def fire(fired: tuple[int, str, str, str], now_ms: int) -> None:
        nonlocal count
        count += 1
        timers.arm(fired, now_ms + 1)

    timers = GroupTimers(fire)
    timers.arm(key("every millisecond"), 1)
    timers.run_through(0, 10**12, lambda: None)
    assert count < 10_000
    assert timers.earliest_ms is not None
    assert timers.earliest_ms > 10**12


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 50))), max_size=60))
def test_the_earliest_deadline_is_that_of_a_plain_table(steps: list[tuple[str, int | None]]) -> None:
    timers = GroupTimers(lambda _key, _now_ms: None)
    table: dict[str, int] = {}
    for name, deadline_ms in steps:
        if deadline_ms is None:
            timers.cancel(key(name))
            table.pop(name, None)
        else:
            timers.arm(key(name), deadline_ms)
            table[name] = deadline_ms
        assert timers.earliest_ms == min(table.values(), default=None)
        assert len(timers) == len(table)


def test_replaced_deadlines_do_not_pile_up() -> None:
    timers = GroupTimers(lambda _key, _now_ms: None)
    for deadline_ms in range(50_000):
        timers.arm(key("busy"), deadline_ms)
    assert len(timers._heap) < 5000
    assert timers.earliest_ms == 49_999


def test_a_wall_clock_that_is_set_back_does_not_take_time_back() -> None:
    clock = ManualClock()
    jumps: list[int] = []
    now_ms = SteadyMilliseconds(clock, jumps.append)
    assert now_ms() == 1_000_000
    clock.seconds += 2
    clock.wall_ms -= 3_600_000
    assert now_ms() == 1_002_000
    assert jumps == []


def test_a_wall_clock_that_jumps_ahead_is_followed() -> None:
    clock = ManualClock()
    jumps: list[int] = []
    now_ms = SteadyMilliseconds(clock, jumps.append)
    now_ms()
    clock.wall_ms += 3_600_000
    clock.seconds += 1
    assert now_ms() == 4_600_000
    assert jumps == [3_599_000]
    clock.seconds += 1
    clock.wall_ms += 1000
    assert now_ms() == 4_601_000


def test_deadlines_that_are_moved_keep_their_order_and_can_be_cancelled() -> None:
    fired = Fired()
    for name, deadline_ms in (("late", 300), ("early", 100), ("replaced", 150), ("cancelled", 200)):
        fired.timers.arm(key(name), deadline_ms)
    fired.timers.arm(key("replaced"), 250)
    fired.timers.move(1000)
    fired.timers.cancel(key("cancelled"))
    fired.timers.run_due(1099)
    assert fired.log == []
    assert fired.timers.earliest_ms == 1100
    fired.timers.run_due(2000)
    assert [name for name, _ in fired.log] == ["early", "replaced", "late"]


def test_a_pause_between_looking_at_the_two_clocks_is_no_jump() -> None:
    class PausedAtOnce(ManualClock):
        """The process sleeps for a while whenever it has looked at the monotonic clock."""

        def monotonic(self) -> float:
            seconds = self.seconds
            self.seconds += 5
            self.wall_ms += 5000
            return seconds

    jumps: list[int] = []
    now_ms = SteadyMilliseconds(PausedAtOnce(), jumps.append)
    told = [now_ms() for _ in range(4)]
    assert told == sorted(told)
    assert jumps == []


def test_a_cancelled_timer_leaves_nothing_of_its_key_behind() -> None:
    timers = GroupTimers(lambda _key, _now_ms: None)
    for number in range(500):
        timers.arm(key(f"a long name {number}"), 5)
        timers.arm(key(f"a long name {number}"), 6)
        timers.cancel(key(f"a long name {number}"))
    assert (len(timers), timers._keys, timers.earliest_ms) == (0, {}, None)


def test_countless_deadlines_at_once_are_spread_over_calls() -> None:
    fired: list[str] = []
    timers = GroupTimers(lambda each, _now_ms: fired.append(each[3]))
    for number in range(10_000):
        timers.arm(key(f"{number:05}"), 5)
    calls = 0
    while len(timers):
        before = len(fired)
        timers.run_through(0, 10, lambda: None)
        calls += 1
        assert 0 < len(fired) - before <= 4000
    assert calls == 3
    assert fired == sorted(fired)
