"""A user who may not read ``__consumer_offsets``: the audit says so and what to do, and the way round it works.

The rights are real ones, of Apache Kafka's authorizer and of the embedded broker's.
"""

from __future__ import annotations

import contextlib

import pytest

from seamark import Broker
from seamark.acls import Acl, AclFilter
from seamark.broker.security.security import Security
from seamark.client import Admin, Offset, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.spark.lake.errors import TopicNotReadable
from seamark.spark.lake.fill import job
from seamark.spark.lake.fill.stream import stream
from seamark.spark.lake.tables.lake import Lake
from tests.support.guarded_kafka import USERS
from tests.support.waiting import eventually

OFFSETS = "__consumer_offsets"


def logged_in(bootstrap, user, password):
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "default.api.timeout.ms": "30000",
    }


class Guarded:
    """A broker with access rules, a topic of twelve records and a group that has read five of them."""

    def __init__(self, admin_config, bootstrap, fresh_name):
        self._bootstrap = bootstrap
        self.admin = Admin(admin_config)
        self._rules = []
        self.topic, self.group = fresh_name("orders"), fresh_name("billing")
        self.admin.create_topics([NewTopic(self.topic, 1)]).raise_if_failed()
        with Producer(admin_config) as producer:
            producer.send_many(self.topic, [b"x"] * 12, partition=0)
        self.commit(5)

    def commit(self, offset):
        wanted = {TopicPartition(self.topic, 0): Offset(offset, "by hand")}
        self.admin.alter_group_offsets(self.group, wanted).raise_if_failed()

    def allow(self, user, operation, resource, name):
        rule = Acl(f"User:{user}", operation, resource, name)
        self.admin.create_acls([rule]).raise_if_failed()
        self._rules.append(rule)
        self._until(lambda known: rule in known)

    def close(self):
        """Take the rules away: Apache Kafka serves other tests, too."""
        self.admin.delete_acls(map(AclFilter.of, self._rules)).raise_if_failed()
        self._until(lambda known: not set(self._rules) & set(known))
        self.admin.close()

    def _until(self, is_so):
        eventually(lambda: is_so(self.admin.describe_acls()), "the change of the rules", 20)

    def config(self, user):
        return logged_in(self._bootstrap, user, USERS[user])

    def options(self, user):
        """The same for a command."""
        return [word for key, value in self.config(user).items() for word in ("-o", f"{key}={value}")]


@pytest.fixture(params=[pytest.param("apache", marks=pytest.mark.kafka), "seamark"])
def guarded(request, fresh_name):
    with contextlib.ExitStack() as stack:
        if request.param == "apache":
            kafka = request.getfixturevalue("guarded_kafka")
            made = Guarded({"bootstrap.servers": kafka.bootstrap}, kafka.login, fresh_name)
        else:
            users = {**USERS, "admin": "4dmin"}
            broker = stack.enter_context(Broker(security=Security(users=users, super_users=["User:admin"])))
            made = Guarded(logged_in(broker.bootstrap, "admin", "4dmin"), broker.bootstrap, fresh_name)
        stack.callback(made.close)
        # The watcher sees every topic, Kafka's own too; the guest only the one that it works with.
        for user, topic in (("watcher", "*"), ("guest", made.topic)):
            made.allow(user, "describe", "topic", topic)
            made.allow(user, "describe", "group", "*")
        yield made


def commits_of(lake, spark, group):
    rows = lake.read(spark, "commits").where(f"group = '{group}'").orderBy("append_time").collect()
    return [(row.partition, row.offset, row.previous_offset, row.metadata, row.complete) for row in rows]


def test_without_the_right_to_read_the_sampler_is_proposed_and_does_it(guarded, seamark, spark, tmp_path):
    for user in ("guest", "watcher"):
        ran = seamark("audit", *guarded.options(user), "--out", "lake")

        assert (ran.code, ran.out) == (1, "")
        *steps, sentence = ran.err.splitlines()
        assert all(step.startswith("audit: ") for step in steps)
        assert sentence.startswith(f"seamark: {OFFSETS} cannot be read (")
        assert "TOPIC_AUTHORIZATION_FAILED" in sentence
        assert "grant the READ and DESCRIBE ACLs on the topic, or use the sampler" in sentence
        assert sentence.endswith("use --source sampler")
        assert USERS[user] not in ran.err
        # The looks are there, whole; of the topic nothing is.
        lake = Lake.open(tmp_path / "lake")
        assert [lake.published.rows(table) for table in ("commits", "generations", "findings")] == [0, 0, 0]
        assert lake.published.covered == {}

    done = seamark("audit", *guarded.options("guest"), "--out", "lake", "--source", "sampler")
    assert done.code == 0, done.err
    guarded.commit(9)
    job.run(spark, tmp_path / "lake", source="sampler", config=guarded.config("guest"))

    lake = Lake.open(tmp_path / "lake")
    assert commits_of(lake, spark, guarded.group) == [(0, 5, None, "by hand", False), (0, 9, 5, "by hand", False)]
    looks = lake.read(spark, "lag").where(f"group = '{guarded.group}'").orderBy("time").collect()
    assert [(look.committed, look.lag) for look in looks] == [(5, 7), (5, 7), (5, 7), (9, 3)]


def test_it_is_the_right_to_read_that_is_missing_and_none_other(guarded, spark, tmp_path):
    config = guarded.config("guest")
    with pytest.raises(TopicNotReadable):
        job.run(spark, tmp_path / "lake", config=config)
    with pytest.raises(TopicNotReadable):
        stream(spark, tmp_path / "lake", config, tmp_path / "checkpoint")
    assert Lake.open(tmp_path / "lake").version == 0

    guarded.allow("guest", "read", "topic", OFFSETS)
    job.run(spark, tmp_path / "lake", config=config)

    assert commits_of(Lake.open(tmp_path / "lake"), spark, guarded.group) == [(0, 5, None, "by hand", True)]
