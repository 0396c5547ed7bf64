"""``seamark spark-checkpoint`` on directories as Spark writes them, against both brokers."""

import json
import re
import shlex
from pathlib import Path

import pytest

from seamark import Broker
from seamark.cli.show.durations import time_ms_of
from seamark.client import Consumer, Offset, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.wire.offsets import done_ahead
from tests.support.checkpoints import checkpoint
from tests.support.commands import command_runner


@pytest.fixture
def seamark(capsys, monkeypatch, tmp_path):
    """Runs a command of the spark-checkpoint family, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    run = command_runner(capsys, monkeypatch)
    return lambda *arguments: run("spark-checkpoint", *map(str, arguments))


@pytest.fixture
def topic(kafka_like, admin, fresh_name):
    """Two partitions with ten records each."""
    name = fresh_name("checkpointed")
    admin.create_topics([NewTopic(name, 2, 1)]).raise_if_failed()
    with Producer(bootstrap_servers=kafka_like.bootstrap) as producer:
        for index in range(2):
            producer.send_many(name, [b"x"] * 10, partition=index)
    return name


@pytest.fixture
def directory(tmp_path, topic):
    """Two batches done up to 4 and 6, and a third planned up to 9 and 9."""
    ends = {0: {"0": 1, "1": 2}, 1: {"0": 4, "1": 6}, 2: {"0": 9, "1": 9}}
    return checkpoint(tmp_path, {number: [{topic: end}] for number, end in ends.items()}, done=[0, 1], query="query-7")


def committed(admin, group):
    return admin.list_group_offsets([group])[group]


def test_show_tells_batches_offsets_and_lag(seamark, kafka_like, topic, directory):
    shown = seamark("show", directory, "--bootstrap", kafka_like.bootstrap, "--json")
    found = json.loads(shown.out)
    assert (shown.code, shown.err) == (0, "")
    assert found["query"] == "query-7"
    assert [(each["batch"], each["state"], each["records"]) for each in found["batches"]] == [
        (0, "done", None),
        (1, "done", 7),
        (2, "planned", 8),
    ]
    assert found["batch"] == 1
    nothing_lost = {"lost": 0, "beyond_end": 0}
    assert found["offsets"] == [
        {"source": "0", "topic": topic, "partition": 0, "offset": 4, "log_end": 10, "lag": 6, **nothing_lost},
        {"source": "0", "topic": topic, "partition": 1, "offset": 6, "log_end": 10, "lag": 4, **nothing_lost},
    ]


def test_show_needs_no_cluster(seamark, topic, directory, monkeypatch):
    monkeypatch.delenv("SEAMARK_BOOTSTRAP", raising=False)
    shown = seamark("show", directory, "--batch", 2)
    assert shown.code == 0
    assert "after batch 2 (planned, not done)" in shown.out
    assert "2023-11-14T22:15:20.000Z" in shown.out
    assert [line.split() for line in shown.out.splitlines() if topic in line] == [
        ["0", topic, "0", "9", "-", "-"],
        ["0", topic, "1", "9", "-", "-"],
    ]


def test_a_group_is_set_to_the_last_batch_that_is_done(seamark, kafka_like, admin, topic, directory, fresh_name):
    group = fresh_name("told")
    to_group = ("to-group", directory, group, "--bootstrap", kafka_like.bootstrap)
    dry = seamark(*to_group, "--json")
    assert dry.code == 0
    assert [(row["partition"], row["before"], row["after"], row["skipped"]) for row in json.loads(dry.out)] == [
        (0, None, 4, 4),
        (1, None, 6, 6),
    ]
    assert "nothing was changed" in dry.err
    assert committed(admin, group) == {}

    assert seamark(*to_group, "--plan", "plan.json").code == 0
    applied = seamark(*to_group, "--plan", "plan.json", "--apply")
    assert (applied.code, "2 changed and verified" in applied.err) == (0, True)
    found = committed(admin, group)
    assert {each: offset.offset for each, offset in found.items()} == {
        TopicPartition(topic, 0): 4,
        TopicPartition(topic, 1): 6,
    }
    assert json.loads(found[TopicPartition(topic, 0)].metadata)["query"] == "query-7"

    again = seamark("to-group", directory, group, "--bootstrap", kafka_like.bootstrap)
    assert "nothing to change" in again.err
    # Whoever commits the same offsets keeps what they wrote beside them.
    admin.alter_group_offsets(group, {TopicPartition(topic, 0): Offset(4, "other")}).raise_if_failed()
    assert "nothing to change" in seamark(*to_group).err


def test_what_the_client_is_told_stays_out_of_plans(seamark, kafka_like, directory, fresh_name, tmp_path):
    secret = "t0ps3cret"
    (tmp_path / "client.properties").write_text(f"ssl.truststore.password={secret}\n")
    ran = seamark(
        "to-group", directory, fresh_name("told"), "--apply", "--plan", "plan.json",
        "--bootstrap", kafka_like.bootstrap, "--config", "client.properties", "-o", f"ssl.key.password={secret}",
    )  # fmt: skip
    assert ran.code == 0
    for text in (ran.out, ran.err, (tmp_path / "plan.json").read_text(), (tmp_path / "plan.undo.json").read_text()):
        assert secret not in text


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[: len(text) // 2], "not a plan, or truncated: invalid JSON at line"),
        (lambda text: text.replace('"offset": 4', '"offset": 5'), "the plan was changed after it was made"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "reads version 1"),
        (lambda text: "", "not a plan, or truncated"),
    ],
)
def test_a_damaged_plan_changes_nothing(seamark, kafka_like, admin, directory, fresh_name, tmp_path, damage, words):
    group = fresh_name("damaged")
    to_group = ("to-group", directory, group, "--plan", "plan.json", "--bootstrap", kafka_like.bootstrap)
    assert seamark(*to_group).code == 0
    plan = tmp_path / "plan.json"
    plan.write_text(damage(plan.read_text()))
    refused = seamark(*to_group, "--apply")
    assert (refused.code, words in refused.err, refused.err.count("\n")) == (1, True, 1)
    assert committed(admin, group) == {}


def test_a_group_that_was_set_to_a_checkpoint_is_no_conflict_for_its_query(
    seamark, kafka_like, admin, topic, tmp_path, fresh_name
):
    group = fresh_name("group")
    document = {"seamark": 1, "query": "source-1", "batch": 0, "topics": {topic: {"id": "", "next": {"0": 5}}}}
    directory = checkpoint(tmp_path, {0: [document]}, done=[0], query="query-7")

    assert seamark("to-group", directory, group, "--apply", "--bootstrap", kafka_like.bootstrap).code == 0

    metadata = json.loads(committed(admin, group)[TopicPartition(topic, 0)].metadata)
    assert (metadata["source"], metadata["query"]) == ("source-1", "query-7")


def test_no_group_is_set_ahead_of_the_query(seamark, kafka_like, directory, fresh_name):
    refused = seamark("to-group", directory, fresh_name("g"), "--batch", 2, "--bootstrap", kafka_like.bootstrap)
    assert refused.code == 1
    assert refused.err == ("seamark: batch 2 is planned but not done: a group must not be ahead of the query\n")


def test_an_active_group_is_refused(seamark, kafka_like, admin, topic, directory, fresh_name):
    group = fresh_name("busy")
    with Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=group, client_id="worker") as consumer:
        consumer.subscribe([topic])
        for _ in range(100):
            consumer.poll(0.2)
            if consumer.assignment():
                break
        to_group = ("to-group", directory, group, "--bootstrap", kafka_like.bootstrap)
        shown = seamark(*to_group)
        assert (shown.code, "--apply would be refused: group" in shown.err) == (1, True)
        refused = seamark(*to_group, "--apply")
    assert refused.code == 1
    assert "with 1 member (worker at" in refused.err
    assert refused.err.count("\n") == 1


def test_offsets_of_a_topic_that_was_made_anew_are_refused(seamark, kafka_like, topic, tmp_path, fresh_name):
    if kafka_like.name == "seamark-2.4":
        pytest.skip("brokers of that release know no topic ids")
    ours = {
        "batch": 3,
        "query": "q",
        "seamark": 1,
        "topics": {topic: {"first": {}, "id": "ab" * 16, "next": {"0": 4, "1": 4}}},
    }
    directory = checkpoint(tmp_path, {3: [ours]}, done=[3])
    refused = seamark("to-group", directory, fresh_name("g"), "--bootstrap", kafka_like.bootstrap)
    assert refused.code == 1
    assert f"topic '{topic}' was recreated after the checkpoint" in refused.err


def test_offsets_outside_the_log_are_refused_unless_allowed(seamark, kafka_like, admin, topic, tmp_path, fresh_name):
    directory = checkpoint(tmp_path, {0: [{topic: {"0": 4, "1": 99}}]}, done=[0])
    group = fresh_name("far")
    to_group = ("to-group", directory, group, "--bootstrap", kafka_like.bootstrap, "--apply")
    refused = seamark(*to_group)
    assert refused.code == 1
    assert f"{topic}-1: offset 99 is 89 offsets after the end of the log (0 to 10)" in refused.err
    assert "--clamp" in refused.err
    assert committed(admin, group) == {}
    # A plan that is refused leaves no file that the next attempt would stumble over.
    assert list(tmp_path.glob("seamark-plan-*.json")) == []
    clamped = seamark(*to_group, "--clamp")
    assert (clamped.code, "the end of the log, 10, is used" in clamped.err) == (0, True)
    assert committed(admin, group)[TopicPartition(topic, 1)].offset == 10
    assert seamark(*to_group, "--allow-outside-log").code == 0
    assert committed(admin, group)[TopicPartition(topic, 1)].offset == 99


def test_a_new_query_starts_where_a_group_is(seamark, kafka_like, admin, topic, fresh_name, tmp_path):
    group = fresh_name("source")
    admin.alter_group_offsets(group, {TopicPartition(topic, 1): 3}).raise_if_failed()
    refused = seamark("from-group", group, "--bootstrap", kafka_like.bootstrap)
    assert refused.code == 1
    assert f"has no offset of {topic}-0: give --fallback earliest or latest" in refused.err
    for fallback, start in (("earliest", -2), ("latest", -1)):
        found = seamark("from-group", group, "--fallback", fallback, "--bootstrap", kafka_like.bootstrap)
        assert json.loads(found.out) == {topic: {"0": start, "1": 3}}
    written = seamark(
        "from-group", group, "--topic", topic, "--fallback", "latest", "--out", "start.json",
        "--bootstrap", kafka_like.bootstrap,
    )  # fmt: skip
    assert (written.code, written.out) == (0, "")
    assert json.loads((tmp_path / "start.json").read_text()) == {topic: {"0": -1, "1": 3}}
    # What a parallel consumer has done beyond its offset cannot be said to Spark, so it is said to the user.
    ahead = Offset(3, done_ahead.encode(3, [5, 6, 8]).text)
    admin.alter_group_offsets(group, {TopicPartition(topic, 1): ahead}).raise_if_failed()
    found = seamark("from-group", group, "--fallback", "latest", "--bootstrap", kafka_like.bootstrap)
    assert json.loads(found.out) == {topic: {"0": -1, "1": 3}}
    assert "has done 3 records beyond its committed offsets" in found.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "nowhere"), 1, "no such directory"),
        (("to-group", "nowhere", "g"), 1, "no such directory"),
        (("show", "s3://bucket/x"), 1, "must be a directory on this machine"),
        (("from-group", "g", "--fallback", "first"), 2, "--fallback must be earliest, latest or fail, got 'first'"),
        (("from-group", "g"), 2, "no cluster given"),
        (("from-group", "g", "--bootstrap", "127.0.0.1:1", "-o", "default.api.timeout.ms=300"), 1, "could be reached"),
        (("from-group", "g", "-o", "sasl.password"), 2, "must be KEY=VALUE"),
    ],
)
def test_bad_input_is_answered_with_one_sentence(seamark, monkeypatch, arguments, code, words):
    monkeypatch.delenv("SEAMARK_BOOTSTRAP", raising=False)
    ran = seamark(*arguments)
    assert ran.code == code
    assert words in ran.err
    assert ran.err.startswith("seamark: ")
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_groups_and_topics_that_are_not_there_are_named(seamark, kafka_like, fresh_name):
    server = ("--bootstrap", kafka_like.bootstrap)
    nothing = seamark("from-group", fresh_name("never"), *server)
    assert (nothing.code, "has no committed offsets" in nothing.err) == (1, True)
    missing = seamark("from-group", fresh_name("never"), "--topic", "not-there", *server)
    assert (missing.code, "the cluster has no topic not-there" in missing.err) == (1, True)


def test_the_guide_shows_what_the_commands_print(seamark, tmp_path, monkeypatch):
    """Runs every ``$ seamark`` line of the guide's console blocks, in order, and compares what follows it."""
    ends = {40: (400, 410, 405), 41: (700, 705, 702), 42: (900, 905, 902)}
    checkpoint(
        tmp_path,
        {number: [{"orders": {str(place): end for place, end in enumerate(each)}}] for number, each in ends.items()},
        done=[40, 41],
        query="6f1cf0cd-7c6b-4a55-9c4e-2d2f0c3b9a11",
        first_ms=time_ms_of("2026-11-15T08:13:20Z"),
    )
    guide = (Path(__file__).parents[2] / "docs" / "plans.md").read_text()
    examples = [
        line for block in re.findall(r"```console\n(.*?)```", guide, re.DOTALL) for line in block.split("$ ")[1:]
    ]
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        broker.create_topic("orders", partitions=3)
        for index in range(3):
            producer.send_many("orders", [b"x"] * 1000, partition=index)
        producer.flush(30)
        monkeypatch.setenv("SEAMARK_BOOTSTRAP", broker.bootstrap)
        ran = 0
        for example in examples:
            command, _, expected = example.partition("\n")
            if command.startswith("seamark spark-checkpoint "):
                shown = seamark(*shlex.split(command)[2:])
                assert shown.out + shown.err == expected.rstrip("\n") + "\n"
                ran += 1
    assert ran == 3
