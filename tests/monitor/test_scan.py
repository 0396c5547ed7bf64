"""One look at the groups of a live broker: offsets, bounds, owners, ages, and what does not answer."""

import json
import time

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, Offset, Producer, TopicPartition
from seamark.client.admin.record_times import LogPlace
from seamark.client.admin.types import NewTopic
from seamark.monitor.group_ages import GroupAges
from seamark.monitor.scan import bounds_of, scan
from seamark.rules.lag import Basis, Lag
from seamark.wire.offsets import done_ahead
from tests.support.produced import produce


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name, 3, 1)]).raise_if_failed()
    return name


# covers: M2
def test_a_group_without_members_is_seen_with_its_offsets_and_lag(kafka_like, admin, topic, fresh_name):
    group = fresh_name("group")
    produce(kafka_like.bootstrap, TopicPartition(topic, 0), [b"x"] * 150)
    admin.alter_group_offsets(group, {TopicPartition(topic, 0): Offset(100, "mine")}).raise_if_failed()
    (view,) = scan(admin, [group]).groups
    assert (view.description.state, view.error) == ("Empty", None)
    (partition,) = view.partitions
    assert (partition.committed.offset, partition.committed.metadata) == (100, "mine")
    assert (partition.bounds.log_start, partition.bounds.log_end, partition.lag.records) == (0, 150, 50)
    assert partition.owner is None


# covers: M2
def test_an_assigned_partition_without_a_commit_has_its_owner_and_an_unknown_lag(kafka_like, admin, topic, fresh_name):
    group = fresh_name("group")
    produce(kafka_like.bootstrap, TopicPartition(topic, 1), [b"x"] * 7)
    with Consumer(
        bootstrap_servers=kafka_like.bootstrap, group_id=group, client_id="reader", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        (view,) = scan(admin, [group]).groups
        assert scan(admin, [group], reset="latest").groups[0].records_behind == 0
        assert scan(admin, [group], reset="earliest").groups[0].records_behind == 7
    assert [each.partition.partition for each in view.partitions] == [0, 1, 2]
    assert {each.owner.client_id for each in view.partitions} == {"reader"}
    assert {each.lag.basis for each in view.partitions} == {Basis.NO_COMMIT}
    assert (view.records_behind, view.partitions_uncommitted, view.partitions_unknown) == (None, 3, 0)


def test_a_partition_that_does_not_answer_is_shown_with_the_reason_and_does_not_hide_others(admin, topic):
    there, missing = TopicPartition(topic, 0), TopicPartition(topic, 9)
    found = bounds_of(admin, [there, missing], timeout=3)
    assert (found[there].log_end, found[there].error) == (0, None)
    assert (found[missing].log_end, topic in found[missing].error) == (None, True)


def test_a_group_that_does_not_exist_is_named(admin, fresh_name):
    name = fresh_name("nobody")
    found = scan(admin, [name])
    assert found.groups == () or found.groups[0].description.state == "Dead"


def test_the_lag_falls_into_lost_done_and_unfinished_records(kafka_like, admin, topic, fresh_name):
    group = fresh_name("group")
    deleted, beyond, ahead = (TopicPartition(topic, index) for index in range(3))
    for each in (deleted, beyond, ahead):
        produce(kafka_like.bootstrap, each, [b"x"] * 100)
    finished = done_ahead.encode(20, [*range(30, 40), *range(50, 100)]).text
    offsets = {deleted: Offset(20), beyond: Offset(130), ahead: Offset(20, finished)}
    admin.alter_group_offsets(group, offsets).raise_if_failed()
    admin.delete_records({deleted: 60}).raise_if_failed()
    (view,) = scan(admin, [group]).groups
    lags = {each.partition: each.lag for each in view.partitions}
    assert lags[deleted] == Lag(80, Basis.COMMITTED, lost=40)
    assert lags[beyond] == Lag(-30, Basis.BEYOND, beyond=30)
    assert lags[ahead] == Lag(80, Basis.COMMITTED, done_ahead=60)
    assert (view.records_behind, view.lost, view.unfinished, view.beyond) == (160, 40, 40 + 20, 30)


def test_retention_loses_records_and_compaction_does_not():
    quick = {"segment.bytes": 1000, "min.cleanable.dirty.ratio": 0.01}
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        broker.create_topic("kept", config={"cleanup.policy": "compact", **quick})
        broker.create_topic("aging", config={"retention.ms": 3_600_000})
        now_ms = int(time.time() * 1000)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(100):
                key = b"%d" % (number % 5)
                producer.send("kept", b"x" * 100, key=key, timestamp_ms=now_ms + number).result(20)
        produce(broker.bootstrap, TopicPartition("aging", 0), [b"x"] * 100, now_ms)
        kept, aging = TopicPartition("kept", 0), TopicPartition("aging", 0)
        admin.alter_group_offsets("reader", {kept: 10, aging: 10}).raise_if_failed()
        for _ in range(20):
            broker.advance(16)
        broker.advance(4000)
        first_left = admin.record_times([LogPlace(kept, 10)])[LogPlace(kept, 10)]
        assert first_left > now_ms + 10, "nothing was compacted"
        (view,) = scan(admin, ["reader"]).groups
        lags = {each.partition: each.lag for each in view.partitions}
        assert lags[kept] == Lag(90, Basis.COMMITTED)
        assert lags[aging] == Lag(90, Basis.COMMITTED, lost=90)
        # The age is that of the first record that is left.
        for most_reads in (0, 9):
            ages = GroupAges(admin, most_reads=most_reads).look(scan(admin, ["reader"]), now_ms + 1000)
            true = (now_ms + 1000 - first_left) / 1000
            assert ages["reader", kept].seconds == true if most_reads else ages["reader", kept].seconds <= true
            assert ages["reader", aging].method == "caught up"


@pytest.mark.parametrize("most_reads", [0, 100])
def test_ages_hold_where_times_are_out_of_order(kafka_like, admin, topic, fresh_name, most_reads):
    now_ms = int(time.time() * 1000)
    partition = TopicPartition(topic, 0)
    # One record of an hour ago among those of a minute ago.
    times = [now_ms - 61_000 + index for index in range(20)]
    times[7] = now_ms - 3_600_000
    produce(kafka_like.bootstrap, partition, [b"x"] * 20, times)
    positions = {fresh_name("group"): position for position in (0, 7, 8, 20)}
    for group, position in positions.items():
        admin.alter_group_offsets(group, {partition: position}).raise_if_failed()
    found = GroupAges(admin, most_reads=most_reads).look(scan(admin, list(positions)), now_ms)
    for group, position in positions.items():
        age = found[group, partition]
        true = 0.0 if position == 20 else (now_ms - times[position]) / 1000
        assert age.seconds == true if age.is_exact else age.seconds <= true
        assert age.is_exact or not most_reads


# covers: M2
def test_a_partition_without_a_commit_is_seen_when_the_group_has_no_members(seamark, admin, kafka_like, fresh_name):
    topic, group = fresh_name("topic"), fresh_name("group")
    admin.create_topics([NewTopic(topic, 3, 1)]).raise_if_failed()
    for index in range(3):
        produce(kafka_like.bootstrap, TopicPartition(topic, index), [b"x"] * 50)
    admin.alter_group_offsets(group, {TopicPartition(topic, index): 50 for index in range(2)}).raise_if_failed()
    (row,) = json.loads(seamark("lag", group, "--json")[1])
    assert (row["lag"], "partition 2: no committed offset" in row["remark"]) == (0, True)
    assert seamark("lag", group, "--fail-over", "49")[0] == 3
    assert seamark("lag", group, "--fail-over", "50")[0] == 0
    assert len(json.loads(seamark("groups", "describe", group, "--json")[1])) == 2, "as Kafka's own tool"
