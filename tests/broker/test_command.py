"""``seamark broker`` as a process: the line that it serves, the signals that end it, one sentence for what is wrong."""

import signal
import subprocess
import sys

import pytest

from tests.support.broker_driver import Client, batch_of

PROGRAM = "from seamark.cli.main import main; main()"


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "broker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def bootstrap_of(process):
    line = process.stdout.readline()
    assert line.startswith("ready bootstrap="), process.stderr.read()
    return line.partition("=")[2].strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_what_it_took_is_there_again(tmp_path, number):
    arguments = ["--listen", "127.0.0.1:0", "--data", str(tmp_path), "-o", "num.partitions=3"]
    for run in range(2):
        with start(*arguments) as process:
            with Client(bootstrap_of(process)) as client:
                if run == 0:
                    client.create_topic("kept", -1)
                    client.produce("kept", batch_of(b"a"), partition=2)
                else:
                    assert client.values("kept", partition=2) == [b"a"]
                process.send_signal(number)
                out, err = process.communicate(timeout=20)
            assert (process.returncode, out, err) == (0, "", "")
        assert (tmp_path / "kept-2" / "clean-shutdown").exists()


def test_several_nodes_are_named_in_the_line():
    with start("--listen", "127.0.0.1:0", "--nodes", "3", "--durability", "commit") as process:
        assert bootstrap_of(process).count(",") == 2
        process.terminate()
        assert process.wait(20) == 0
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "0.0.0.0:0"], "--insecure"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--nodes", "0"], "nodes=0"),
        (["--durability", "maybe"], "os or commit"),
        (["-o", "num.partitions"], "KEY=VALUE"),
        (["-o", "num.partition=1"], "did you mean num.partitions"),
        (["-o", "num.partitions=x"], "whole number"),
        (["--max-versions", "7.0"], "Kafka release"),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence_and_exit_code_2(arguments, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "broker", *arguments], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
