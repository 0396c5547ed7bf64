"""``seamark dead-letters``: letters of a real consumer are listed, shown and put back, each of them once."""

import contextlib
import json
import subprocess
import sys
import threading
from random import Random
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from seamark.cli.dead_letters.reading import Letter, open_reader
from seamark.cli.dead_letters.replay import (
    GroupInUse,
    NotRemembered,
    Plan,
    Wanted,
    apply_plan,
    check_memory,
    make_plan,
    only_member,
)
from seamark.cli.main import app
from seamark.client import Admin, Consumer, Producer
from seamark.client.admin.types import NewTopic
from seamark.errors import SeamarkError, UsageError
from seamark.parallel import DeadLetter, Retry
from seamark.parallel.core.dead_letters import Provenance, Replay, encode
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import DoneAhead, decode

NOW_MS = 1_763_200_000_000


def run(bootstrap, *arguments):
    result = CliRunner().invoke(app, ["dead-letters", *arguments, "--bootstrap", bootstrap])
    if isinstance(result.exception, SeamarkError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(bootstrap, *arguments):
    return json.loads(run(bootstrap, *arguments, "--json"))


@pytest.fixture
def letters(our_broker, fresh_name):
    """A source topic and a dead-letter topic of two partitions with ten letters, five in each."""
    source = fresh_name("letters")
    dead = f"{source}.dead-letters"
    bootstrap = our_broker.bootstrap
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(source, 2), NewTopic(dead, 2)]).raise_if_failed()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            kind = "builtins.ValueError" if number < 6 else "shop.OutOfStock"
            place = TopicPartition(source, number % 2)
            provenance = Provenance(
                place, number, NOW_MS, "billing", 5, NOW_MS + number * 1000, kind, f"no {number}", "stack\n  line", 0
            )
            headers = encode(provenance, [("trace", b"abc"), ("raw", b"\xff")])
            producer.send(dead, b"value %d" % number, key=b"key %d" % number, partition=number % 2, headers=headers)
        producer.flush()
    return bootstrap, source, dead


def records_of(bootstrap, topic):
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        wanted = sum(consumer.end_offsets(partitions).values())
        consumer.assign(partitions)
        found = []
        for _ in range(200):
            if len(found) >= wanted:
                break
            found += consumer.poll(0.1)
    return sorted(found, key=lambda record: record.value)


def test_list_counts_letters_by_topic_and_error_with_their_time_span(letters):
    bootstrap, source, dead = letters
    rows = [row for row in run_json(bootstrap, "list") if row["topic"] == dead]
    assert rows == [
        {
            "topic": dead,
            "error_type": "builtins.ValueError",
            "letters": 6,
            "sources": source,
            "first": "2025-11-15T09:46:40Z",
            "last": "2025-11-15T09:46:45Z",
        },
        {
            "topic": dead,
            "error_type": "shop.OutOfStock",
            "letters": 4,
            "sources": source,
            "first": "2025-11-15T09:46:46Z",
            "last": "2025-11-15T09:46:49Z",
        },
    ]
    assert "shop.OutOfStock" in run(bootstrap, "list", dead)


def test_show_tells_where_a_letter_came_from_why_it_failed_and_what_is_in_it(letters):
    bootstrap, source, dead = letters
    told = run_json(bootstrap, "show", dead, "--at", "1:2")
    assert (told["source_topic"], told["source_partition"], told["source_offset"]) == (source, 1, 5)
    assert (told["attempts"], told["group"], told["replays"]) == (5, "billing", 0)
    assert (told["error_type"], told["error"], told["stack"]) == ("builtins.ValueError", "no 5", "stack\n  line")
    assert (told["key"], told["value"]) == ("key 5", "value 5")
    assert told["headers"] == [["trace", "abc"], ["raw", "0xff"]]
    newest = run(bootstrap, "show", dead)
    assert "stack:\n    stack\n      line" in newest
    assert "header trace: abc" in newest


def test_replay_is_a_dry_run_until_it_is_applied_and_then_happens_once(letters):
    bootstrap, source, dead = letters
    assert "10 records would be replayed; nothing was written" in run(bootstrap, "replay", dead)
    assert records_of(bootstrap, source) == []
    assert "10 records replayed" in run(bootstrap, "replay", dead, "--apply")
    found = records_of(bootstrap, source)
    assert [record.value for record in found] == [b"value %d" % number for number in range(10)]
    assert found[3].key == b"key 3"
    assert found[3].headers == (("trace", b"abc"), ("raw", b"\xff"), ("seamark-dead-letter-replays", b"1"))
    assert "nothing to replay" in run(bootstrap, "replay", dead, "--apply")
    assert len(records_of(bootstrap, source)) == 10


def test_what_a_filter_left_out_can_be_put_back_later_and_the_rest_is_not_repeated(letters):
    bootstrap, source, dead = letters
    told = run_json(bootstrap, "replay", dead, "--error", "OutOfStock", "--apply")
    assert (told["put_back"], told["left_out"]) == (4, {"excluded by a filter": 6})
    with Consumer(bootstrap_servers=bootstrap, group_id=told["group"]) as consumer:
        committed = consumer.committed([TopicPartition(dead, 0)])[TopicPartition(dead, 0)]
    assert committed.offset == 0
    assert list(decode(committed.metadata, 0)) == [3, 4]
    assert run_json(bootstrap, "replay", dead, "--key", "key 1", "--apply")["put_back"] == 1
    assert run_json(bootstrap, "replay", dead, "--source", f"{source}-0", "--limit", "2", "--apply")["put_back"] == 2
    assert run_json(bootstrap, "replay", dead, "--until", "2025-11-15T09:46:44Z", "--apply")["put_back"] == 1
    assert run_json(bootstrap, "replay", dead, "--apply")["put_back"] == 2
    values = [record.value for record in records_of(bootstrap, source)]
    assert values == [b"value %d" % number for number in range(10)]


def test_a_refused_commit_says_how_many_were_put_back_and_the_next_replay_repeats_them(our_broker, letters):
    bootstrap, source, dead = letters
    fault = our_broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=1)
    with pytest.raises(NotRemembered, match=r"^10 records replayed, but the commit to group .* was refused: .*"):
        run(bootstrap, "replay", dead, "--apply")
    assert fault.hits == 1
    assert len(records_of(bootstrap, source)) == 10
    # At least once: what is not remembered comes again.
    assert run_json(bootstrap, "replay", dead, "--apply")["put_back"] == 10
    assert run_json(bootstrap, "replay", dead, "--apply")["put_back"] == 0


def test_a_replay_does_nothing_while_its_group_has_another_member(letters):
    bootstrap, source, dead = letters
    with (
        only_member({"bootstrap.servers": bootstrap}, f"seamark-replay.{dead}", dead),
        pytest.raises(GroupInUse, match=r"has 1 other member. Another replay is running"),
    ):
        run(bootstrap, "replay", dead, "--apply")
    assert records_of(bootstrap, source) == []
    assert run_json(bootstrap, "replay", dead, "--apply")["put_back"] == 10


def test_of_replays_at_the_same_time_at_most_one_puts_letters_back(letters):
    bootstrap, source, dead = letters
    at_once = threading.Barrier(3)

    def replay():
        at_once.wait(60)
        with (
            contextlib.suppress(GroupInUse),
            only_member({"bootstrap.servers": bootstrap}, "g", dead) as member,
            open_reader({"bootstrap.servers": bootstrap}, "g") as reader,
            Producer(bootstrap_servers=bootstrap) as producer,
        ):
            plan = make_plan(reader, dead, Wanted(), to=None, limit=0)
            apply_plan(member, producer, plan, lambda done, remembered: None, group="g")

    threads = [threading.Thread(target=replay) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(records_of(bootstrap, source)) in (0, 10)


def test_replay_can_go_elsewhere_but_not_round_in_circles(letters, fresh_name):
    bootstrap, source, dead = letters
    other = fresh_name("elsewhere")
    assert run_json(bootstrap, "replay", dead, "--to", other, "--apply")["put_back"] == 10
    assert len(records_of(bootstrap, other)) == 10
    assert records_of(bootstrap, source) == []
    with pytest.raises(UsageError, match="would come back to it"):
        run(bootstrap, "replay", dead, "--to", dead, "--group", "another")


def test_letters_of_others_and_those_that_failed_too_often_are_left_out_and_counted(our_broker, fresh_name):
    bootstrap, source = our_broker.bootstrap, fresh_name("mixed")
    dead = f"{source}.dead-letters"
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(dead, b"no headers", key=b"a")
        often = Provenance(TopicPartition(source, 0), 1, 0, "g", 1, 0, "E", "", "", replays=5)
        producer.send(dead, b"often", key=b"b", headers=encode(often, []))
        producer.flush()
    told = run_json(bootstrap, "replay", dead, "--apply")
    assert told["put_back"] == 0
    assert told["left_out"] == {
        "not written as a dead letter by Seamark": 1,
        "replayed 5 times already; --max-replays allows more": 1,
    }
    assert run_json(bootstrap, "replay", dead, "--max-replays", "9", "--apply")["put_back"] == 1
    assert run_json(bootstrap, "list", dead)[0]["error_type"] in ("(no provenance)", "E")


def test_more_replays_than_can_be_remembered_are_refused_before_any_is_made():
    place = TopicPartition("orders.dead-letters", 0)
    plan = Plan(known={place: DoneAhead(0)}, waiting={place: list(range(60_000))}, ends={place: 60_000})
    random = Random(3)
    for offset in range(1, 60_000):
        if random.random() < 0.5:
            record = SimpleNamespace(topic=place.topic, partition=0, offset=offset)
            plan.chosen.append((Letter(record, None), Replay("orders", [])))
    with pytest.raises(UsageError, match="too scattered to be recorded"):
        check_memory(plan)
    plan.chosen = plan.chosen[:1000]
    check_memory(plan)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "no-such-topic"], "there is no topic 'no-such-topic'"),
        (["show", "{dead}", "--at", "17"], "must be PARTITION:OFFSET"),
        (["show", "{dead}", "--at", "9:0"], "has no partition 9"),
        (["show", "{dead}", "--at", "0:99"], "there is no record at"),
        (["replay", "{dead}", "--limit", "-1"], "--limit must be >= 0"),
        (["replay", "{dead}", "--since", "yesterday"], "is not a time"),
    ],
)
def test_wrong_input_is_one_sentence(letters, arguments, sentence):
    bootstrap, _, dead = letters
    with pytest.raises(SeamarkError, match=sentence):
        run(bootstrap, *(argument.format(dead=dead) for argument in arguments))


def test_the_command_exits_with_its_code_and_one_sentence():
    statement = "from seamark.cli.main import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", statement, "dead-letters", "list"], capture_output=True, text=True, timeout=60, env={}
    )
    assert result.returncode == 2
    assert result.stderr == "seamark: no cluster given: use --bootstrap HOST:PORT or set SEAMARK_BOOTSTRAP\n"


# covers: I3
def test_letters_of_a_parallel_consumer_are_put_back_and_processed_when_the_handler_is_mended(any_topic, until):
    is_broken = [True]

    def handle(record):
        if is_broken[0] and record.value in (b"2", b"5"):
            raise ValueError("broken")
        any_topic.seen.add(record)

    any_topic.write([b"%d" % number for number in range(8)])
    consumer = any_topic.consumer(handle, retry=Retry(attempts=2, delay=0.0), then=DeadLetter(max_ratio=None))
    with consumer:
        until(lambda: consumer.status().tally["dead_lettered"] == 2)
        dead = f"{any_topic.name}.dead-letters"
        told = run_json(any_topic.bootstrap, "show", dead)
        assert (told["attempts"], told["error"], told["source_topic"]) == (2, "broken", any_topic.name)
        assert "test_dead_letters_command.py" in told["stack"]
        is_broken[0] = False
        assert run_json(any_topic.bootstrap, "replay", dead, "--apply")["put_back"] == 2
        until(lambda: len(any_topic.seen) == 8)
    assert sorted(any_topic.seen.values) == [b"%d" % number for number in range(8)]
