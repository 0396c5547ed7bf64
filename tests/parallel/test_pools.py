"""Pools report each call exactly once, whatever its handler does, and never run more at a time than they may."""

import asyncio
import contextlib
import contextvars
import ctypes
import functools
import inspect
import io
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import Future
from itertools import starmap
from multiprocessing.pool import AsyncResult

import pytest

from seamark.errors import ConfigError
from seamark.parallel.core.handler_kinds import is_async
from seamark.parallel.core.work import InFlightRecord, StartCall
from seamark.parallel.pools.call import Argument, UnreadableRecord, where_to_run
from seamark.parallel.pools.loop import LoopPool
from seamark.parallel.pools.pool import Mailbox
from seamark.parallel.pools.threads import ThreadPool
from seamark.parallel.settings import Batch, Commit
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
    lock, running, most, three_run = threading.Lock(), [0], [0], threading.Event()

    def begun():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == 3:
                three_run.set()

    def ended():
        with lock:
            running[0] -= 1

    # Each waits until three have run at once, and a moment longer, in which a fourth could begin.
    async def wait_there(record):
        begun()
        while not three_run.is_set():
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.005)
        ended()

    def wait_here(record):
        begun()
        three_run.wait(20)
        time.sleep(0.005)
        ended()

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
    pool.start([StartCall((InFlightRecord(PLACE, 1, 5, record),)), *calls_of(1)])
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
    works = [InFlightRecord(PLACE, 1, number, Rec(offset=number)) for number in range(5)]
    pool.start([StartCall(works)])
    drained(mailbox, 1)
    assert [[record.offset for record in batch] for batch in seen] == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, StopAsyncIteration, asyncio.CancelledError]
)
def test_whatever_a_handler_raises_it_fails_for_exactly_its_records(make_pool, kind):
    def handle(record):
        if record.offset % 5 == 2:
            raise kind

    pool, mailbox = make_pool(handle, concurrency=2)
    pool.start(calls_of(20))
    _, failed = drained(mailbox, 20)
    assert sorted(call.works[0].offset for call, _ in failed) == [2, 7, 12, 17]
    pool.start(calls_of(2))
    assert len(drained(mailbox, 2)[0]) == 2


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_printed_is_reported_as_one_that_can(make_pool):
    def handle(record):
        raise Unspeakable

    pool, mailbox = make_pool(handle)
    pool.start(calls_of(1))
    _, ((_, error),) = drained(mailbox, 1)
    assert "Unspeakable" in str(error)
    assert isinstance(error.__cause__, Unspeakable)


def generator_of(record):
    yield record


async def coroutine_of(record): ...


async def async_generator_of(record):
    yield record


class ToAwait:
    def __await__(self):
        yield


class OwnMap(map):
    pass


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (generator_of, "returned a generator, which is not run"),
        (coroutine_of, "returned a coroutine, which is not awaited"),
        (async_generator_of, "returned an async generator, which is not run"),
        (lambda record: ToAwait(), "returned an object of type ToAwait, which is not awaited: await it in"),
        (lambda record: Future(), "returned a future, which is not waited for"),
        (lambda record: map(print, [record]), "returned an object of type map, which is not iterated over"),
        (lambda record: OwnMap(print, [record]), "an object of type OwnMap, which is not iterated over"),
        (lambda record: starmap(print, [[record]]), "an object of type starmap, which is not iterated over"),
        (lambda record: AsyncResult.__new__(AsyncResult), "an object of type ApplyResult, which is not waited for"),
    ],
)
@pytest.mark.parametrize("batch", [None, Batch()], ids=["one", "batch"])
def test_an_answer_that_stands_for_work_to_be_done_is_a_failure(make_pool, answer, sentence, batch):
    # Behind a plain function, and in the pool of the loop behind an async one.
    pool, mailbox = make_pool(lambda given: answer(given), Argument(batch))
    pool.start(calls_of(1))
    succeeded, failed = drained(mailbox, 1)
    assert not succeeded
    assert sentence in str(failed[0][1])


@pytest.mark.parametrize(
    "answer",
    [
        [1], (), {"done": 1}, range(3), "text", b"bytes", 0, object(), {}.values(),
        lambda: sqlite3.connect(":memory:").execute("select 1"),
        lambda: io.StringIO("a file"),
    ],
)  # fmt: skip
def test_an_answer_that_is_only_a_value_means_nothing(make_pool, answer):
    pool, mailbox = make_pool(lambda record: answer() if inspect.isfunction(answer) else answer)
    pool.start(calls_of(1))
    succeeded, failed = drained(mailbox, 1)
    assert len(succeeded) == 1
    assert not failed


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_handler_sets_in_its_context_is_not_seen_by_the_next(make_pool, waits):
    tenant = contextvars.ContextVar("tenant", default="nobody")
    seen = []

    def handle(record):
        seen.append(tenant.get())
        tenant.set(record.offset)

    async def handle_waiting(record):
        handle(record)
        await asyncio.sleep(0)
        seen.append("nobody" if tenant.get() == record.offset else tenant.get())

    pool, mailbox = make_pool(handle_waiting if waits and make_pool.is_loop else handle, concurrency=1)
    pool.start(calls_of(10))
    drained(mailbox, 10)
    assert set(seen) == {"nobody"}


def test_a_handler_on_a_loop_may_return_any_object_to_await():
    """As functions do that are marked as coroutine functions, or compiled."""

    class Waits:
        def __init__(self, record):
            self.record = record

        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            if self.record.offset == 1:
                raise ValueError("of an object")

    class Marked:
        def __call__(self, record):
            return Waits(record)

    async def marker(record):
        pass

    handler = Marked()
    handler.__call__ = marker
    pool, mailbox = loop_pool(handler, 2)
    try:
        pool.start(calls_of(3))
        _, ((call, error),) = drained(mailbox, 3)
        assert (call.works[0].offset, str(error)) == (1, "of an object")
    finally:
        pool.close(5.0)


def loop_pool(handler, concurrency):
    mailbox = Mailbox()
    return LoopPool(handler, Argument(), mailbox, concurrency, 0), mailbox


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_handler_that_cancels_its_own_task_has_failed_and_no_other(concurrency):
    async def handle(record):
        task = asyncio.current_task()
        match record.offset % 6:
            case 1:
                task.cancel()
            case 2:
                task.cancel()
                await asyncio.sleep(60)
            case 3:
                task.cancel()
                raise ValueError("cancelled, but this comes first")
            case 4:
                # Cancelled and caught, as old timeouts do: the handler has returned.
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)

    pool, mailbox = loop_pool(handle, concurrency)
    try:
        pool.start(calls_of(24))
        _, failed = drained(mailbox, 24)
        kinds = {(call.works[0].offset % 6, type(error).__name__) for call, error in failed}
        assert kinds == {(1, "CancelledError"), (2, "CancelledError"), (3, "ValueError")}
        assert len(failed) == 12
        pool.start(calls_of(1))
        assert len(drained(mailbox, 1)[0]) == 1
    finally:
        pool.close(5.0)


def test_a_handler_that_cancels_every_task_of_the_loop_costs_only_what_ran():
    async def handle(record):
        if record.offset == 0:
            await asyncio.sleep(0)
            for task in asyncio.all_tasks():
                task.cancel()
        await asyncio.sleep(0.001)

    pool, mailbox = loop_pool(handle, 3)
    try:
        # All workers are made, and idle but for one.
        pool.start(calls_of(6)[1:])
        drained(mailbox, 5)
        pool.start(calls_of(1))
        _, ((_, error),) = drained(mailbox, 1)
        assert isinstance(error, asyncio.CancelledError)
        pool.start(calls_of(6)[1:])
        assert len(drained(mailbox, 5)[0]) == 5
    finally:
        pool.close(5.0)


@pytest.mark.parametrize("ending", ["stop", "exit in a task", "interrupt in a callback"])
def test_a_handler_that_stops_the_loop_stops_nobody_else(ending, caplog):
    async def exits():
        raise SystemExit(3)

    def interrupts():
        raise KeyboardInterrupt

    async def handle(record):
        if record.offset == 1:
            loop = asyncio.get_running_loop()
            if ending == "stop":
                loop.stop()
            elif ending == "exit in a task":
                handle.task = loop.create_task(exits())
            else:
                loop.call_soon(interrupts)
        await asyncio.sleep(0.02)

    pool, mailbox = loop_pool(handle, 4)
    try:
        pool.start(calls_of(8))
        succeeded, failed = drained(mailbox, 8)
        assert len(succeeded) == 8
        assert not failed
        assert "the loop continues" in caplog.text
        if ending == "exit in a task":
            assert isinstance(handle.task.exception(), SystemExit)
    finally:
        pool.close(5.0)


def test_a_handler_that_closes_the_loop_has_failed():
    async def handle(record):
        if record.offset == 1:
            asyncio.get_running_loop().close()

    pool, mailbox = loop_pool(handle, 1)
    try:
        pool.start(calls_of(4))
        _, failed = drained(mailbox, 4)
        assert [call.works[0].offset for call, _ in failed] == [1]
    finally:
        pool.close(5.0)


def test_an_error_thrown_into_a_handlers_thread_when_the_handler_has_returned_ends_nothing(caplog):
    class TimedOut(BaseException):
        pass

    def handle(record):
        if record.offset % 3 == 1:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(threading.get_ident()), ctypes.py_object(TimedOut)
            )

    mailbox = Mailbox()
    pool = ThreadPool(handle, Argument(), mailbox, 1, 0)
    try:
        for _ in range(5):
            pool.start(calls_of(6))
            _, failed = drained(mailbox, 6)
            assert {call.works[0].offset % 3 for call, _ in failed} <= {1}
    finally:
        pool.close(5.0)
    assert not any(thread.is_alive() for thread in pool._threads)


def test_threads_that_cannot_be_had_leave_the_work_to_those_that_can(monkeypatch, caplog):
    real = threading.Thread.start

    def start(thread):
        if thread.name.startswith("seamark-handler-") and thread.name != "seamark-handler-1":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    mailbox = Mailbox()
    pool = ThreadPool(lambda record: time.sleep(0.001), Argument(), mailbox, 8, 0)
    try:
        pool.start(calls_of(20))
        assert len(drained(mailbox, 20)[0]) == 20
    finally:
        pool.close(5.0)
    assert "Only 1 of 8 handler threads could be started: can't start new thread" in caplog.text


def test_a_pool_without_any_thread_says_so(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    pool = ThreadPool(print, Argument(), Mailbox(), 8, 0)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        pool.start(calls_of(1))


class GeneratorObject:
    def __call__(self, record):
        yield record

    def method(self, record):
        yield record


class AsyncGeneratorObject:
    async def __call__(self, record):
        yield record


def kept_a_generator(function):
    @functools.wraps(function)
    def wrapper(record):
        yield from function(record)

    return wrapper


def run_to_the_end(function):
    @functools.wraps(function)
    def wrapper(record):
        for _ in function(record):
            pass

    return wrapper


@pytest.mark.parametrize("run_in", ["auto", "threads", "loop", "processes"])
@pytest.mark.parametrize(
    "handler",
    [
        generator_of,
        async_generator_of,
        functools.partial(generator_of),
        functools.partial(functools.partial(async_generator_of)),
        GeneratorObject(),
        functools.partial(GeneratorObject()),
        GeneratorObject().method,
        AsyncGeneratorObject(),
        kept_a_generator(generator_of),
        lambda record: (yield),
    ],
)
def test_a_generator_function_is_refused_as_a_handler(handler, run_in):
    with pytest.raises(ConfigError, match="generator function, so calling it runs nothing: remove the yield"):
        where_to_run(handler, run_in)


def test_a_generator_function_that_its_decorator_runs_is_a_handler():
    assert where_to_run(run_to_the_end(generator_of), "auto") == "threads"
    # Calling a class makes an object; what that could do is not asked of it.
    assert where_to_run(GeneratorObject, "auto") == "threads"


@pytest.mark.parametrize(("function", "reason"), [(coroutine_of, "is async"), (generator_of, "generator function")])
def test_what_gives_no_value_is_refused_as_a_deserializer_and_as_a_callback(function, reason):
    for option in ("key", "value"):
        with pytest.raises(ConfigError, match=reason):
            Argument(**{option: function})
    with pytest.raises(ConfigError, match=reason):
        Commit(on_commit=function)


class AsyncObject:
    async def __call__(self, record): ...


def test_kinds_of_handlers_are_told_apart():
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
