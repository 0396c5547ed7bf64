"""``seamark migrate`` as a user runs it: out of ZooKeeper and back, to other groups, killed, disconnected, returned."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from seamark.client import Consumer, Offset, Producer, TopicPartition
from seamark.stores import StoredOffset, ZookeeperStore

SEAMARK = str(Path(sys.executable).with_name("seamark"))
RECORDS = 50


@pytest.fixture(autouse=True)
def in_its_own_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEAMARK_ZOOKEEPER", raising=False)


@pytest.fixture
def topic(clusters, fresh_name):
    name = fresh_name("topic")
    clusters[0].create_topic(name, partitions=3)
    with Producer(bootstrap_servers=clusters[0].bootstrap) as producer:
        for index in range(3):
            producer.send_many(name, [b"x"] * RECORDS, partition=index)
    return name


def committed(admin, group):
    return {each.partition: offset.offset for each, offset in admin.list_group_offsets([group])[group].items()}


def test_offsets_go_from_zookeeper_to_kafka_and_back_again(zookeeper_connect, clusters, admins, topic, run, fresh_name):
    # covers: G6
    group, admin = fresh_name("old"), admins[0]
    offsets = {TopicPartition(topic, index): StoredOffset(10 + index) for index in range(3)}
    connection = ("--zookeeper", zookeeper_connect, "--bootstrap", clusters[0].bootstrap)
    with ZookeeperStore(zookeeper_connect) as store:
        assert not any(store.write(group, offsets).values())
        ran = run("migrate", "zookeeper-to-kafka", "--all", *connection, "--plan", "in.jsonl", "--json")
        assert ran.code == 0, ran.err
        rows = json.loads(ran.out)
        assert [(row["group"], row["from"], row["after"], row["how"]) for row in rows] == [
            (group, 10 + index, 10 + index, "same log") for index in range(3)
        ]
        assert "1 group with 3 offsets, 3 to change" in ran.err
        assert committed(admin, group) == {}
        # The plan knows the addresses.
        ran = run("migrate", "apply", "in.jsonl")
        assert ran.code == 0, ran.err
        assert committed(admin, group) == {0: 10, 1: 11, 2: 12}
        ran = run("migrate", "verify", "in.jsonl")
        assert (ran.code, "3 offsets as planned on both sides" in ran.err) == (0, True)
        ran = run("migrate", "apply", "in.jsonl")
        assert ran.code == 1
        assert "in.jsonl was already applied, groups moved: 1 of 1" in ran.err
        assert run("migrate", "apply", "in.jsonl", "--resume").code == 0
        # The consumers read on with Kafka's offsets; back to ZooKeeper.
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): Offset(40, "note")}).raise_if_failed()
        ran = run("migrate", "verify", "in.jsonl")
        assert ran.code == 1
        assert "the target is at 40, not at 10" in ran.out
        ran = run("migrate", "rollback", "in.jsonl", "--apply")
        assert ran.code == 1
        assert "moved by another client since" in ran.out
        ran = run(
            "migrate", "kafka-to-zookeeper", "--group", group, *connection, "--plan", "out.jsonl", "--apply", "--json"
        )
        assert ran.code == 0, ran.err
        assert [each.offset for each in store.read(group).values()] == [40, 11, 12]
        shown = run("migrate", "show", "out.jsonl")
        assert "its metadata is dropped" in shown.out
        ran = run("migrate", "rollback", "out.jsonl")
        assert "dry run, nothing was changed" in ran.err
        assert run("migrate", "rollback", "out.jsonl", "--apply").code == 0
        assert [each.offset for each in store.read(group).values()] == [10, 11, 12]


def test_nodes_that_are_no_offsets_topics_that_are_gone_and_offsets_outside_the_log_are_named(
    zookeeper_connect, clusters, admins, topic, run, fresh_name
):
    bad, gone, far = fresh_name("bad"), fresh_name("gone"), fresh_name("far")
    connection = ("--zookeeper", zookeeper_connect, "--bootstrap", clusters[0].bootstrap)
    with ZookeeperStore(zookeeper_connect) as store:
        store.write(bad, {TopicPartition(topic, 0): StoredOffset(3)})
        store.write(
            gone, {TopicPartition("no-such-topic", 0): StoredOffset(3), TopicPartition(topic, 9): StoredOffset(1)}
        )
        store.write(far, {TopicPartition(topic, 1): StoredOffset(5000)})
        client = store._session.client
        client.create(f"/consumers/{bad}/offsets/{topic}/1", b"not a number")
        client.create(f"/consumers/{bad}/offsets/{topic}/x", b"5")
        ran = run("migrate", "zookeeper-to-kafka", "--all", *connection, "--plan", "plan.jsonl", "--json")
        assert ran.code == 1, ran.err
        problems = {(row["group"], row["topic"], row["partition"]): row["problem"] or "" for row in json.loads(ran.out)}
        assert "holds 'not a number', which is not an offset" in problems[bad, topic, 1]
        assert "x" in problems[bad, None, None]
        assert "topic 'no-such-topic' does not exist" in problems[gone, "no-such-topic", 0]
        assert "has only 3 partitions" in problems[gone, topic, 9]
        assert "offset 5,000 is 4,950 offsets after the end of the log (0 to 50)" in problems[far, topic, 1]
        assert "3 of them with problems would be held back (--partial moves what can be moved)" in ran.err
        ran = run("migrate", "apply", "plan.jsonl", "--partial", "--zookeeper", f"{zookeeper_connect}/elsewhere")
        assert ran.code == 1
        assert f"the plan is for zookeeper {zookeeper_connect}, not for" in ran.err
        ran = run("migrate", "zookeeper-to-kafka", "--all", *connection, "--topic", "no-such-topic", "--json")
        assert [row["group"] for row in json.loads(ran.out)] == [gone]
        ran = run("migrate", "apply", "plan.jsonl", "--partial", "--json")
    assert ran.code == 1
    assert "2 of 3 groups not moved" in ran.err
    assert {row["group"]: row["result"] for row in json.loads(ran.out)} == {
        bad: "moved", gone: "held back", far: "held back",
    }  # fmt: skip
    assert committed(admins[0], bad) == {0: 3}
    assert committed(admins[0], gone) == {}


def test_a_log_that_moved_after_the_plan_was_made_holds_the_group_back(clusters, admins, topic, run, fresh_name):
    old, new = fresh_name("old"), fresh_name("new")
    where = TopicPartition(topic, 0)
    for group, offset in ((old, 7), (new, 3)):
        admins[0].alter_group_offsets(group, {where: offset}).raise_if_failed()
    move = ("group-to-group", "--group", old, "--to-group", new, "--bootstrap", clusters[0].bootstrap)
    assert run("migrate", *move, "--plan", "plan.jsonl").code == 0
    assert run("migrate", *move, "--plan", "done.jsonl", "--apply").code == 0
    admins[0].alter_group_offsets(new, {where: 3}).raise_if_failed()
    admins[0].delete_records({where: 9}).raise_if_failed()
    ran = run("migrate", "apply", "plan.jsonl")
    assert (ran.code, committed(admins[0], new)) == (1, {0: 3})
    assert f"{where}: offset 7 is 2 offsets before the start of the log (9 to 50); --allow-outside-log sets" in ran.out
    assert run("migrate", "apply", "plan.jsonl", "--allow-outside-log").code == 0
    assert committed(admins[0], new) == {0: 7}
    for more in ((), ("--apply",)):
        ran = run("migrate", "rollback", "plan.jsonl", *more)
        assert (ran.code, committed(admins[0], new)) == (1, {0: 7})
        assert f"{where}: offset 3 is 6 offsets before the start of the log (9 to 50)" in ran.out
    assert run("migrate", "rollback", "plan.jsonl", "--apply", "--allow-outside-log").code == 0
    assert committed(admins[0], new) == {0: 3}


def test_a_dry_run_in_which_nothing_can_be_moved_does_not_say_that_it_would_be(
    clusters, admins, topic, run, fresh_name
):
    old = fresh_name("old")
    admins[0].alter_group_offsets(old, {TopicPartition(topic, 0): 5000}).raise_if_failed()
    ran = run("migrate", "group-to-group", "--group", old, "--to-group", "x", "--bootstrap", clusters[0].bootstrap)
    assert ran.code == 1
    assert "offset 5,000 is 4,950 offsets after the end of the log (0 to 50)" in ran.out
    assert "--apply makes the move" not in ran.err
    assert ran.err.endswith("dry run, nothing was changed: no group would be moved\n")


def test_a_group_is_copied_to_another_name_with_everything_it_has(clusters, admins, topic, run, fresh_name):
    old, new = fresh_name("old"), fresh_name("new")
    where = TopicPartition(topic, 0)
    admins[0].alter_group_offsets(old, {where: Offset(7, "mine", 0)}).raise_if_failed()
    ran = run(
        "migrate", "group-to-group", "--group", old, "--to-group", new, "--bootstrap", clusters[0].bootstrap, "--apply"
    )
    assert ran.code == 0, ran.err
    assert admins[0].list_group_offsets([new])[new] == {where: Offset(7, "mine", 0)}
    (plan,) = Path().glob("seamark-move-*.jsonl")
    assert f"seamark migrate rollback {plan} undoes it" in ran.err
    assert run("migrate", "rollback", str(plan), "--apply").code == 0
    assert committed(admins[0], new) == {}


def test_a_group_that_is_moved_itself_cannot_be_the_target_of_another(clusters, admins, topic, run, fresh_name):
    name = fresh_name("chain")
    where = TopicPartition(topic, 0)
    for group in (name, f"{name}-v2"):
        admins[0].alter_group_offsets(group, {where: 3 if group == name else 9}).raise_if_failed()
    select = ("--pattern", f"{name}.*", "--to-group", "{group}-v2", "--bootstrap", clusters[0].bootstrap)
    ran = run("migrate", "group-to-group", *select, "--apply", "--json")
    assert ran.code == 1
    assert [(row["result"], row["reason"]) for row in json.loads(ran.out)] == [
        ("held back", f"group '{name}-v2' is also a source of this move: move it first, separately"),
        ("moved", None),
    ]
    assert (committed(admins[0], f"{name}-v2"), committed(admins[0], f"{name}-v2-v2")) == ({0: 9}, {0: 9})


def test_a_running_source_group_is_held_back_unless_that_is_wanted(clusters, admins, topic, run, fresh_name):
    old, new = fresh_name("old"), fresh_name("new")
    arguments = ("--group", old, "--to-group", new, "--bootstrap", clusters[0].bootstrap, "--apply")
    with Consumer(
        bootstrap_servers=clusters[0].bootstrap, group_id=old, client_id="still-here", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        while not consumer.poll(0.2):
            pass
        consumer.commit()
        ran = run("migrate", "group-to-group", *arguments, "--plan", "a.jsonl")
        assert ran.code == 1
        assert "still-here" in ran.out
        assert committed(admins[0], new) == {}
        ran = run("migrate", "group-to-group", *arguments, "--plan", "b.jsonl", "--allow-active-source")
        assert ran.code == 0, ran.err
    assert committed(admins[0], new)


def test_a_topic_made_anew_since_the_plan_holds_its_groups_back(clusters, admins, run, fresh_name):
    name, old = fresh_name("topic"), fresh_name("old")
    clusters[0].create_topic(name)
    admins[0].alter_group_offsets(old, {TopicPartition(name, 0): 0}).raise_if_failed()
    select = ("--group", old, "--to-group", f"{old}-2", "--bootstrap", clusters[0].bootstrap, "--plan", "p.jsonl")
    assert run("migrate", "group-to-group", *select).code == 0
    clusters[0].faults.recreate_topic(name)
    ran = run("migrate", "apply", "p.jsonl")
    assert ran.code == 1
    assert "was recreated since the plan was made" in ran.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--all", "--group", "a"], "exactly one of --group NAME, --pattern REGEX and --all is required"),
        ([], "exactly one of --group NAME, --pattern REGEX and --all is required"),
        (["--pattern", "("], "--pattern '(' is not a regular expression"),
        (["--all", "--to-group", "one"], "is one name for several groups"),
        (["--group", "a"], "source and target are the same groups"),
        (["--group", "a", "--to-group", "b", "--resume"], "--resume needs --plan FILE --apply"),
        (["--group", "a", "--to-group", "b"], "no cluster given"),
    ],
)
def test_a_mistake_in_the_call_is_one_sentence(run, arguments, reason):
    ran = run("migrate", "group-to-group", *arguments)
    assert ran.code == 2
    assert reason in ran.err
    assert len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["apply", "verify", "rollback", "show"])
def test_a_plan_that_is_not_there_is_one_sentence(run, command):
    ran = run("migrate", command, "nothing.jsonl")
    assert (ran.code, ran.err) == (1, "seamark: nothing.jsonl: no such plan\n")


def test_a_zookeeper_that_does_not_answer_is_one_sentence(run, clusters, monkeypatch):
    monkeypatch.setattr("seamark.stores.ZookeeperStore", lambda address, **_: ZookeeperStore(address, timeout=1.0))
    ran = run(
        "migrate", "zookeeper-to-kafka", "--all", "--zookeeper", "127.0.0.1:1", "--bootstrap", clusters[0].bootstrap
    )
    assert ran.code == 1
    assert ran.err.startswith("seamark: zookeeper 127.0.0.1:1")


def many(admin, topic, prefix, count):
    wanted = {}
    for number in range(count):
        offsets = {TopicPartition(topic, index): (number + index) % RECORDS for index in range(3)}
        admin.alter_group_offsets(f"{prefix}-{number:04}", offsets, look_first=False).raise_if_failed()
        wanted[f"{prefix}-{number:04}"] = {each.partition: offset for each, offset in offsets.items()}
    return wanted


def test_a_connection_lost_in_the_middle_is_reported_and_the_rest_is_done_later(
    clusters, admins, topic, run, fresh_name
):
    prefix = fresh_name("lost")
    wanted = many(admins[0], topic, prefix, 8)
    select = ("--pattern", f"{prefix}-.*", "--to-group", "{group}-new", "--plan", "lost.jsonl")
    patience = ("--bootstrap", clusters[0].bootstrap, "-o", "default.api.timeout.ms=1500")
    assert run("migrate", "group-to-group", *select, *patience).code == 0
    node = clusters[0].nodes[0]
    node.slow(0.1)
    stopper = threading.Timer(0.9, node.stop)
    stopper.start()
    try:
        ran = run("migrate", "apply", "lost.jsonl", *patience)
    finally:
        stopper.join()
        node.start()
        node.slow(0)
    assert ran.code == 1
    # On a slow machine the client also warns that the node has been unreachable for a while.
    assert len([line for line in ran.err.splitlines() if "has been unreachable" not in line]) == 1
    ran = run("migrate", "apply", "lost.jsonl", "--resume")
    assert ran.code == 0, ran.err
    assert {group: committed(admins[0], f"{group}-new") for group in wanted} == wanted


def test_a_move_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    clusters, admins, topic, run, fresh_name, tmp_path
):
    chance = random.Random(4)
    prefix = fresh_name("killed")
    wanted = many(admins[0], topic, prefix, 60)
    select = ("--pattern", f"{prefix}-....", "--to-group", "{group}-new", "--bootstrap", clusters[0].bootstrap)
    assert run("migrate", "group-to-group", *select, "--plan", "killed.jsonl").code == 0
    slow = clusters[0].faults.delay("OffsetCommit", 0.03)
    try:
        for _ in range(3):
            journal = tmp_path / "killed.journal"
            seen = journal.stat().st_size if journal.exists() else 0
            process = subprocess.Popen(
                [SEAMARK, "migrate", "apply", "killed.jsonl", "--resume"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
            )  # fmt: skip
            while process.poll() is None and (not journal.exists() or journal.stat().st_size <= seen):
                time.sleep(0.005)
            time.sleep(chance.random() * 0.1)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        slow.remove()
    ran = run("migrate", "apply", "killed.jsonl", "--resume")
    assert ran.code == 0, ran.err
    assert {group: committed(admins[0], f"{group}-new") for group in wanted} == wanted
    assert run("migrate", "verify", "killed.jsonl").code == 0
