"""Reading beside the event loop: the loop goes on meanwhile, and work is done in the order it came."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from types import SimpleNamespace

import pytest

from seamark.broker.sharing.reading_thread import Reading, ReadingThread, beside
from seamark.storage.aside import Aside


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

        aside = Aside(read)
        Reading(thread, aside).begin(SimpleNamespace(resume=done))
        await asyncio.sleep(0)
        was_told_early = is_told.is_set()
        may_end.set()
        await asyncio.wait_for(is_told.wait(), 30)
        thread.stop()
        return aside.result(), told_on, was_told_early

    where, told_on, was_told_early = asyncio.run(scenario())
    assert where == "seamark-broker-reading"
    assert told_on == [threading.current_thread().name]
    assert not was_told_early


def test_work_is_done_one_after_another_in_the_order_it_came_whatever_fails():
    async def scenario() -> list[Aside]:
        thread = ReadingThread(asyncio.get_running_loop())
        is_told = asyncio.Event()
        asides = [Aside(lambda number=number: 12 // number) for number in (3, 0, 4)]
        for aside in asides:
            thread.begin(aside, is_told.set if aside is asides[-1] else lambda: None)
        await asyncio.wait_for(is_told.wait(), 30)
        thread.stop()
        return asides

    first, failed, last = asyncio.run(scenario())
    assert (first.result(), last.result()) == (4, 3)
    with pytest.raises(ZeroDivisionError):
        failed.result()


def test_what_was_read_goes_with_the_last_one_who_wants_it_and_waits_for_no_collection():
    class Request:
        pass

    async def scenario() -> weakref.ref[Request]:
        thread = ReadingThread(asyncio.get_running_loop())
        is_told = asyncio.Event()
        seen: list[weakref.ref[Request]] = []

        def done() -> None:
            seen.append(weakref.ref(aside.result()))
            is_told.set()

        aside = Aside(Request)
        Reading(thread, aside).begin(SimpleNamespace(resume=done))
        await asyncio.wait_for(is_told.wait(), 30)
        thread.stop()
        return seen[0]

    gc.disable()
    try:
        assert asyncio.run(scenario())() is None
    finally:
        gc.enable()


def test_steps_of_the_storage_go_on_behind_what_is_read_and_end_with_their_result():
    closed: list[str] = []

    def steps():
        try:
            yield None
            aside = Aside(lambda: 6 * 7)
            yield aside
            return aside.result()
        finally:
            closed.append("closed")

    made = beside(SimpleNamespace(), steps())
    assert next(made) is None
    assert isinstance(next(made), Reading)
    with pytest.raises(StopIteration) as end:
        next(made)
    assert end.value.value == 42
    early = beside(SimpleNamespace(), steps())
    next(early)
    early.close()
    assert closed == ["closed"] * 2
