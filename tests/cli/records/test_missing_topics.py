"""Writing to a topic that does not exist, where the cluster creates none: said while it waits, and given up soon."""

import pytest

from seamark import Broker
from seamark.cli.records import topic_waiting
from seamark.client import Admin, Producer
from seamark.client.admin.types import NewTopic
from seamark.parallel.core.dead_letters import Provenance, encode
from seamark.topic_partition import TopicPartition
from tests.support.commands import command_runner
from tests.support.terminal import Screen


@pytest.fixture(scope="module")
def strict_broker():
    settings = {"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def run(strict_broker, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SEAMARK_BOOTSTRAP", strict_broker.bootstrap)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("one\ntwo\n")
    return command_runner(capsys, monkeypatch)


def test_produce_says_what_it_waits_for_and_ends_with_what_to_do(run):
    ran = run("produce", "ghost", "--file", "in", "-o", "max.block.ms=1200")
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "seamark: topic 'ghost' does not exist yet; waiting up to 1.2 s for it",
        "0 records stored in topic 'ghost'",
        "seamark: topic 'ghost' does not exist and was not created within 1.2 s: create it with seamark topics create",
    ]


def test_a_topic_that_is_made_meanwhile_gets_the_records(run, strict_broker, monkeypatch):
    def say_and_make(sentence):
        assert "topic 'late' does not exist yet" in sentence
        strict_broker.create_topic("late")

    monkeypatch.setattr(topic_waiting, "say", say_and_make)
    ran = run("produce", "late", "--file", "in")
    assert (ran.code, ran.err) == (0, "2 records stored in topic 'late'\n")


def test_an_empty_input_asks_for_no_topic(run, tmp_path):
    (tmp_path / "in").write_text("")
    ran = run("produce", "ghost", "--file", "in")
    assert (ran.code, ran.err) == (0, "0 records stored in topic 'ghost'\n")


def test_dead_letters_are_not_put_back_by_halves_where_a_topic_is_missing(run, strict_broker, monkeypatch):
    monkeypatch.setattr(topic_waiting, "PATIENCE_S", 1.2)
    letters = encode(
        Provenance(TopicPartition("gone", 0), 3, 1000, "billing", 5, 2000, "ValueError", "no", "", 0), []
    )  # fmt: skip
    with Admin(bootstrap_servers=strict_broker.bootstrap) as admin:
        admin.create_topics([NewTopic("gone.dead-letters", 1)]).raise_if_failed()
    with Producer(bootstrap_servers=strict_broker.bootstrap) as producer:
        producer.send("gone.dead-letters", b"v", headers=letters)
    ran = run("dead-letters", "replay", "gone.dead-letters", "--apply")
    assert ran.code == 1
    assert "seamark: topic 'gone' does not exist yet; waiting up to 1.2 s for it" in ran.err
    assert ran.out == "0 records replayed; recorded in group seamark-replay.gone.dead-letters\n"


def test_who_types_records_is_told_how_to_end(run, strict_broker, monkeypatch):
    typed = Screen("one\ntwo\n")
    monkeypatch.setattr("sys.stdin", typed)
    strict_broker.create_topic("typed")
    ran = run("produce", "typed")
    assert (ran.code, ran.err) == (
        0,
        "enter one record per line; Ctrl-D ends the input\n2 records stored in topic 'typed'\n",
    )


def test_records_that_nobody_acknowledges_are_waited_for_aloud(run, strict_broker, monkeypatch):
    monkeypatch.setattr(topic_waiting, "FLUSH_SAID_AFTER_S", 0.5)
    strict_broker.create_topic("stuck")
    strict_broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=None)
    try:
        ran = run("produce", "stuck", "--file", "in", "-o", "request.timeout.ms=1000", "-o", "delivery.timeout.ms=1500")
    finally:
        strict_broker.faults.clear()
    first, second, last = ran.err.splitlines()
    assert ran.code == 1
    assert first.startswith("seamark: records are not acknowledged yet; waiting up to 1.5 s")
    assert second == "0 records stored in topic 'stuck'"
    assert "NOT_LEADER_OR_FOLLOWER" in last
