"""A process that has no file descriptor left: requests are refused in a way that clients retry, and then all works."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seamark import Broker
from seamark.broker.log import storage as log_storage
from seamark.storage.errors import TooManyOpenFiles
from seamark.storage.files.real import RealFilesystem
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest
from seamark.wire.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tests.broker.api.test_configs import SET, TOPIC, alter, describe
from tests.broker.log.test_syncing import COMMIT, wait_for_commit
from tests.broker.test_command import PROGRAM, bootstrap_of
from tests.support.broker_driver import Client, batch_of, fetch_request, fresh_name, read_records
from tests.support.capture import Wire

PARTITIONS = 500
# Thousands of logs are made and closed in seconds when the disk need not be waited for, which is not tested here.
WITHOUT_SYNCS = "import os; os.fsync = lambda descriptor: os.fstat(descriptor)"
REFUSED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(data):
    with Broker(data=data) as running:
        yield running


@pytest.fixture
def shortage(monkeypatch):
    """While it lasts nothing can be opened, or nothing by the calls named."""

    class Shortage:
        def begin(self, *calls):
            for call in calls or ("open", "list", "sync_directory"):
                monkeypatch.setattr(RealFilesystem, call, self.refuse)

        def refuse(self, path, **_):
            raise TooManyOpenFiles(path, None, "Too many open files")

        end = staticmethod(monkeypatch.undo)

    return Shortage()


def delete(client, name):
    return client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name)]), 6).responses[0].error_code


def test_what_has_its_file_goes_on_and_what_needs_one_is_tried_again(broker, client, shortage):
    name = fresh_name()
    broker.create_topic(name, 2, {"segment.bytes": 500})
    client.produce(name, batch_of(b"a"))
    shortage.begin()
    assert client.produce(name, batch_of(b"b")).error_code == 0
    assert client.produce(name, batch_of(b"x"), partition=1).error_code == REFUSED, "it has no log yet"
    codes = {client.produce(name, batch_of(b"x" * 200)).error_code for _ in range(3)}
    assert REFUSED in codes, "the next segment has to begin"
    shortage.end()
    assert client.produce(name, batch_of(b"c")).error_code == 0
    assert client.produce(name, batch_of(b"c"), partition=1).error_code == 0
    assert client.values(name, partition=1) == [b"c"]


def test_a_topic_is_made_changed_and_deleted_later_or_not_at_all(broker, client, shortage):
    name, other = fresh_name(), fresh_name()
    broker.create_topic(name, config={"retention.ms": 1000})
    shortage.begin()
    assert client.create_topic(other).error_code == REFUSED
    assert delete(client, name) == REFUSED
    assert alter(client, TOPIC, name, ("retention.ms", SET, "5")).error_code == REFUSED
    shortage.end()
    assert describe(client, TOPIC, name, ["retention.ms"]).configs[0].value == "1000"
    assert client.create_topic(other).error_code == 0
    assert delete(client, name) == 0


def test_a_producer_id_that_could_not_be_noted_down_is_not_given_away(broker, client, shortage):
    cluster = broker._server.cluster
    broker._call(lambda: setattr(cluster, "_next_producer_id", cluster._producer_id_limit))
    limit = cluster._producer_id_limit
    shortage.begin()
    for _ in range(2):
        assert client.ask(InitProducerIdRequest(transactional_id=None)).error_code == REFUSED
    assert cluster._producer_id_limit == limit
    shortage.end()
    assert client.ask(InitProducerIdRequest(transactional_id=None)).producer_id == limit


def test_a_log_that_could_not_be_removed_is_not_that_of_the_next_topic_of_its_name(
    data, tmp_path, broker, client, shortage
):
    name = fresh_name()
    broker.create_topic(name)
    client.produce(name, batch_of(b"old"))
    shortage.begin("list")
    assert delete(client, name) == 0
    shortage.end()
    broker.create_topic(name)
    client.produce(name, batch_of(b"new"))
    assert client.values(name) == [b"new"]
    assert len(list(data.glob(f"{name}-0.*.deleted"))) == 1
    # Over a copy: what another broker finds and removes there is what a restart would.
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    with Broker(data=copy) as other, Client(other.bootstrap) as reader:
        assert reader.values(name) == [b"new"]
        assert not list(copy.glob("*.deleted"))


def test_who_waits_for_a_sync_waits_until_there_is_a_descriptor(tmp_path, shortage, monkeypatch, caplog):
    with Broker(data=tmp_path, durability="commit") as broker, Client(broker.bootstrap) as client:
        broker.create_topic("t", config={"segment.bytes": 500})
        wait_for_commit(client)
        assert client.produce("t", batch_of(b"a" * 300)).error_code == 0
        monkeypatch.setattr(log_storage, "_SYNC_SECONDS", 0.05)
        tried = []
        sync_directory = RealFilesystem.sync_directory

        def fail_thrice(self, directory):
            tried.append(directory)
            if len(tried) <= 3:
                shortage.refuse(directory)
            sync_directory(self, directory)

        monkeypatch.setattr(RealFilesystem, "sync_directory", fail_thrice)
        # A new segment: its name must be durable too.
        assert client.produce("t", batch_of(b"b" * 300)).error_code == 0
        assert len(tried) > 3
        assert client.ask(COMMIT, 9).topics[0].partitions[0].error_code == 0
        assert caplog.text.count("as soon as a file descriptor is available") == 1


def limited_broker(data, files, prelude=""):
    """The command ``seamark broker`` in a process that may have so many files open."""

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    arguments = ["broker", "--listen", "127.0.0.1:0", "--data", str(data), "-o", "offsets.topic.num.partitions=1"]
    return subprocess.Popen(
        [sys.executable, "-c", f"{prelude}\n{PROGRAM}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def test_a_crowd_of_silent_connections_keeps_nobody_from_being_served(tmp_path):
    process = limited_broker(tmp_path, 64)
    crowd = []
    with process:
        bootstrap = bootstrap_of(process)
        try:
            with Client(bootstrap) as known:
                known.create_topic("t")
                assert known.produce("t", batch_of(b"a")).error_code == 0
                for _ in range(3):
                    crowd += [Wire(bootstrap) for _ in range(60)]
                    with Client(bootstrap) as newcomer:
                        wait_for_commit(newcomer)
                        newcomer.create_topic(f"t{len(crowd)}")
                        assert newcomer.produce(f"t{len(crowd)}", batch_of(b"b")).error_code == 0
                    assert known.produce("t", batch_of(b"b")).error_code == 0
        finally:
            for wire in crowd:
                wire.close()
            process.terminate()
            _, errors = process.communicate(timeout=30)
    assert "accepts no more writes" not in errors
    assert "Traceback" not in errors


def test_a_thousand_partitions_are_written_read_and_found_again_with_128_descriptors(tmp_path):
    topics = {"wide": "1000000", "tiny": "100"}
    expected = {(name, index): [b"0", b"1"] for name in topics for index in range(PARTITIONS)}
    for run, end in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
        with limited_broker(tmp_path, 128, WITHOUT_SYNCS) as process:
            crowd = []
            try:
                bootstrap = bootstrap_of(process)
                with Client(bootstrap) as client:
                    if run == 0:
                        for name, segment_bytes in topics.items():
                            assert client.create_topic(name, PARTITIONS, segment_bytes=segment_bytes).error_code == 0
                        for turn in range(2):
                            assert produce_everywhere(client, topics, b"%d" % turn) == {0}
                    assert values_everywhere(client, expected) == expected
                    assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) <= 80
                    crowd += [Client(bootstrap) for _ in range(30)]
                    assert all(each.fetch("wide").error_code == 0 for each in crowd), "there is room for connections"
            finally:
                for each in crowd:
                    each.__exit__(None, None, None)
                process.send_signal(end)
                _, errors = process.communicate(timeout=60)
        assert "Too many open files" not in errors
        assert "Traceback" not in errors


def produce_everywhere(client, topics, value):
    """One request for all partitions; the error codes that came back."""
    batches = [ProduceRequestPartition(index=index, records=batch_of(value)) for index in range(PARTITIONS)]
    data = [ProduceRequestTopic(name=name, partition_data=batches) for name in topics]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
    answer = client.ask(request, 12)
    return {each.error_code for topic in answer.responses for each in topic.partition_responses}


def values_everywhere(client, wanted):
    found = {each: [] for each in wanted}
    for _ in range(2):
        answer = client.ask(fetch_request({each: len(values) for each, values in found.items()}), 12)
        for topic in answer.responses:
            for each in topic.partitions:
                assert each.error_code == 0
                found[topic.topic, each.partition_index] += [record.value for record in read_records(each.records)]
    return found


def test_what_reads_compressed_batches_is_loaded_before_clients_can_take_the_descriptors():
    program = "import sys; from seamark import Broker\nwith Broker(): print({'cramjam', 'zlib'} <= set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "True\n"
