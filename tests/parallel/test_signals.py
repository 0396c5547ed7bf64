"""A program that runs a parallel consumer ends in order when it is told to."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from seamark.parallel import ConsumerStopped, ParallelConsumer, Retry

def handle(record):
    print("begun", flush=True)
    if record.value == b"poison":
        raise ValueError("cannot be")
    time.sleep(0.4)

consumer = ParallelConsumer(
    {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "auto.offset.reset": "earliest"}, [sys.argv[3]], handle,
    concurrency=1, retry=Retry(attempts=2, delay=0.01),
)
try:
    print(consumer.run())
except ConsumerStopped as stopped:
    sys.exit(str(stopped))
"""


def start(topic):
    command = [sys.executable, "-c", PROGRAM, topic.bootstrap, topic.group, topic.name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# covers: I24
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_record_end_and_commits_it(topic, number):
    topic.write([b"1", b"2", b"3"])
    with start(topic) as program:
        assert program.stdout.readline() == "begun\n"
        program.send_signal(number)
        said, errors = program.communicate(timeout=30)
    assert program.returncode == 0, errors
    assert "stopped on request" in said
    assert 1 <= topic.committed() < 3


def test_a_second_signal_does_not_wait(topic):
    topic.write([b"1"] * 3)
    with start(topic) as program:
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGTERM)
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=30)
    assert program.returncode == 0


def test_a_program_whose_record_cannot_be_processed_ends_with_an_error(topic):
    topic.write([b"poison"])
    with start(topic) as program:
        _, errors = program.communicate(timeout=60)
    assert program.returncode == 1
    assert "offset 0 failed 2 times: ValueError: cannot be" in errors
