"""Handlers in processes: the same promises, also when a process dies."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from seamark.parallel import Batch, Commit, ConsumerStopped, DeadLetter, Order, Retry, Skip
from seamark.parallel.core.dead_letters import decode as read_dead_letter
from seamark.parallel.observe.status import State
from tests.parallel import process_handlers
from tests.parallel.test_running import key_of, numbers, spread


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes"
    path.touch()
    return path


def lines(notes):
    return [line.split() for line in notes.read_text().splitlines()]


# covers: I9
@pytest.mark.parametrize(
    ("handler", "batch", "order"),
    [
        (process_handlers.note, None, Order.KEY),
        (process_handlers.note_all, Batch(20, wait=0.01), Order.KEY),
        (process_handlers.note_rows, Batch(20, wait=0.01, arrow=True), Order.KEY),
        (process_handlers.note_rows, Batch(20, wait=0.01, arrow=True), Order.PARTITION),
    ],
    ids=["one", "batch", "arrow-key", "arrow-partition"],
)
def test_records_run_in_processes_in_the_order_of_their_keys(topic, until, notes, handler, batch, order):
    topic.write(numbers(300), key_of, spread, headers=[("notes", str(notes).encode())])
    with topic.consumer(handler, run_in="processes", concurrency=2, batch=batch, order=order):
        until(lambda: len(lines(notes)) >= 300, seconds=60)
    found = [int(value) for value, _ in lines(notes)]
    assert sorted(found) == list(range(300))
    by_key = {}
    for value in found:
        by_key.setdefault(value % 7, []).append(value)
    assert all(values == sorted(values) for values in by_key.values())
    assert topic.committed(0) + topic.committed(1) == 300


def test_a_process_that_dies_has_failed_exactly_the_call_it_ran_and_is_replaced(topic, until, notes):
    values = numbers(40)
    values[7:7] = [b"kill", b"hard exit", b"exit", b"strange"]
    topic.write(values, headers=[("notes", str(notes).encode())])
    then = DeadLetter()
    options = {"run_in": "processes", "concurrency": 2, "retry": Retry(attempts=2, delay=0.01), "then": then}
    with topic.consumer(process_handlers.misbehave, commit=Commit(interval=0.05), **options) as consumer:
        until(lambda: topic.committed() == 44, seconds=60)
        tally = consumer.status().tally
    assert (tally["dead_lettered"], tally["failed"]) == (4, 8)
    assert Counter(value for value, _ in lines(notes)) == Counter(value.decode() for value in numbers(40))
    letters = {letter.value: read_dead_letter(letter.headers) for letter in topic.read(f"{topic.name}.dead-letters", 4)}
    assert "SIGKILL" in letters[b"kill"].error
    assert "exited with code 5" in letters[b"hard exit"].error
    assert letters[b"exit"].error_type.endswith("SystemExit")
    assert "lost" in letters[b"strange"].error
    assert "process_handlers.py" in letters[b"strange"].stack


def test_a_handler_that_always_kills_its_process_does_not_loop_for_ever(topic):
    topic.write([b"kill"] * 3, headers=[("notes", b"-")])
    consumer = topic.consumer(
        process_handlers.misbehave,
        run_in="processes",
        concurrency=1,
        retry=Retry(attempts=1),
        then=Skip(max_ratio=0.5, window=2),
    ).start()
    with pytest.raises(ConsumerStopped, match="were given up"):
        consumer.wait(60)


def test_a_handler_that_no_process_can_load_stops_the_consumer_with_the_reason(topic):
    consumer = topic.consumer(process_handlers.HomeLover(), run_in="processes", concurrency=2).start()
    with pytest.raises(ConsumerStopped, match="could not be started: LookupError: this handler stays at home"):
        consumer.wait(60)


def test_a_handler_process_has_no_consumer_to_stop(topic):
    topic.write([b"1"])
    consumer = topic.consumer(process_handlers.stop_a_consumer, run_in="processes", retry=Retry(attempts=1)).start()
    with pytest.raises(
        ConsumerStopped, match=r"stop\(\) was called in a handler process, where this consumer does not"
    ):
        consumer.wait(60)


def test_stopping_lets_processes_end_what_they_run(topic, until, notes):
    topic.write(numbers(60), headers=[("notes", str(notes).encode())])
    consumer = topic.consumer(process_handlers.work_slowly, run_in="processes", concurrency=2).start()
    until(lambda: len(lines(notes)) >= 5, seconds=60)
    summary = consumer.stop()
    assert consumer.status().state is State.STOPPED
    done = len(lines(notes))
    assert summary.tally["done"] == done == len({value for value, _ in lines(notes)})


def test_a_signal_to_the_processes_costs_no_record(topic, until, notes):
    topic.write(numbers(60), headers=[("notes", str(notes).encode())])
    with topic.consumer(process_handlers.work_slowly, run_in="processes", concurrency=2) as consumer:
        until(lambda: len(lines(notes)) >= 5, seconds=60)
        for child in multiprocessing.active_children():
            # One of an earlier test may just have ended.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)
        until(lambda: topic.committed() == 60, seconds=60)
        assert consumer.status().tally["failed"] == 0
    assert len(lines(notes)) == 60


UNGUARDED = """
import sys
from seamark.parallel import ConsumerStopped, ParallelConsumer
from tests.parallel.process_handlers import note

config = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "auto.offset.reset": "earliest"}
try:
    ParallelConsumer(config, [sys.argv[3]], note, run_in="processes", concurrency=1).run()
except ConsumerStopped as stopped:
    sys.exit(str(stopped))
"""


def test_a_program_without_a_guarded_main_part_is_told_so(topic, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(UNGUARDED)
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, program, topic.bootstrap, topic.group, topic.name],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert ended.returncode == 1
    assert "if __name__ == '__main__':" in ended.stderr.splitlines()[-1]
