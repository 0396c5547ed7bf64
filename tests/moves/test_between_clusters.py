"""Offsets moved to another cluster: by number where the logs are equal, by time where they are not."""

import json
import time

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, Offset, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.moves.record_points import CONSUMER_SETTINGS, read_points
from seamark.wire.offsets import done_ahead
from tests.support.produced import produce

RECORDS = 40
BEGAN_MS = int(time.time() * 1000) - 86_400_000


def values(count=RECORDS, first=0):
    return [f"record {number}".encode() for number in range(first, first + count)]


@pytest.fixture
def move(run, clusters):
    """Runs the move of one group with further options, as JSON rows."""

    def moved(group, *options):
        ran = run(
            "migrate", "cluster-to-cluster", "--group", group, "--bootstrap", clusters[0].bootstrap,
            "--to-bootstrap", clusters[1].bootstrap, "--json", *options,
        )  # fmt: skip
        return ran, json.loads(ran.out) if ran.out else []

    return moved


@pytest.fixture(autouse=True)
def in_its_own_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def topic(fresh_name):
    return fresh_name("topic")


def committed(admin, group):
    return admin.list_group_offsets([group])[group]


def make(broker, topic, partitions=1, records=RECORDS, *, first=0, junk=0, began_ms=BEGAN_MS):
    """The topic with records in batches of ten, ten seconds apart; ``junk`` others come first, an hour older."""
    broker.create_topic(topic, partitions=partitions)
    for index in range(partitions):
        where = TopicPartition(topic, index)
        if junk:
            produce(broker.bootstrap, where, [b"junk"] * junk, began_ms - 3_600_000)
        for number in range(first, first + records, 10):
            chunk = values(min(10, first + records - number), number)
            produce(broker.bootstrap, where, chunk, began_ms + number * 1000)


def test_in_equal_logs_the_number_and_the_metadata_stay(clusters, admins, topic, move, fresh_name):
    for broker in clusters:
        make(broker, topic, partitions=2)
    group = fresh_name("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admins[0].alter_group_offsets(group, {first: Offset(17, "mine"), second: 40}).raise_if_failed()
    ran, rows = move(group)
    assert ran.code == 0
    assert [(row["from"], row["before"], row["after"], row["how"]) for row in rows] == [
        (17, None, 17, "equal logs"), (40, None, 40, "equal logs"),
    ]  # fmt: skip
    assert "of 40 records compared" in rows[0]["note"]
    assert committed(admins[1], group) == {}
    ran, rows = move(group, "--apply", "--plan", "equal.jsonl")
    assert (ran.code, [row["result"] for row in rows]) == (0, ["moved"])
    assert committed(admins[1], group) == {first: Offset(17, "mine"), second: Offset(40)}


def test_in_a_shifted_log_the_group_goes_on_by_time_and_passes_nothing_unread(
    clusters, admins, topic, move, fresh_name
):
    # covers: G6
    make(clusters[0], topic)
    make(clusters[1], topic, junk=7)
    group = fresh_name("group")
    where = TopicPartition(topic, 0)
    admins[0].alter_group_offsets(group, {where: Offset(25, "smart map")}).raise_if_failed()
    ran, rows = move(group, "--overlap", "3s", "--apply")
    assert ran.code == 0
    after = committed(admins[1], group)[where]
    assert after.metadata == ""
    with Consumer(bootstrap_servers=clusters[1].bootstrap, group_id=group) as consumer:
        consumer.assign([where])
        consumer.seek(where, after.offset)
        got = []
        while len(got) < RECORDS + 7 - after.offset:
            got += [record.value for record in consumer.poll(2)]
    assert set(values()[25:]) <= set(got)
    assert len(got) <= 20
    _, rows = move(group, "--overlap", "3s")
    assert rows[0]["how"] == "record time"
    assert "the logs differ at offset" in rows[0]["note"]
    assert "less 3 s" in rows[0]["note"]
    assert "its metadata is dropped" in rows[0]["note"]
    assert rows[0]["repeated"] == 5
    # The offsets of a done-ahead map mean other records there: what it has is repeated, and counted.
    ahead = Offset(25, done_ahead.encode(25, [27, 28]).text)
    admins[0].alter_group_offsets(group, {where: ahead}).raise_if_failed()
    _, rows = move(group, "--overlap", "3s")
    assert "with it the record of 2 records done beyond the offset, which are repeated" in rows[0]["note"]
    assert rows[0]["repeated"] == 5 + 2


def test_a_group_at_the_end_of_an_unequal_log_repeats_its_last_records(clusters, admins, topic, move, fresh_name):
    make(clusters[0], topic)
    make(clusters[1], topic, junk=3)
    group = fresh_name("group")
    admins[0].alter_group_offsets(group, {TopicPartition(topic, 0): RECORDS}).raise_if_failed()
    _, rows = move(group, "--overlap", "0s")
    assert rows[0]["after"] == RECORDS + 3 - 1
    assert "last processed" in rows[0]["note"]


def test_a_target_that_has_lost_unread_records_is_a_problem_and_the_group_stays(
    clusters, admins, topic, move, fresh_name
):
    make(clusters[0], topic)
    make(clusters[1], topic, records=10, first=30, junk=0)
    group = fresh_name("group")
    admins[0].alter_group_offsets(group, {TopicPartition(topic, 0): 12}).raise_if_failed()
    ran, rows = move(group, "--apply", "--plan", "lost.jsonl")
    assert ran.code == 1
    assert rows[0]["result"] == "held back"
    assert "after the first unread record" in rows[0]["reason"]
    assert committed(admins[1], group) == {}


def test_a_mirror_that_is_behind_the_group_is_a_problem(clusters, admins, topic, move, fresh_name):
    make(clusters[0], topic)
    make(clusters[1], topic, records=20)
    group = fresh_name("group")
    where = TopicPartition(topic, 0)
    admins[0].alter_group_offsets(group, {where: 35}).raise_if_failed()
    _, rows = move(group)
    assert "offset 35 is 15 offsets after the end of the log (0 to 20)" in rows[0]["problem"]
    _, rows = move(group, "--allow-outside-log")
    assert (rows[0]["after"], rows[0]["problem"]) == (35, None)
    # Where it stands within what is mirrored, the number stays.
    admins[0].alter_group_offsets(group, {where: 15}).raise_if_failed()
    _, rows = move(group)
    assert (rows[0]["after"], rows[0]["how"]) == (15, "equal logs")


def test_one_consumer_reads_points_again_and_again(clusters, topic):
    make(clusters[0], topic, partitions=2)
    wanted = {TopicPartition(topic, index): [0, 3, 39, 40] for index in range(2)}
    ends = dict.fromkeys(wanted, RECORDS)
    with Consumer({"bootstrap.servers": clusters[0].bootstrap, **CONSUMER_SETTINGS}) as consumer:
        first = read_points(consumer, wanted, ends)
        assert read_points(consumer, wanted, ends) == first
    found, unreadable = first
    assert unreadable == {}
    for points in found.values():
        assert [None if each is None else each.offset for each in points.values()] == [0, 3, 39, None]


def test_a_group_behind_the_start_of_its_own_log_is_noted(clusters, admins, topic, move, fresh_name):
    for broker in clusters:
        make(broker, topic)
    group = fresh_name("group")
    where = TopicPartition(topic, 0)
    admins[0].alter_group_offsets(group, {where: 5}).raise_if_failed()
    admins[0].delete_records({where: 20}).raise_if_failed()
    _, rows = move(group)
    assert (rows[0]["after"], rows[0]["how"]) == (5, "equal logs")
    assert "the source itself starts at 20, after it" in rows[0]["note"]


def test_topics_that_are_missing_or_smaller_there_are_named(clusters, admins, topic, move, fresh_name):
    make(clusters[0], topic, partitions=3, records=1)
    make(clusters[1], topic, partitions=2, records=1)
    lonely = fresh_name("lonely")
    make(clusters[0], lonely, records=1)
    group = fresh_name("group")
    offsets = {TopicPartition(topic, 2): 1, TopicPartition(lonely, 0): 1, TopicPartition(topic, 0): 1}
    admins[0].alter_group_offsets(group, offsets).raise_if_failed()
    _, rows = move(group)
    problems = {(row["topic"], row["partition"]): row["problem"] or "" for row in rows}
    assert "does not exist" in problems[lonely, 0]
    assert "has only 2 partitions" in problems[topic, 2]
    assert problems[topic, 0] == ""


def test_an_empty_target_is_read_from_its_start(clusters, admins, topic, move, fresh_name):
    make(clusters[0], topic)
    clusters[1].create_topic(topic, partitions=1)
    group = fresh_name("group")
    admins[0].alter_group_offsets(group, {TopicPartition(topic, 0): 12}).raise_if_failed()
    _, rows = move(group)
    assert (rows[0]["after"], rows[0]["how"], rows[0]["repeated"]) == (0, "log start", 12)


def test_other_partition_counts_and_unequal_logs_are_a_problem(clusters, admins, topic, move, fresh_name):
    make(clusters[0], topic, partitions=1)
    make(clusters[1], topic, partitions=2, junk=3)
    group = fresh_name("group")
    admins[0].alter_group_offsets(group, {TopicPartition(topic, 0): 12}).raise_if_failed()
    _, rows = move(group)
    assert "different number of partitions" in rows[0]["problem"]


def test_an_active_target_group_is_named(clusters, admins, topic, move, fresh_name):
    for broker in clusters:
        make(broker, topic)
    group = fresh_name("group")
    admins[0].alter_group_offsets(group, {TopicPartition(topic, 0): 12}).raise_if_failed()
    with Consumer(
        bootstrap_servers=clusters[1].bootstrap, group_id=group, client_id="runs-there", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        while not consumer.poll(0.2):
            pass
        ran, rows = move(group, "--apply", "--plan", "active.jsonl")
    assert ran.code == 1
    assert "runs-there" in rows[0]["reason"]


def test_the_same_cluster_twice_is_a_mistake_in_the_call(run, clusters):
    ran = run(
        "migrate", "cluster-to-cluster", "--all", "--bootstrap", clusters[0].bootstrap,
        "--to-bootstrap", clusters[0].bootstrap,
    )  # fmt: skip
    assert (ran.code, ran.err.strip()) == (
        2, "seamark: both addresses are of the same cluster: use seamark migrate group-to-group",
    )  # fmt: skip


def test_a_plan_is_not_applied_to_another_cluster(clusters, admins, topic, move, run, fresh_name):
    for broker in clusters:
        make(broker, topic)
    group = fresh_name("group")
    admins[0].alter_group_offsets(group, {TopicPartition(topic, 0): 12}).raise_if_failed()
    move(group, "--plan", "plan.jsonl")
    with Broker() as third:
        ran = run("migrate", "apply", "plan.jsonl", "--to-bootstrap", third.bootstrap)
    assert ran.code == 1
    assert "the plan is for cluster" in ran.err
    assert committed(admins[1], group) == {}


GROUPS = 100
PARTITIONS = 4


def test_a_hundred_groups_go_from_apache_kafka_to_our_broker_and_back(apache_kafka, clusters, run, fresh_name):
    # covers: G6
    prefix, topic = fresh_name("many"), fresh_name("topic")
    ours = clusters[0]
    with Admin(bootstrap_servers=apache_kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).raise_if_failed()
    ours.create_topic(topic, partitions=PARTITIONS)
    for bootstrap in (apache_kafka.bootstrap, ours.bootstrap):
        for index in range(PARTITIONS):
            produce(bootstrap, TopicPartition(topic, index), values(200), BEGAN_MS)
    wanted = {
        f"{prefix}-{number:03}": {
            TopicPartition(topic, index): Offset((number * 7 + index) % 201, f"note {number}")
            for index in range(PARTITIONS)
        }
        for number in range(GROUPS)
    }
    there = ("--bootstrap", apache_kafka.bootstrap, "--to-bootstrap", ours.bootstrap)
    back = ("--bootstrap", ours.bootstrap, "--to-bootstrap", apache_kafka.bootstrap)
    with Admin(bootstrap_servers=apache_kafka.bootstrap) as kafka, Admin(bootstrap_servers=ours.bootstrap) as mine:
        for group, offsets in wanted.items():
            kafka.alter_group_offsets(group, offsets, look_first=False).raise_if_failed()
        pattern = f"{prefix}-[0-9]+"
        ran = run("migrate", "cluster-to-cluster", "--pattern", pattern, *there, "--plan", "there.jsonl", "--apply")
        assert ran.code == 0, ran.err
        assert dict(mine.list_group_offsets(list(wanted))) == wanted
        assert run("migrate", "verify", "there.jsonl").code == 0
        ran = run(
            "migrate", "cluster-to-cluster", "--pattern", pattern, *back, "--to-group", "{group}-back",
            "--plan", "back.jsonl", "--apply",
        )  # fmt: skip
        assert ran.code == 0, ran.err
        found = kafka.list_group_offsets([f"{group}-back" for group in wanted])
        assert {group.removesuffix("-back"): offsets for group, offsets in found.items()} == wanted
        ran = run("migrate", "rollback", "there.jsonl", "--apply")
        assert ran.code == 0, ran.err
        assert not any(mine.list_group_offsets(list(wanted)).values())
