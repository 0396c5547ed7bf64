"""Metrics, health and log lines of a broker that runs, read as a scraper and a log collector read them (M6, M7, M8)."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from seamark.broker import Broker
from seamark.broker.metrics.collect import Rates
from seamark.broker.metrics.log_lines import LogLines
from seamark.broker.metrics.names import OURS_BY_KAFKAS, table
from seamark.broker.security.security import Security
from seamark.errors import ConfigError, UsageError
from seamark.http_pages import MAX_CLIENTS_OF_AN_ADDRESS
from seamark.prometheus_text import Family
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.join_group import JoinGroupRequestProtocol
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.support.capture import Wire

DOCUMENT = Path(__file__).parents[3] / "docs" / "broker-metrics.md"
M6 = ["NumOffsets", "NumGroups", "NumGroupsPreparingRebalance", "NumGroupsCompletingRebalance", "NumGroupsStable",
      "NumGroupsDead", "NumGroupsEmpty"]  # fmt: skip
M7 = [f"{what}-{unit}" for what in ("offset-commit", "offset-expiration", "offset-deletion",
      "group-completed-rebalance") for unit in ("rate", "count")]  # fmt: skip
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (-?[0-9.e+-]+|\+Inf|NaN)')


class Client(Wire):
    def ask(self, name, version, **fields):
        api = api_named(name)
        self.send(encode_request(api.request(**fields), version, 1, "tests"))
        return decode_response(api.response, self.receive()[4:], version)[1]

    def begin_join(self, group, member="", *, instance=None, timeout_ms=10_000):
        fields = {
            "group_id": group,
            "member_id": member,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": timeout_ms,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range")],
        }
        version = 3
        if instance is not None:
            fields["group_instance_id"] = instance
            version = 5
        self.send(encode_request(api_named("JoinGroup").request(**fields), version, 1, "tests"))
        return version

    def end_join(self, version=3):
        return decode_response(api_named("JoinGroup").response, self.receive()[4:], version)[1]

    def join(self, group, member="", **more):
        return self.end_join(self.begin_join(group, member, **more))

    def sync(self, group, joined):
        return self.ask("SyncGroup", 3, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)


def read(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def samples(text):
    """Every sample by name and labels; fails on a line that Prometheus would not read."""
    found = {}
    kinds = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, "a family stands twice"
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match, line
            name = match[1]
            family = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
            assert kinds[family] == "counter" or not name.endswith("_total")
            found[name, match[2] or ""] = float(match[3])
    assert all(name.endswith("_total") for name, kind in kinds.items() if kind == "counter")
    return found


@pytest.fixture
def broker():
    settings = {"seamark.metrics.listen": "127.0.0.1:0", "group.initial.rebalance.delay.ms": 0}
    with Broker(settings=settings) as running:
        yield running


@pytest.fixture
def client(broker):
    with Client(broker.bootstrap) as made:
        made.ask("FindCoordinator", 2, key="g")
        while made.ask("OffsetFetch", 5, group_id="g", topics=[]).error_code:
            pass
        yield made


def commit(client, group="g", topic="orders"):
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    answer = client.ask(
        "OffsetCommit", 7, group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    assert answer.topics[0].partitions[0].error_code == 0


def test_the_table_has_every_metric_of_the_requirements():
    kafkas = set(OURS_BY_KAFKAS)
    assert {f"kafka.coordinator.group:type=GroupMetadataManager,name={name}" for name in M6} <= kafkas
    assert {f"kafka.server:type=group-coordinator-metrics,name={name}" for name in M7} <= kafkas
    assert len(set(OURS_BY_KAFKAS.values())) == len(OURS_BY_KAFKAS)


def test_the_document_has_the_table_as_it_is():
    assert table() in DOCUMENT.read_text()


def test_the_document_names_events_that_the_coordinator_has():
    coordinator = Path(__file__).parents[3] / "src" / "seamark" / "coordinator"
    source = "".join(path.read_text() for path in coordinator.rglob("*.py"))
    events = re.findall(r"^\| `([a-z_]+)` \| (?:a |members|the )", DOCUMENT.read_text(), re.MULTILINE)
    assert len(events) == 7
    assert [event for event in events if f'"{event}"' not in source] == []


def test_every_name_of_the_table_is_served_and_the_text_is_valid(broker, client):
    broker.create_topic("orders")
    commit(client)
    names = {name for name, _ in samples(read(broker.metrics_url))}
    histogram = {f"seamark_request_seconds_{part}" for part in ("bucket", "sum", "count")}
    assert set(OURS_BY_KAFKAS.values()) - {"seamark_request_seconds"} | histogram <= names


def test_groups_offsets_and_commits_are_counted(broker, client):
    broker.create_topic("orders")
    commit(client)
    commit(client)
    joined = client.join("members")
    before_sync = samples(read(broker.metrics_url))
    assert before_sync["seamark_coordinator_num_groups_completing_rebalance", 'node="0"'] == 1
    client.sync("members", joined)
    found = samples(read(broker.metrics_url))
    assert found["seamark_coordinator_num_offsets", 'node="0"'] == 1
    assert found["seamark_coordinator_num_groups", 'node="0"'] == 2
    assert found["seamark_coordinator_num_groups_stable", 'node="0"'] == 1
    assert found["seamark_coordinator_num_groups_empty", 'node="0"'] == 1
    assert found["seamark_coordinator_offset_commit_total", 'node="0"'] == 2
    assert found["seamark_coordinator_group_completed_rebalance_total", 'node="0"'] == 1


def test_rates_cover_the_last_half_minute(broker, client):
    broker.create_topic("orders")
    for _ in range(30):
        commit(client)
    broker.advance(10)
    found = samples(read(broker.metrics_url))
    assert 0 < found["seamark_coordinator_offset_commit_rate", 'node="0"'] <= 6
    for _ in range(10):
        broker.advance(10)
    assert samples(read(broker.metrics_url))["seamark_coordinator_offset_commit_rate", 'node="0"'] == 0


def test_requests_bytes_and_times_are_counted_per_api(broker, client):
    def of(name, api="Heartbeat", more=""):
        return samples(read(broker.metrics_url)).get((name, f'node="0",api="{api}"{more}'), 0)

    request = encode_request(api_named("Heartbeat").request(group_id="g", member_id="m"), 0, 1, "tests")
    for _ in range(3):
        client.exchange(request)
    assert of("seamark_requests_total") == 3
    assert of("seamark_request_seconds_count") == 3
    assert of("seamark_request_seconds_bucket", more=',le="+Inf"') == 3
    assert of("seamark_request_bytes_total") == 3 * len(request)
    assert of("seamark_response_bytes_total") == 3 * 10


def test_logs_and_connections_are_measured(broker, client):
    broker.create_topic("odd-name")
    commit(client, topic="odd-name")
    found = samples(read(broker.metrics_url))
    assert found["seamark_connections", 'node="0"'] == 1
    sizes = {labels: value for (name, labels), value in found.items() if name == "seamark_log_size_bytes"}
    assert len(sizes) >= 1
    assert all(value >= 0 for value in sizes.values())
    assert sum(sizes.values()) > 50
    assert found["seamark_leader_partitions", 'node="0"'] == 51


def test_logins_and_denials_are_counted():
    settings = {"seamark.metrics.listen": "127.0.0.1:0", "connection.failed.authentication.delay.ms": 0}
    security = Security(users={"alice": "x"}, super_users=["User:admin"])
    with Broker(settings=settings, security=security) as broker:
        for password in ("x", "wrong"):
            with Client(broker.bootstrap) as client:
                client.ask("SaslHandshake", 1, mechanism="PLAIN")
                answer = client.ask("SaslAuthenticate", 1, auth_bytes=f"\0alice\0{password}".encode())
                if answer.error_code == 0:
                    denied = client.ask("FindCoordinator", 2, key="g")
                    assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        found = samples(read(broker.metrics_url))
        assert found["seamark_authentication_successes_total", ""] == 1
        assert found["seamark_authentication_failures_total", ""] == 1
        assert found["seamark_authorization_denials_total", ""] == 1


def test_health_tells_live_from_ready():
    with Broker(nodes=2, settings={"seamark.metrics.listen": "127.0.0.1:0"}) as broker:
        health = broker.metrics_url.replace("/metrics", "/health")
        assert json.loads(read(health)) == {"status": "ready", "nodes": {"0": "running", "1": "running"}}
        broker.nodes[0].stop()
        assert json.loads(read(health))["nodes"] == {"0": "stopped", "1": "running"}
        broker.nodes[1].stop()
        with pytest.raises(urllib.error.HTTPError) as caught:
            read(f"{health}/ready")
        with caught.value as answer:
            assert answer.status == 503
            assert json.loads(answer.read())["reason"] == "no node is running"
        assert json.loads(read(f"{health}/live")) == {"status": "live"}
        broker.nodes[1].start()
        assert json.loads(read(health))["status"] == "ready"


def raw_http(broker, request, *, close_early=False):
    host, port = broker.metrics_url.removeprefix("http://").removesuffix("/metrics").split(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(request)
        if close_early:
            return b""
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"hello\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000, 431),
        (b"\xff\xfe\r\n\r\n", 400),
        (b"GET http://127.0.0.1/metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 400),
    ],
)
def test_bad_http_is_answered_and_closed(broker, request_text, status):
    assert raw_http(broker, request_text).startswith(f"HTTP/1.1 {status} ".encode())
    assert samples(read(broker.metrics_url))


def test_head_has_no_body_and_requests_may_come_in_pieces(broker):
    answer = raw_http(broker, b"HEAD /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")
    raw_http(broker, b"GET /met", close_early=True)
    assert b"text/plain; version=0.0.4" in answer


def test_a_crowd_of_silent_scrapers_keeps_nobody_out(broker):
    host, port = broker.metrics_url.removeprefix("http://").removesuffix("/metrics").split(":")
    silent = [socket.create_connection((host, int(port)), 5) for _ in range(100)]
    assert raw_http(broker, b"GET /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert len(broker._server.metrics._page_server._clients) <= MAX_CLIENTS_OF_AN_ADDRESS
    for connection in silent:
        connection.close()


def test_a_name_that_somebody_else_points_at_this_machine_is_not_answered(broker):
    request = b"GET /metrics HTTP/1.1\r\nHost: evil.example.org:9644\r\n\r\n"
    assert raw_http(broker, request).startswith(b"HTTP/1.1 421 ")
    settings = {
        "seamark.metrics.listen": "127.0.0.1:0",
        "seamark.metrics.allowed.hosts": "a.org, b.org",
    }
    with Broker(settings=settings) as named:
        for host, status in ((b"B.org:1", 200), (b"127.0.0.1", 200), (b"evil.example.org", 421)):
            answer = raw_http(named, b"GET /health/live HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_without_the_setting_nothing_is_counted_and_no_port_is_open():
    with Broker() as broker:
        assert broker.metrics_url is None
        assert broker._server.nodes[0].on_answer is None


def test_an_address_that_is_taken_or_none_is_one_sentence(broker):
    taken = broker.metrics_url.removeprefix("http://").removesuffix("/metrics")
    with pytest.raises(UsageError, match="cannot serve metrics"):
        Broker(settings={"seamark.metrics.listen": taken})
    with pytest.raises(ConfigError, match=r"seamark\.metrics\.listen"):
        Broker(settings={"seamark.metrics.listen": "nonsense"})


def test_label_values_are_escaped():
    family = Family("x_total", "counter", "A\nB \\")
    family.add(1, name='a"b\\c\nd')
    assert family.text() == '# HELP x_total A\\nB \\\\\n# TYPE x_total counter\nx_total{name="a\\"b\\\\c\\nd"} 1\n'


def test_a_counter_that_starts_over_gives_no_negative_rate():
    rates = Rates()
    rates.sample(0, {"x": 100})
    rates.sample(5, {"x": 3})
    rates.sample(10, {"x": 13})
    assert rates.per_second("x") == 2.0
    assert rates.per_second("unknown") == 0.0


# -- log lines


def events(caplog, group):
    return [record.event for record in caplog.records if getattr(record, "group", None) == group]


def wait_for_event(caplog, group, event, count):
    deadline = time.monotonic() + 5
    while events(caplog, group).count(event) < count:
        assert time.monotonic() < deadline, f"{event} did not happen {count} times"
        time.sleep(0.005)


def test_the_life_of_a_group_is_in_the_log(broker, client, caplog):
    # M8: prepared with reason, stabilized with generation and size, members removed, empty.
    caplog.set_level(logging.INFO, "seamark")
    with Client(broker.bootstrap) as other:
        first = client.join("g")
        client.sync("g", first)
        other.begin_join("g")
        wait_for_event(caplog, "g", "rebalance_prepared", 2)
        client.begin_join("g", first.member_id)
        joined, second = client.end_join(), other.end_join()
        assert joined.generation_id == second.generation_id == 2
        client.sync("g", joined)
        other.sync("g", second)
        client.begin_join("g", first.member_id)
        wait_for_event(caplog, "g", "rebalance_prepared", 3)
        # The other keeps its session and does not join again.
        broker.advance(11)
        again = client.end_join()
        assert again.generation_id == 3
        client.sync("g", again)
        client.ask("LeaveGroup", 2, group_id="g", member_id=first.member_id)
    texts = [record.getMessage() for record in caplog.records if getattr(record, "group", None) == "g"]
    found = events(caplog, "g")
    for event in ("rebalance_prepared", "group_stabilized", "members_removed", "group_empty"):
        assert event in found, texts
    stabilized = [text for text, event in zip(texts, found, strict=True) if event == "group_stabilized"]
    assert [re.search(r"generation (\d+)", text)[1] for text in stabilized[:3]] == ["1", "2", "3"]
    assert found[-1] == "group_empty"


def test_a_rebalance_that_nobody_joins_is_in_the_log(broker, client, caplog):
    # M8, D22: static members are not removed, so the group waits on.
    caplog.set_level(logging.INFO, "seamark")
    static = client.join("g", instance="i1")
    while static.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        static = client.join("g", static.member_id, instance="i1")
    client.sync("g", static)
    with Client(broker.bootstrap) as other:
        other.begin_join("g")
        wait_for_event(caplog, "g", "rebalance_prepared", 2)
    with Client(broker.bootstrap) as third:
        # The member that began the rebalance leaves again before anybody has joined.
        described = third.ask("DescribeGroups", 4, groups=["g"]).groups[0]
        for member in described.members:
            if member.group_instance_id is None:
                third.ask("LeaveGroup", 2, group_id="g", member_id=member.member_id)
        broker.advance(11)
    assert "nobody_rejoined" in events(caplog, "g")


def test_an_empty_group_that_cannot_be_stored_is_a_warning(broker, client, caplog):
    # M8, D24
    caplog.set_level(logging.INFO, "seamark")
    joined = client.join("g")
    client.sync("g", joined)
    broker.faults.fill_disk()
    client.ask("LeaveGroup", 2, group_id="g", member_id=joined.member_id)
    wait_for_event(caplog, "g", "empty_group_not_stored", 1)
    broker.faults.free_disk()
    level = next(r.levelname for r in caplog.records if getattr(r, "event", "") == "empty_group_not_stored")
    assert level == "WARNING"


def test_json_lines_carry_their_fields():
    stream = io.StringIO()
    lines = LogLines("json", stream)
    lines.start()
    try:
        logger = logging.getLogger("seamark.tests.lines")
        logger.info("group %s: größer\nzwei", "g", extra={"event": "group_empty", "group": "g"})
        try:
            int("broken")
        except ValueError:
            logger.exception("failed")
    finally:
        lines.stop()
    logger.info("not written any more")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {"level": "info", "logger": "seamark.tests.lines", "message": "group g: größer\nzwei",
                     "event": "group_empty", "group": "g"}  # fmt: skip
    assert "ValueError: invalid literal" in second["traceback"]


def test_the_setting_writes_to_stderr_while_the_broker_runs(capsys):
    with Broker(settings={"seamark.log.format": "json"}):
        pass
    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all(line["logger"].startswith("seamark") for line in written)
    with pytest.raises(ConfigError, match=r"seamark\.log\.format"):
        Broker(settings={"seamark.log.format": "xml"})
