"""What a fetcher counts about itself: Kafka's consumer-fetch-manager-metrics under names valid for Prometheus (M4).

Lag and lead are against the position, not the committed offset: lag to the high watermark (the last stable offset
under read_committed), lead to the start of the log. Rates are per second over the fetcher's life. Counters of taken
things are written by the caller's thread, those of requests by the I/O thread; a reader needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.client.core.metrics import Durations
from seamark.client.fetch.planning import PartitionFetch
from seamark.prometheus_text import escaped_label

_GROUP = "consumer-fetch-manager-metrics"
# Prometheus name -> (Kafka group, Kafka name)
KAFKA_NAMES: dict[str, tuple[str, str]] = {
    "seamark_consumer_records_lag": (_GROUP, "records-lag"),
    "seamark_consumer_records_lag_avg": (_GROUP, "records-lag-avg"),
    "seamark_consumer_records_lag_max": (_GROUP, "records-lag-max"),
    "seamark_consumer_records_lead": (_GROUP, "records-lead"),
    "seamark_consumer_records_lead_min": (_GROUP, "records-lead-min"),
    "seamark_consumer_fetch_latency_avg_ms": (_GROUP, "fetch-latency-avg"),
    "seamark_consumer_fetch_latency_max_ms": (_GROUP, "fetch-latency-max"),
    "seamark_consumer_fetch_rate": (_GROUP, "fetch-rate"),
    "seamark_consumer_fetches_total": (_GROUP, "fetch-total"),
    "seamark_consumer_bytes_consumed_rate": (_GROUP, "bytes-consumed-rate"),
    "seamark_consumer_records_consumed_rate": (_GROUP, "records-consumed-rate"),
}


class FetchMetrics:
    def __init__(self, now_ms: int, *, read_committed: bool) -> None:
        self._made_ms = now_ms
        self._read_committed = read_committed
        self.fetches = Durations()
        self.failed_fetches = 0
        self.rejected_answers = 0
        self.bytes_consumed = 0
        self.records_consumed = 0

    def snapshot(self, partitions: Iterable[PartitionFetch], queued_bytes: int, now_ms: int) -> dict[str, float]:
        """Every metric by its name; lag and lead of a partition carry its labels."""
        seconds = max((now_ms - self._made_ms) / 1000, 0.001)
        named: dict[str, float] = {}
        lags: list[int] = []
        leads: list[int] = []
        for state in partitions:
            labels = f'{{topic="{escaped_label(state.partition.topic)}",partition="{state.partition.partition}"}}'
            end = state.last_stable_offset if self._read_committed else state.high_watermark
            if end >= 0:
                lags.append(max(0, end - state.position.offset))
                named[f"seamark_consumer_records_lag{labels}"] = lags[-1]
            if state.log_start >= 0:
                leads.append(max(0, state.position.offset - state.log_start))
                named[f"seamark_consumer_records_lead{labels}"] = leads[-1]
        named["seamark_consumer_records_lag_avg"] = sum(lags) / len(lags) if lags else 0.0
        named["seamark_consumer_records_lag_max"] = max(lags, default=0)
        named["seamark_consumer_records_lead_min"] = min(leads, default=0)
        named["seamark_consumer_fetch_latency_avg_ms"] = self.fetches.average_ms
        named["seamark_consumer_fetch_latency_max_ms"] = self.fetches.longest_ms
        named["seamark_consumer_fetch_rate"] = self.fetches.count / seconds
        named["seamark_consumer_fetches_total"] = self.fetches.count
        named["seamark_consumer_failed_fetches_total"] = self.failed_fetches
        named["seamark_consumer_rejected_fetch_answers_total"] = self.rejected_answers
        named["seamark_consumer_bytes_consumed_rate"] = self.bytes_consumed / seconds
        named["seamark_consumer_bytes_consumed_total"] = self.bytes_consumed
        named["seamark_consumer_records_consumed_rate"] = self.records_consumed / seconds
        named["seamark_consumer_records_consumed_total"] = self.records_consumed
        named["seamark_consumer_prefetched_bytes"] = queued_bytes
        return named
