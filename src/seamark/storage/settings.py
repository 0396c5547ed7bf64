"""What a log can be told, under Kafka's names for topics with dots turned to underscores.

``Durability`` says when an append counts: ``os`` as soon as the operating system has it, as Kafka does; ``commit``
once a sync has returned. The log writes the same in both cases; ``Log.acknowledged_end`` is where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from seamark.errors import ConfigError

_DAY_MS = 86_400_000
# A batch of Kafka's default size, 1 MiB, may have shrunk to a sixty-fourth.
LEAST_DECOMPRESSED_BYTES = 64 << 20


class Durability(Enum):
    OS = "os"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """-1 means without limit, as in Kafka, where that is allowed."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    # One index entry per this many bytes: a seek reads at most as much, or one batch if that is larger.
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    min_cleanable_dirty_ratio: float = 0.5
    # Compaction remembers one offset per distinct key; past this many it stops at the next segment's end.
    compaction_max_keys: int = 1_000_000
    # Compressed batches that unfold to more are kept whole by compaction.
    max_decompressed_bytes: int = LEAST_DECOMPRESSED_BYTES
    log_append_time: bool = False
    durability: Durability = Durability.OS

    def __post_init__(self) -> None:
        for option, smallest in (
            ("segment_bytes", 1),
            ("segment_ms", 1),
            ("index_interval_bytes", 0),
            ("retention_ms", -1),
            ("retention_bytes", -1),
            ("delete_retention_ms", 0),
            ("min_compaction_lag_ms", 0),
            ("compaction_max_keys", 1),
            ("max_decompressed_bytes", 1),
        ):
            value = getattr(self, option)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise ConfigError(option.replace("_", "."), value, f"it must be an integer >= {smallest}")
        ratio = self.min_cleanable_dirty_ratio
        if not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
            raise ConfigError("min.cleanable.dirty.ratio", ratio, "it must be a number from 0 to 1")
        if not isinstance(self.durability, Durability):
            raise ConfigError("durability", self.durability, "it must be os or commit")
