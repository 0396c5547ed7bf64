"""Syncs that fail in ways nobody thought of: whoever waits for one is told, and the broker goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from seamark import Broker
from seamark.broker.log.storage import LogStorage
from seamark.storage.log import Log
from seamark.storage.settings import Durability
from seamark.storage.sync import PendingSync
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_driver import Client, batch_of, produce_request
from tests.unit.broker.groups.group_harness import ManualClock, ManualTimers

COMMIT = OffsetCommitRequest(
    group_id="g",
    topics=[
        OffsetCommitRequestTopic(
            name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
        )
    ],
)


def commit_code(client: Client) -> int:
    code: int = client.ask(COMMIT, 9).topics[0].partitions[0].error_code
    return code


def wait_for_commit(client: Client) -> None:
    for _ in range(1000):
        client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        if commit_code(client) == 0:
            return
        time.sleep(0.01)
    raise AssertionError("commits did not work again within ten seconds")


@pytest.fixture
def broker(tmp_path):
    with Broker(data=str(tmp_path / "data"), durability="commit") as broker:
        broker.create_topic("t")
        yield broker


@pytest.fixture
def client(broker):
    with Client(broker.bootstrap) as client:
        wait_for_commit(client)
        yield client


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("nobody thought of this")


# covers: F28
@pytest.mark.parametrize(
    ("owner", "name"), [(PendingSync, "run"), (Log, "begin_sync"), (Log, "finish_sync")], ids=["run", "begin", "finish"]
)
def test_a_sync_that_fails_unexpectedly_fails_the_commits_that_wait_for_it(client, monkeypatch, caplog, owner, name):
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(owner, name, fail)
        assert commit_code(client) == ErrorCode.NOT_COORDINATOR
    told = [record for record in caplog.records if "a sync failed unexpectedly" in record.message]
    assert len(told) == 1
    assert "nobody thought of this" in caplog.text
    # Whether the refused commit is in the log is open; the group is loaded from there before it is served again.
    wait_for_commit(client)
    assert "accepts no more writes until it is opened again" in caplog.text


def test_a_sync_whose_thread_is_gone_fails_the_commits_that_wait_for_it(client, monkeypatch):
    """An error beside those of single partitions concerns them all."""
    monkeypatch.setattr("seamark.broker.log.storage._run_all", fail)
    assert commit_code(client) == ErrorCode.NOT_COORDINATOR


def test_a_sync_that_cannot_be_started_fails_the_commits_that_wait_for_it(client, monkeypatch):
    monkeypatch.setattr(ThreadPoolExecutor, "submit", fail)
    assert commit_code(client) == ErrorCode.NOT_COORDINATOR


def test_a_sync_that_fails_unexpectedly_fails_what_was_produced(client, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(PendingSync, "run", fail)
        assert client.produce("t", batch_of(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_nothing_is_synced_once_the_storage_is_closed(tmp_path):
    clock = ManualClock()
    timers = ManualTimers(clock)
    storage = LogStorage(str(tmp_path), Durability.OS, clock, timers)

    class Stub:
        name = "t-0"
        log = SimpleNamespace(begin_sync=fail)

    partition = Stub()
    asyncio.run(storage.close())
    storage.appended(partition)
    clock.advance(10)
    timers.fire_due()
    assert storage._dirty == {partition: None}


def test_who_waits_for_a_sync_of_a_log_that_is_opened_again_is_told_and_later_records_count_by_themselves(
    broker, client, monkeypatch
):
    is_held, may_go_on = threading.Event(), threading.Event()
    run = PendingSync.run

    def hold(work):
        is_held.set()
        assert may_go_on.wait(30)
        run(work)

    monkeypatch.setattr(PendingSync, "run", hold)
    request = produce_request("t", batch_of(b"lost"))
    client.send(request, 12)
    assert is_held.wait(30)
    partition = broker._server.cluster.topics["t"].partitions[0]
    broker._call(lambda: partition.log.stop_writes("a write could not be undone"))
    broker._call(partition.reopen)
    refused = client.receive(request, 12).responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    may_go_on.set()
    stored = client.produce("t", batch_of(b"next"))
    assert (stored.error_code, stored.base_offset) == (0, 1)
    assert partition.log.durable_end == partition.log.log_end == 2
