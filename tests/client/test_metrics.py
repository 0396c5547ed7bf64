"""Metrics and log lines of real consumers and producers: Kafka's meanings, Prometheus' form, one line per event."""

import logging
import re
import time
from pathlib import Path

import pytest

from seamark import Broker
from seamark.client import Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.core import metrics as consumer_metrics
from seamark.client.errors import ClientError
from seamark.client.fetch import metrics as fetch_metrics
from seamark.client.producer import metrics as producer_metrics
from tests.support.produced import produce

DOCUMENT = Path(__file__).parents[2] / "docs" / "client.md"
SAMPLE = re.compile(r'^([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})? (-?[0-9.e+-]+)$')
KAFKAS = {**consumer_metrics.KAFKA_NAMES, **fetch_metrics.KAFKA_NAMES}


def parsed(text):
    """Samples by name and labels; checks the form of every line on the way."""
    found, announced = {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert len(line.split(" ", 3)) == 4
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in announced, "one family, one block"
            assert kind == ("counter" if name.endswith("_total") else "gauge")
            announced.add(name)
        else:
            match = SAMPLE.match(line)
            assert match, line
            assert match[1] in announced
            found[match[1], match[2]] = float(match[3])
    return found


def read(consumer, count):
    found, deadline = [], time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(0.5)
    return found


@pytest.fixture
def partition(admin, kafka_like, fresh_name):
    name = fresh_name("metrics")
    admin.create_topics([NewTopic(name, 1, 1)]).raise_if_failed()
    made = TopicPartition(name, 0)
    produce(kafka_like.bootstrap, made, [b"value"] * 10)
    return made


# covers: M3, M4, M5
def test_a_members_metrics_say_what_it_did(kafka_like, partition, fresh_name):
    settings = {"bootstrap_servers": kafka_like.bootstrap, "group_id": fresh_name("group")}
    with Consumer(
        **settings, auto_offset_reset="earliest", enable_auto_commit=False, client_id="it", heartbeat_interval_ms=300
    ) as consumer:
        assert consumer.metrics()["seamark_consumer_last_poll_seconds_ago"] == -1
        consumer.subscribe([partition.topic])
        before = time.monotonic()
        assert len(read(consumer, 4)[:4]) == 4
        consumer.commit()
        consumer.commit_async()
        consumer.committed([partition])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            consumer.poll(0.2)
            metrics = consumer.metrics()
            if metrics["seamark_consumer_heartbeats_total"] and metrics["seamark_consumer_commits_total"] == 2:
                break
        elapsed = time.monotonic() - before
        assert metrics["seamark_consumer_assigned_partitions"] == 1
        assert metrics["seamark_consumer_rebalances_total"] == 1
        assert 0 <= metrics["seamark_consumer_last_rebalance_seconds_ago"] <= elapsed + 1
        assert metrics["seamark_consumer_commits_total"] == 2
        assert metrics["seamark_consumer_commit_latency_avg_ms"] <= metrics["seamark_consumer_commit_latency_max_ms"]
        assert metrics["seamark_consumer_heartbeats_total"] >= 1
        assert 0 <= metrics["seamark_consumer_last_heartbeat_seconds_ago"] <= elapsed + 1
        for step in ("join_time", "sync_time", "rebalance_latency"):
            average, longest = (metrics[f"seamark_consumer_{step}_{kind}_ms"] for kind in ("avg", "max"))
            assert 0 <= average <= longest <= 1000 * elapsed + 1000
        assert metrics["seamark_consumer_rebalance_latency_ms_total"] > 0
        assert metrics["seamark_consumer_rebalance_rate_per_hour"] > 0
        assert metrics["seamark_consumer_commit_sync_time_ns_total"] >= 0
        assert metrics["seamark_consumer_committed_time_ns_total"] >= 0
        assert metrics["seamark_consumer_time_between_poll_avg_ms"] > 0
        assert metrics["seamark_consumer_time_between_poll_max_ms"] >= 100
        assert 0 <= metrics["seamark_consumer_last_poll_seconds_ago"] < 5
        assert 0 < metrics["seamark_consumer_poll_idle_ratio_avg"] <= 1
        assert metrics["seamark_consumer_fetches_total"] >= 1
        assert metrics["seamark_consumer_records_consumed_rate"] > 0
        assert metrics["seamark_consumer_bytes_consumed_rate"] > 0
        named = {name.partition("{")[0] for name in metrics}
        assert named >= set(KAFKAS), "every one of Kafka's that the requirements name"
        text = consumer.metrics_text()
    samples = parsed(text)
    labels = f'client_id="it",group="{settings["group_id"]}"'
    assert samples["seamark_consumer_commits_total", f"{{{labels}}}"] == 2
    own = f'{{{labels},topic="{partition.topic}",partition="0"}}'
    assert samples["seamark_consumer_records_lag", own] >= 0


# covers: M4
def test_lag_and_lead_are_against_the_position(kafka_like, partition):
    with Consumer(bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        assert len(consumer.poll(20.0, max_records=4)) == 4
        metrics = consumer.metrics()
        labels = f'{{topic="{partition.topic}",partition="0"}}'
        assert metrics[f"seamark_consumer_records_lag{labels}"] == 6
        assert metrics[f"seamark_consumer_records_lead{labels}"] == 4
        assert metrics["seamark_consumer_records_lag_avg"] == metrics["seamark_consumer_records_lag_max"] == 6
        assert metrics["seamark_consumer_records_lead_min"] == 4


# covers: M5
def test_polling_for_columns_counts_as_polling(kafka_like, partition):
    with Consumer(bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        assert consumer.poll_arrow(20.0).num_rows == 10
        metrics = consumer.metrics()
        assert 0 <= metrics["seamark_consumer_last_poll_seconds_ago"] < 20
        assert metrics["seamark_consumer_records_consumed_total"] == 10


def test_a_producers_metrics_are_counters_with_kafkas_meanings(kafka_like, partition):
    with Producer(bootstrap_servers=kafka_like.bootstrap, client_id='odd "name"\\') as producer:
        for _ in range(20):
            producer.send(partition.topic, b"x" * 100)
        producer.flush(30)
        metrics = producer.metrics()
        assert metrics["seamark_producer_records_total"] == 20
        assert metrics["seamark_producer_bytes_total"] > 2000
        assert metrics["seamark_producer_buffer_available_bytes"] == producer.config.buffer_memory
        samples = parsed(producer.metrics_text())
    assert samples["seamark_producer_records_total", '{client_id="odd \\"name\\"\\\\"}'] == 20
    assert {name for name, _ in samples} >= set(producer_metrics.KAFKA_NAMES)


# covers: M3, M4, M5
def test_the_document_has_every_metric_with_kafkas_name():
    rows = dict(re.findall(r"^\| `([a-z.-]+:[a-z-]+)` \| `(\w+)` \|$", DOCUMENT.read_text(), re.MULTILINE))
    expected = {**KAFKAS, **producer_metrics.KAFKA_NAMES}
    assert rows == {f"{group}:{kafkas}": ours for ours, (group, kafkas) in expected.items()}


# -- log lines


@pytest.fixture
def events(caplog):
    """What the client has logged about a group, as (event, record)."""
    caplog.set_level(logging.INFO, logger="seamark.client")
    return lambda group: [
        (record.event, record) for record in caplog.records if getattr(record, "group", None) == group
    ]


def test_a_members_life_is_one_line_per_event(kafka_like, admin, partition, fresh_name, events):
    group = fresh_name("group")
    # A broker that has just been started loads its groups first, which would be events of their own.
    admin.list_group_offsets([group]).raise_if_failed()
    settings = {"bootstrap_servers": kafka_like.bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
    with Consumer(**settings, client_id="it") as consumer:
        consumer.subscribe([partition.topic])
        assert read(consumer, 10)
    lines = events(group)
    names = [event for event, _ in lines if event in ("coordinator_found", "joined", "assigned", "revoked")]
    assert names == ["coordinator_found", "joined", "assigned", "revoked"]
    by_event = dict(lines)
    assert by_event["joined"].generation >= 1
    assert by_event["joined"].member_id.startswith("it-")
    assert by_event["assigned"].partitions == (str(partition),)
    assert by_event["assigned"].getMessage() == f"group {group!r}, client 'it': was assigned {partition}"
    assert {record.client_id for _, record in lines} == {"it"}


def test_what_goes_wrong_is_logged_with_its_reason(events):
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        settings = {"bootstrap_servers": broker.bootstrap, "heartbeat_interval_ms": 50, "retry_backoff_ms": 20}
        with Consumer(**settings, group_id="g", enable_auto_commit=False) as consumer:
            consumer.subscribe(["t"])
            deadline = time.monotonic() + 30
            while not consumer.assignment() and time.monotonic() < deadline:
                consumer.poll(0.1)
            broker.faults.fail("OffsetCommit", "OFFSET_METADATA_TOO_LARGE", times=1)
            with pytest.raises(ClientError):
                consumer.commit({TopicPartition("t", 0): 1})
            broker.faults.fail("Heartbeat", "NOT_COORDINATOR", times=1)
            broker.faults.expire_member("g", consumer.group_metadata().member_id)
            while not {"lost", "coordinator_lost"} <= {event for event, _ in events("g")}:
                consumer.poll(0.1)
                assert time.monotonic() < deadline
    found = dict(events("g"))
    assert found["commit_failed"].levelno == logging.WARNING
    assert found["commit_failed"].partitions == ("t-0",)
    assert "the offset metadata is longer than the broker allows" in found["commit_failed"].reason
    assert found["commit_failed"].is_automatic is False
    assert found["coordinator_lost"].address in broker.bootstrap
    assert found["lost"].partitions == ("t-0",)
    assert sum(event == "commit_failed" for event, _ in events("g")) == 1


def test_an_ordinary_join_is_no_failure_and_each_line_names_the_group_once(events):
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        with Consumer(bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                consumer.poll(0.1)
    lines = events("g")
    assert {"joined", "assigned"} <= {event for event, _ in lines}
    for event, line in lines:
        assert "fail" not in f"{event} {line.getMessage()}"
        assert line.getMessage().startswith("group 'g': ")


def test_a_refused_commit_is_explained_once(events):
    told = []
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        settings = {"bootstrap_servers": broker.bootstrap, "group_id": "g", "enable_auto_commit": False}
        with Consumer(**settings) as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                consumer.poll(0.1)
            broker.faults.fail("OffsetCommit", "OFFSET_METADATA_TOO_LARGE", times=1)
            consumer.commit_async({TopicPartition("t", 0): 1}, callback=lambda _, error: told.append(error))
            while not told:
                consumer.poll(0.1)
            assert "commit_failed" not in dict(events("g")), "the callback has heard it"
            broker.faults.fail("OffsetCommit", "UNKNOWN_MEMBER_ID", times=1)
            with pytest.raises(ClientError, match="rebalanced without this member"):
                consumer.commit({TopicPartition("t", 0): 1})
    assert sum("rebalanced without this member" in line.getMessage() for _, line in events("g")) == 1
    assert not [line for _, line in events("g") if "being closed" in line.getMessage()], "closing is not joining"
