"""The contract of the parallel consumer's port, for each client on each broker."""

import threading
import time

import pytest

from seamark.client import Admin, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.consumer.consumer import Consumer
from seamark.errors import ConfigError, MissingExtra, SeamarkError
from seamark.parallel.adapters import open_port
from seamark.parallel.core.ports import MetadataTooLong, ToCommit
from tests.support.consumers import remove_member

QUICK = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
    "auto.offset.reset": "earliest",
    # A consumer that closes waits for the fetch under way.
    "fetch.max.wait.ms": 50,
}


class Heard:
    """A rebalance listener that remembers, and does what a test wants meanwhile."""

    def __init__(self):
        self.assigned = {}
        self.revoked = []
        self.lost = []
        self.while_revoked = lambda partitions: None

    def on_assigned(self, committed):
        self.assigned.update(committed)

    def on_revoked(self, partitions):
        self.while_revoked(partitions)
        self.revoked += partitions
        for partition in partitions:
            self.assigned.pop(partition, None)

    def on_lost(self, partitions):
        self.lost += partitions
        for partition in partitions:
            self.assigned.pop(partition, None)


class Member:
    def __init__(self, client, bootstrap, group, topic, **also):
        config = {**QUICK, **also, "bootstrap.servers": bootstrap, "group.id": group}
        self.heard = Heard()
        self.port = open_port(client, config)
        self.port.subscribe([topic], self.heard)
        self.records = {}
        self.positions = {}
        self.epochs = {}
        self.is_open = True

    def poll(self, timeout=0.1, most=500):
        for partition, records, position, epoch in self.port.poll(timeout, most):
            self.records.setdefault(partition, []).extend(records)
            self.epochs[partition] = records[-1].leader_epoch if records else epoch
            self.positions[partition] = position if position >= 0 else records[-1].offset + 1

    def offsets(self, partition):
        return [record.offset for record in self.records.get(partition, [])]

    def close(self):
        if self.is_open:
            self.is_open = False
            self.port.close(5.0)


def poll_until(members, is_true, seconds=30.0):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "not in time"
        for member in members:
            member.poll()


@pytest.fixture(params=["seamark", "confluent"])
def client(request):
    return request.param


class Place:
    def __init__(self, kafka, client, group, topic):
        self.kafka, self.client, self.group, self.topic = kafka, client, group, topic
        self.members = []
        self.partitions = [TopicPartition(topic, number) for number in range(2)]

    def member(self, **also):
        member = Member(self.client, self.kafka.bootstrap, self.group, self.topic, **also)
        self.members.append(member)
        return member

    def assigned_member(self, **also):
        member = self.member(**also)
        poll_until([member], lambda: set(member.heard.assigned) == set(self.partitions))
        return member

    def write(self, *values, partition=0, **keywords):
        with Producer(bootstrap_servers=self.kafka.bootstrap) as producer:
            for value in values:
                producer.send(self.topic, value, partition=partition, **keywords)

    def committed(self):
        with Consumer(bootstrap_servers=self.kafka.bootstrap, group_id=self.group) as consumer:
            return consumer.committed(self.partitions)


@pytest.fixture
def place(kafka_like, client, fresh_name):
    topic = fresh_name("port")
    with Admin(bootstrap_servers=kafka_like.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2)]).raise_if_failed()
    made = Place(kafka_like, client, fresh_name("group"), topic)
    yield made
    for member in made.members:
        member.close()


# covers: I1, I10, I11, I12
def test_what_was_committed_comes_with_the_assignment(place):
    place.write(b"a", b"b", b"c")
    first = place.assigned_member()
    assert {tuple(each) for each in first.heard.assigned.values()} == {(-1, "", -1)}
    done = []
    one, other = place.partitions
    assert first.port.commit({one: ToCommit(1, "earlier")}, done.append) == {}
    # One that waits lets those before it end first.
    assert first.port.commit({one: ToCommit(2, "map")}, timeout=10.0) == {one: None}
    poll_until([first], lambda: done)
    assert done == [{one: None}]
    first.close()
    second = place.assigned_member()
    assert second.heard.assigned[one][:2] == (2, "map")
    assert second.heard.assigned[other].offset == -1
    poll_until([second], lambda: second.records.get(one))
    assert second.offsets(one) == [2]


# covers: I1
def test_the_leader_epoch_is_committed_and_comes_back_with_the_assignment(place):
    first = place.assigned_member()
    offsets = {place.partitions[0]: ToCommit(3, "note", 0), place.partitions[1]: ToCommit(4, "", 0)}
    assert first.port.commit(offsets, timeout=10) == dict.fromkeys(offsets)
    assert {partition: each.leader_epoch for partition, each in place.committed().items()} == dict.fromkeys(offsets, 0)
    unknown = {place.partitions[1]: ToCommit(4, "")}
    assert first.port.commit(unknown, timeout=10) == dict.fromkeys(unknown)
    first.close()
    second = place.assigned_member()
    assert second.heard.assigned[place.partitions[0]] == (3, "note", 0)
    assert second.heard.assigned[place.partitions[1]] == (4, "", -1)


def test_records_come_as_bytes_with_all_they_have(place):
    place.write(b"\xff", None, key=b"k", headers=[("h", b"1"), ("n", None)])
    member = place.assigned_member()
    poll_until([member], lambda: len(member.offsets(place.partitions[0])) == 2)
    record, tombstone = member.records[place.partitions[0]]
    assert (record.topic, record.partition, record.offset) == (place.topic, 0, 0)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"\xff", [("h", b"1"), ("n", None)])
    assert record.timestamp_ms > 1_700_000_000_000
    assert tombstone.value is None
    poll_until([member], lambda: member.positions[place.partitions[0]] == 2)


# covers: H24
def test_a_revoked_partition_can_be_committed_until_the_callback_returns(place):
    place.write(b"a", b"b")
    first = place.assigned_member()
    results = []

    def commit(partitions):
        results.append(first.port.commit({each: ToCommit(1, "last words") for each in partitions}, timeout=10.0))

    first.heard.while_revoked = commit
    second = place.member()
    poll_until([first, second], lambda: len(first.heard.assigned) == len(second.heard.assigned) == 1)
    assert results
    assert all(error is None for result in results for error in result.values())
    (moved,) = second.heard.assigned
    assert second.heard.assigned[moved][:2] == (1, "last words")


# covers: H24
def test_partitions_of_a_member_that_was_removed_are_lost(place):
    first = place.assigned_member()
    with Admin(bootstrap_servers=place.kafka.bootstrap) as admin:
        (described,) = admin.describe_groups([place.group]).values()
    remove_member(place.kafka.bootstrap, place.group, described.members[0].member_id)
    poll_until([first], lambda: first.heard.lost)
    assert set(first.heard.lost) == set(place.partitions)
    assert not first.heard.revoked


# covers: I10
def test_paused_partitions_give_nothing_until_they_are_resumed(place):
    member = place.assigned_member()
    one, other = place.partitions
    member.port.pause([one, TopicPartition(place.topic, 77)])
    place.write(b"a", partition=0)
    place.write(b"b", partition=1)
    poll_until([member], lambda: member.records.get(other))
    member.poll(0.3)
    assert not member.records.get(one)
    member.port.resume([one, TopicPartition(place.topic, 77)])
    poll_until([member], lambda: member.records.get(one))


# covers: H20
@pytest.mark.kafka
def test_positions_lie_behind_transaction_markers(place):
    if place.kafka.is_ours:
        pytest.skip("the embedded broker has no transactions")
    from confluent_kafka import Producer as Transactional

    producer = Transactional({"bootstrap.servers": place.kafka.bootstrap, "transactional.id": place.group})
    producer.init_transactions(30)
    for value, is_kept in ((b"kept", True), (b"dropped", False)):
        producer.begin_transaction()
        producer.produce(place.topic, value, partition=0)
        if not is_kept:
            producer.produce(place.topic, value, partition=1)
        producer.flush(30)
        (producer.commit_transaction if is_kept else producer.abort_transaction)(30)
    member = place.assigned_member(**{"isolation.level": "read_committed"})
    # Two records and two markers.
    poll_until([member], lambda: member.positions.get(place.partitions[0]) == 4)
    assert member.offsets(place.partitions[0]) == [0]
    # One that nobody is shown, and its marker: our client tells their leader epoch too, confluent-kafka knows none.
    poll_until([member], lambda: member.positions.get(place.partitions[1]) == 2)
    assert member.offsets(place.partitions[1]) == []
    assert member.epochs[place.partitions[1]] == (0 if place.client == "seamark" else -1)


# covers: F11
def test_metadata_that_is_too_long_is_refused_for_its_partition_alone(place):
    member = place.assigned_member()
    one, other = place.partitions
    offsets = {one: ToCommit(0, "x" * 5000), other: ToCommit(0, "short")}
    result = member.port.commit(offsets, timeout=10.0)
    assert isinstance(result[one], MetadataTooLong)
    assert result[other] is None
    done = []
    member.port.commit(offsets, done.append)
    poll_until([member], lambda: done)
    assert isinstance(done[0][one], MetadataTooLong)
    assert done[0][other] is None
    # confluent-kafka ends metadata with a null character.
    assert place.committed()[other].metadata.rstrip("\0") == "short"


# covers: F20
def test_a_refused_commit_names_every_partition(place):
    if not place.kafka.is_ours:
        pytest.skip("only the embedded broker refuses on demand")
    member = place.assigned_member()
    fault = place.kafka.broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=None)
    try:
        result = member.port.commit({each: ToCommit(0, "") for each in place.partitions}, timeout=5.0)
    finally:
        fault.remove()
    assert set(result) == set(place.partitions)
    assert all(isinstance(error, Exception) and not isinstance(error, MetadataTooLong) for error in result.values())


# covers: I10
def test_commits_take_effect_in_the_order_of_the_calls(place):
    member = place.assigned_member()
    one = place.partitions[0]
    done = []
    for offset in range(1, 6):
        member.port.commit({one: ToCommit(offset, "")}, lambda result, offset=offset: done.append((offset, result)))
    poll_until([member], lambda: len(done) == 5)
    assert [offset for offset, _ in done] == [1, 2, 3, 4, 5]
    assert all(result == {one: None} for _, result in done)
    assert place.committed()[one].offset == 5


# covers: I18
def test_another_thread_ends_a_waiting_poll(place):
    member = place.assigned_member()
    poll_until([member], lambda: not member.port.poll(0.05, 500))
    started = time.monotonic()
    waker = threading.Timer(0.2, member.port.wake)
    waker.start()
    member.port.poll(20.0, 500)
    waker.join()
    assert time.monotonic() - started < 10.0
    # And a wake between polls does no harm to a commit.
    member.port.wake()
    assert member.port.commit({place.partitions[0]: ToCommit(0, "")}, timeout=10.0) == {place.partitions[0]: None}


# covers: I23
def test_a_dead_letter_is_reported_when_it_is_stored(place):
    member = place.assigned_member()
    done = []
    member.port.produce(place.topic, b"k", b"v", [("why", b"because")], done.append)
    poll_until([member], lambda: done and any(member.records.values()))
    assert done == [None]
    (record,) = (record for records in member.records.values() for record in records)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"v", [("why", b"because")])


# covers: I23
def test_a_dead_letter_for_a_topic_that_cannot_be_is_reported_with_the_error(place):
    member = place.assigned_member()
    done = []
    member.port.produce("not a topic!", b"k", b"v", [], done.append)
    poll_until([member], lambda: done, seconds=40.0)
    assert isinstance(done[0], Exception)


# covers: I29
def test_closing_revokes_what_is_assigned(place):
    member = place.assigned_member()
    member.close()
    assert set(member.heard.revoked) == set(place.partitions)


# covers: I7
@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "group.id"),
        ({"group.id": ""}, "group.id"),
        ({"group.id": "g", "enable.auto.commit": True}, "enable.auto.commit"),
        ({"group.id": "g", "enable.auto.commit": "true"}, "enable.auto.commit"),
    ],
)
def test_a_configuration_that_would_commit_behind_our_back_is_refused(config, named, client):
    with pytest.raises(ConfigError) as raised:
        open_port(client, {"bootstrap.servers": "localhost:1", **config})
    assert raised.value.option == named


def test_an_unknown_client_is_refused():
    with pytest.raises(ConfigError, match="seamark, confluent"):
        open_port("librdkafka", {"group.id": "g"})


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr("seamark.parallel.adapters.confluent.confluent_kafka", None)
    with pytest.raises(MissingExtra, match=r"pip install 'seamark\[confluent\]'"):
        open_port("confluent", {"group.id": "g"})


def test_a_key_that_confluent_kafka_does_not_know_is_refused_with_its_name():
    with pytest.raises(SeamarkError, match=r"bogus\.key"):
        open_port("confluent", {"group.id": "g", "bogus.key": "1"})
