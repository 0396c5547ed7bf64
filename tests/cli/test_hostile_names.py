"""Whatever groups, clients and records are called: each command shows it in its lines, and JSON has it exactly."""

import json
import logging

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, Offset, Producer, TopicPartition
from seamark.parallel.core.dead_letters import Provenance, encode
from tests.support.terminal import seen_by_a_person

EVIL = "../../etc/x\x1b[2J\x9b31m\u202e\u200b\u2028\r\nseamark: all is well\x07<b>'"
FORMULA = "=HYPERLINK(1)"
FAR_MS = 2**60


@pytest.fixture(scope="module")
def cluster():
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders")
        broker.create_topic("orders.dead-letters")
        told = Provenance(
            TopicPartition(EVIL, 0), 3, FAR_MS, EVIL, 5, FAR_MS, EVIL, EVIL, f"Traceback\n{EVIL}", 0
        )  # fmt: skip
        letter = encode(told, [(EVIL, EVIL.encode()), ("binary", b"\xff\x9b")])
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(3):
                producer.send("orders", EVIL.encode(), key=EVIL.encode(), headers=[(EVIL, EVIL.encode())])
            producer.send("orders", b"\x9b\xff", key=b"\x1b]0;title\x07")
            producer.send("orders.dead-letters", EVIL.encode(), key=EVIL.encode(), headers=letter)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            for group in (EVIL, FORMULA):
                admin.alter_group_offsets(group, {TopicPartition("orders", 0): Offset(1, EVIL)}).raise_if_failed()
        with Consumer(
            bootstrap_servers=broker.bootstrap, group_id="members", client_id=EVIL, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.1)
            yield broker


def is_plain(text):
    return all(each.isprintable() or each in "\n\t" for each in text)


COMMANDS = [
    ["groups", "list"],
    ["groups", "describe", "--all", "--more"],
    ["groups", "members", "members"],
    ["groups", "reset", EVIL, "--to", "earliest", "--plan", "plan.json"],
    ["groups", "delete", EVIL],
    ["groups", "describe", "nobody" + EVIL],
    ["groups", "export", "--all"],
    ["lag"],
    ["lag", "--partitions"],
    ["topics", "describe", "orders", EVIL],
    ["topics", "list"],
    ["consume", "orders"],
    ["consume", EVIL],
    ["dead-letters", "list"],
    ["dead-letters", "show", "orders.dead-letters"],
    ["dead-letters", "replay", "orders.dead-letters"],
    ["dead-letters", "replay", "orders.dead-letters", "--to", EVIL],
    ["migrate", "group-to-group", "--group", EVIL, "--to-group", "{group}2", "--plan", "move.jsonl"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).partition("..")[0])
def test_no_character_of_a_name_reaches_the_screen_that_is_not_printable(run, words):
    ran = run(*words)
    assert is_plain(ran.out + ran.err)
    assert "seamark: all is well" not in [line.strip() for line in (ran.out + ran.err).splitlines()]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).partition("..")[0])
def test_json_and_the_files_that_commands_write_show_none_either(run, words, tmp_path):
    ran = run(*words, "--json") if "export" not in words else run(*words)
    assert is_plain(ran.out + ran.err)
    if words[0] == "consume" and not ran.code:
        first = json.loads(ran.out.splitlines()[0])
        assert (first["key"], first["value"], first["headers"]) == (EVIL, EVIL, [[EVIL, EVIL]])
    elif not ran.code and ran.out and words[:2] != ["groups", "delete"]:
        json.loads(ran.out)
    # What a group is called is no path: files are those that were named.
    assert {each.name for each in tmp_path.iterdir()} <= {"plan.json", "move.jsonl"}
    assert all(is_plain(each.read_text()) for each in tmp_path.iterdir())


def test_a_name_that_a_spreadsheet_would_compute_is_a_text_in_csv(run):
    for words in (["groups", "describe", "--all", "--csv"], ["groups", "export", "--all", "--csv"]):
        ran = run(*words)
        assert f"'{FORMULA}" in ran.out
        assert f"\n{FORMULA}" not in f"\n{ran.out}"


def test_an_export_as_csv_is_exact_in_a_file_and_readable_on_a_screen(run, cluster, monkeypatch, tmp_path):
    assert run("groups", "export", EVIL, "--csv", "--out", "offsets.csv").code == 0
    assert EVIL in (tmp_path / "offsets.csv").read_bytes().decode()
    seen = seen_by_a_person(["groups", "export", EVIL, "--csv"], 200, monkeypatch)
    assert is_plain(seen.text)


def test_a_broker_logs_a_clients_names_in_lines_of_their_own(cluster, caplog):
    caplog.set_level(logging.DEBUG, "seamark")
    with Consumer(bootstrap_servers=cluster.bootstrap, group_id=EVIL, client_id=EVIL) as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("seamark")]
    assert any("all is well" in line for line in lines)
    assert all(line.isprintable() for line in lines)
