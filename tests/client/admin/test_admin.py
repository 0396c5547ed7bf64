"""The admin client against every broker: each answer is per item, and errors say which item and why."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark import Broker
from seamark.client import Admin, AsyncAdmin, Offset, TopicPartition
from seamark.client.admin import configs as admin_configs
from seamark.client.admin import groups as admin_groups
from seamark.client.admin import offsets as admin_offsets
from seamark.client.admin import topics as admin_topics
from seamark.client.admin.types import ConfigChange, NewTopic, Resource
from seamark.client.errors import BrokerError, Refused
from seamark.client.net import fanout
from seamark.client.net.fanout import SomeFailed
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode


def eventually(found, wanted):
    """A change is acknowledged by the controller before the broker that is asked has heard of it."""
    until = time.monotonic() + 10
    while (seen := found()) != wanted and time.monotonic() < until:
        time.sleep(0.02)
    assert seen == wanted


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name, 3, 1)]).raise_if_failed()
    return name


def partitions(topic, *indexes):
    return [TopicPartition(topic, index) for index in indexes]


def test_topics_are_made_listed_described_and_removed(admin, fresh_name):
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name, 2, 1, {"retention.ms": "1000"})]).raise_if_failed()
    assert name in admin.list_topics()
    described = admin.describe_topics([name])[name]
    assert sorted(described.partitions) == [0, 1]
    assert described.partitions[0].replicas == (described.partitions[0].leader,)
    setting = admin.describe_configs([Resource("topic", name)])[Resource("topic", name)]["retention.ms"]
    assert (setting.value, setting.source, setting.is_default) == ("1000", "topic", False)
    admin.delete_topics([name]).raise_if_failed()
    eventually(lambda: name in admin.list_topics(), False)


def test_one_topic_that_cannot_be_made_does_not_hold_up_the_others(admin, topic, fresh_name):
    new = fresh_name("topic")
    results = admin.create_topics([NewTopic(new), NewTopic(topic), NewTopic("not a name")])
    assert new in results
    assert {name: error.code for name, error in results.errors.items()} == {
        topic: ErrorCode.TOPIC_ALREADY_EXISTS,
        "not a name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    with pytest.raises(Refused, match=topic):
        results[topic]
    with pytest.raises(SomeFailed, match="1 more of 3"):
        results.raise_if_failed()


def test_a_dry_run_makes_nothing(admin, fresh_name):
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name)], validate_only=True).raise_if_failed()
    assert name not in admin.list_topics()


def test_offsets_can_be_written_for_a_topic_as_soon_as_it_was_made(admin, fresh_name):
    group = fresh_name("group")
    for _ in range(20):
        name = fresh_name("topic")
        admin.create_topics([NewTopic(name)]).raise_if_failed()
        admin.alter_group_offsets(group, {TopicPartition(name, 0): 1}).raise_if_failed()


def test_partitions_are_added_and_never_removed(admin, topic):
    admin.create_partitions({topic: 5}).raise_if_failed()
    assert len(admin.describe_topics([topic])[topic].partitions) == 5
    assert admin.create_partitions({topic: 2}).errors[topic].code is ErrorCode.INVALID_PARTITIONS


def test_what_does_not_exist_is_answered_at_once_with_its_name(admin):
    errors = [
        admin.describe_topics(["nowhere"]).errors["nowhere"],
        admin.delete_topics(["nowhere"]).errors["nowhere"],
        admin.create_partitions({"nowhere": 2}).errors["nowhere"],
        admin.list_offsets({TopicPartition("nowhere", 0): "latest"}).errors[TopicPartition("nowhere", 0)],
    ]
    for error in errors:
        assert isinstance(error, BrokerError)
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "nowhere" in str(error)


def test_settings_change_one_by_one_and_go_back_to_their_defaults(admin, topic):
    resource = Resource("topic", topic)

    def value(name):
        return admin.describe_configs([resource])[resource][name].value

    default = value("retention.ms")
    admin.alter_configs({resource: {"retention.ms": "5000", "max.message.bytes": "2000"}}).raise_if_failed()
    eventually(lambda: (value("retention.ms"), value("max.message.bytes")), ("5000", "2000"))
    admin.alter_configs({resource: {"retention.ms": None}}).raise_if_failed()
    eventually(lambda: (value("retention.ms"), value("max.message.bytes")), (default, "2000"))
    admin.alter_configs({resource: {"cleanup.policy": ConfigChange("compact", "append")}}).raise_if_failed()
    eventually(lambda: set(value("cleanup.policy").split(",")), {"delete", "compact"})
    assert resource in admin.alter_configs({resource: {"retention.ms": "often"}}).errors


def test_a_brokers_settings_are_asked_of_that_broker(admin):
    node = admin.describe_cluster().brokers[0]
    resource = Resource("broker", str(node.id))
    assert admin.describe_configs([resource])[resource]
    with pytest.raises(UsageError):
        admin.describe_configs([Resource("broker", "one")])
    with pytest.raises(UsageError, match="resource type"):
        Resource("table", "x")


def test_offsets_are_committed_on_behalf_of_a_group_and_read_back_with_metadata(admin, topic, fresh_name):  # F17, F19
    group = fresh_name("group")
    wanted = {TopicPartition(topic, 0): Offset(100, "done"), TopicPartition(topic, 1): Offset(200)}
    admin.alter_group_offsets(group, wanted).raise_if_failed()
    found = admin.list_group_offsets([group])[group]
    assert {partition: (each.offset, each.metadata) for partition, each in found.items()} == {
        TopicPartition(topic, 0): (100, "done"),
        TopicPartition(topic, 1): (200, ""),
    }
    some = admin.list_group_offsets({group: partitions(topic, 1, 2)})[group]
    assert {partition: each.offset for partition, each in some.items()} == {TopicPartition(topic, 1): 200}


def test_offsets_are_forgotten_one_partition_at_a_time(admin, topic, fresh_name):
    group = fresh_name("group")
    admin.alter_group_offsets(group, {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 2}).raise_if_failed()
    admin.delete_group_offsets(group, partitions(topic, 0)).raise_if_failed()
    assert set(admin.list_group_offsets([group])[group]) == {TopicPartition(topic, 1)}


def test_a_commit_for_a_topic_that_does_not_exist_fails_for_that_partition_alone(admin, topic, fresh_name):  # F26
    group = fresh_name("group")
    results = admin.alter_group_offsets(group, {TopicPartition(topic, 0): 1, TopicPartition("nowhere", 0): 1})
    assert TopicPartition(topic, 0) in results
    assert results.errors[TopicPartition("nowhere", 0)].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_that_is_too_large_fails_for_that_partition_alone(admin, topic, fresh_name):  # F18
    group = fresh_name("group")
    offsets = {TopicPartition(topic, 0): Offset(1, "x" * 4096), TopicPartition(topic, 1): Offset(1, "x" * 4097)}
    results = admin.alter_group_offsets(group, offsets)
    assert list(results) == [TopicPartition(topic, 0)]
    assert results.errors[TopicPartition(topic, 1)].code is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_many_groups_are_read_with_one_request_per_coordinator(kafka_like, admin, topic, fresh_name):
    groups = [fresh_name("group") for _ in range(30)]
    for number, group in enumerate(groups):
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): number}).raise_if_failed()
    with Admin(bootstrap_servers=kafka_like.bootstrap) as fresh:
        found = fresh.list_group_offsets(groups).raise_if_failed()
        assert [found[group][TopicPartition(topic, 0)].offset for group in groups] == list(range(30))
        # 2.4 knows neither many keys nor many groups in a request.
        expected = 30 if kafka_like.name == "seamark-2.4" else 1
        assert fresh.request_counts["FindCoordinator"] == expected
        assert fresh.request_counts["OffsetFetch"] == expected
        described = fresh.describe_groups(groups).raise_if_failed()
        assert {each.state for each in described.values()} == {"Empty"}
        assert fresh.request_counts["DescribeGroups"] == 1
        assert fresh.list_group_offsets(described).keys() == set(groups)


def test_groups_are_listed_with_state_and_type_and_removed(kafka_like, admin, topic, fresh_name):
    group = fresh_name("group")
    admin.alter_group_offsets(group, {TopicPartition(topic, 0): 1}).raise_if_failed()
    listing = next(each for each in admin.list_groups() if each.group_id == group)
    if kafka_like.name != "seamark-2.4":
        assert listing.state == "Empty"
        assert listing.type == "classic"
        assert group in {each.group_id for each in admin.list_groups(states=["Empty"], types=["classic"])}
        assert group not in {each.group_id for each in admin.list_groups(states=["Stable"])}
    admin.delete_groups([group]).raise_if_failed()
    assert admin.describe_groups([group]).errors[group].code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group not in {each.group_id for each in admin.list_groups()}


def test_a_group_without_offsets_or_existence_has_none(admin, fresh_name):  # F25
    assert admin.list_group_offsets([fresh_name("group")]).raise_if_failed()


def test_an_active_group_is_shown_and_guarded(kafka_like, admin, topic, fresh_name):
    kafka = pytest.importorskip("kafka")
    group = fresh_name("group")
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=kafka_like.bootstrap, group_id=group, enable_auto_commit=False, client_id="someone"
    )
    try:
        for _ in range(60):
            consumer.poll(timeout_ms=500)
            described = admin.describe_groups([group])
            if group in described and described[group].state == "Stable":
                break
        found = described[group]
        assert found.is_active
        assert found.type == "classic"
        (member,) = found.members
        assert member.client_id == "someone"
        assert member.assignment == tuple(partitions(topic, 0, 1, 2))
        assert member.topics == (topic,)
        refused = admin.alter_group_offsets(group, {TopicPartition(topic, 0): 1}).errors[TopicPartition(topic, 0)]
        assert refused.code is ErrorCode.NON_EMPTY_GROUP
        assert "with 1 member;" in str(refused)
        assert admin.delete_groups([group]).errors[group].code is ErrorCode.NON_EMPTY_GROUP
        forgotten = admin.delete_group_offsets(group, partitions(topic, 0))
        assert forgotten.errors[TopicPartition(topic, 0)].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    finally:
        consumer.close()


def test_groups_of_the_newer_protocol_are_shown_with_their_type_and_guarded(apache_kafka, fresh_name):
    group, topic = fresh_name("group"), fresh_name("topic")
    with Admin(bootstrap_servers=apache_kafka.bootstrap, default_api_timeout_ms=30_000) as admin:
        admin.create_topics([NewTopic(topic, 2)]).raise_if_failed()

        def consume():
            return apache_kafka.tool(
                "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", apache_kafka.bootstrap,
                "--topic", topic, "--group", group, "--consumer-property", "group.protocol=consumer",
                "--timeout-ms", "8000",
            )  # fmt: skip

        with ThreadPoolExecutor(1) as pool:
            consuming = pool.submit(consume)
            seen = None
            while not consuming.done():
                found = admin.describe_groups([group])
                if group in found and found[group].state == "Stable":
                    seen = found[group]
                    refused = admin.alter_group_offsets(group, {TopicPartition(topic, 0): 1}).errors
                    break
                time.sleep(0.1)
            consuming.result()
        assert seen is not None, "the consumer never became a member"
        assert seen.type == "consumer"
        (member,) = seen.members
        assert member.assignment == member.target == tuple(partitions(topic, 0, 1))
        assert member.epoch == seen.epoch > 0
        assert refused[TopicPartition(topic, 0)].code is ErrorCode.NON_EMPTY_GROUP
        listed = next(each for each in admin.list_groups(types=["consumer"]) if each.group_id == group)
        assert listed.type == "consumer"
        assert admin.describe_groups()[group].type == "consumer"


def test_offsets_are_found_by_place_and_time_and_records_deleted(kafka_like, admin, topic):
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(bootstrap_servers=kafka_like.bootstrap)
    for stamp in (1000, 2000, 3000):
        producer.send(topic, b"x", partition=0, timestamp_ms=stamp)
    producer.flush()
    producer.close()
    first = TopicPartition(topic, 0)
    place = {spec: admin.list_offsets({first: spec})[first].offset for spec in ("earliest", "latest", 1500, 2000, 3001)}
    assert place == {"earliest": 0, "latest": 3, 1500: 1, 2000: 1, 3001: -1}
    assert admin.delete_records({first: 2})[first] == 2
    assert admin.list_offsets({first: "earliest"})[first].offset == 2
    with pytest.raises(UsageError):
        admin.list_offsets({first: "newest"})


def test_the_awaitable_client_answers_the_same(kafka_like, topic):
    async def scenario():
        async with AsyncAdmin(bootstrap_servers=kafka_like.bootstrap) as admin:
            cluster, topics = await asyncio.gather(admin.describe_cluster(), admin.describe_topics([topic]))
            return cluster, topics[topic]

    cluster, described = asyncio.run(scenario())
    assert cluster.brokers
    assert len(described.partitions) == 3


def test_both_clients_have_the_same_calls():
    def calls(kind):
        return {name for name in dir(kind) if not name.startswith("_")}

    assert calls(Admin) == calls(AsyncAdmin)


def test_more_groups_than_a_request_may_hold_are_read_with_several():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        found = admin.list_group_offsets([f"group-{number}" for number in range(33_000)]).raise_if_failed()
        assert len(found) == 33_000
        # One of them found the offsets topic missing, and was made again.
        assert admin.request_counts["FindCoordinator"] >= 4


@pytest.fixture
def few_at_once(monkeypatch):
    """Calls about more than three things take several requests."""
    monkeypatch.setattr(fanout.retry_each, "__kwdefaults__", {**fanout.retry_each.__kwdefaults__, "at_once": 3})
    for module, name, value in (
        (admin_offsets, "_WRITTEN_AT_ONCE", 500),
        (admin_topics, "_CHANGED_AT_ONCE", 6),
        (admin_configs, "_DESCRIBED_AT_ONCE", 3),
        (admin_configs, "_CHANGED_AT_ONCE", 6),
        (admin_groups, "_DESCRIBED_AT_ONCE", 3),
    ):
        monkeypatch.setattr(module, name, value)


def test_calls_about_many_things_are_cut_into_requests_and_answered_as_one(admin, fresh_name, few_at_once):
    names = [fresh_name("topic") for _ in range(7)]
    new = [NewTopic(name, 1, 1) for name in names]
    before = dict(admin.request_counts)
    made = admin.create_topics([*new, NewTopic("not a name", 1, 1)])
    assert set(made) == set(names)
    assert list(made.errors) == ["not a name"]
    admin.create_partitions(dict.fromkeys(names, 2)).raise_if_failed()
    where = [TopicPartition(name, index) for name in names for index in range(2)]
    missing = TopicPartition(fresh_name("missing"), 0)

    assert set(admin.list_offsets(dict.fromkeys([*where, missing], "latest"))) == set(where)
    group = fresh_name("group")
    written = admin.alter_group_offsets(group, {each: number for number, each in enumerate([*where, missing])})
    assert set(written) == set(where)
    assert written.errors[missing].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stored = admin.list_group_offsets([group])[group]
    assert {each: offset.offset for each, offset in stored.items()} == {each: n for n, each in enumerate(where)}
    admin.delete_group_offsets(group, where[:8]).raise_if_failed()
    assert set(admin.list_group_offsets([group])[group]) == set(where[8:])
    admin.delete_records(dict.fromkeys(where, -1)).raise_if_failed()

    resources = [Resource("topic", name) for name in names]
    changes = {resource: {"retention.ms": "5000"} for resource in resources}
    admin.alter_configs(changes).raise_if_failed()
    eventually(lambda: {each["retention.ms"].value for each in admin.describe_configs(resources).values()}, {"5000"})
    groups = [fresh_name("group") for _ in range(5)]
    for each in groups:
        admin.alter_group_offsets(each, {where[0]: 1}).raise_if_failed()
    assert set(admin.describe_groups(groups)) == set(groups)
    admin.delete_groups(groups).raise_if_failed()
    admin.delete_topics(names).raise_if_failed()

    sent = {api: count - before.get(api, 0) for api, count in admin.request_counts.items()}
    for api in ("CreateTopics", "CreatePartitions", "ListOffsets", "OffsetDelete", "DeleteRecords", "DeleteTopics"):
        assert sent[api] >= 2, (api, sent)
    assert sent["OffsetCommit"] > 1 + len(groups)
    assert sent["IncrementalAlterConfigs"] >= 2


def test_more_offsets_than_a_request_may_have_elements_are_written_and_deleted():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        for number in range(4):
            broker.create_topic(f"wide-{number}", 8_200)
        where = [TopicPartition(f"wide-{number}", index) for number in range(4) for index in range(8_200)]
        admin.alter_group_offsets("g", dict.fromkeys(where, 5)).raise_if_failed()
        assert len(admin.list_group_offsets(["g"])["g"]) == len(where) > 32_768
        admin.delete_group_offsets("g", where[1:]).raise_if_failed()
        assert list(admin.list_group_offsets(["g"])["g"]) == where[:1]
