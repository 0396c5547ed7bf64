"""What members of other clients did, in the lake row for row: Java's consumer and confluent-kafka in one group.

They share partitions, crash, leave and are followed by others; then administrators of both clients reset the group,
an offset expires, and the group goes. A diary is kept of all that, on Apache Kafka and on the embedded broker, and the
lake has to say the same: each commit with who owned the partition then, each generation with its members.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from itertools import chain

import pytest

from seamark import Broker
from seamark.client import Admin, Producer
from seamark.client.admin.types import NewTopic
from seamark.spark.lake.fill import job
from seamark.spark.lake.tables.lake import Lake
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.conformance.clients.program import ClientProgram
from tests.support.broker_driver import Client
from tests.support.waiting import eventually

PARTITIONS = 4
# Long enough that a starved member keeps its place, short enough to wait for a dead one.
SHORT_SESSION_MS = 5_000
LONG_SESSION_MS = 45_000
RETENTION_MS = 400
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.retention.check.interval.ms": 300,
}


class Diary:
    """Does things to one group and writes down what the lake has to say about them."""

    def __init__(self, bootstrap, admin, topic, group):
        self.bootstrap, self.admin, self.topic, self.group = bootstrap, admin, topic, group
        # The client id of each member's program.
        self._ids = {}
        # Steps of (partition, offset, metadata, origin, client of the owner); within a step the order is the client's.
        self.commits = []
        # What each client's member had, from one rebalance to the next.
        self.generations = []
        self._written = 0

    def join(self, client, program, session_ms=LONG_SESSION_MS):
        # As each client calls itself when nobody tells it a name.
        self._ids[program] = {"java": f"consumer-{self.group}-1", "confluent": "rdkafka"}[client]
        program.ask("join", group=self.group, topic=self.topic, assignor="range", instance=None, session_ms=session_ms)

    def shared_by(self, *programs):
        """Wait until these members have all partitions, and write down who has which."""
        owned = {}

        def is_shared():
            owned.update({self._ids[each]: sorted(each.ask("status")["owned"]) for each in programs})
            return all(owned.values()) and sorted(chain(*owned.values())) == list(range(PARTITIONS))

        eventually(is_shared, f"{len(programs)} members share the partitions")
        self.generations.append(owned)

    def work(self, *programs):
        """Ten more records per partition are read and committed."""
        wanted = {f"{self._written}-{number}" for number in range(10 * PARTITIONS)}
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number, value in enumerate(sorted(wanted)):
                producer.send(self.topic, value.encode(), partition=number % PARTITIONS)
        self._written += 10
        eventually(
            lambda: wanted <= {value for each in programs for value in each.ask("status")["read"]}, "all is read"
        )
        for each in programs:
            done = {int(partition): offset for partition, offset in each.ask("commit").items()}
            assert set(done.values()) == {self._written}
            assert sorted(done) == self.generations[-1][self._ids[each]]
            self.commits.append([(at, offset, "", "member", self._ids[each]) for at, offset in done.items()])

    def emptied(self):
        eventually(lambda: self.admin.describe_groups([self.group])[self.group].state == "Empty", "nobody is left")
        self.generations.append({})

    def reset(self, program, partition, offset):
        program.ask("reset", group=self.group, topic=self.topic, partition=partition, offset=offset)
        self.commits.append([(partition, offset, "", "outside", None)])

    def expire(self, partition, offset):
        """A commit with a time to live, as clients before Kafka 2.1 could make it; it passes."""
        place = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata="short"
        )
        request = OffsetCommitRequest(
            group_id=self.group, retention_time_ms=RETENTION_MS,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[place])],
        )  # fmt: skip
        with Client(self.bootstrap) as client:
            assert client.ask(request, 2).topics[0].partitions[0].error_code == 0
        eventually(lambda: partition not in self._committed(), "the offset expired")
        self.commits += [[(partition, offset, "short", "outside", None)], [(partition, None, None, "outside", None)]]

    def gone(self):
        eventually(lambda: not self._committed(), "the group is gone")
        left = {row[0]: row[1] for step in self.commits for row in step}
        self.commits.append([(at, None, None, "outside", None) for at, offset in left.items() if offset is not None])

    def _committed(self):
        found = self.admin.list_group_offsets([self.group])
        return {place.partition for offsets in found.values() for place in offsets}


@pytest.fixture(params=[pytest.param("apache", marks=pytest.mark.kafka), "seamark"])
def diary(request, fresh_name):
    """Of a group on a broker of its own, where offsets expire and the dead are missed soon."""
    with ExitStack() as stack:
        if request.param == "apache":
            broker = request.getfixturevalue("guarded_kafka")
        else:
            broker = stack.enter_context(Broker(settings=SETTINGS))
        admin = stack.enter_context(Admin(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=30_000))
        made = Diary(broker.bootstrap, admin, fresh_name("history"), fresh_name("group"))
        made.broker = broker
        if request.param == "apache":
            # Kafka 4 writes a group down when it is made, before it has a member.
            made.generations.append({})
        admin.create_topics([NewTopic(made.topic, PARTITIONS)]).raise_if_failed()
        yield made


@pytest.mark.java
@pytest.mark.slow
def test_the_lake_says_what_members_of_other_clients_did(diary, spark, tmp_path):
    with ExitStack() as running:
        dies, follows, stays = (
            running.enter_context(ClientProgram(client, diary.bootstrap)) for client in ("java", "java", "confluent")
        )
        diary.join("java", dies, SHORT_SESSION_MS)
        diary.shared_by(dies)
        diary.work(dies)
        diary.join("confluent", stays)
        diary.shared_by(dies, stays)
        diary.work(dies, stays)
        dies.kill()
        diary.shared_by(stays)
        diary.work(stays)
        diary.join("java", follows)
        diary.shared_by(stays, follows)
        stays.ask("leave")
        diary.shared_by(follows)
        diary.work(follows)
        follows.ask("leave")
        diary.emptied()
        diary.reset(stays, 0, 5)
        diary.reset(follows, 1, 7)
        diary.expire(2, 9)
        # Before the clock is moved: the embedded broker would take the time for compaction, too.
        job.run(spark, tmp_path / "lake", config={"bootstrap.servers": diary.bootstrap})
        if isinstance(diary.broker, Broker):
            # What the members committed expires.
            diary.broker.advance(timedelta(days=7, minutes=1).total_seconds())
        else:
            follows.ask("delete_group", group=diary.group)
        diary.gone()

    job.run(spark, tmp_path / "lake", config={"bootstrap.servers": diary.bootstrap})

    lake = Lake.open(tmp_path / "lake")
    generations = rows_of(lake, spark, "generations", diary.group)
    commits = rows_of(lake, spark, "commits", diary.group)
    assert [members_of(row, diary.topic) for row in generations] == [*diary.generations, {}]
    assert [row["tombstone"] for row in generations] == [False] * len(diary.generations) + [True]
    check_who_came_and_went(generations)
    assert in_steps(commits, diary.commits) == [sorted(step, key=str) for step in diary.commits]
    check_owners(commits, generations, diary.topic)
    (expired,) = (row for row in commits if row["metadata"] == "short")
    assert expired["expire_time"] - expired["commit_time"] == timedelta(milliseconds=RETENTION_MS)
    assert all(row["complete"] and row["inferred"] for row in commits)
    assert lake.published.rows("rejects") == 0


def rows_of(lake, spark, table, group):
    found = lake.read(spark, table).where(f"group = '{group}'").orderBy("offsets_offset").collect()
    return [row.asDict(recursive=True) for row in found]


def members_of(row, topic):
    """What each client's member was given."""
    return {
        member["client"]: sorted(
            at for each in member["assigned"] if each["topic"] == topic for at in each["partitions"]
        )
        for member in row["members"] or ()
    }


def in_steps(rows, steps):
    """What the rows say, cut as the steps are; within a step in a fixed order."""
    told = [(row["partition"], row["offset"], row["metadata"], row["origin"], row["owner_client"]) for row in rows]
    cut, at = [], 0
    for step in steps:
        cut.append(sorted(told[at : at + len(step)], key=str))
        at += len(step)
    return [*cut, told[at:]] if told[at:] else cut


def check_who_came_and_went(generations):
    """By the ids of the members: three of them, each of whom came once and went once."""
    before = set()
    for row in generations:
        members = {member["member"] for member in row["members"] or ()}
        assert (set(row["joined"]), set(row["gone"])) == (members - before, before - members)
        before = members
    assert len({member for row in generations for member in row["joined"]}) == 3
    numbers = [row["generation"] for row in generations if not row["tombstone"]]
    assert numbers == sorted(set(numbers))


def check_owners(commits, generations, topic):
    """The owner is the member that the generation before the commit gave the partition to."""
    for row in commits:
        before = [each for each in generations if each["offsets_offset"] < row["offsets_offset"]][-1]
        assert row["generation"] == before["generation"]
        owners = [
            member["member"]
            for member in before["members"]
            if any(each["topic"] == topic and row["partition"] in each["partitions"] for each in member["assigned"])
        ]
        assert ([row["owner"]] if row["owner"] else []) == owners
