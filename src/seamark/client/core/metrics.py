"""What a consumer counts about itself: Kafka's consumer metrics under names valid for Prometheus (M3, M5).

Plain numbers, written by the thread that owns the event and read without a lock: a reader may see a count that is one
event old, never a torn one. ``snapshot`` names them; ``KAFKA_NAMES`` says which of Kafka's metrics each one is. Rates
are per second over the time since the consumer was made.
"""

from __future__ import annotations

NANOSECONDS_PER_MS = 1_000_000

# Prometheus name -> (Kafka group, Kafka name)
_COORDINATOR = "consumer-coordinator-metrics"
_CONSUMER = "consumer-metrics"
KAFKA_NAMES: dict[str, tuple[str, str]] = {
    "seamark_consumer_commit_latency_avg_ms": (_COORDINATOR, "commit-latency-avg"),
    "seamark_consumer_commit_latency_max_ms": (_COORDINATOR, "commit-latency-max"),
    "seamark_consumer_commit_rate": (_COORDINATOR, "commit-rate"),
    "seamark_consumer_commits_total": (_COORDINATOR, "commit-total"),
    "seamark_consumer_assigned_partitions": (_COORDINATOR, "assigned-partitions"),
    "seamark_consumer_heartbeat_rate": (_COORDINATOR, "heartbeat-rate"),
    "seamark_consumer_heartbeats_total": (_COORDINATOR, "heartbeat-total"),
    "seamark_consumer_heartbeat_response_time_max_ms": (_COORDINATOR, "heartbeat-response-time-max"),
    "seamark_consumer_last_heartbeat_seconds_ago": (_COORDINATOR, "last-heartbeat-seconds-ago"),
    "seamark_consumer_join_time_avg_ms": (_COORDINATOR, "join-time-avg"),
    "seamark_consumer_join_time_max_ms": (_COORDINATOR, "join-time-max"),
    "seamark_consumer_sync_time_avg_ms": (_COORDINATOR, "sync-time-avg"),
    "seamark_consumer_sync_time_max_ms": (_COORDINATOR, "sync-time-max"),
    "seamark_consumer_rebalance_latency_avg_ms": (_COORDINATOR, "rebalance-latency-avg"),
    "seamark_consumer_rebalance_latency_max_ms": (_COORDINATOR, "rebalance-latency-max"),
    "seamark_consumer_rebalance_latency_ms_total": (_COORDINATOR, "rebalance-latency-total"),
    "seamark_consumer_rebalances_total": (_COORDINATOR, "rebalance-total"),
    "seamark_consumer_rebalance_rate_per_hour": (_COORDINATOR, "rebalance-rate-per-hour"),
    "seamark_consumer_failed_rebalances_total": (_COORDINATOR, "failed-rebalance-total"),
    "seamark_consumer_failed_rebalance_rate_per_hour": (_COORDINATOR, "failed-rebalance-rate-per-hour"),
    "seamark_consumer_last_rebalance_seconds_ago": (_COORDINATOR, "last-rebalance-seconds-ago"),
    "seamark_consumer_commit_sync_time_ns_total": (_CONSUMER, "commit-sync-time-ns-total"),
    "seamark_consumer_committed_time_ns_total": (_CONSUMER, "committed-time-ns-total"),
    "seamark_consumer_time_between_poll_avg_ms": (_CONSUMER, "time-between-poll-avg"),
    "seamark_consumer_time_between_poll_max_ms": (_CONSUMER, "time-between-poll-max"),
    "seamark_consumer_last_poll_seconds_ago": (_CONSUMER, "last-poll-seconds-ago"),
    "seamark_consumer_poll_idle_ratio_avg": (_CONSUMER, "poll-idle-ratio-avg"),
}
_NEVER = -1


class Durations:
    """How often something happened and how long it took."""

    __slots__ = ("count", "longest_ms", "total_ms")

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0
        self.longest_ms = 0

    def add(self, duration_ms: int) -> None:
        self.count += 1
        self.total_ms += duration_ms
        self.longest_ms = max(self.longest_ms, duration_ms)

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


class ConsumerMetrics:
    """``now_ms`` is the clock of the cores; nothing here reads one."""

    def __init__(self, now_ms: int) -> None:
        self._made_ms = now_ms
        self.commits = Durations()
        self.heartbeats_sent = 0
        self.heartbeat_answers = Durations()
        self.last_heartbeat_ms = _NEVER
        self.joins = Durations()
        self.syncs = Durations()
        self.rebalances = Durations()
        self.failed_rebalances = 0
        self.last_rebalance_ms = _NEVER
        self.assigned_partitions = 0
        self.commit_sync_ms = 0
        self.committed_ms = 0
        self.between_polls = Durations()
        self._last_poll_ms = _NEVER
        self._in_poll_ms = 0
        # Things that were dropped because their term or generation was over; silence would look like success.
        self.stale_answers = 0

    def heartbeat_sent(self, now_ms: int) -> None:
        self.heartbeats_sent += 1
        self.last_heartbeat_ms = now_ms

    def rebalanced(self, latency_ms: int, now_ms: int) -> None:
        self.rebalances.add(latency_ms)
        self.last_rebalance_ms = now_ms

    def poll_started(self, now_ms: int) -> None:
        if self._last_poll_ms != _NEVER:
            self.between_polls.add(now_ms - self._last_poll_ms)
        self._last_poll_ms = now_ms

    def poll_ended(self, now_ms: int) -> None:
        self._in_poll_ms += now_ms - self._last_poll_ms

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """Every metric by its Prometheus name; -1 stands for "never" in those that count seconds since something."""
        seconds = max((now_ms - self._made_ms) / 1000, 0.001)
        hours = seconds / 3600
        total_ms = max(now_ms - self._made_ms, 1)
        values: tuple[float, ...] = (
            self.commits.average_ms,
            self.commits.longest_ms,
            self.commits.count / seconds,
            self.commits.count,
            self.assigned_partitions,
            self.heartbeats_sent / seconds,
            self.heartbeats_sent,
            self.heartbeat_answers.longest_ms,
            _seconds_ago(self.last_heartbeat_ms, now_ms),
            self.joins.average_ms,
            self.joins.longest_ms,
            self.syncs.average_ms,
            self.syncs.longest_ms,
            self.rebalances.average_ms,
            self.rebalances.longest_ms,
            self.rebalances.total_ms,
            self.rebalances.count,
            self.rebalances.count / hours,
            self.failed_rebalances,
            self.failed_rebalances / hours,
            _seconds_ago(self.last_rebalance_ms, now_ms),
            self.commit_sync_ms * NANOSECONDS_PER_MS,
            self.committed_ms * NANOSECONDS_PER_MS,
            self.between_polls.average_ms,
            self.between_polls.longest_ms,
            _seconds_ago(self._last_poll_ms, now_ms),
            min(self._in_poll_ms / total_ms, 1.0),
        )
        named = dict(zip(KAFKA_NAMES, values, strict=True))
        named["seamark_consumer_stale_answers_total"] = self.stale_answers
        return named


def _seconds_ago(then_ms: int, now_ms: int) -> float:
    return _NEVER if then_ms == _NEVER else (now_ms - then_ms) / 1000
