"""The example programs, run as programs against every broker: what they print, commit, lose and repeat."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import BrokerError

EXAMPLES = Path(__file__).parents[2] / "examples"
# The others have tests of their own: what these share, and the raw protocol.
OTHERS = ("program.py", "raw_offsets.py", "raw_protocol.py")
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in OTHERS)
PARTITIONS, EACH = 3, 10


def start(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    try:
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    return process.returncode, out, err


def run(name, *arguments):
    return finish(start(name, *arguments))


def load(name):
    """An example as a module, with the folder of the examples where a program finds it."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))
    return module


@pytest.fixture
def topic(admin, kafka_like, fresh_name):
    name = fresh_name("events")
    admin.create_topics([NewTopic(name, PARTITIONS, 1)]).raise_if_failed()
    fill(kafka_like.bootstrap, name, PARTITIONS)
    return name


def fill(bootstrap, topic, partitions, start=0, each=EACH):
    with Producer(bootstrap_servers=bootstrap, key=str, value=str) as producer:
        for number in range(start, start + each):
            for partition in range(partitions):
                producer.send(topic, f"value {number}", key=f"key {number}", partition=partition)


def committed(admin, group):
    return {partition: each.offset for partition, each in admin.list_group_offsets([group])[group].items()}


# covers: I8, I9, I19, I20, I21, I22, I23, I24
def test_programs_read_everything_and_commit_it(kafka_like, admin, topic, fresh_name):
    """All at once, each in a group of its own: most of their time is waiting."""
    all_records, everywhere = PARTITIONS * EACH, {TopicPartition(topic, index): EACH for index in range(PARTITIONS)}
    names = [
        "commit_per_partition.py",
        "commit_per_partition_and_automatically.py",
        "async_commits.py",
        "consumer_per_thread.py",
        "decoupled_processing.py",
    ]
    groups = {name: fresh_name("group") for name in names}
    running = {
        name: start(
            name, "--bootstrap", kafka_like.bootstrap, "--topic", topic, "--group", groups[name],
            "--records", all_records, "--idle", 60,
        )
        for name in names
    }  # fmt: skip
    printed = {}
    for name, process in running.items():
        code, printed[name], err = finish(process)
        assert (code, err) == (0, ""), name
        read = re.findall(rf"{topic}-(\d) offset=(\d+)", printed[name])
        assert sorted(read) == [(str(p), str(n)) for p in range(PARTITIONS) for n in range(EACH)], name
        assert committed(admin, groups[name]) == everywhere, name
    for name in ("commit_per_partition.py", "commit_per_partition_and_automatically.py"):
        assert f"{topic}-0 offset=3 key=key 3 value=value 3\n" in printed[name]
        for partition in range(PARTITIONS):
            assert f"{topic}-{partition} committed={EACH}\n" in printed[name]
            lines = [line for line in printed[name].splitlines() if line.startswith(f"{topic}-{partition} ")]
            assert "offset=9" in lines[-2], "a partition is committed behind the last record that was printed"
    assert printed["async_commits.py"].endswith("the last commit was acknowledged\nclosed\n")
    assert "30 records were read by 3 threads" in printed["consumer_per_thread.py"]
    assert printed["decoupled_processing.py"].endswith("30 records were processed\n")
    assert len(set(re.findall(r"^worker_\d+", printed["decoupled_processing.py"], re.MULTILINE))) > 1


# covers: I2, I3, I4
def test_where_the_commit_stands_decides_what_a_crash_costs(kafka_like, admin, fresh_name):
    """Offsets 0 to 9 polled, a crash behind offset 6: 7 to 9 are lost, or 0 to 9 are read again."""
    topics = {name: fresh_name("crash") for name in ("at_most_once.py", "at_least_once.py")}
    for topic in topics.values():
        admin.create_topics([NewTopic(topic, 1, 1)]).raise_if_failed()
        fill(kafka_like.bootstrap, topic, 1)

    def run_both(**options):
        common = ["--bootstrap", kafka_like.bootstrap, "--idle", 60]
        more = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        running = {
            name: start(name, *common, "--topic", topic, "--group", f"group-{topic}", *more)
            for name, topic in topics.items()
        }
        return {name: finish(process) for name, process in running.items()}

    for name, (code, out, err) in run_both(crash_after=7).items():
        assert (code, err) == (70, ""), name
        assert re.findall(r"offset=(\d+)", out) == [str(number) for number in range(7)], name
    for topic in topics.values():
        fill(kafka_like.bootstrap, topic, 1, start=10, each=10)
    again = {"at_most_once.py": range(10, 20), "at_least_once.py": range(20)}
    for name, expected in again.items():
        topic = topics[name]
        code, out, err = run(
            name, "--bootstrap", kafka_like.bootstrap, "--topic", topic, "--group", f"group-{topic}",
            "--records", len(expected), "--idle", 60,
        )  # fmt: skip
        assert (code, err) == (0, ""), name
        assert re.findall(r"offset=(\d+)", out) == [str(number) for number in expected], name


# covers: I23
def test_the_consumer_is_closed_even_if_the_last_commit_fails(capsys):
    example, program = load("async_commits"), load("program")
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("events")
        fill(broker.bootstrap, "events", 1)
        consumer = Consumer(
            bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False, auto_offset_reset="earliest"
        )
        broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=None)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            example.consume(consumer, ["events"], program.End(EACH, 30))
        assert consumer.is_closed
        out = capsys.readouterr().out
        assert out.endswith("closed\n")
        assert "acknowledged" not in out
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert admin.describe_groups(["g"])["g"].members == ()


# covers: I23
@pytest.mark.parametrize(
    ("shape", "stored"), [("consume", 3), ("consume_and_lose", 10)], ids=["what_was_processed", "all_of_the_batch"]
)
def test_a_failure_goes_to_the_handler_and_the_last_commit_stores(shape, stored, capsys, monkeypatch):
    """Offsets 0 to 2 of ten are processed, the next one fails: the usual shape loses 3 to 9."""
    example, program = load("async_commits"), load("program")
    processed = []

    def process(record):
        if record.offset == 3:
            raise ValueError("offset 3 is too much")
        processed.append(record.offset)

    monkeypatch.setattr(example, "process", process)
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("events")
        fill(broker.bootstrap, "events", 1)
        settings = {"bootstrap_servers": broker.bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        consumer = Consumer(**settings, enable_auto_commit=False)
        getattr(example, shape)(consumer, ["events"], program.End(EACH, 30))
        printed = capsys.readouterr()
        assert printed.err == "reading ended: offset 3 is too much\n"
        assert printed.out == "the last commit was acknowledged\nclosed\n"
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert committed(admin, "g") == {TopicPartition("events", 0): stored}
    assert processed == [0, 1, 2]


def test_a_program_ends_when_nothing_comes_and_says_what_is_wrong_in_one_sentence():
    with Broker() as broker:
        broker.create_topic("empty")
        waiting = start("commit_per_partition.py", "--bootstrap", broker.bootstrap, "--topic", "empty", "--idle", 0.5)
        wrong = {
            ("--records", "none"): "argument --records: none is not a whole number from 1 on",
            ("--idle", "-1"): "argument --idle: -1 is not a number above 0",
            ("--colour", "red"): "unrecognized arguments: --colour red",
            ("--bootstrap", "nowhere"): "bootstrap.servers",
        }
        refused = {arguments: start("at_least_once.py", *arguments) for arguments in wrong}
        for arguments, process in refused.items():
            code, out, err = finish(process)
            assert code in (1, 2)
            assert out == ""
            assert err.startswith("at_least_once.py: ")
            assert wrong[arguments] in err
            assert err.count("\n") == 1
        assert finish(waiting)[0] == 0


def test_every_program_says_what_it_is_for():
    assert len(PROGRAMS) >= 7
    for name, process in {name: start(name, "--help") for name in PROGRAMS}.items():
        code, out, err = finish(process)
        assert (code, err) == (0, ""), name
        assert "--bootstrap" in out
