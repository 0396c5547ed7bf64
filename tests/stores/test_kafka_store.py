"""The Kafka store beyond its contract: groups with members, large groups, and brokers that refuse."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer
from seamark.client.admin.types import NewTopic
from seamark.stores import KafkaStore, StoredOffset
from seamark.stores.errors import StoreError, StoreRefused, StoreUnavailable
from seamark.topic_partition import TopicPartition


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as made:
        made.create_topic("orders", partitions=3)
        made.create_topic("wide", partitions=4000)
        yield made


@pytest.fixture
def store(broker):
    with KafkaStore(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=10_000) as made:
        yield made


T0 = TopicPartition("orders", 0)


def test_a_group_with_members_is_not_written_and_its_members_are_named(kafka_like, admin, fresh_name):
    topic, group = fresh_name("topic"), fresh_name("group")
    admin.create_topics([NewTopic(topic, 1, 1)]).raise_if_failed()
    partition = TopicPartition(topic, 0)
    with (
        KafkaStore(admin=admin) as store,
        Consumer(bootstrap_servers=kafka_like.bootstrap, group_id=group, client_id="busy") as consumer,
    ):
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.2)
        (member,) = store.active_members(group)
        assert member.startswith("busy at ")
        outcomes = dict(
            store.write_many([(group, {partition: StoredOffset(1)}), (f"{group}-2", {partition: StoredOffset(2)})])
        )
        assert isinstance(outcomes[group][partition], StoreRefused)
        assert "busy at" in str(outcomes[group][partition])
        assert outcomes[f"{group}-2"] == {partition: None}
    assert admin.list_group_offsets([f"{group}-2"])[f"{group}-2"][partition].offset == 2


def test_threads_that_share_a_store_share_the_clients_it_writes_with(store, monkeypatch):
    made = []
    another = Admin.another

    def slowly(admin):
        made.append(another(admin))
        time.sleep(0.05)
        return made[-1]

    monkeypatch.setattr(Admin, "another", slowly)

    def write(number):
        return list(store.write_many((f"shared-{number}-{each}", {T0: StoredOffset(each)}) for each in range(6)))

    with ThreadPoolExecutor(4) as threads:
        outcomes = [outcome for found in threads.map(write, range(4)) for outcome in found]
    assert len(outcomes) == 24
    assert all(outcome == {T0: None} for _, outcome in outcomes)
    assert len(made) == 4


def test_more_offsets_than_one_commit_may_hold_are_stored_in_portions(store):
    wanted = {TopicPartition("wide", index): StoredOffset(index, "x" * 200) for index in range(4000)}
    outcomes = store.write("wide", wanted)
    assert set(outcomes) == set(wanted)
    assert all(error is None for error in outcomes.values())
    assert {each: stored._replace(leader_epoch=None) for each, stored in store.read("wide").items()} == wanted
    assert store.admin.request_counts["OffsetCommit"] > 1


def test_a_partition_that_does_not_exist_is_refused_alone(store):
    missing = TopicPartition("orders", 99)
    outcomes = store.write("g", {T0: StoredOffset(1), missing: StoredOffset(2)})
    assert outcomes[T0] is None
    assert isinstance(outcomes[missing], StoreError)
    assert "orders-99" in str(outcomes[missing])


def test_a_coordinator_that_is_loading_is_waited_for(broker, store):
    broker.faults.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    broker.faults.fail("OffsetFetch", "NOT_COORDINATOR", times=1)
    assert store.write("patient", {T0: StoredOffset(5)}) == {T0: None}
    assert store.read("patient").good[T0].offset == 5


def test_what_the_broker_refuses_is_an_outcome_and_what_is_lost_is_unavailable(broker):
    with KafkaStore(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=1_500) as store:
        broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=1)
        assert isinstance(store.write("g", {T0: StoredOffset(5)})[T0], StoreRefused)
        broker.faults.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=1000)
        try:
            assert isinstance(store.write("g", {T0: StoredOffset(5)})[T0], StoreUnavailable)
        finally:
            broker.faults.clear()
        broker.faults.fail("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", times=1)
        with pytest.raises(StoreRefused, match="GROUP_AUTHORIZATION_FAILED"):
            store.read("g")


def test_an_admin_client_of_the_caller_is_not_closed(broker):
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        KafkaStore(admin=admin).close()
        assert "orders" in admin.list_topics()


def test_a_broker_that_cannot_tell_stable_offsets_is_read_all_the_same():
    with Broker(max_versions="2.4") as old, KafkaStore(bootstrap_servers=old.bootstrap) as store:
        old.create_topic("orders", partitions=1)
        assert store.write("g", {T0: StoredOffset(3, "m")}) == {T0: None}
        assert store.read("g").good[T0][:2] == (3, "m")
