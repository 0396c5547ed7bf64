"""While committed offsets cannot be read, nothing looks healthy: the commands, the exporter and the log say it."""

import json
import logging
import sys

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, TopicPartition
from seamark.dashboard.board import make_board
from seamark.monitor.exposition import metrics_text
from seamark.monitor.poller import Poller
from seamark.rules.status import Status

REASON = "committed offsets could not be read"


@pytest.fixture
def broker():
    """The group 'g' has committed; its coordinator loads its offsets for ever."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_group_offsets("g", {TopicPartition("t", 0): 0}).raise_if_failed()
        broker.faults.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=None)
        yield broker


@pytest.fixture
def seamark(broker, capsys, monkeypatch):
    from seamark.cli.main import main

    def run(*words):
        words = [*words, "--bootstrap", broker.bootstrap, "-o", "default.api.timeout.ms=500"]
        monkeypatch.setattr(sys, "argv", ["seamark", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


@pytest.fixture
def admin(broker):
    with Admin(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=500) as admin:
        yield admin


@pytest.mark.parametrize("more", [[], ["--partitions"], ["--fail-over", "10"], ["g"]])
def test_lag_shows_the_group_says_why_once_and_ends_with_1(seamark, more):
    code, out, err = seamark("lag", *more)
    assert code == 1
    assert out.splitlines()[1].split()[:2] == ["g", "-"]
    assert err.count(f"group 'g': {REASON}") == 1
    assert "COORDINATOR_LOAD_IN_PROGRESS" in err


def test_lag_as_json_has_the_remark(seamark):
    code, out, err = seamark("lag", "--json")
    (row,) = json.loads(out)
    assert (code, row["group"], row["topic"], row["lag"]) == (1, "g", None, None)
    assert row["remark"].startswith(REASON)
    assert REASON in err


@pytest.mark.parametrize("words", [["groups", "list"], ["groups", "describe", "g"]])
def test_the_views_of_groups_say_it_too(seamark, words):
    _, _, err = seamark(*words)
    assert err.count(REASON) == 1


def test_the_exporter_has_a_metric_and_logs_it_once(broker, admin, caplog):
    poller = Poller(admin)
    with caplog.at_level(logging.WARNING, "seamark.monitor"):
        poller.look_once()
        poller.look_once()
    assert 'seamark_group_unreadable{group="g"} 1' in metrics_text(poller)
    assert sum(REASON in each.getMessage() for each in caplog.records) == 1
    broker.faults.clear()
    poller.look_once()
    assert 'seamark_group_unreadable{group="g"} 0' in metrics_text(poller)


def test_an_assigned_partition_is_unknown_rather_than_without_a_commit(broker, admin):
    broker.faults.clear()
    with Consumer(bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        broker.faults.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=None)
        poller = Poller(admin, reset="latest")
        poller.look_once()
    (view,) = poller.seen.look.scan.groups
    assert (view.records_behind, view.partitions_unknown, view.partitions_uncommitted) == (None, 1, 0)


def test_the_dashboard_calls_the_group_unknown_and_says_why(admin):
    poller = Poller(admin)
    poller.look_once()
    (row,) = make_board(poller.seen.look, poller.watching, None).rows
    assert row.status is Status.UNKNOWN
    assert row.remark.startswith(REASON)
