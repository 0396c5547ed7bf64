"""offsets.storage and dual.commit.enabled: which store a consumer's commits reach, and which offset it starts at."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from seamark import Broker
from seamark.client import Admin, Consumer, Offset, Producer
from seamark.client.config.config import ConsumerConfig
from seamark.client.errors import ClientError, CommitError, CommitFailed
from seamark.client.zookeeper.store import OffsetStorageRefused
from seamark.errors import ConfigError
from seamark.stores import StoredOffset, ZookeeperStore
from seamark.topic_partition import TopicPartition

T0 = TopicPartition("orders", 0)
RECORDS = 200


@pytest.fixture(scope="module")
def root(zookeeper):
    return f"{zookeeper.connect}/dual-commit"


@pytest.fixture(scope="module")
def broker(root):
    settings = {"offsets.zookeeper.connect": root, "group.initial.rebalance.delay.ms": 0}
    with Broker(settings=settings) as made:
        made.create_topic("orders", partitions=1)
        with Producer(bootstrap_servers=made.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", value=b"%d" % number)
        yield made


@pytest.fixture
def store(root):
    with ZookeeperStore(root) as made:
        yield made


@pytest.fixture
def admin(broker):
    with Admin(bootstrap_servers=broker.bootstrap) as made:
        yield made


@pytest.fixture(params=["zookeeper itself", "version 0 of the broker"])
def consumer(request, broker, root):
    """Makes consumers that reach ZooKeeper in one way or the other."""
    made = []
    reach = {"zookeeper.connect": root} if request.param == "zookeeper itself" else {}

    def make(group, storage, dual, **more):
        options = {"offsets.storage": storage, "dual.commit.enabled": dual, "enable.auto.commit": False, **reach}
        made.append(Consumer({**options, **more}, bootstrap_servers=broker.bootstrap, group_id=group))
        return made[-1]

    yield make
    for each in made:
        each.close()


def in_kafka(admin, group):
    return {each: found.offset for each, found in admin.list_group_offsets([group])[group].items()}


# covers: G6, G8
@pytest.mark.parametrize(
    ("storage", "dual", "zookeeper_has", "kafka_has"),
    [
        ("zookeeper", False, 7, None),
        ("kafka", True, 7, 7),
        ("zookeeper", True, 7, 7),
        ("kafka", False, None, 7),
    ],
)
def test_a_commit_reaches_the_stores_of_its_settings(
    consumer, store, admin, fresh_name, storage, dual, zookeeper_has, kafka_has
):
    group = fresh_name("group")
    member = consumer(group, storage, dual)
    member.assign([T0])
    member.commit({T0: Offset(7, "where")})
    assert {each: found.offset for each, found in store.read(group).good.items()} == (
        {} if zookeeper_has is None else {T0: zookeeper_has}
    )
    assert in_kafka(admin, group) == ({} if kafka_has is None else {T0: kafka_has})
    found = member.committed([T0])[T0]
    assert (found.offset, found.metadata) == (7, "" if kafka_has is None else "where")


# covers: G8
@pytest.mark.parametrize(
    ("zookeeper_has", "kafka_has", "start"), [(120, 100, 120), (100, 120, 120), (120, None, 120), (None, 90, 90)]
)
@pytest.mark.parametrize("storage", ["kafka", "zookeeper"])
def test_a_reader_of_both_starts_at_the_larger_with_kafkas_metadata(
    consumer, store, admin, fresh_name, storage, zookeeper_has, kafka_has, start
):
    group = fresh_name("group")
    if zookeeper_has is not None:
        store.write(group, {T0: StoredOffset(zookeeper_has)})
    if kafka_has is not None:
        admin.alter_group_offsets(group, {T0: Offset(kafka_has, "of kafka")}).raise_if_failed()
    member = consumer(group, storage, True)
    found = member.committed([T0])[T0]
    assert (found.offset, found.metadata) == (start, "" if kafka_has is None else "of kafka")
    member.subscribe(["orders"])
    records = []
    while not records:
        records = member.poll(0.5)
    assert records[0].offset == start


def test_a_reader_of_one_does_not_look_at_the_other(consumer, store, admin, fresh_name):
    group = fresh_name("group")
    store.write(group, {T0: StoredOffset(120)})
    admin.alter_group_offsets(group, {T0: 100}).raise_if_failed()
    assert consumer(group, "zookeeper", False).committed([T0])[T0].offset == 120
    assert consumer(group, "kafka", False).committed([T0])[T0].offset == 100


def test_the_offset_goes_back_in_both_when_it_is_told_to(consumer, store, admin, fresh_name):
    group = fresh_name("group")
    member = consumer(group, "kafka", True)
    member.assign([T0])
    for offset in (150, 3):
        member.commit({T0: offset})
    assert store.read(group).good == {T0: StoredOffset(3)}
    assert in_kafka(admin, group) == {T0: 3}
    assert member.committed([T0])[T0].offset == 3


def test_automatic_commits_and_the_one_at_the_end_go_to_both(consumer, store, admin, fresh_name):
    group = fresh_name("group")
    member = consumer(
        group,
        "kafka",
        True,
        **{"enable.auto.commit": True, "auto.commit.interval.ms": 100, "auto.offset.reset": "earliest"},
    )
    member.subscribe(["orders"])
    seen = 0
    while seen < RECORDS:
        seen += len(member.poll(0.5))
    member.close()
    assert store.read(group).good == {T0: StoredOffset(RECORDS)}
    assert in_kafka(admin, group) == {T0: RECORDS}


def test_what_kafka_refuses_does_not_reach_zookeeper(broker, consumer, store, fresh_name):
    group = fresh_name("group")
    member = consumer(group, "kafka", True)
    member.assign([T0])
    broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=1)
    with pytest.raises(ClientError, match="GROUP_AUTHORIZATION_FAILED"):
        member.commit({T0: 5})
    assert store.read(group) == {}


@pytest.mark.parametrize("dual", [False, True])
def test_a_member_that_the_group_has_left_behind_does_not_overwrite_zookeeper(
    broker, consumer, store, fresh_name, dual
):
    group = fresh_name("group")
    member = consumer(group, "zookeeper", dual, **{"heartbeat.interval.ms": 20_000})
    member.subscribe(["orders"])
    while not member.assignment():
        member.poll(0.2)
    member.commit({T0: 5})
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        (there,) = admin.describe_groups([group])[group].members
    broker.faults.expire_member(group, there.member_id)
    with pytest.raises(CommitFailed):
        member.commit({T0: 1})
    assert store.read(group).good == {T0: StoredOffset(5)}


def test_a_node_that_is_no_number_stops_the_consumer_with_a_sentence(broker, root, store, fresh_name):
    group = fresh_name("group")
    store.write(group, {T0: StoredOffset(1)})
    client = KazooClient(root)
    client.start(20)
    client.set(f"/consumers/{group}/offsets/orders/0", b"soon")
    client.stop()
    client.close()
    options = {"zookeeper.connect": root, "offsets.storage": "kafka"}
    with Consumer(options, bootstrap_servers=broker.bootstrap, group_id=group) as member:
        with pytest.raises(OffsetStorageRefused, match=r"offsets/orders/0 holds 'soon'"):
            member.committed([T0])
        member.subscribe(["orders"])
        with pytest.raises(OffsetStorageRefused, match=r"offsets/orders/0 holds 'soon'"):
            member.poll(20)


def test_a_zookeeper_that_is_away_fails_the_commit_in_time_and_says_what_is_away(broker, fresh_name):
    options = {
        "zookeeper.connect": "127.0.0.1:1",
        "offsets.storage": "zookeeper",
        "offsets.channel.socket.timeout.ms": 300,
        "offsets.channel.backoff.ms": 50,
        "offsets.commit.max.retries": 1,
    }
    with Consumer(options, bootstrap_servers=broker.bootstrap, group_id=fresh_name("group")) as member:
        member.assign([T0])
        with pytest.raises(CommitError, match=r"zookeeper 127\.0\.0\.1:1"):
            member.commit({T0: 1}, timeout=3)


def test_a_broker_without_version_0_is_told_with_the_way_out(fresh_name):
    with Broker() as plain:
        plain.create_topic("orders")
        options = {"offsets.storage": "zookeeper", "enable.auto.commit": False}
        with Consumer(options, bootstrap_servers=plain.bootstrap, group_id=fresh_name("group")) as member:
            member.assign([T0])
            with pytest.raises(OffsetStorageRefused, match=r"set zookeeper\.connect"):
                member.commit({T0: 1})


# covers: G7
@pytest.mark.parametrize(
    ("given", "storage", "dual"),
    [
        ({}, "kafka", False),
        ({"offsets.storage": "kafka"}, "kafka", False),
        ({"offsets.storage": "zookeeper"}, "zookeeper", False),
        ({"zookeeper.connect": "zk:2181"}, "zookeeper", False),
        ({"zookeeper.connect": "zk:2181", "offsets.storage": "kafka"}, "kafka", True),
        ({"zookeeper.connect": "zk:2181", "offsets.storage": "kafka", "dual.commit.enabled": "false"}, "kafka", False),
        ({"zookeeper.connect": "zk:2181", "dual.commit.enabled": "true"}, "zookeeper", True),
        ({"dual.commit.enabled": "true"}, "kafka", True),
    ],
)
def test_the_defaults_are_the_old_ones_for_who_names_a_zookeeper(given, storage, dual):
    config = ConsumerConfig.from_options({"bootstrap.servers": "a:1", "group.id": "g", **given})
    assert (config.offsets_storage, config.dual_commit_enabled) == (storage, dual)
    assert config.offsets_channel_backoff_ms == 1000
    assert config.offsets_channel_socket_timeout_ms == 10_000
    assert config.offsets_commit_max_retries == 5


def test_bad_settings_are_refused_where_the_consumer_is_made():
    with pytest.raises(ConfigError, match=r"offsets\.storage"):
        Consumer({"offsets.storage": "redis"}, bootstrap_servers="a:1", group_id="g")
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        Consumer({"zookeeper.connect": "a:port"}, bootstrap_servers="a:1", group_id="g")
