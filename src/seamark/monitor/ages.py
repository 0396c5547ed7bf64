"""How old the first unread record of each partition is: probes for all partitions at once, a few requests in all."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.client.admin import Admin
from seamark.rules.time_lag import TimeLag
from seamark.rules.time_probe import TimeProbe
from seamark.topic_partition import TopicPartition


def ages(
    admin: Admin, positions: Mapping[TopicPartition, tuple[int, int]], now_ms: int, *, timeout: float | None = None
) -> dict[TopicPartition, TimeLag]:
    """The time lag per partition, given its position and its log end; a partition that stops answering is left out."""
    probes = {partition: TimeProbe(position, log_end, now_ms) for partition, (position, log_end) in positions.items()}
    while True:
        asked = {partition: at for partition, probe in probes.items() if (at := probe.next_ask()) is not None}
        if not asked:
            return {partition: probe.result() for partition, probe in probes.items()}
        found = admin.list_offsets(asked, timeout=timeout)
        for partition in found.errors:
            del probes[partition]
        for partition, answer in found.items():
            probes[partition].answered(asked[partition], answer.offset, answer.timestamp_ms)
