"""A finding: what happened, where and when, in a sentence with its evidence, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Parameters:
    """What the rules go by; times in milliseconds. Each is the least that is worth a person's attention."""

    # Without progress although there is something to read.
    stall_ms: int = 300_000
    stop_ms: int = 600_000
    # A pause is no stop as long as it is at most so many times the longest pause seen before.
    usual_pauses: float = 3.0
    # A commit that falls back and is made good within this time is a commit that overtook another.
    overtaken_ms: int = 5_000
    # Faster than any consumer reads one partition, in records per second; and how many times its own best pace.
    fastest: int = 2_000_000
    faster: float = 20.0
    jump_records: int = 1_000
    retention_ms: int = 7 * 86_400_000
    storm_generations: int = 15
    storm_ms: int = 600_000
    uneven_ratio: float = 4.0
    uneven_records: int = 10_000
    uneven_partitions: int = 3
    slow_records: int = 1_000
    slow_ms: int = 3_600_000
    often_per_second: float = 5.0
    often_ms: int = 60_000
    metadata_limit: int = 4096
    metadata_share: float = 0.9
    uncommitted_ms: int = 1_800_000


@dataclass(frozen=True, slots=True)
class Finding:
    """``until_ms`` is None for what still goes on; ``records`` is how many are concerned, where that is known."""

    kind: str
    group: str
    topic: str | None
    partition: int | None
    from_ms: int
    until_ms: int | None
    sentence: str
    advice: str
    records: int | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)
