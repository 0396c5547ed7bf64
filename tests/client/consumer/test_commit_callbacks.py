"""Callbacks of asynchronous commits: each is told what became of its commit, whatever the others do, also by close."""

import asyncio
import contextlib
import gc
import inspect

import pytest

from seamark import Broker
from seamark.client import AsyncConsumer, Consumer, Producer, TopicPartition
from seamark.client.admin.admin import Admin
from seamark.client.errors import BrokerError, CommitTimedOut
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.waiting import eventually

T0 = TopicPartition("t", 0)
REFUSED = "GROUP_AUTHORIZATION_FAILED"


@pytest.fixture
def broker():
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as made:
        made.create_topic("t")
        yield made


class Blocking:
    """An AsyncConsumer whose calls are waited for, so that a test is written once for both."""

    def __init__(self, **options):
        self._loop = asyncio.new_event_loop()
        self._consumer = self._loop.run_until_complete(self._make(options))

    async def _make(self, options):
        return AsyncConsumer(**options)

    def __getattr__(self, name):
        def call(*args, **keywords):
            answer = getattr(self._consumer, name)(*args, **keywords)
            return self._loop.run_until_complete(answer) if inspect.isawaitable(answer) else answer

        return call

    def close(self, timeout=30.0):
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._consumer.close(timeout))
            self._loop.close()


@pytest.fixture(params=[Consumer, Blocking], ids=["blocking", "awaitable"])
def consumer(request, broker):
    made = request.param(bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False)
    made.subscribe(["t"])
    while not made.assignment():
        made.poll(0.1)
    yield made
    with contextlib.suppress(KeyError):
        made.close()


@pytest.fixture
def committed(broker):
    def ask():
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            return admin.list_group_offsets(["g"])["g"][T0].offset

    return ask


@pytest.fixture
def failed_commits(caplog):
    return lambda: [record for record in caplog.records if getattr(record, "event", "") == "commit_failed"]


def fail(offsets, error):
    raise KeyError("callback")


def commit_each(consumer, *callbacks):
    """Commit the offsets 1, 2, … and wait for the answers, without a callback being run in between."""
    calls = consumer._consumer._calls if isinstance(consumer, Blocking) else consumer._calls
    calls._callbacks.run = lambda: iter(())
    for offset, callback in enumerate(callbacks, 1):
        consumer.commit_async({T0: offset}, callback)
    commits = calls.core.commits._unreported
    eventually(lambda: [each.is_done for each in commits] == [True] * len(callbacks), "the answers to the commits")
    del calls._callbacks.run


def test_close_runs_the_callbacks_of_commits_it_waited_for(consumer, committed):
    ran = []
    for offset in (1, 2, 3):
        consumer.commit_async({T0: offset}, lambda offsets, error: ran.append((offsets[T0].offset, error)))
    consumer.close()
    assert ran == [(1, None), (2, None), (3, None)]
    assert committed() == 3


def test_close_tells_a_callback_that_its_commit_was_refused(consumer, broker, failed_commits):
    ran = []
    broker.faults.fail("OffsetCommit", REFUSED, times=1)
    consumer.commit_async({T0: 1}, lambda offsets, error: ran.append(error))
    consumer.close()
    (error,) = ran
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode[REFUSED]
    assert failed_commits() == [], "the callback has heard it"


def test_close_tells_a_callback_that_no_answer_came(consumer, broker):
    ran = []
    broker.faults.delay("OffsetCommit", 600.0, times=1)
    consumer.commit_async({T0: 1}, lambda offsets, error: ran.append(error))
    consumer.close(0.5)
    (error,) = ran
    assert isinstance(error, CommitTimedOut)
    assert "before the consumer was closed" in str(error)


def test_close_raises_what_a_callback_raised_and_closes_all_the_same(consumer):
    ran = []
    commit_each(consumer, fail, lambda offsets, error: ran.append(offsets[T0].offset))
    with pytest.raises(KeyError, match="callback"):
        consumer.close()
    assert ran == [2]


@pytest.mark.parametrize("call", ["poll", "commit", "commit_async"])
def test_a_callback_that_raises_takes_nothing_with_it(consumer, committed, caplog, call):
    ran = []
    commit_each(consumer, fail, fail, lambda offsets, error: ran.append(offsets[T0].offset))
    with pytest.raises(KeyError, match="callback"):
        consumer.poll(0) if call == "poll" else getattr(consumer, call)({T0: 9})
    assert ran == [3]
    logged = [record for record in caplog.records if record.message == "a commit callback failed"]
    assert [record.exc_info[0] for record in logged] == [KeyError], "the second failure; the first was raised"
    consumer.close()
    assert committed() == (3 if call == "poll" else 9)


def test_an_interrupt_in_a_callback_leaves_the_others_to_the_next_call(consumer):
    ran = []

    def interrupt(offsets, error):
        raise KeyboardInterrupt

    commit_each(consumer, interrupt, lambda offsets, error: ran.append(offsets[T0].offset))
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(0)
    assert ran == []
    consumer.poll(0)
    assert ran == [2]


def test_a_refusal_is_logged_if_its_callback_can_never_run(broker, failed_commits):
    consumer = Consumer(bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False)
    consumer.assign([T0])
    broker.faults.fail("OffsetCommit", REFUSED, times=1)
    commit_each(consumer, lambda offsets, error: None)
    assert failed_commits() == []
    # Dropped without being closed.
    del consumer
    gc.collect()
    eventually(lambda: len(failed_commits()) == 1, "the refusal in the log")
    assert REFUSED in failed_commits()[0].getMessage()


def test_only_an_async_consumer_takes_a_commit_callback_that_has_to_be_awaited(broker):
    async def coroutine(*given): ...

    with Consumer(bootstrap_servers=broker.bootstrap, group_id="g") as blocking:
        blocking.assign([T0])
        with pytest.raises(UsageError, match="the commit callback is a coroutine function: only AsyncConsumer"):
            blocking.commit_async({T0: 1}, coroutine)


def test_a_callback_that_would_do_nothing_is_refused_when_it_is_given(consumer, broker):
    def generator(*given):
        yield given

    async def coroutine(*given): ...

    with pytest.raises(UsageError, match="the commit callback is a generator function"):
        consumer.commit_async({T0: 1}, generator)
    for name in ("on_assigned", "on_revoked", "on_lost"):
        with pytest.raises(UsageError, match=f"{name} is a generator function"):
            consumer.subscribe(["t"], **{name: generator})
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for function, kind in ((generator, "generator"), (coroutine, "coroutine")):
            with pytest.raises(UsageError, match=f"on_delivery is a {kind} function"):
                producer.send("t", b"x", on_delivery=function)
