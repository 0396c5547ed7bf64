"""Which segments have outlived their use: too old, too many bytes, or wholly below the log's start.

Whole segments go, oldest first, and the first that must stay ends the search. As in Kafka the segment that is written
to may be among them when all its records are old; the log then begins another one before it lets it go.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.storage.segments.segment import Segment
from seamark.storage.settings import LogSettings


def newest_ms(segment: Segment) -> int:
    """When the segment was last added to: its largest timestamp, or the append itself where records have none."""
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.last_append_ms


def removable_count(segments: Sequence[Segment], settings: LogSettings, now_ms: int, log_start: int) -> int:
    """Return how many of the oldest segments may go."""
    excess_bytes = -1
    if settings.retention_bytes >= 0:
        excess_bytes = sum(segment.size for segment in segments) - settings.retention_bytes
    count = 0
    for segment in segments:
        if segment.size == 0:
            break
        is_old = settings.retention_ms >= 0 and now_ms - newest_ms(segment) > settings.retention_ms
        is_excess = excess_bytes >= segment.size
        if not (is_old or is_excess or segment.next_offset <= log_start):
            break
        excess_bytes -= segment.size
        count += 1
    return count
