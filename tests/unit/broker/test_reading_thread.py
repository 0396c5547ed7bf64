"""Reading beside the event loop: the loop goes on meanwhile, and work is done in the order it came."""

from __future__ import annotations

import asyncio
import threading

import pytest

from seamark.broker.reading_thread import Reading, ReadingThread


def test_the_loop_goes_on_while_something_is_read_and_is_told_on_its_own_thread():
    async def scenario() -> tuple[str, list[str], bool]:
        loop = asyncio.get_running_loop()
        thread = ReadingThread(loop)
        may_end = threading.Event()
        is_told = asyncio.Event()
        told_on: list[str] = []

        def done() -> None:
            told_on.append(threading.current_thread().name)
            is_told.set()

        def read() -> str:
            may_end.wait(30)
            return threading.current_thread().name

        reading = Reading(read, done)
        thread.begin(reading)
        await asyncio.sleep(0)
        was_told_early = is_told.is_set()
        may_end.set()
        await asyncio.wait_for(is_told.wait(), 30)
        thread.stop()
        return reading.result(), told_on, was_told_early

    where, told_on, was_told_early = asyncio.run(scenario())
    assert where == "seamark-broker-reading"
    assert told_on == [threading.current_thread().name]
    assert not was_told_early


def test_work_is_done_one_after_another_in_the_order_it_came_whatever_fails():
    async def scenario() -> list[Reading]:
        thread = ReadingThread(asyncio.get_running_loop())
        is_told = asyncio.Event()
        readings = [Reading(lambda number=number: 12 // number, lambda: None) for number in (3, 0, 4)]
        readings[-1].done = is_told.set
        for reading in readings:
            thread.begin(reading)
        await asyncio.wait_for(is_told.wait(), 30)
        thread.stop()
        return readings

    first, failed, last = asyncio.run(scenario())
    assert (first.result(), last.result()) == (4, 3)
    with pytest.raises(ZeroDivisionError):
        failed.result()
