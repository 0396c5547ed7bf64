"""Timers on the broker's clock: in order, on time, and each on its own."""

import asyncio

from seamark.broker.clock import BrokerClock, LoopTimers


def test_timers_fire_in_order_and_follow_the_moved_clock():
    async def story():
        clock = BrokerClock()
        timers = LoopTimers(asyncio.get_running_loop(), clock)
        fired = []
        timers.call_after(50, lambda: fired.append("later"))
        timers.call_after(20, lambda: fired.append("sooner"))
        timers.call_after(30, lambda: fired.append("never")).cancel()
        real = timers.call_after(0.01, lambda: fired.append("now"))
        await asyncio.sleep(0.05)
        assert fired == ["now"]
        real.cancel()
        clock.advance(60)
        timers.wake()
        assert fired == ["now", "sooner", "later"]
        timers.close()

    asyncio.run(story())


def test_a_timer_that_fails_or_arms_itself_again_stops_nobody(caplog):
    async def story():
        clock = BrokerClock()
        timers = LoopTimers(asyncio.get_running_loop(), clock)
        fired = []

        def again():
            fired.append("again")
            timers.call_after(0, again)

        timers.call_after(1, lambda: 1 / 0)
        timers.call_after(2, again)
        timers.call_after(3, lambda: fired.append("last"))
        clock.advance(5)
        timers.wake()
        assert fired == ["again", "last"]
        timers.close()

    asyncio.run(story())
    assert "ZeroDivisionError" in caplog.text


def test_cancelled_timers_do_not_pile_up():
    async def story():
        timers = LoopTimers(asyncio.get_running_loop(), BrokerClock())
        for _ in range(10_000):
            timers.call_after(600, lambda: None).cancel()
        assert len(timers._heap) < 3000
        timers.close()

    asyncio.run(story())
