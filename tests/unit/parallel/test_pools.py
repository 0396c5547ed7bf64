"""Pools report each call exactly once, whatever its handler does, and never run more at a time than they may."""

import asyncio
import threading
import time
from collections import Counter

import pytest

from seamark.errors import ConfigError
from seamark.parallel.actions import StartCall
from seamark.parallel.handler_calls import Argument, UnreadableRecord, is_async, where_to_run
from seamark.parallel.mailbox import Mailbox
from seamark.parallel.pool_loop import LoopPool
from seamark.parallel.pool_threads import ThreadPool
from seamark.parallel.settings import Batch
from seamark.parallel.work import Work
from tests.support.pool_calls import PLACE, Rec, calls_of, drained


@pytest.fixture(params=["threads", "loop"])
def make_pool(request):
    made = []

    def make(handler, argument=None, concurrency=4, ahead=4):
        if request.param == "loop" and not is_async(handler):
            plain = handler

            async def handler(given):
                await asyncio.sleep(0)
                return plain(given)

        mailbox = Mailbox()
        kind = {"threads": ThreadPool, "loop": LoopPool}[request.param]
        pool = kind(handler, argument or Argument(), mailbox, concurrency, ahead)
        made.append(pool)
        return pool, mailbox

    make.is_loop = request.param == "loop"
    yield make
    for pool in made:
        pool.close(5.0)


def test_each_call_is_reported_once(make_pool):
    seen = Counter()

    def handle(record):
        seen[record.offset] += 1
        if record.offset % 7 == 3:
            raise ValueError(record.offset)

    pool, mailbox = make_pool(handle)
    calls = calls_of(500)
    for start in range(0, 500, 20):
        pool.start(calls[start : start + 20])
    succeeded, failed = drained(mailbox, 500)
    assert set(seen.values()) == {1}
    assert sorted(call.works[0].offset for call, _ in failed) == [n for n in range(500) if n % 7 == 3]
    assert len(succeeded) == len({id(call) for call in succeeded})
    time.sleep(0.05)
    assert not mailbox


def test_no_more_run_at_a_time_than_may(make_pool):
    lock, running, most = threading.Lock(), [0], [0]

    async def wait_there(record):
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0.005)
        running[0] -= 1

    def wait_here(record):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.005)
        with lock:
            running[0] -= 1

    pool, mailbox = make_pool(wait_there if make_pool.is_loop else wait_here, concurrency=3, ahead=20)
    pool.start(calls_of(23))
    drained(mailbox, 23)
    assert most[0] == 3


def test_calls_that_were_not_begun_can_be_withdrawn(make_pool):
    release = threading.Event()

    async def hold_there(record):
        while not release.is_set():
            await asyncio.sleep(0.002)

    def hold_here(record):
        release.wait(20)

    pool, mailbox = make_pool(hold_there if make_pool.is_loop else hold_here, concurrency=2, ahead=10)
    calls = calls_of(10)
    pool.start(calls)
    end = time.monotonic() + 10
    while sum(pool.stands_at(call.works[0]) is not None for call in calls) < 2:
        assert time.monotonic() < end
        time.sleep(0.002)
    back = pool.withdraw()
    assert len(back) == 8
    release.set()
    succeeded, failed = drained(mailbox, 2)
    assert len(succeeded) == 2
    assert not failed
    assert {id(call) for call in back}.isdisjoint(id(call) for call in succeeded)


def test_a_record_that_cannot_be_read_fails_as_its_handler_would(make_pool):
    seen = []
    pool, mailbox = make_pool(seen.append, Argument(value=int))
    record = Rec(offset=5, value=b"five")
    pool.start([StartCall((Work(PLACE, 1, 5, record),)), *calls_of(1)])
    succeeded, failed = drained(mailbox, 2)
    assert len(succeeded) == 1
    ((_, error),) = failed
    assert isinstance(error, UnreadableRecord)
    assert "value of t-0 at offset 5" in str(error)
    assert [made.value for made in seen] == [0]
    assert record.value == b"five"


def test_a_batch_is_a_list_in_order(make_pool):
    seen = []
    pool, mailbox = make_pool(seen.append, Argument(Batch()))
    works = [Work(PLACE, 1, number, Rec(offset=number)) for number in range(5)]
    pool.start([StartCall(works)])
    drained(mailbox, 1)
    assert [[record.offset for record in batch] for batch in seen] == [[0, 1, 2, 3, 4]]


class AsyncObject:
    async def __call__(self, record): ...


def test_kinds_of_handlers_are_told_apart():
    import functools

    async def coroutine(record): ...

    assert is_async(coroutine)
    assert is_async(functools.partial(coroutine, 1))
    assert is_async(AsyncObject())
    assert not is_async(print)
    assert where_to_run(print, "auto") == "threads"
    assert where_to_run(AsyncObject(), "auto") == "loop"
    assert where_to_run(print, "loop") == "loop"
    with pytest.raises(ConfigError):
        where_to_run(coroutine, "processes")


def test_mail_that_comes_before_the_owner_waits_is_not_slept_over():
    mailbox = Mailbox()
    woken = []
    mailbox.tell(lambda now: [])
    assert not mailbox.wait_elsewhere(lambda: woken.append(1))
    mailbox.commands.clear()
    assert mailbox.wait_elsewhere(lambda: woken.append(1))
    mailbox.tell(lambda now: [])
    mailbox.tell(lambda now: [])
    assert woken == [1]
    started = time.monotonic()
    mailbox.wait_here(10.0)
    assert time.monotonic() - started < 5.0
