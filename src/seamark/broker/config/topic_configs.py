"""A topic's configuration: its keys, where each value comes from, and what the value means for the log.

A value is the topic's own, or the broker's under another name (its synonyms, first to last), or Kafka's default. What
requests need of it on every batch is worked out once, in ``TopicConfig``, and replaced whole when something changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seamark.broker.config.key import INT64_MAX, ConfigKey, ConfigType, table
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.config.table import CODECS
from seamark.broker.refusals import RequestRefused
from seamark.errors import ConfigError
from seamark.storage.settings import LEAST_DECOMPRESSED_BYTES, Durability, LogSettings
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.compression import DEFAULT_MAX_DECOMPRESSED

_INT, _LONG, _BOOLEAN, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.STRING
_DOUBLE, _LIST = ConfigType.DOUBLE, ConfigType.LIST
_DAY_MS = 86_400_000
# A compressed batch of a topic may unfold to this many times ``max.message.bytes``.
_GROWTH = 16

TOPIC_KEYS = table(
    ConfigKey("cleanup.policy", _LIST, ["delete"], choices=("compact", "delete"), synonyms=["log.cleanup.policy"]),
    ConfigKey("compression.gzip.level", _INT, -1, least=-1, most=9, synonyms=["compression.gzip.level"]),
    ConfigKey("compression.lz4.level", _INT, 9, least=1, most=17, synonyms=["compression.lz4.level"]),
    ConfigKey("compression.type", _STRING, "producer", choices=CODECS, synonyms=["compression.type"]),
    ConfigKey("compression.zstd.level", _INT, 3, least=-131_072, most=22, synonyms=["compression.zstd.level"]),
    ConfigKey("delete.retention.ms", _LONG, _DAY_MS, least=0, synonyms=["log.cleaner.delete.retention.ms"]),
    ConfigKey("file.delete.delay.ms", _LONG, 60_000, least=0, synonyms=["log.segment.delete.delay.ms"]),
    ConfigKey("flush.messages", _LONG, INT64_MAX, least=1, synonyms=["log.flush.interval.messages"]),
    ConfigKey("flush.ms", _LONG, INT64_MAX, least=0, synonyms=["log.flush.interval.ms"]),
    ConfigKey("follower.replication.throttled.replicas", _LIST, []),
    ConfigKey("index.interval.bytes", _INT, 4096, least=0, synonyms=["log.index.interval.bytes"]),
    ConfigKey("leader.replication.throttled.replicas", _LIST, []),
    ConfigKey("local.retention.bytes", _LONG, -2, least=-2, synonyms=["log.local.retention.bytes"]),
    ConfigKey("local.retention.ms", _LONG, -2, least=-2, synonyms=["log.local.retention.ms"]),
    ConfigKey("max.compaction.lag.ms", _LONG, INT64_MAX, least=1, synonyms=["log.cleaner.max.compaction.lag.ms"]),
    ConfigKey("max.message.bytes", _INT, 1_048_588, least=0, synonyms=["message.max.bytes"]),
    ConfigKey(
        "message.timestamp.after.max.ms", _LONG, 3_600_000, least=0, synonyms=["log.message.timestamp.after.max.ms"]
    ),
    ConfigKey(
        "message.timestamp.before.max.ms", _LONG, INT64_MAX, least=0, synonyms=["log.message.timestamp.before.max.ms"]
    ),
    ConfigKey(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=["log.message.timestamp.type"],
    ),
    ConfigKey("min.cleanable.dirty.ratio", _DOUBLE, 0.5, least=0, most=1, synonyms=["log.cleaner.min.cleanable.ratio"]),
    ConfigKey("min.compaction.lag.ms", _LONG, 0, least=0, synonyms=["log.cleaner.min.compaction.lag.ms"]),
    ConfigKey("min.insync.replicas", _INT, 1, least=1, synonyms=["min.insync.replicas"]),
    ConfigKey("preallocate", _BOOLEAN, False, synonyms=["log.preallocate"]),
    ConfigKey("remote.log.copy.disable", _BOOLEAN, False),
    ConfigKey("remote.log.delete.on.disable", _BOOLEAN, False),
    ConfigKey("remote.storage.enable", _BOOLEAN, False),
    ConfigKey("retention.bytes", _LONG, -1, least=-1, synonyms=["log.retention.bytes"]),
    ConfigKey(
        "retention.ms",
        _LONG,
        7 * _DAY_MS,
        least=-1,
        synonyms=["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
    ),
    ConfigKey("segment.bytes", _INT, 1 << 30, least=14, synonyms=["log.segment.bytes"]),
    ConfigKey("segment.index.bytes", _INT, 10_485_760, least=4, synonyms=["log.index.size.max.bytes"]),
    ConfigKey("segment.jitter.ms", _LONG, 0, least=0, synonyms=["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    ConfigKey("segment.ms", _LONG, 7 * _DAY_MS, least=1, synonyms=["log.roll.ms", "log.roll.hours"]),
    ConfigKey("unclean.leader.election.enable", _BOOLEAN, False, synonyms=["unclean.leader.election.enable"]),
)

# Kafka's numbers for where a value comes from.
TOPIC_SOURCE, DYNAMIC_BROKER_SOURCE, DYNAMIC_DEFAULT_SOURCE, STATIC_BROKER_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5

# A broker's key counts in these units; a topic's counts in milliseconds.
_UNIT_MS = {".hours": 3_600_000, ".minutes": 60_000}


class Sourced(NamedTuple):
    """A value, the key it was found under, and where that was."""

    key: str
    value: Any
    source: int


def topic_key(name: str) -> ConfigKey:
    """Return the key, or refuse as Kafka does."""
    known = TOPIC_KEYS.get(name)
    if known is None:
        raise RequestRefused(ErrorCode.INVALID_CONFIG, f"there is no topic configuration key {name!r}")
    return known


def parse_topic_configs(given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of a topic's own keys; RequestRefused for the first that cannot be."""
    values = {}
    for name, text in given.items():
        key = topic_key(name)
        if text is None:
            raise RequestRefused(ErrorCode.INVALID_CONFIG, f"{name} has no value")
        try:
            values[name] = key.parse(text)
        except ConfigError as error:
            raise RequestRefused(ErrorCode.INVALID_CONFIG, str(error)) from None
        if name == "remote.storage.enable" and values[name]:
            raise RequestRefused(ErrorCode.INVALID_CONFIG, "tiered storage is not supported")
    return values


def sources(key: ConfigKey, own: Mapping[str, Any], settings: BrokerSettings) -> Iterator[Sourced]:
    """Yield where a value may come from, the one that counts first."""
    if key.name in own:
        yield Sourced(key.name, own[key.name], TOPIC_SOURCE)
    yield from broker_sources(key.synonyms, settings)


def broker_sources(names: Sequence[str], settings: BrokerSettings) -> Iterator[Sourced]:
    """Yield where the broker has a value under any of the names; of the defaults, as in Kafka, only the first's."""
    for layer, source in (
        (settings.dynamic, DYNAMIC_BROKER_SOURCE),
        (settings.dynamic_default, DYNAMIC_DEFAULT_SOURCE),
        (settings.static, STATIC_BROKER_SOURCE),
    ):
        for name in names:
            if name in layer:
                yield Sourced(name, layer[name], source)
    if names and settings.default(names[0]) is not None:
        yield Sourced(names[0], settings.default(names[0]), DEFAULT_SOURCE)


def effective(key: ConfigKey, own: Mapping[str, Any], settings: BrokerSettings) -> Sourced:
    """Return the value that counts, in the topic's units, and where it comes from."""
    for sourced in sources(key, own, settings):
        unit = next((ms for ending, ms in _UNIT_MS.items() if sourced.key.endswith(ending)), 1)
        value = sourced.value * unit if unit > 1 and sourced.value >= 0 else sourced.value
        return Sourced(sourced.key, value, sourced.source)
    return Sourced(key.name, key.default, DEFAULT_SOURCE)


def _max_decompressed_bytes(max_message_bytes: int) -> int:
    """More for a topic with larger batches, and never more than clients unfold."""
    return min(max(LEAST_DECOMPRESSED_BYTES, _GROWTH * max_message_bytes), DEFAULT_MAX_DECOMPRESSED)


def values_without_own(settings: BrokerSettings) -> dict[str, Any]:
    """The values of all keys for a topic that sets none of them."""
    return {name: effective(key, {}, settings).value for name, key in TOPIC_KEYS.items()}


class TopicConfig:
    """What a topic's configuration comes down to: its own values, and those it has without them."""

    __slots__ = (
        "is_compacted",
        "is_deleted_by_age",
        "log_append_time",
        "log_settings",
        "max_message_bytes",
        "min_insync_replicas",
        "newest_ms_ahead",
        "oldest_ms_behind",
        "own",
        "segment_bytes",
    )

    def __init__(self, own: Mapping[str, Any], others: Mapping[str, Any], durability: Durability) -> None:
        self.own = dict(own)
        values = {**others, **own}
        self.max_message_bytes: int = values["max.message.bytes"]
        self.min_insync_replicas: int = values["min.insync.replicas"]
        self.segment_bytes: int = values["segment.bytes"]
        self.is_compacted = "compact" in values["cleanup.policy"]
        self.is_deleted_by_age = "delete" in values["cleanup.policy"]
        self.log_append_time = values["message.timestamp.type"] == "LogAppendTime"
        self.newest_ms_ahead: int = values["message.timestamp.after.max.ms"]
        self.oldest_ms_behind: int = values["message.timestamp.before.max.ms"]
        self.log_settings = LogSettings(
            segment_bytes=values["segment.bytes"],
            segment_ms=values["segment.ms"],
            index_interval_bytes=values["index.interval.bytes"],
            # A log that is only compacted keeps its records however old and many they are.
            retention_ms=values["retention.ms"] if self.is_deleted_by_age else -1,
            retention_bytes=values["retention.bytes"] if self.is_deleted_by_age else -1,
            delete_retention_ms=values["delete.retention.ms"],
            min_compaction_lag_ms=values["min.compaction.lag.ms"],
            min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
            max_decompressed_bytes=_max_decompressed_bytes(self.max_message_bytes),
            log_append_time=self.log_append_time,
            durability=durability,
        )
