"""A data directory: what was acknowledged is there after an end of any kind, for one broker at a time."""

import contextlib
import itertools
import json
import shutil
import subprocess
import threading

import pytest

from seamark import Broker
from seamark.errors import SeamarkError, UsageError
from seamark.storage.errors import UnknownFormat
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.api.test_configs import BROKER, SET, alter, describe
from tests.broker.test_command import bootstrap_of
from tests.broker.test_command import start as process
from tests.support.broker_driver import Client, batch_of
from tests.support.capture import CaptureError


@pytest.fixture(params=["os", "commit"])
def start(request, tmp_path):
    running = []

    def starter(directory=tmp_path / "data", **options):
        broker = Broker(data=directory, durability=request.param, **options)
        running.append(broker)
        return broker

    yield starter
    for broker in running:
        broker.close()


def copy_of(broker, tmp_path):
    """What a broker that was killed now would have left."""
    target = tmp_path / "crashed"
    shutil.copytree(tmp_path / "data", target)
    return target


def test_topics_records_and_ids_survive_a_clean_end(start):
    with start() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("kept", 2, {"retention.ms": 12345})
        client.produce("kept", batch_of(b"a", b"b"), partition=1)
        alter(client, BROKER, "", ("message.max.bytes", SET, "4321"))
        topic_id, cluster_id = client.topic_id("kept"), client.metadata().cluster_id
        producer_id = client.ask(InitProducerIdRequest(transactional_id=None)).producer_id
    with start() as broker, Client(broker.bootstrap) as client:
        found = client.metadata("kept")
        assert (found.topics[0].topic_id, found.cluster_id) == (topic_id, cluster_id)
        assert [p.leader_epoch for p in found.topics[0].partitions] == [1, 1]
        assert client.values("kept", partition=1) == [b"a", b"b"]
        assert client.produce("kept", batch_of(b"c"), partition=1).base_offset == 2
        assert describe(client, 2, "kept", ["retention.ms"]).configs[0].value == "12345"
        assert describe(client, BROKER, "0", ["message.max.bytes"]).configs[0].value == "4321"
        assert client.ask(InitProducerIdRequest(transactional_id=None)).producer_id > producer_id


def test_what_was_acknowledged_survives_a_kill(start, tmp_path):
    with start() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("kept")
        for number in range(20):
            assert client.produce("kept", batch_of(b"%d" % number)).error_code == 0
        directory = copy_of(broker, tmp_path)
    with start(directory) as broker, Client(broker.bootstrap) as client:
        assert client.values("kept") == [b"%d" % number for number in range(20)]


def test_idempotent_producers_and_leader_epochs_are_known_again(start, tmp_path):
    batch = batch_of(b"a", producer_id=4, producer_epoch=1, base_sequence=0)
    with start() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("kept")
        client.produce("kept", batch)
        directory = copy_of(broker, tmp_path)
    with start(directory) as broker, Client(broker.bootstrap) as client:
        again = client.produce("kept", batch)
        assert (again.error_code, again.base_offset) == (0, 0)
        old = batch_of(b"x", producer_id=4, producer_epoch=0, base_sequence=1)
        assert client.produce("kept", old).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        partition = broker._server.cluster.partition("kept", 0)
        assert partition.epochs.entries == [(0, 0), (1, 1)]


def test_a_deleted_topic_stays_deleted_and_leftovers_go(start, tmp_path):
    with start() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("gone")
        broker.create_topic("kept")
        client.produce("gone", batch_of(b"a"))
        client.produce("kept", batch_of(b"a"))
        shutil.copytree(tmp_path / "data" / "gone-0", tmp_path / "leftover")
        broker._call(lambda: broker._server.cluster.delete_topic(broker._server.cluster.topics["gone"]))
        assert not (tmp_path / "data" / "gone-0").exists()
    shutil.copytree(tmp_path / "leftover", tmp_path / "data" / "gone-0")
    (tmp_path / "data" / "notes.txt").write_text("mine")
    with start() as broker, Client(broker.bootstrap) as client:
        assert [topic.name for topic in client.metadata().topics] == ["kept"]
    assert not (tmp_path / "data" / "gone-0").exists()
    assert (tmp_path / "data" / "notes.txt").exists()


def test_fewer_nodes_than_before_still_serve_everything(start):
    with start(nodes=3) as broker:
        broker.create_topic("kept", 6)
        for number, node in enumerate(broker.nodes):
            with Client(node.bootstrap) as client:
                for index, partition in enumerate(client.metadata("kept").topics[0].partitions):
                    if partition.leader_id == number:
                        client.produce("kept", batch_of(b"%d" % index), partition=index)
    with start(nodes=1) as broker, Client(broker.bootstrap) as client:
        assert [client.values("kept", partition=index) for index in range(6)] == [[b"%d" % i] for i in range(6)]


def test_two_brokers_do_not_share_a_directory(start):
    with start() as broker:
        with pytest.raises(UsageError, match="in use by another broker"):
            start()
        broker.create_topic("still-served")


@pytest.mark.parametrize("content", [b"hello", b"seamark-broker 9 crc32c 00000000\n{}", None])
def test_a_state_file_that_is_not_ours_is_refused_and_kept(start, tmp_path, content):
    with start():
        pass
    state = tmp_path / "data" / "broker.json"
    content = content or state.read_bytes().replace(b"cluster_id", b"cluster_ip")
    state.write_bytes(content)
    with pytest.raises(UnknownFormat):
        start()
    assert state.read_bytes() == content


def test_a_directory_that_cannot_be_made_is_one_sentence(start, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SeamarkError, match="file"):
        start(tmp_path / "file" / "data")


def test_the_state_is_json_under_a_checksum(start, tmp_path):
    with start() as broker:
        broker.create_topic("shown")
    head, _, body = (tmp_path / "data" / "broker.json").read_text().partition("\n")
    assert head.startswith("seamark-broker 1 crc32c ")
    assert list(json.loads(body)["topics"]) == ["shown"]


@contextlib.contextmanager
def killed_at_the_end(running):
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def kill(running: subprocess.Popen, is_killed: threading.Event) -> None:
    is_killed.set()
    running.kill()


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_what_a_killed_process_acknowledged_is_served_by_the_next(tmp_path, durability):
    arguments = ["--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--durability", durability]
    acknowledged = []
    for run in range(4):
        with killed_at_the_end(process(*arguments)) as running, Client(bootstrap_of(running)) as client:
            if run == 0:
                client.create_topic("kept", 2)
            for partition in range(2):
                stored = client.values("kept", partition=partition)
                assert stored[: len(acknowledged)] == acknowledged
                # What was on its way when the process was killed may be there or not.
                assert len(stored) - len(acknowledged) <= 1
            acknowledged = client.values("kept", partition=0)
            if len(client.values("kept", partition=1)) < len(acknowledged):
                client.produce("kept", batch_of(acknowledged[-1]), partition=1)
            is_killed = threading.Event()
            killer = threading.Timer(0.2, kill, [running, is_killed])
            killer.start()
            try:
                for number in itertools.count():
                    value = b"%d-%d" % (run, number)
                    assert client.produce("kept", batch_of(value), partition=0).error_code == 0
                    assert client.produce("kept", batch_of(value), partition=1).error_code == 0
                    acknowledged.append(value)
            except CaptureError:
                # A broker that hangs up before it is killed has failed.
                if not is_killed.is_set():
                    raise
            killer.join()
    assert len(acknowledged) > 20
