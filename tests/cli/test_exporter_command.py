"""``seamark exporter``: what Prometheus scrapes, from a live broker, and what it says when the cluster is away."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from seamark.cli.exporter_command import page
from seamark.client import Admin, Offset, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.monitor import exposition
from seamark.monitor.poller import Poller
from seamark.wire.offsets import done_ahead
from tests.support.produced import produce

ROOT = Path(__file__).parents[2]
LINE = re.compile(r'^[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? \S+$')


@pytest.fixture
def group(kafka_like, admin, fresh_name):
    topic, name = fresh_name("topic"), fresh_name('a "group"')
    admin.create_topics([NewTopic(topic, 1, 1)]).raise_if_failed()
    produce(kafka_like.bootstrap, TopicPartition(topic, 0), [b"x"] * 10, int(time.time() * 1000) - 60_000)
    admin.alter_group_offsets(name, {TopicPartition(topic, 0): 4}).raise_if_failed()
    return name


def test_every_line_is_prometheus_text_and_the_lag_is_there_in_records_and_seconds(admin, group):
    poller = Poller(admin, groups=[group])
    poller.look_once()
    text = page(poller, "/metrics", 15).body
    assert all(line.startswith("# ") or LINE.match(line) for line in text.splitlines())
    escaped = group.replace('"', '\\"')
    found = {line.partition("{")[0]: line.rsplit(" ", 1)[1] for line in text.splitlines() if escaped in line}
    assert (found["seamark_lag_records"], found["seamark_group_lag_records"]) == ("6", "6")
    assert 50 < float(found["seamark_lag_seconds"]) < 600
    assert page(poller, "/healthz", 15) == ("ok\n", 200, "text/plain; charset=utf-8")
    assert page(poller, "/else", 15).status == 404


def test_loss_an_offset_beyond_the_end_and_work_done_ahead_have_metrics_of_their_own(kafka_like, admin, fresh_name):
    topic, name = fresh_name("topic"), fresh_name("group")
    admin.create_topics([NewTopic(topic, 4, 1)]).raise_if_failed()
    for index in range(4):
        produce(kafka_like.bootstrap, TopicPartition(topic, index), [b"x"] * 100)
    finished = done_ahead.encode(20, range(30, 100)).text
    offsets = {0: Offset(20), 1: Offset(130), 2: Offset(20, finished), 3: Offset(100)}
    admin.alter_group_offsets(name, {TopicPartition(topic, at): each for at, each in offsets.items()}).raise_if_failed()
    admin.delete_records({TopicPartition(topic, 0): 60}).raise_if_failed()
    poller = Poller(admin, groups=[name])
    poller.look_once()
    text = page(poller, "/metrics", 15).body
    assert all(line.startswith("# ") or LINE.match(line) for line in text.splitlines())

    def by_partition(metric):
        found = re.findall(rf'^{metric}\{{group="{name}",topic="{topic}",partition="(\d)"[^}}]*\}} (\S+)$', text, re.M)
        return {int(index): int(value) for index, value in found}

    assert by_partition("seamark_lag_records") == {0: 80, 2: 80, 3: 0}
    assert by_partition("seamark_lost_records") == {0: 40}
    assert by_partition("seamark_done_ahead_records") == {2: 70}
    assert by_partition("seamark_beyond_end_records") == {1: 30}
    assert f'seamark_group_unfinished_records{{group="{name}"}} 50' in text
    assert f'seamark_group_lost_records{{group="{name}"}} 40' in text
    assert 'status="records lost"' in text
    assert 'status="beyond the end"' in text


def test_a_cluster_that_is_away_is_unhealthy_with_the_reason_and_does_not_end_the_exporter():
    with Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300) as admin:
        poller = Poller(admin)
        poller.look_once()
        poller.look_once()
    found = page(poller, "/healthz", 15)
    assert (found.status, "127.0.0.1:1" in found.body) == (503, True)
    assert "seamark_exporter_failures_total 2" in page(poller, "/metrics", 15).body


def test_the_command_says_where_it_serves_and_ends_on_sigterm(kafka_like, group):
    command = [sys.executable, "-c", "from seamark.cli.main import main; main()", "exporter", group]
    started = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--every", "100ms"], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "SEAMARK_BOOTSTRAP": kafka_like.bootstrap},
    )  # fmt: skip
    try:
        url = started.stdout.readline().strip().removeprefix("ready metrics=")
        deadline = time.monotonic() + 30
        while "seamark_lag_records" not in (text := urllib.request.urlopen(url, timeout=10).read().decode()):
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "x", timeout=10)
    finally:
        started.send_signal(signal.SIGTERM)
        assert started.wait(20) == 0
        started.stdout.close()


def test_board_and_alerts_ask_only_for_metrics_that_are_served():
    served = set(re.findall(r'"(seamark_[a-z_]+)"', Path(exposition.__file__).read_text()))
    for file in ("grafana-board.json", "alert-rules.yml"):
        text = (ROOT / "docs" / "exporter" / file).read_text()
        asked = set(re.findall(r"seamark_[a-z_]+", text))
        assert asked
        assert asked <= served
    json.loads((ROOT / "docs" / "exporter" / "grafana-board.json").read_text())
