"""One look at the groups of a live broker: offsets, bounds, owners, ages, and what does not answer."""

import time

import pytest

from seamark.client import Consumer, Offset, TopicPartition
from seamark.client.admin_types import NewTopic
from seamark.monitor.scan import bounds_of, scan
from seamark.rules.lag import Basis
from seamark.rules.time_probe import ages_at
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
def test_an_assigned_partition_without_a_commit_is_counted_and_has_its_owner(kafka_like, admin, topic, fresh_name):
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
    assert [each.partition.partition for each in view.partitions] == [0, 1, 2]
    assert {each.owner.client_id for each in view.partitions} == {"reader"}
    assert {each.lag.basis for each in view.partitions} == {Basis.RESET}
    assert view.records_behind == 7


def test_a_partition_that_does_not_answer_is_shown_with_the_reason_and_does_not_hide_others(admin, topic):
    there, missing = TopicPartition(topic, 0), TopicPartition(topic, 9)
    found = bounds_of(admin, [there, missing], timeout=3)
    assert (found[there].log_end, found[there].error) == (0, None)
    assert (found[missing].log_end, topic in found[missing].error) == (None, True)


def test_a_group_that_does_not_exist_is_named(admin, fresh_name):
    name = fresh_name("nobody")
    found = scan(admin, [name])
    assert found.groups == () or found.groups[0].description.state == "Dead"


def test_the_age_of_the_first_unread_record_is_found_by_asking_for_times(kafka_like, admin, topic):
    now_ms = int(time.time() * 1000)
    partition = TopicPartition(topic, 0)
    for minutes in (600, 60, 10, 5):
        produce(kafka_like.bootstrap, partition, [b"x"] * 10, now_ms - minutes * 60_000)
    found = ages_at({partition: ((0, 15, 25, 39, 40), 40)}, now_ms, admin.list_offsets)[partition]
    assert found[40].seconds == 0
    for position, minutes in ((0, 600), (15, 60), (25, 10), (39, 5)):
        assert abs(found[position].seconds - minutes * 60) <= found[position].error + 0.1
        assert found[position].error <= max(1.0, 0.05 * minutes * 60)
