"""What every offset store promises, said once and held by each: Kafka (both makes), ZooKeeper, a file."""

from __future__ import annotations

import sys
import threading

import pytest

from seamark.client.errors import ClientError
from seamark.errors import ClosedError, SeamarkError
from seamark.stores import FileStore, KafkaStore, OffsetStore, StoredOffset, ZookeeperStore
from seamark.stores.contract import LARGEST_OFFSET, GroupOffsets
from seamark.topic_partition import TopicPartition

_KINDS = (
    "file",
    "zookeeper",
    "seamark broker",
    pytest.param("apache kafka", marks=pytest.mark.kafka),
)


@pytest.fixture(scope="module")
def seamark_bootstrap():
    from seamark import Broker

    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture(params=_KINDS)
def open_store(request, tmp_path):
    """Opens the store of the test, as often as the test wants: all see the same offsets."""
    opened = []
    if request.param == "file":
        make = lambda: FileStore(tmp_path / "offsets.db")  # noqa: E731
    elif request.param == "zookeeper":
        connect = request.getfixturevalue("zookeeper_connect")
        make = lambda: ZookeeperStore(connect)  # noqa: E731
    else:
        if request.param == "apache kafka":
            bootstrap = request.getfixturevalue("apache_kafka").bootstrap
        else:
            bootstrap = request.getfixturevalue("seamark_bootstrap")
        make = lambda: KafkaStore(bootstrap_servers=bootstrap, default_api_timeout_ms=20_000)  # noqa: E731

    def open_one():
        opened.append(make())
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def topics(request, fresh_name):
    """Two topics; where the store is a Kafka cluster they exist there, as Kafka demands."""
    names = sorted([fresh_name("a"), fresh_name("b")])
    kind = request.node.callspec.params["open_store"]
    if "broker" in kind or "kafka" in kind:
        from seamark.client import Admin
        from seamark.client.admin.types import NewTopic

        fixture = "apache_kafka" if "apache" in kind else "seamark_bootstrap"
        found = request.getfixturevalue(fixture)
        with Admin(bootstrap_servers=getattr(found, "bootstrap", found)) as admin:
            admin.create_topics([NewTopic(name, 4, 1) for name in names]).raise_if_failed()
    return names


def _numbers(offsets: GroupOffsets) -> dict[TopicPartition, int]:
    return {partition: stored.offset for partition, stored in offsets.good.items()}


def _done(outcomes) -> bool:
    return bool(outcomes) and all(error is None for error in outcomes.values())


# covers: G9
def test_what_is_written_is_read_back_by_another_session(open_store, topics, fresh_name):
    group = fresh_name("group")
    written = {
        TopicPartition(topics[0], 0): StoredOffset(0),
        TopicPartition(topics[0], 3): StoredOffset(LARGEST_OFFSET),
        TopicPartition(topics[1], 1): StoredOffset(7, "where I was", 0),
    }
    one, other = open_store(), open_store()
    assert isinstance(one, OffsetStore)
    outcomes = one.write(group, written)
    assert set(outcomes) == set(written)
    assert _done(outcomes)
    found = other.read(group)
    assert _numbers(found) == {partition: stored.offset for partition, stored in written.items()}
    assert list(found) == sorted(found)
    assert found.bad == []
    assert group in list(other.groups())
    assert other.topics(group) == topics
    if one.keeps_metadata:
        assert found[TopicPartition(topics[1], 1)] == StoredOffset(7, "where I was", 0)
    else:
        assert found[TopicPartition(topics[1], 1)] == StoredOffset(7)


def test_an_offset_is_replaced_forwards_and_backwards(store, topics, fresh_name):
    group, partition = fresh_name("group"), TopicPartition(topics[0], 0)
    for offset in (10, 11, 3):
        assert _done(store.write(group, {partition: StoredOffset(offset)}))
        assert _numbers(store.read(group)) == {partition: offset}


def test_only_the_topics_asked_for_are_read(store, topics, fresh_name):
    group = fresh_name("group")
    store.write(group, {TopicPartition(topic, 0): StoredOffset(1) for topic in topics})
    assert list(store.read(group, [topics[1]])) == [TopicPartition(topics[1], 0)]
    assert store.read(group, ["no-such-topic"]) == {}
    assert store.read(group, []) == {}


def test_a_group_that_does_not_exist_has_nothing_and_nobody(store, fresh_name):
    group = fresh_name("nobody")
    assert store.read(group) == {}
    assert store.topics(group) == []
    assert store.active_members(group) == []
    assert group not in list(store.groups())


def test_groups_do_not_see_each_other(store, topics, fresh_name):
    first, second = fresh_name("group"), fresh_name("group")
    partition = TopicPartition(topics[0], 2)
    store.write(first, {partition: StoredOffset(1)})
    store.write(second, {partition: StoredOffset(2)})
    assert _numbers(store.read(first)) == {partition: 1}
    assert _numbers(store.read(second)) == {partition: 2}
    store.delete(first, [partition])
    assert store.read(first) == {}
    assert _numbers(store.read(second)) == {partition: 2}


def test_many_groups_come_back_in_the_order_asked_for(store, topics, fresh_name):
    groups = [fresh_name("many") for _ in range(40)]
    items = [
        (group, {TopicPartition(topics[0], index): StoredOffset(number * 10 + index) for index in range(4)})
        for number, group in enumerate(groups)
    ]
    written = list(store.write_many(iter(items)))
    assert [group for group, _ in written] == groups
    assert all(_done(outcomes) for _, outcomes in written)
    missing = fresh_name("missing")
    asked = [*reversed(groups), missing, groups[0]]
    found = list(store.read_many(iter(asked)))
    assert [group for group, _ in found] == asked
    expected = {group: {each: stored.offset for each, stored in offsets.items()} for group, offsets in items}
    assert [_numbers(offsets) for _, offsets in found] == [expected.get(group, {}) for group in asked]
    assert list(store.active_members_many(asked)) == [(group, []) for group in asked]


def test_writing_many_reads_no_further_ahead_than_its_batch(store, topics, fresh_name, monkeypatch):
    taken = []

    def items():
        for _ in range(200):
            taken.append(1)
            offsets = {TopicPartition(topics[0], index): StoredOffset(index) for index in range(4)}
            yield fresh_name("lazy"), offsets

    # Batches are counted in groups by one store and in offsets by the others.
    monkeypatch.setattr(sys.modules[type(store).__module__], "_WRITTEN_AT_ONCE", 16)
    writing = store.write_many(items())
    next(writing)
    assert len(taken) <= 32
    writing.close()


def test_nothing_to_write_is_no_error(store, fresh_name):
    assert store.write(fresh_name("group"), {}) == {}
    assert list(store.write_many([])) == []
    assert list(store.read_many([])) == []


def test_deleting_what_is_not_there_counts_as_done(store, topics, fresh_name):
    group = fresh_name("group")
    there, gone = TopicPartition(topics[0], 0), TopicPartition(topics[0], 1)
    assert _done(store.delete(group, [gone]))
    store.write(group, {there: StoredOffset(5), gone: StoredOffset(6)})
    assert _done(store.delete(group, [gone]))
    assert _done(store.delete(group, [gone]))
    assert _numbers(store.read(group)) == {there: 5}
    assert _done(store.delete(group, [there]))
    assert store.read(group) == {}
    assert store.topics(group) == []


@pytest.mark.parametrize("number", [-1, LARGEST_OFFSET + 1])
def test_a_number_that_is_no_offset_is_refused_alone(store, topics, fresh_name, number):
    group = fresh_name("group")
    good, bad = TopicPartition(topics[0], 0), TopicPartition(topics[0], 1)
    outcomes = store.write(group, {good: StoredOffset(1), bad: StoredOffset(number)})
    assert outcomes[good] is None
    assert isinstance(outcomes[bad], SeamarkError)
    assert str(number) in str(outcomes[bad])
    assert _numbers(store.read(group)) == {good: 1}


def test_threads_may_share_a_store(store, topics, fresh_name):
    groups = [fresh_name("shared") for _ in range(8)]
    failures = []

    def work(group):
        try:
            for offset in range(5):
                written = {TopicPartition(topics[0], index): StoredOffset(offset) for index in range(4)}
                assert _done(store.write(group, written))
                assert set(_numbers(store.read(group)).values()) == {offset}
        except BaseException as error:  # noqa: BLE001 - told below, on the test's thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_closed_store_says_so(open_store, fresh_name):
    store = open_store()
    store.read(fresh_name("group"))
    store.close()
    store.close()
    with pytest.raises(ClosedError):
        store.read(fresh_name("group"))


def test_the_name_says_which_store_it_is(store):
    assert store.name.split()[0] in ("file", "zookeeper", "kafka")
    assert store.name.split()[1] in repr(store)


def test_a_cluster_that_is_not_there_is_one_sentence():
    with KafkaStore(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=500) as store:
        with pytest.raises(SeamarkError) as raised:
            list(store.groups())
        assert not isinstance(raised.value, ClientError)
        outcomes = store.write("g", {TopicPartition("t", 0): StoredOffset(1)})
        assert outcomes[TopicPartition("t", 0)] is not None
