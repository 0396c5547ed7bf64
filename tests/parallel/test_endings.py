"""How a parallel consumer ends is never quiet: a failure is raised to whoever waits, stops it or leaves its block."""

import logging
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.errors import UsageError
from seamark.parallel import Batch, Commit, ConsumerStopped, DeadLetter, Order, ParallelConsumer, Retry, Skip
from seamark.parallel.adapters.seamark_client import SeamarkPort
from seamark.parallel.observe.status import State
from tests.parallel.test_failures import Poisoned, poisoned_by
from tests.parallel.test_running import numbers

ONCE = Retry(attempts=1)


@pytest.fixture(params=["seamark", "confluent"])
def client(request):
    return request.param


@pytest.fixture
def failing(topic, client):
    """A consumer that stops at the record ``4``."""
    topic.write(numbers(6), key=lambda value: value)
    return topic.consumer(poisoned_by(topic, b"4"), retry=ONCE, client=client)


def has_failed(consumer):
    return lambda: consumer.status().state is State.FAILED


def test_leaving_the_block_raises_what_stopped_it_with_the_handlers_exception(failing, until, caplog):
    with (
        caplog.at_level(logging.WARNING, "seamark.parallel"),
        pytest.raises(ConsumerStopped, match="offset 4 failed once: Poisoned") as stopped,
        failing,
    ):
        until(has_failed(failing))
    assert isinstance(stopped.value.__cause__, Poisoned)
    assert stopped.value.summary.unfinished >= 1
    assert failing.stop() == stopped.value.summary, "told once is enough"
    ended = caplog.records[-1]
    assert ended.levelname == "ERROR"
    assert isinstance(ended.exc_info[1], Poisoned), "the log has the traceback"


@pytest.mark.parametrize("place", ["threads", "loop"])
def test_a_handler_that_waits_for_the_end_of_its_own_consumer_gets_an_error(topic, until, place):
    topic.write(numbers(1))
    errors = []

    def wait(_record):
        try:
            consumer.wait()
        except UsageError as error:
            errors.append(str(error))

    async def wait_on_the_loop(record):
        wait(record)

    consumer = topic.consumer(wait if place == "threads" else wait_on_the_loop, run_in=place)
    with consumer:
        until(lambda: errors)
    assert "wait() was called by a handler" in errors[0]


def test_what_the_block_raised_itself_wins_and_names_the_failure(failing, until):
    with pytest.raises(ZeroDivisionError) as raised, failing:  # noqa: PT012 - the block is what is tested
        until(has_failed(failing))
        raise ZeroDivisionError
    [note] = raised.value.__notes__
    assert "had failed" in note
    assert "offset 4 failed once" in note


def test_a_failure_that_was_seen_inside_the_block_is_not_raised_again_at_its_end(failing):
    with failing:
        with pytest.raises(ConsumerStopped):
            failing.wait(30)
        with pytest.raises(ConsumerStopped):
            failing.wait(30)


def test_stop_raises_a_failure_that_nobody_has_seen_once(failing, until):
    failing.start()
    until(has_failed(failing))
    with pytest.raises(ConsumerStopped, match="offset 4 failed once") as stopped:
        failing.stop()
    assert isinstance(stopped.value.__cause__, Poisoned)
    assert failing.stop().reason == stopped.value.reason


def test_run_raises_with_the_cause(failing):
    with pytest.raises(ConsumerStopped) as stopped:
        failing.run()
    assert isinstance(stopped.value.__cause__, Poisoned)


def test_who_waits_for_a_condition_hears_that_the_consumer_failed(failing):
    never = threading.Event()
    with failing, pytest.raises(ConsumerStopped, match="offset 4 failed once"):
        failing.wait_until(never.is_set)


def test_waiting_for_a_condition_ends_when_it_is_true_in_time_or_the_consumer_is_stopped(topic):
    topic.write(numbers(5))
    with topic.consumer() as consumer:
        assert consumer.wait_until(lambda: len(topic.seen) == 5, timeout=60) is True
        assert consumer.wait_until(lambda: False, timeout=0.0) is False
        assert consumer.wait_until(lambda: False, timeout=0.05) is False
        stopper = threading.Timer(0.2, consumer.stop)
        stopper.start()
        assert consumer.wait_until(lambda: False) is False
        stopper.join()
        assert consumer.wait_until(lambda: True) is True


def test_what_a_condition_raises_is_raised(topic):
    with topic.consumer() as consumer, pytest.raises(ZeroDivisionError):
        consumer.wait_until(lambda: 1 / 0)


def test_the_cause_of_a_dead_letter_that_cannot_be_written_is_the_refusal(topic, client, caplog):
    topic.write(numbers(2))
    handler = poisoned_by(topic, b"1")
    then = DeadLetter(topic="no such/topic")
    consumer = topic.consumer(handler, retry=ONCE, then=then, client=client).start()
    with pytest.raises(ConsumerStopped, match="could not be written to its dead-letter topic") as stopped:
        consumer.wait(60)
    assert stopped.value.__cause__ is not None
    assert not isinstance(stopped.value.__cause__, Poisoned)
    [refused] = [message for message in caplog.messages if "could not be written to no such/topic" in message]
    assert refused.endswith("; it is not committed and runs again after a restart")


def test_failed_attempts_skips_and_dead_letters_are_in_the_log(topic, caplog):
    topic.write(numbers(6))
    handler = poisoned_by(topic, b"1", b"2", b"3")
    with (
        caplog.at_level(logging.WARNING, "seamark.parallel"),
        topic.consumer(handler, retry=Retry(attempts=2, delay=0.01), then=DeadLetter(max_ratio=None)) as consumer,
    ):
        consumer.wait_until(lambda: consumer.status().tally["dead_lettered"] == 3, timeout=60)
    text = "\n".join(caplog.messages)
    assert "failed (attempt 1): Poisoned: cannot bear" in text
    assert "; it is retried" in text
    assert "; it is written to the dead-letter topic" in text
    assert f"; written to {topic.name}.dead-letters" in text
    assert len([message for message in caplog.messages if message.endswith("; it is retried")]) == 1
    assert "2 more failed with Poisoned; they are retried" in text
    caplog.clear()
    topic.group += "-skipping"
    with (
        caplog.at_level(logging.WARNING, "seamark.parallel"),
        topic.consumer(handler, retry=ONCE, then=Skip(max_ratio=None)) as consumer,
    ):
        consumer.wait_until(lambda: consumer.status().tally["skipped"] == 3, timeout=60)
    assert any(message.endswith("; it is skipped") for message in caplog.messages)


@pytest.mark.parametrize(("delivery", "rows"), [("at_least_once", 1), ("at_least_once", 3), ("at_most_once", 3)])
def test_a_skipped_arrow_batch_is_in_the_log(topic, delivery, rows, caplog):
    topic.write(numbers(3))

    def handle(given):
        raise Poisoned(str(given.num_rows))

    batch = Batch(rows, wait=0.0, arrow=True)
    with (
        caplog.at_level(logging.WARNING, "seamark.parallel"),
        topic.consumer(
            handle, batch=batch, order=Order.NONE, delivery=delivery, retry=ONCE, then=Skip(max_ratio=None)
        ) as consumer,
    ):
        consumer.wait_until(lambda: consumer.status().tally["skipped"] == 3, timeout=60)
    assert any(message.endswith(("; it is skipped", "; they are skipped")) for message in caplog.messages)
    assert not any("has gone" in message for message in caplog.messages)
    if delivery == "at_most_once":
        assert not any("one by one" in message for message in caplog.messages)


def test_a_dead_letter_that_the_ending_interpreter_cannot_take_is_refused(topic):
    port = SeamarkPort({"bootstrap.servers": topic.bootstrap, "group.id": topic.group}, 1 << 20)
    port._writer = ThreadPoolExecutor(1)
    port._writer.shutdown()
    told = []
    port.produce("letters", None, b"v", (), told.append)
    port.close(5.0)
    assert [type(error) for error in told] == [RuntimeError]


def test_a_start_that_was_interrupted_leaves_nothing_to_wait_for(topic, monkeypatch):
    """Ctrl-C before the consumer's thread began: stop, and the end of the program, waited for ever."""
    interrupted = topic.consumer(lambda record: None)

    def interrupt(thread):
        raise KeyboardInterrupt

    monkeypatch.setattr("seamark.parallel.consumer._UNOWNED_S", 0.05)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            interrupted._own_thread().start()
    assert interrupted.stop() is None


def test_a_consumer_that_was_never_started_is_stopped_in_silence(topic):
    consumer = topic.consumer()
    assert consumer.stop() is None
    with pytest.raises(UsageError, match="started once"):
        consumer.start()


PROGRAM = """
import logging, sys, threading
from seamark.parallel import Commit, ParallelConsumer

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
begun = threading.Event()

def handle(record):
    begun.set()

config = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "auto.offset.reset": "earliest"}
ParallelConsumer(config, [sys.argv[3]], handle, commit=Commit(interval=60.0), client=sys.argv[4]).start()
begun.wait(60)
"""


def test_a_program_that_ends_without_stopping_its_consumer_drains_it_and_says_so(topic, client):
    topic.write(numbers(3))
    command = [sys.executable, "-c", PROGRAM, topic.bootstrap, topic.group, topic.name, client]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"WARNING The program exits while the parallel consumer of group '{topic.group}' is running" in ended.stderr
    assert "stopped on request" in ended.stderr
    assert topic.committed() >= 1, "what was done is committed"


HUNG_PROCESS = """
import logging, sys, time
from pathlib import Path
from seamark.parallel import ParallelConsumer

def handle(record):
    import os
    Path(sys.argv[4]).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    config = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "auto.offset.reset": "earliest"}
    ParallelConsumer(config, [sys.argv[3]], handle, run_in="processes", drain=0.5).start()
    while not (Path(sys.argv[4]).exists() and Path(sys.argv[4]).read_text()):
        time.sleep(0.02)
"""


def test_a_program_that_ends_with_a_hung_handler_process_ends_after_the_drain_time(topic, tmp_path, until):
    topic.write(numbers(1))
    program, begun = tmp_path / "program.py", tmp_path / "begun"
    program.write_text(HUNG_PROCESS)
    command = [sys.executable, str(program), topic.bootstrap, topic.group, topic.name, str(begun)]
    # To a file: a handler process that is left over would hold a pipe open.
    with (tmp_path / "said").open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as running:
        try:
            assert running.wait(60) == 0
            until(lambda: not is_alive(int(begun.read_text())))
        finally:
            running.kill()
            if begun.exists() and is_alive(int(begun.read_text())):
                os.kill(int(begun.read_text()), signal.SIGKILL)
    text = (tmp_path / "said").read_text()
    assert "WARNING The program exits while the parallel consumer" in text
    assert "1 unfinished" in text


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


DEAD_LETTER_AT_THE_END = """
import logging, sys, threading, time
from seamark.parallel import DeadLetter, ParallelConsumer, Retry

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
begun = threading.Event()

def handle(record):
    begun.set()
    time.sleep(1.0)
    raise ValueError("cannot be")

config = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "auto.offset.reset": "earliest"}
then = DeadLetter(max_ratio=None)
ParallelConsumer(config, [sys.argv[3]], handle, retry=Retry(attempts=1), then=then, client=sys.argv[4]).start()
begun.wait(60)
"""


def test_a_dead_letter_is_written_while_the_end_of_the_program_drains(topic, client):
    topic.write(numbers(1))
    command = [sys.executable, "-c", DEAD_LETTER_AT_THE_END, topic.bootstrap, topic.group, topic.name, client]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"written to {topic.name}.dead-letters" in ended.stderr
    assert "stopped on request" in ended.stderr
    assert topic.committed() == 1


WORKS_ON = """
import logging, sys, threading
from seamark.parallel import ParallelConsumer

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
seen, both = [], threading.Event()

def handle(record):
    seen.append(record)
    if len(seen) == 2:
        both.set()

config = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "auto.offset.reset": "earliest"}
consumer = ParallelConsumer(config, [sys.argv[3]], handle)

def work():
    threading.main_thread().join()
    print("main has ended", flush=True)
    assert both.wait(60)

consumer.start()
threading.Thread(target=work).start()
"""


def test_a_consumer_works_on_while_the_program_has_threads_that_python_waits_for(topic):
    command = [sys.executable, "-c", WORKS_ON, topic.bootstrap, topic.group, topic.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "main has ended\n"
        topic.write(numbers(2))
        _, errors = program.communicate(timeout=120)
    assert program.returncode == 0, errors
    assert "WARNING The program exits while the parallel consumer" in errors
    assert "AssertionError" not in errors
    assert topic.committed() == 2


def test_a_consumer_that_nobody_holds_on_to_works_on(topic, until):
    config = {"bootstrap.servers": topic.bootstrap, "group.id": topic.group, "auto.offset.reset": "earliest"}
    topic.write(numbers(3))
    started = ParallelConsumer(config, [topic.name], topic.seen.add).start()
    topic.consumers.append(started)
    del started
    until(lambda: len(topic.seen) == 3)


def test_a_last_commit_that_is_refused_is_told_by_the_summary_and_the_log(topic, until, caplog):
    topic.write(numbers(20))
    consumer = topic.consumer(commit=Commit(interval=3600)).start()
    until(lambda: len(topic.seen) == 20)
    topic.broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=None)
    summary = consumer.stop()
    (partition,) = summary.not_committed
    assert summary.not_committed == {partition: 20}
    assert summary.committed[partition] == -1
    told = str(summary)
    assert f"; not committed: {partition} up to offset 20 (last error: " in told
    assert "GROUP_AUTHORIZATION_FAILED" in summary.commit_error
    assert [each.levelname for each in caplog.records if told in each.getMessage()] == ["WARNING"]


def test_a_commit_that_was_refused_once_and_then_accepted_is_not_told_by_the_summary(topic, until):
    topic.write(numbers(3))
    topic.broker.faults.fail("OffsetCommit", "UNKNOWN_SERVER_ERROR", times=1)
    with topic.consumer(commit=Commit(interval=0.03)) as consumer:
        until(lambda: topic.committed() == 3)
    summary = consumer.stop()
    assert (summary.not_committed, summary.commit_error) == ({}, None)
    assert "not committed" not in str(summary)


def test_at_most_once_what_a_short_drain_leaves_committed_and_not_run_is_told(topic, until, caplog):
    release = threading.Event()

    def hold(record):
        topic.seen.add(record)
        release.wait(60)

    topic.write(numbers(50))
    consumer = topic.consumer(hold, delivery="at_most_once", concurrency=2, order=Order.NONE).start()
    until(lambda: topic.committed() == 50 and len(topic.seen) == 2)
    summary = consumer.stop(drain=0.0)
    release.set()
    assert (summary.unfinished, summary.lost) == (0, 50)
    assert "0 unfinished; 50 committed but not processed, which at most once does not repeat; " in str(summary)
    assert [each.levelname for each in caplog.records if str(summary) in each.getMessage()] == ["WARNING"]


def test_at_most_once_the_record_that_stops_the_consumer_and_those_behind_it_are_told(topic):
    def refuse(record):
        topic.seen.add(record)
        raise ValueError("no such customer")

    topic.write(numbers(10))
    consumer = topic.consumer(refuse, delivery="at_most_once", order=Order.PARTITION).start()
    with pytest.raises(ConsumerStopped) as stopped:
        consumer.wait(60)
    summary = stopped.value.summary
    assert len(topic.seen) == 1
    # What was not yet committed when it failed runs after a restart.
    assert summary.lost == topic.committed()
    assert summary.lost + summary.unfinished == summary.tally["polled"]
