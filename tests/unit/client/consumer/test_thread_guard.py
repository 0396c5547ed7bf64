"""One thread at a time, re-entry allowed; and metrics whose names Prometheus takes."""

import re
import threading

import pytest

from seamark.client.consumer.thread_guard import ThreadGuard
from seamark.client.core.metrics import KAFKA_NAMES, ConsumerMetrics
from seamark.client.errors import ConcurrentUse


# covers: I16, I18
def test_a_second_thread_is_refused_while_the_first_is_inside():
    guard = ThreadGuard("consumer")
    inside, leave = threading.Event(), threading.Event()

    def first():
        with guard:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with pytest.raises(ConcurrentUse, match="this consumer is in use"), guard:
        pass
    leave.set()
    thread.join(10)
    with guard:
        pass


# covers: I18
def test_the_owner_may_enter_again_and_leaves_with_the_outermost_exit():
    who = [1]
    guard = ThreadGuard("consumer", lambda: who[0])
    with guard:
        with guard:
            pass
        who[0] = 2
        with pytest.raises(ConcurrentUse), guard:
            pass
        who[0] = 1
    who[0] = 2
    with guard:
        pass


def test_an_exception_inside_gives_the_guard_back():
    guard = ThreadGuard("consumer")
    with pytest.raises(KeyError), guard:
        raise KeyError
    thread = threading.Thread(target=guard.__enter__)
    thread.start()
    thread.join(10)
    assert guard._depth == 1


# covers: M3, M5
def test_every_metric_of_kafka_has_a_name_that_prometheus_takes():
    names = ConsumerMetrics(0).snapshot(1000)
    assert all(re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name) for name in names)
    assert set(KAFKA_NAMES) <= set(names)
    wanted = """commit-latency-avg commit-latency-max commit-rate commit-total assigned-partitions heartbeat-rate
        heartbeat-total heartbeat-response-time-max last-heartbeat-seconds-ago join-time-avg join-time-max sync-time-avg
        sync-time-max rebalance-latency-avg rebalance-latency-max rebalance-latency-total rebalance-total
        rebalance-rate-per-hour failed-rebalance-total failed-rebalance-rate-per-hour last-rebalance-seconds-ago
        commit-sync-time-ns-total committed-time-ns-total time-between-poll-avg time-between-poll-max
        last-poll-seconds-ago poll-idle-ratio-avg"""
    assert {kafka for _, kafka in KAFKA_NAMES.values()} == set(wanted.split())


# covers: M3, M5
def test_metrics_count_what_happened():
    metrics = ConsumerMetrics(0)
    metrics.poll_started(1000)
    metrics.poll_ended(1500)
    metrics.poll_started(3000)
    metrics.poll_ended(3000)
    metrics.heartbeat_sent(3500)
    metrics.rebalanced(200, 3600)
    metrics.commits.add(10)
    metrics.commits.add(30)
    found = metrics.snapshot(4000)
    assert found["seamark_consumer_time_between_poll_avg_ms"] == 2000
    assert found["seamark_consumer_last_poll_seconds_ago"] == 1.0
    assert found["seamark_consumer_poll_idle_ratio_avg"] == 500 / 4000
    assert found["seamark_consumer_last_heartbeat_seconds_ago"] == 0.5
    assert found["seamark_consumer_last_rebalance_seconds_ago"] == 0.4
    assert found["seamark_consumer_commit_latency_avg_ms"] == 20
    assert found["seamark_consumer_commit_latency_max_ms"] == 30
    assert found["seamark_consumer_commit_rate"] == 0.5
    assert ConsumerMetrics(0).snapshot(1)["seamark_consumer_last_poll_seconds_ago"] == -1
