"""What a producer counts about itself, under names valid for Prometheus, and what Kafka's producer calls it.

Counts are written by the I/O thread and read without a lock: a reader may see one that is an event old. Kafka's rates
are left to whoever scrapes the counters.
"""

from __future__ import annotations

from collections.abc import Mapping

_GROUP = "producer-metrics"
# Prometheus name -> (Kafka group, Kafka name)
KAFKA_NAMES: dict[str, tuple[str, str]] = {
    "seamark_producer_records_total": (_GROUP, "record-send-total"),
    "seamark_producer_failed_records_total": (_GROUP, "record-error-total"),
    "seamark_producer_retries_total": (_GROUP, "record-retry-total"),
    "seamark_producer_requests_total": (_GROUP, "request-total"),
    "seamark_producer_bytes_total": (_GROUP, "outgoing-byte-total"),
    "seamark_producer_buffer_total_bytes": (_GROUP, "buffer-total-bytes"),
    "seamark_producer_buffer_available_bytes": (_GROUP, "buffer-available-bytes"),
}


def snapshot(counts: Mapping[str, int], buffered_bytes: int, buffer_bytes: int) -> dict[str, float]:
    """Every metric by its name. Retries are counted by the batch, as they are made."""
    named = {f"seamark_producer_{name}_total": float(count) for name, count in counts.items()}
    named["seamark_producer_buffered_bytes"] = float(buffered_bytes)
    named["seamark_producer_buffer_total_bytes"] = float(buffer_bytes)
    named["seamark_producer_buffer_available_bytes"] = float(buffer_bytes - buffered_bytes)
    return named
