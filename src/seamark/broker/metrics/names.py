"""Kafka's names of metrics and ours: the one table that the metrics, the document and the tests go by (M6, M7).

Ours are valid in Prometheus: small letters and underscores, seconds and bytes, counters that end in ``_total``.
"""

from __future__ import annotations

import re

_GROUP_STATES = "kafka.coordinator.group:type=GroupMetadataManager,name="
_GROUP_EVENTS = "kafka.server:type=group-coordinator-metrics,name="
_LOG = "kafka.log:type=Log,name="
_SOCKETS = "kafka.server:type=socket-server-metrics,name="

# The coordinator's gauges, under the names that it has for them (M6).
GROUP_GAUGES = {
    "NumOffsets": "Committed offsets.",
    "NumGroups": "Groups.",
    "NumGroupsPreparingRebalance": "Groups waiting for their members to join.",
    "NumGroupsCompletingRebalance": "Groups waiting for the assignment of their leader.",
    "NumGroupsStable": "Groups whose members have their assignment.",
    "NumGroupsDead": "Groups being removed.",
    "NumGroupsEmpty": "Groups without members that have offsets or are new.",
}
# The coordinator's counters, each also shown as a rate (M7).
GROUP_COUNTERS = {
    "offset-commit": "Offsets committed.",
    "offset-expiration": "Offsets that expired.",
    "offset-deletion": "Offsets deleted on request.",
    "group-completed-rebalance": "Rebalances completed.",
}


def group_gauge_name(kafka_name: str) -> str:
    """Return our name of a gauge.

    >>> group_gauge_name("NumGroupsPreparingRebalance")
    'seamark_coordinator_num_groups_preparing_rebalance'
    """
    return "seamark_coordinator" + re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), kafka_name)


def group_counter_name(kafka_stem: str) -> str:
    return f"seamark_coordinator_{kafka_stem.replace('-', '_')}_total"


def group_rate_name(kafka_stem: str) -> str:
    return f"seamark_coordinator_{kafka_stem.replace('-', '_')}_rate"


OURS_BY_KAFKAS: dict[str, str] = {
    **{_GROUP_STATES + name: group_gauge_name(name) for name in GROUP_GAUGES},
    **{f"{_GROUP_EVENTS}{stem}-count": group_counter_name(stem) for stem in GROUP_COUNTERS},
    **{f"{_GROUP_EVENTS}{stem}-rate": group_rate_name(stem) for stem in GROUP_COUNTERS},
    "kafka.network:type=RequestMetrics,name=RequestsPerSec": "seamark_requests_total",
    "kafka.network:type=RequestMetrics,name=TotalTimeMs": "seamark_request_seconds",
    "kafka.network:type=RequestMetrics,name=RequestBytes": "seamark_request_bytes_total",
    "kafka.network:type=RequestMetrics,name=ResponseBytes": "seamark_response_bytes_total",
    _LOG + "Size": "seamark_log_size_bytes",
    _LOG + "LogStartOffset": "seamark_log_start_offset",
    _LOG + "LogEndOffset": "seamark_log_end_offset",
    _LOG + "NumLogSegments": "seamark_log_segments",
    "kafka.server:type=ReplicaManager,name=LeaderCount": "seamark_leader_partitions",
    _SOCKETS + "connection-count": "seamark_connections",
    _SOCKETS + "successful-authentication-total": "seamark_authentication_successes_total",
    _SOCKETS + "failed-authentication-total": "seamark_authentication_failures_total",
}


def table() -> str:
    """Return the document's table."""
    rows = "".join(f"| `{kafkas}` | `{ours}` |\n" for kafkas, ours in OURS_BY_KAFKAS.items())
    return f"| Kafka | Seamark |\n| --- | --- |\n{rows}"
