"""Metrics, health and progress: what an operator reads, from given statuses and from a consumer that runs."""

import io
import socket
import threading
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from seamark.client import Producer
from seamark.errors import ConfigError, UsageError
from seamark.parallel import ParallelConsumer
from seamark.parallel.core.ports import SetAside
from seamark.parallel.core.stall import Stall
from seamark.parallel.core.work import RecordState
from seamark.parallel.observe.health import HealthServer, complaints, unready
from seamark.parallel.observe.metrics import metrics_text
from seamark.parallel.observe.progress import Progress, progress_text
from seamark.parallel.observe.status import CommitStatus, PartitionStatus, StallStatus, State, Status, Summary
from seamark.topic_partition import TopicPartition
from tests.support.waiting import eventually

P0 = TopicPartition('or"ders', 0)
STALL = StallStatus(
    Stall(P0, 17, b"key", 75.0, 3, RecordState.RUNNING, 40, "ValueError: no"), "handlers.py:12 in charge"
)
PARTITION = PartitionStatus(P0, 1, 15, 17, 60, 4, 2_560, is_paused=True, is_draining=False, log_end=100)
STATUS = Status(
    State.RUNNING,
    "billing",
    partitions={P0: PARTITION},
    tally={"polled": 60, "done": 50, "failed": 3, "retried": 2, "dead_lettered": 1, "late": 5, "spared": 6},
    stalls=(STALL,),
    holding=(STALL,),
    running=2,
    waiting=1,
    retrying=1,
    held_bytes=2_560,
    buffer_bytes=10_000,
    commits=CommitStatus(accepted=9, refused=2, last_seconds=0.25, metadata_length=4096),
)


class Told:
    """A consumer that says what it is told to."""

    def __init__(self, status):
        self.said = status

    def blocking_status(self):
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def get(server, path):
    try:
        with urllib.request.urlopen(f"http://{server.address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


# covers: H28
def test_metrics_say_what_came_what_became_of_it_and_what_holds_it_back():
    lines = metrics_text(STATUS).splitlines()
    place = 'group="billing",topic="or\\"ders",partition="0"'
    for expected in (
        'seamark_parallel_polled_total{group="billing"} 60',
        'seamark_parallel_done_total{group="billing"} 50',
        'seamark_parallel_late_total{group="billing"} 5',
        'seamark_parallel_spared_total{group="billing"} 6',
        'seamark_parallel_dead_lettered_total{group="billing"} 1',
        'seamark_parallel_skipped_total{group="billing"} 0',
        'seamark_parallel_state{group="billing",state="running"} 1',
        'seamark_parallel_state{group="billing",state="failed"} 0',
        'seamark_parallel_in_flight_records{group="billing"} 4',
        'seamark_parallel_held_bytes{group="billing"} 2560',
        f"seamark_parallel_position{{{place}}} 60",
        f"seamark_parallel_frontier{{{place}}} 17",
        f"seamark_parallel_committed{{{place}}} 15",
        f"seamark_parallel_lag_records{{{place}}} 83",
        f"seamark_parallel_partition_paused{{{place}}} 1",
        f"seamark_parallel_stall_offset{{{place}}} 17",
        f"seamark_parallel_stall_seconds{{{place}}} 75.0",
        'seamark_parallel_commits_total{group="billing",answer="refused"} 2',
        'seamark_parallel_commit_seconds{group="billing"} 0.25',
        'seamark_parallel_stalled_partitions{group="billing"} 1',
    ):
        assert expected in lines, expected


def test_metrics_are_whole_families_and_unknown_offsets_are_left_out():
    unknown = replace(PARTITION, committed=-1, log_end=-1)
    text = metrics_text(replace(STATUS, partitions={P0: unknown}))
    assert "seamark_parallel_committed{" not in text
    assert "seamark_parallel_lag_records{" not in text
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.partition("{")[0], line.rpartition(" ")[2]
            assert name in families
            float(value)


def test_a_consumer_is_unhealthy_when_it_stopped_stalled_or_cannot_commit():
    limits = {"max_stall": 60.0, "max_commit_failing": 30.0}
    assert complaints(STATUS, max_stall=100.0, max_commit_failing=30.0) == []
    [stalled] = complaints(STATUS, **limits)
    assert "has been held at offset 17" in stalled
    assert "handlers.py:12 in charge" in stalled
    failing = replace(STATUS, holding=(), commits=CommitStatus(failing_for=31.0, last_error="NOT_COORDINATOR"))
    assert complaints(failing, **limits) == ["no commit was accepted for 31 s; last error: NOT_COORDINATOR"]
    failed = replace(STATUS, holding=(), state=State.FAILED, reason="orders-0 offset 1 failed once: ValueError: no")
    assert complaints(failed, **limits) == ["the consumer stopped: orders-0 offset 1 failed once: ValueError: no"]
    assert complaints(replace(STATUS, holding=(), state=State.STOPPING), **limits) == []


def test_a_consumer_is_ready_once_it_has_partitions():
    assert unready(STATUS) is None
    assert unready(replace(STATUS, partitions={})) == "no partitions are assigned"
    assert unready(replace(STATUS, state=State.STOPPING)) == "the consumer is stopping"


def test_the_endpoint_answers_probes_and_says_why_not():
    told = Told(STATUS)
    with HealthServer(told, max_stall=100.0) as server:
        assert get(server, "/healthz") == (200, "ok\n")
        assert get(server, "/readyz?verbose") == (200, "ok\n")
        assert get(server, "/metrics")[1] == metrics_text(STATUS)
        assert get(server, "/nothing")[0] == 404
        told.said = replace(STATUS, state=State.FAILED, reason="it broke", partitions={})
        assert get(server, "/healthz") == (503, "the consumer stopped: it broke\n")
        assert get(server, "/readyz") == (503, "the consumer is failed\n")
        told.said = UsageError("the parallel consumer did not respond within 15 s")
        assert get(server, "/healthz") == (503, "the parallel consumer did not respond within 15 s\n")


def test_a_partition_that_is_not_read_on_degrades_the_health_and_is_no_reason_for_a_restart():
    aside = SetAside(P0, 17, "the batch is too large", 20)
    degraded = replace(STATUS, set_aside=(aside,))
    told = Told(degraded)
    with HealthServer(told, max_stall=100.0) as server:
        assert get(server, "/healthz") == (200, f"degraded\n{aside}\n")
        assert get(server, "/readyz") == (200, "ok\n")
        told.said = replace(degraded, state=State.FAILED, reason="it broke")
        assert get(server, "/healthz") == (503, f"the consumer stopped: it broke\n{aside}\n")
    assert "is not read beyond offset 17: the batch is too large" in str(aside)
    assert "commit offset 20" in str(aside)
    assert "1 set aside" in progress_text(degraded, 0.0)


def test_an_address_that_cannot_be_listened_at_is_one_sentence():
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        HealthServer(Told(STATUS), "8080")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"^cannot listen on 127\.0\.0\.1:\d+: the address is in use$"):
            HealthServer(Told(STATUS), f"127.0.0.1:{taken.getsockname()[1]}").start()


def test_all_numbers_of_a_summary_are_written_alike():
    ended = Summary(None, {"done": 1872, "polled": 1900}, 0.3, {}, unfinished=1028)
    assert str(ended) == "1,872 of 1,900 records done in 0.3 s, 1,028 unfinished; stopped on request"


def test_progress_is_one_line_with_rate_lag_and_stalls():
    assert progress_text(STATUS, 1_234.4) == (
        "billing: 50 done, 1,234/s, 4 in flight, lag 83, 1 retrying, 1 dead letter, 1 paused, "
        '1 stalled, the oldest or"ders-0 @ 17 for 75 s'
    )
    calm = Status(State.STOPPING, "billing", tally={"done": 7})
    assert progress_text(calm, 0) == "billing (stopping): 7 done, 0/s, 0 in flight"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_writes_over_itself_on_a_terminal_and_plain_lines_elsewhere():
    told = Told(Status(State.RUNNING, "billing", tally={"done": 3}))
    terminal, plain = Terminal(), io.StringIO()
    with Progress(told, terminal), Progress(told, plain):
        pass
    assert terminal.getvalue().startswith("\rbilling: 3 done")
    assert terminal.getvalue().endswith("\n")
    assert "\r" not in plain.getvalue()
    assert plain.getvalue().startswith("billing: 3 done")
    with Progress(told, plain):
        plain.close()


def test_a_running_consumer_is_watched_end_to_end(seamark_broker, seamark_topic):
    release, seen = threading.Event(), threading.Event()

    def handle(record):
        if record.value == b"4":
            seen.set()
            release.wait(30)

    with Producer({"bootstrap.servers": seamark_broker.bootstrap}) as producer:
        for number in range(10):
            producer.send(seamark_topic, value=b"%d" % number, key=b"%d" % number)
        producer.flush()
    config = {
        "bootstrap.servers": seamark_broker.bootstrap,
        "group.id": f"watched-{seamark_topic}",
        "auto.offset.reset": "earliest",
    }
    consumer = ParallelConsumer(config, [seamark_topic], handle)
    with HealthServer(consumer, max_stall=0.0) as server:
        assert get(server, "/readyz") == (503, "the consumer is new\n")
        with consumer:
            assert seen.wait(30)
            assert get(server, "/readyz") == (200, "ok\n")
            # The first look finds the frontier just moved.
            eventually(lambda: get(server, "/healthz")[0] == 503, "the stall")
            _, reasons = get(server, "/healthz")
            assert "has been held at offset" in reasons
            assert "test_observability.py" in reasons, "where the handler stands"
            release.set()
            line = f'seamark_parallel_done_total{{group="watched-{seamark_topic}"}} 10\n'
            for _ in range(300):
                if line in get(server, "/metrics")[1]:
                    break
                threading.Event().wait(0.02)
            else:
                pytest.fail(f"{line} never came")
            [partition] = consumer.status().partitions.values()
            assert (partition.frontier, partition.log_end) == (10, 10)
            assert "seamark_parallel_lag_records{" in get(server, "/metrics")[1]
        assert get(server, "/healthz") == (503, "the consumer was stopped\n")
