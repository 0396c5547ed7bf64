"""Addresses that cannot be reached, and partitions that cannot be read: what the log says meanwhile, and how often."""

import asyncio
import logging
import re
import socket
import subprocess
import sys

import pytest

from seamark import Broker
from seamark.broker.security.security import Security, Tls
from seamark.client import Admin, AsyncConsumer, Consumer, Producer, TopicPartition
from seamark.client.core import lasting_failures
from seamark.client.errors import ClientError, CorruptRecords, NoBrokerAvailable, TlsFailed
from seamark.client.net import reachability
from seamark.parallel import ConsumerStopped, ParallelConsumer
from tests.support.certificates import Authority
from tests.support.waiting import eventually


@pytest.fixture
def dead_address():
    """An address that refuses connections: bound, so that nobody else gets it, and not listened on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def said(caplog):
    """The lines of an event, as log records."""
    caplog.set_level(logging.INFO, logger="seamark.client")
    return lambda event: [record for record in caplog.records if getattr(record, "event", "") == event]


def test_a_consumer_names_the_address_that_it_cannot_reach_once(dead_address, said):
    with Consumer(bootstrap_servers=dead_address, group_id="g", client_id="it") as consumer:
        consumer.subscribe(["t"])
        # The second wait is for what must not come: another line.
        assert consumer.poll(3.0) == []
        assert consumer.poll(1.0) == []
        consumer.close(timeout=0.1)
    [line] = said("unreachable")
    assert line.levelno == logging.WARNING
    says = f"group 'g', client 'it': {re.escape(dead_address)} has been unreachable for \\d+ s"
    assert re.match(says, line.getMessage())
    assert "connection refused" in line.getMessage()


@pytest.mark.parametrize("kind", ["async", "producer", "admin"])
def test_every_client_names_the_address_that_it_cannot_reach(dead_address, said, kind):
    if kind == "admin":
        with Admin(bootstrap_servers=dead_address, default_api_timeout_ms=3000) as admin, pytest.raises(ClientError):
            admin.list_topics()
    elif kind == "producer":
        with Producer(bootstrap_servers=dead_address, max_block_ms=3000) as producer, pytest.raises(ClientError):
            producer.send("t", b"value").result(3.0)
    else:

        async def poll():
            consumer = AsyncConsumer(bootstrap_servers=dead_address)
            await consumer.assign([TopicPartition("t", 0)])
            await consumer.poll(3.0)
            await consumer.close(timeout=0.1)

        asyncio.run(poll())
    [line] = said("unreachable")
    assert line.address == dead_address


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("has_tls", "chosen", "looks_like", "remedy"),
    [
        (True, "PLAINTEXT", "as a TLS port does", "SSL or SASL_SSL"),
        (False, "SSL", "as a port without TLS does", "PLAINTEXT or SASL_PLAINTEXT"),
    ],
)
def test_a_port_of_the_other_kind_is_said_in_the_log_and_in_the_error(
    authority, said, monkeypatch, has_tls, chosen, looks_like, remedy
):
    monkeypatch.setattr(reachability, "AFTER_S", 0.2)
    made = authority.sign("/CN=broker")
    security = Security(tls=Tls(made.certificate, made.key)) if has_tls else None
    options = {"security_protocol": chosen, "ssl_truststore_location": str(authority.certificate)}
    with (
        Broker(security=security) as broker,
        Consumer(bootstrap_servers=broker.bootstrap, group_id="g", default_api_timeout_ms=1000, **options) as consumer,
    ):
        consumer.subscribe(["t"])
        with pytest.raises(NoBrokerAvailable) as raised:
            consumer.poll(30.0)
    [line] = said("unreachable")
    for told in (line.getMessage(), str(raised.value)):
        assert broker.bootstrap in told
        assert f"{looks_like}; if this is one, set security.protocol to {remedy} (it is {chosen})" in told


def test_an_answer_in_tls_is_no_sign_of_a_port_without_tls(authority):
    made, stranger = authority.sign("/CN=broker"), authority.sign("/CN=stranger")
    security = Security(tls=Tls(made.certificate, made.key))
    options = {"security_protocol": "SSL", "ssl_truststore_location": str(stranger.certificate)}
    with (
        Broker(security=security) as broker,
        Admin(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=5000, **options) as admin,
        pytest.raises(TlsFailed) as raised,
    ):
        admin.list_topics()
    assert "security.protocol" not in str(raised.value)


def test_an_address_that_swallows_connections_is_named_too(said):
    # A queue of one that is full: the next connection is neither accepted nor refused.
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with Consumer(bootstrap_servers=address) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.poll(3.0)
            consumer.close(timeout=0.1)
    [line] = said("unreachable")
    assert line.address == address


def test_a_cluster_that_goes_away_and_comes_back_is_said_both_times(said):
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        with Consumer(bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
            consumer.subscribe(["t"])
            while not consumer.assignment():
                consumer.poll(0.1)
            broker.nodes[0].stop()
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("unreachable")), "a line about the address")
            assert not said("reached")
            broker.nodes[0].start()
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("reached")), "a line that it is back")
    assert [line.address for line in said("unreachable")] == [broker.bootstrap]
    [line] = said("reached")
    assert f"group 'g': {broker.bootstrap} can be reached again" in line.getMessage()


def test_a_dead_address_among_good_ones_is_not_spoken_of(dead_address, said, monkeypatch):
    # Connecting to the good one may take its time on a machine that is busy.
    monkeypatch.setattr(reachability, "AFTER_S", 3.0)
    with Broker() as broker:
        broker.create_topic("t")
        with Consumer(bootstrap_servers=f"{dead_address},{broker.bootstrap}") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.poll(4.0)
    assert said("unreachable") == []


@pytest.mark.parametrize(
    "arguments", [("topics", "list"), ("groups", "list"), ("lag",), ("consume", "t"), ("dead-letters", "list", "t")]
)
def test_a_command_says_on_standard_error_what_it_cannot_reach(dead_address, arguments):
    command = [sys.executable, "-c", "from seamark.cli.main import main; main()", *arguments]
    command += ["--bootstrap", dead_address, "-o", "default.api.timeout.ms=4000"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    assert lines[0].startswith("seamark: ")
    assert f"{dead_address} has been unreachable" in lines[0]
    assert "connection refused" in lines[0]
    assert len([line for line in lines if "has been unreachable for" in line]) == 1


# -- partitions that cannot be read


@pytest.fixture
def damaged(tmp_path):
    """A broker whose partition t-0 has a damaged batch at offset 5, of ten; t-1 is sound."""
    with Broker(data=tmp_path, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t", 2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(10):
                for partition in (0, 1):
                    producer.send("t", b"%d" % number, partition=partition).result(10)
        [log] = (tmp_path / "t-0").glob("*.log")
        content = bytearray(log.read_bytes())

        def damage(byte):
            content[len(content) // 10 * 5 + byte] ^= 0xFF
            with log.open("r+b") as file:
                file.write(content)
            return broker

        yield damage


# The base offset, which the checksum does not cover, the length, the format, the records.
DAMAGES = [3, 10, 16, 65]


@pytest.mark.parametrize("byte", DAMAGES)
@pytest.mark.parametrize("way", ["poll", "poll_arrow", "iteration"])
def test_a_damaged_batch_is_raised_again_and_again_and_other_partitions_are_read(damaged, byte, way):
    broker = damaged(byte)
    got, errors = {0: [], 1: []}, []
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        records = iter(consumer)

        def read():
            nonlocal records
            try:
                if way == "poll":
                    found = [(record.partition, record.offset) for record in consumer.poll(0.1)]
                elif way == "poll_arrow":
                    batch = consumer.poll_arrow(0.1)
                    found = [] if batch is None else [(row["partition"], row["offset"]) for row in batch.to_pylist()]
                else:
                    record = next(records)
                    found = [(record.partition, record.offset)]
            except CorruptRecords as error:
                errors.append(error)
                records = iter(consumer)
            else:
                for partition, offset in found:
                    got[partition].append(offset)
            return len(errors) >= 3 and len(got[1]) == 10

        eventually(read, "three errors and all of the other partition", scene=lambda: f"{got} {errors}")
        assert got == {0: list(range(5)), 1: list(range(10))}
        assert consumer.position(TopicPartition("t", 0)) == 5
        assert {(error.partition, error.offset) for error in errors} == {(TopicPartition("t", 0), 5)}
        assert "t-0 at offset 5" in str(errors[0])
        assert "seek to 6 or later" in str(errors[0])
        if byte in (16, 65):
            # What still says its length can be stepped over.
            consumer.seek(TopicPartition("t", 0), 6)
            got[0].clear()
            eventually(lambda: read() and len(got[0]) == 4, "the rest", scene=lambda: f"{got} {errors}")
            assert got[0] == [6, 7, 8, 9]


def test_a_command_that_meets_a_damaged_partition_ends_with_the_error(damaged):
    broker = damaged(10)
    command = [sys.executable, "-c", "from seamark.cli.main import main; main()", "consume", "t"]
    command += ["--bootstrap", broker.bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "the records of t-0 at offset 5 cannot be read" in ended.stderr


@pytest.mark.parametrize("code", ["KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR", "UNKNOWN_LEADER_EPOCH"])
def test_an_error_that_is_retried_is_logged_once_it_lasts_and_when_it_is_over(said, monkeypatch, code):
    monkeypatch.setattr(lasting_failures, "AFTER_MS", 300)
    with Broker() as broker:
        broker.create_topic("t")
        with Consumer(bootstrap_servers=broker.bootstrap, client_id="it", fetch_max_wait_ms=100) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek(TopicPartition("t", 0), 0)
            consumer.poll(0.5)
            fault = broker.faults.fail("Fetch", code, times=None)
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("partition_waits")), "a line that it waits")
            fault.remove()
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("partition_goes_on")), "a line that it goes on")
    [line] = said("partition_waits")
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith("client 'it': t-0 could not be read for ")
    assert code in line.getMessage()
    [line] = said("partition_goes_on")
    assert "t-0 can be read again" in line.getMessage()


@pytest.mark.parametrize("client", ["seamark", "confluent"])
def test_a_parallel_consumer_stops_with_the_error_of_a_damaged_partition(damaged, client):
    if client == "confluent":
        pytest.importorskip("confluent_kafka")
    # The format of the batch: librdkafka waits without a word for the rest of one whose length is wrong.
    broker = damaged(16)
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    done = []
    consumer = ParallelConsumer(config, ["t"], lambda record: done.append(record.partition), client=client)
    with pytest.raises(ConsumerStopped) as stopped:
        consumer.run()
    assert "polling failed" in str(stopped.value)
    assert len([partition for partition in done if partition == 0]) <= 5


# -- groups that cannot be joined, topics that do not exist


def test_a_topic_that_does_not_exist_is_named_and_so_is_its_arrival(said, monkeypatch):
    monkeypatch.setattr(lasting_failures, "AFTER_MS", 300)
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        options = {"allow_auto_create_topics": False, "metadata_max_age_ms": 500, "group_id": "g"}
        with Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.subscribe(["missing"])
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("topic_waits")), "a line that it is missing")
            broker.create_topic("missing")
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("topic_goes_on")), "a line that it is there")
    [line] = said("topic_waits")
    assert "group 'g': topic 'missing' has been unavailable for " in line.getMessage()
    assert "UNKNOWN_TOPIC_OR_PARTITION" in line.getMessage()


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup"])
def test_a_group_that_cannot_be_joined_is_named_and_so_is_the_end_of_it(said, monkeypatch, api):
    monkeypatch.setattr(lasting_failures, "AFTER_MS", 300)
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        fault = broker.faults.fail(api, "COORDINATOR_LOAD_IN_PROGRESS", times=None)
        with Consumer(bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
            consumer.subscribe(["t"])
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("join_waits")), "a line that it waits")
            fault.remove()
            eventually(lambda: consumer.poll(0.1) == [] and bool(said("join_succeeds")), "a line that it joined")
    assert said("join_waits")[0].levelno == logging.WARNING
    assert "group 'g': joining the group has not succeeded for " in said("join_waits")[0].getMessage()
    assert "COORDINATOR_LOAD_IN_PROGRESS" in said("join_waits")[0].getMessage()
