"""The parallel consumer on the caller's own loop: its handlers share that loop, its promises are those of the other."""

import asyncio
import contextvars
import threading
import time

import pytest

from seamark.errors import ConfigError, UsageError
from seamark.parallel import AsyncParallelConsumer, Batch, Commit, ConsumerStopped, DeadLetter, Retry, Skip, Stop
from seamark.parallel.observe.health import HealthServer
from seamark.parallel.observe.progress import Progress
from seamark.parallel.observe.status import State
from tests.parallel.conftest import QUICK

WAIT_S = 30.0


def make(topic, handler, **options):
    config = {**QUICK, **options.pop("config", {}), "bootstrap.servers": topic.bootstrap, "group.id": topic.group}
    return AsyncParallelConsumer(config, [topic.name], handler, **options)


def numbers(count):
    return [b"%d" % number for number in range(count)]


def both(value):
    return int(value) % 2


@pytest.mark.parametrize("client", ["seamark", "confluent"])
def test_handlers_use_what_belongs_to_the_callers_loop(any_topic, client):
    any_topic.write(numbers(200), lambda value: b"key-%d" % (int(value) % 7), lambda value: int(value) % 7 % 2)

    async def main():
        lock, results, threads = asyncio.Lock(), asyncio.Queue(), set()

        async def handle(record):
            threads.add(threading.get_ident())
            async with lock:
                # Held across a turn of the loop, so that others wait for it there.
                await asyncio.sleep(0)
            await results.put((record.key, int(record.value)))

        async with make(any_topic, handle, client=client, concurrency=16) as consumer:
            async with asyncio.timeout(WAIT_S):
                done = [await results.get() for _ in range(200)]
            assert (await consumer.status()).state is State.RUNNING
        assert threads == {threading.get_ident()}
        return done, await consumer.wait(), await consumer.status()

    done, summary, status = asyncio.run(main())
    assert sorted(value for _, value in done) == list(range(200))
    for key in {key for key, _ in done}:
        values = [value for its_key, value in done if its_key == key]
        assert values == sorted(values), key
    assert any_topic.committed(0) + any_topic.committed(1) == 200
    assert summary.tally["done"] == 200
    assert status.state is State.STOPPED


def test_batches_deserializers_and_context_variables_are_the_callers(topic):
    topic.write(numbers(20))
    tenant = contextvars.ContextVar("tenant", default="nobody")

    async def main():
        seen, all_done = [], asyncio.Event()
        tenant.set("acme")

        async def handle(records):
            seen.extend((record.value, tenant.get()) for record in records)
            if len(seen) == 20:
                all_done.set()

        async with make(topic, handle, batch=Batch(records=7), value=str) as consumer:
            assert await consumer.wait_until(all_done.is_set, WAIT_S)
        return seen

    assert sorted(asyncio.run(main())) == sorted((str(number), "acme") for number in range(20))


def test_what_a_handler_sets_in_its_context_is_not_seen_by_the_next(topic):
    topic.write(numbers(12))
    tenant = contextvars.ContextVar("tenant", default="nobody")

    async def main():
        seen = []
        tenant.set("acme")

        async def handle(record):
            before = tenant.get()
            tenant.set(record.value)
            await asyncio.sleep(0)
            # Also what it starts sees what it has set.
            seen.append((before, tenant.get() == record.value == await asyncio.create_task(ask())))

        async def ask():
            return tenant.get()

        async with make(topic, handle, concurrency=1) as consumer:
            assert await consumer.wait_until(lambda: len(seen) == 12, WAIT_S)
        return seen, tenant.get()

    assert asyncio.run(main()) == ([("acme", True)] * 12, "acme")


def test_the_rest_of_the_program_goes_on_beside_handlers_that_never_wait(topic):
    topic.write(numbers(300))

    async def main():
        turns, turns_at_call = 0, []

        async def count_turns():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def handle(record):
            turns_at_call.append(turns)

        counting = asyncio.create_task(count_turns())
        async with make(topic, handle, concurrency=1) as consumer:
            assert await consumer.wait_until(lambda: len(turns_at_call) == 300, WAIT_S)
        counting.cancel()
        return turns_at_call

    turns_at_call = asyncio.run(main())
    # Between any two calls of the one worker the other task had its turn.
    assert len(set(turns_at_call)) == 300


def test_a_failure_is_raised_by_wait_with_the_handlers_own_exception(topic):
    topic.write(numbers(10))

    async def handle(record):
        if record.value == b"4":
            raise ValueError("no such customer")

    async def main():
        async with make(topic, handle, retry=Retry(attempts=1), then=Stop()) as consumer:
            with pytest.raises(ConsumerStopped, match="no such customer") as first:
                await consumer.wait(WAIT_S)
            with pytest.raises(ConsumerStopped):
                await consumer.wait_until(lambda: False, WAIT_S)
            with pytest.raises(UsageError, match="not running, it is failed"):
                await consumer.skip((topic.name, 0), 4)
        # Who was told is not told again by the end of the block, nor by stop.
        assert await consumer.stop() is first.value.summary
        return first.value, await consumer.status()

    failure, status = asyncio.run(main())
    assert isinstance(failure.__cause__, ValueError)
    assert status.state is State.FAILED
    assert topic.committed() == 4


def test_the_end_of_the_block_raises_a_failure_that_nobody_was_told(topic):
    topic.write(numbers(1))
    failed = threading.Event()

    async def handle(record):
        failed.set()
        raise ValueError("no such customer")

    async def main(error=None):
        async with make(topic, handle, retry=Retry(attempts=1)) as consumer:
            while (await consumer.status()).state is not State.FAILED:
                await asyncio.sleep(0.01)
            if error is not None:
                raise error

    with pytest.raises(ConsumerStopped, match="no such customer"):
        asyncio.run(main())
    with pytest.raises(KeyError) as raised:
        asyncio.run(main(KeyError("of the block")))
    assert "had failed" in raised.value.__notes__[0]


def test_a_cancelled_task_drains_commits_and_leaves_before_the_cancellation_is_raised(topic):
    topic.write(numbers(40))

    async def main():
        begun, may_end, ended = asyncio.Event(), asyncio.Event(), []

        async def handle(record):
            begun.set()
            await may_end.wait()
            ended.append(int(record.value))

        consumer = make(topic, handle, concurrency=4)

        async def work():
            async with consumer:
                await consumer.wait()

        task = asyncio.create_task(work())
        async with asyncio.timeout(WAIT_S):
            await begun.wait()
            task.cancel()
            while (await consumer.status()).state is not State.STOPPING:
                await asyncio.sleep(0.005)
            assert not task.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        return ended, await consumer.wait()

    ended, summary = asyncio.run(main())
    # What ran was drained, nothing more was started, and what is done is committed.
    assert sorted(ended) == list(range(len(ended)))
    assert 1 <= len(ended) < 40
    assert topic.committed() == len(ended)
    assert summary.reason is None


def test_a_second_cancellation_cuts_the_draining_short(topic):
    topic.write(numbers(1))

    async def main():
        begun, cancelled = asyncio.Event(), []

        async def handle(record):
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(record.value)
                raise

        consumer = make(topic, handle, drain=3_600.0)

        async def work():
            async with consumer:
                await consumer.wait()

        task = asyncio.create_task(work())
        async with asyncio.timeout(WAIT_S):
            await begun.wait()
            task.cancel()
            while (await consumer.status()).state is not State.STOPPING:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return cancelled

    assert asyncio.run(main()) == [b"0"]
    assert topic.committed() in (None, 0)


def test_an_interrupted_program_drains_before_its_loop_ends(topic):
    """What ``asyncio.run`` does at Ctrl-C: the main task is cancelled, at the end all tasks are."""
    topic.write(numbers(3))
    ended = []

    async def handle(record):
        await asyncio.sleep(0.05)
        ended.append(record.value)

    async def main():
        async with make(topic, handle) as consumer:
            await consumer.wait_until(lambda: ended, WAIT_S)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert topic.committed() == 3 == len(ended)


def run_on(kind, main):
    if kind == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    return asyncio.run(main)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
@pytest.mark.parametrize("then", [Skip(max_ratio=None), DeadLetter(max_ratio=None), Stop()])
def test_a_block_in_a_task_of_its_own_drains_when_the_program_ends_and_cancels_all_tasks(topic, kind, then):
    topic.write(numbers(40))
    begun, ended, summaries = [], [], []

    async def handle(record):
        begun.append(int(record.value))
        # Until the end of the program has reached the consumer, however long that takes.
        while (await consumer.status()).state is not State.STOPPING:
            await asyncio.sleep(0.005)
        ended.append(int(record.value))

    consumer = make(topic, handle, concurrency=4, retry=Retry(attempts=1), then=then)

    async def service():
        try:
            async with consumer:
                await consumer.wait()
        finally:
            summaries.append(consumer._summary)

    async def main():
        service.task = asyncio.create_task(service())
        async with asyncio.timeout(WAIT_S):
            while len(begun) < 4:
                await asyncio.sleep(0.005)

    run_on(kind, main())
    assert sorted(ended) == sorted(begun)
    assert topic.committed() == len(ended) < 40
    assert summaries[0].reason is None
    assert summaries[0].tally["failed"] == 0


@pytest.mark.parametrize("then", [Skip(max_ratio=None), Stop()])
def test_a_handler_whose_own_tasks_are_cancelled_with_the_program_has_not_failed(topic, then):
    topic.write(numbers(3))
    begun, statuses = [], []

    async def work_of_its_own():
        await asyncio.sleep(WAIT_S)

    async def handle(record):
        begun.append(record.offset)
        if len(begun) <= 3:
            await asyncio.create_task(work_of_its_own())
        else:
            await asyncio.Event().wait()

    async def service():
        consumer = make(topic, handle, retry=Retry(attempts=1), then=then, drain=0.2)
        try:
            async with consumer:
                # So that the consumer hears of the end after its handlers.
                await asyncio.gather(consumer.wait())
        finally:
            statuses.append(await consumer.status())

    async def main():
        service.task = asyncio.create_task(service())
        async with asyncio.timeout(WAIT_S):
            while len(begun) < 3:
                await asyncio.sleep(0.005)

    asyncio.run(main())
    assert statuses[0].state is State.STOPPED
    assert statuses[0].tally["failed"] == 0
    assert topic.committed() in (None, 0)


def test_a_worker_that_is_cancelled_fails_its_call_and_another_goes_on(topic):
    topic.write(numbers(6))

    async def main():
        runs, cancelled = [], []

        async def handle(record):
            runs.append(int(record.value))
            if record.value == b"2" and not cancelled:
                cancelled.append(True)
                asyncio.current_task().cancel()
                await asyncio.sleep(0)

        async with make(topic, handle, concurrency=1, retry=Retry(attempts=2, delay=0.0)) as consumer:
            assert await consumer.wait_until(lambda: len(runs) == 7, WAIT_S)
        return runs

    assert sorted(asyncio.run(main())) == [0, 1, 2, 2, 3, 4, 5]
    assert topic.committed() == 6


def test_partitions_move_to_a_second_member_and_back_and_all_is_done_once(topic):
    topic.write(numbers(40), partition=both)

    async def main():
        first, second = [], []

        async def slowly(record, seen):
            seen.append(record.value)
            await asyncio.sleep(0.001)

        def counts(status):
            return len(status.partitions)

        async with make(topic, lambda_of(slowly, first)) as one:
            assert await one.wait_until(lambda: len(first) == 40, WAIT_S)
            async with make(topic, lambda_of(slowly, second)) as two:
                async with asyncio.timeout(WAIT_S):
                    while (counts(await one.status()), counts(await two.status())) != (1, 1):
                        await asyncio.sleep(0.02)
                await asyncio.to_thread(topic.write, numbers(40), partition=both)
                assert await two.wait_until(lambda: len(first) + len(second) == 80, WAIT_S)
            async with asyncio.timeout(WAIT_S):
                while counts(await one.status()) != 2:
                    await asyncio.sleep(0.02)
        return first, second

    def lambda_of(handler, seen):
        async def handle(record):
            await handler(record, seen)

        return handle

    first, second = asyncio.run(main())
    assert (len(first), len(second)) == (60, 20)
    assert topic.committed(0) + topic.committed(1) == 80


def test_commits_are_told_on_the_loop_and_before_the_end(topic):
    topic.write(numbers(10))

    async def main():
        told, seen = [], []

        def on_commit(committed, error):
            told.append((asyncio.get_running_loop(), dict(committed), error))
            raise LookupError("a callback that fails stops nothing")

        async def handle(record):
            seen.append(record)

        async with make(topic, handle, commit=Commit(interval=60.0, on_commit=on_commit)) as consumer:
            assert await consumer.wait_until(lambda: len(seen) == 10, WAIT_S)
        return told, asyncio.get_running_loop()

    told, loop = asyncio.run(main())
    assert [(committed, error) for _, committed, error in told] == [({topic.partitions[0]: 10}, None)]
    assert told[0][0] is loop


def test_a_handler_asks_for_the_stop_and_does_not_wait_for_it(topic):
    topic.write(numbers(5))

    async def main():
        answers = []

        async def handle(record):
            answers.append(await consumer.stop())

        consumer = make(topic, handle, concurrency=1)
        async with consumer:
            summary = await consumer.wait(WAIT_S)
        return answers, summary

    answers, summary = asyncio.run(main())
    assert set(answers) == {None}
    assert summary.reason is None
    assert topic.committed() == summary.tally["done"] == len(answers)


def test_a_handler_that_waits_for_the_end_of_its_own_consumer_gets_an_error(topic):
    topic.write(numbers(1))

    async def main():
        errors = []

        async def handle(_record):
            try:
                await consumer.wait()
            except UsageError as error:
                errors.append(str(error))

        consumer = make(topic, handle)
        async with consumer:
            assert await consumer.wait_until(lambda: errors, WAIT_S)
        return errors

    assert "wait() was called by a handler" in asyncio.run(main())[0]


def test_a_record_that_hangs_is_given_up_by_call_and_watched_from_other_threads(topic, capsys):
    topic.write(numbers(3))

    async def main():
        hanging, others = asyncio.Event(), []

        async def handle(record):
            if record.value == b"0":
                hanging.set()
                await asyncio.Event().wait()
            others.append(record.value)

        consumer = make(topic, handle, drain=0.0)
        with HealthServer(consumer) as health, Progress(consumer):
            async with consumer:
                async with asyncio.timeout(WAIT_S):
                    await hanging.wait()
                assert await consumer.wait_until(lambda: len(others) == 2, WAIT_S)
                [held] = (await consumer.status()).holding
                assert "handle" in held.stands_at
                await consumer.skip((topic.name, 0), 0)
                assert health.address
        return others

    assert sorted(asyncio.run(main())) == [b"1", b"2"]
    assert topic.committed() == 3
    assert "2 done" in capsys.readouterr().err


def test_a_loop_that_ended_under_the_consumer_is_a_failure_and_not_a_hang(topic):
    topic.write(numbers(1))
    loop = asyncio.new_event_loop()

    async def handle(record):
        await asyncio.Event().wait()

    async def enter():
        consumer = make(topic, handle)
        await consumer.__aenter__()
        return consumer

    consumer = loop.run_until_complete(enter())
    loop.close()
    end = time.monotonic() + WAIT_S
    while consumer.blocking_status().state is not State.FAILED:
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)
    reason = consumer.blocking_status().reason
    assert reason.startswith("the event loop of its handlers was closed while the consumer ran: leave the async with")
    # On a loop that lives, its end is told all the same.
    with pytest.raises(ConsumerStopped, match="was closed while the consumer ran"):
        asyncio.run(asyncio.wait_for(consumer.stop(), WAIT_S))


def test_a_consumer_whose_loop_is_closed_is_stopped_on_another_without_waiting_for_handlers(topic):
    topic.write(numbers(1))
    loop, begun = asyncio.new_event_loop(), []

    async def handle(record):
        begun.append(record)
        await asyncio.Event().wait()

    async def enter():
        consumer = make(topic, handle, drain=3_600.0)
        await consumer.__aenter__()
        assert await consumer.wait_until(lambda: begun, WAIT_S)
        return consumer

    consumer = loop.run_until_complete(enter())
    loop.close()
    summary = asyncio.run(asyncio.wait_for(consumer.stop(), WAIT_S))
    assert (summary.tally["done"], summary.unfinished) == (0, 1)


def test_the_end_is_waited_for_and_asked_for_on_any_loop(topic):
    topic.write(numbers(5))
    seen, is_up = [], threading.Event()

    async def handle(record):
        seen.append(record.value)

    consumer = make(topic, handle)
    told = []

    async def service():
        async with consumer:
            is_up.set()
            told.append(await consumer.wait())

    async def stop_elsewhere():
        assert await consumer.wait(0.01) is None
        assert await consumer.wait_until(lambda: len(seen) == 5, WAIT_S)
        waiting = asyncio.create_task(consumer.wait())
        await asyncio.sleep(0)
        return await consumer.stop(), await waiting

    thread = threading.Thread(target=asyncio.run, args=(service(),), daemon=True)
    thread.start()
    assert is_up.wait(WAIT_S)
    stopped, waited = asyncio.run(asyncio.wait_for(stop_elsewhere(), WAIT_S))
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert stopped is waited is told[0]
    assert stopped.tally["done"] == 5
    assert asyncio.run(consumer.wait()) is stopped


def test_what_cannot_be_is_refused_when_it_is_made(topic):
    async def handle(record):
        pass

    with pytest.raises(ConfigError, match="would block the loop"):
        make(topic, print)
    with pytest.raises(ConfigError, match="caller's loop"):
        make(topic, handle, run_in="threads")


def test_it_is_entered_once_and_a_stop_before_that_ends_it(topic):
    async def handle(record):
        pass

    async def main():
        consumer = make(topic, handle)
        with pytest.raises(UsageError, match="the parallel consumer has not been started"):
            await consumer.wait()
        async with consumer:
            pass
        with pytest.raises(UsageError, match="started once"):
            await consumer.__aenter__()
        assert (await consumer.wait()).reason is None
        never = make(topic, handle)
        assert await never.stop() is None
        assert (await never.status()).state is State.STOPPED

    asyncio.run(main())
