"""The names that options of the Spark source have: those it takes, and those of Spark's own source that it refuses.

Spark does not care about the case of an option's name and hands it on in lower case; users read and write it in the
form given here. A name in neither table is refused with the nearest one that exists.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.errors import HIDDEN, ConfigError
from seamark.suggest import closest

# In the order of the guide. "stream" and "batch" are refused where the other kind of query is made.
TAKEN: dict[str, str] = {
    "subscribe": "both",
    "subscribePattern": "both",
    "assign": "both",
    "startingOffsets": "both",
    "startingTimestamp": "both",
    "startingOffsetsByTimestamp": "both",
    "startingOffsetsByTimestampStrategy": "both",
    "endingOffsets": "batch",
    "endingTimestamp": "batch",
    "endingOffsetsByTimestamp": "batch",
    "failOnDataLoss": "both",
    "minPartitions": "both",
    "maxRecordsPerPartition": "both",
    "maxOffsetsPerTrigger": "stream",
    "minOffsetsPerTrigger": "stream",
    "maxTriggerDelay": "stream",
    "includeHeaders": "both",
    "groupId": "both",
    "groupFallback": "both",
    "onActiveGroup": "stream",
    "onTopicRecreated": "stream",
    "fetchBytes": "both",
}

# Options of Spark's source that have no meaning here, with what to do instead.
REFUSED: dict[str, str] = {
    "groupIdPrefix": "groups are not generated: remove the option, or set groupId to commit to a group",
    "kafkaConsumer.pollTimeoutMs": "set kafka.default.api.timeout.ms to limit the wait for records",
    "fetchOffset.numRetries": "requests are retried until kafka.default.api.timeout.ms has passed",
    "fetchOffset.retryIntervalMs": "the wait between retries is kafka.retry.backoff.ms",
    "asyncProgressTrackingEnabled": "it belongs to writeStream, and cannot be combined with groupId",
    "path": "nothing is read from files: call load() without a path",
    "topic": "it is for writing; use subscribe to read",
    "schema": "choose columns with the reader's method schema(...)",
}

# Settings of Kafka's consumer that a query decides by itself, as in Spark's source.
REFUSED_KAFKA: dict[str, str] = {
    "auto.offset.reset": "the query keeps its own offsets: use startingOffsets",
    "key.deserializer": "keys are bytes: cast the column",
    "value.deserializer": "values are bytes: cast the column",
    "enable.auto.commit": "offsets are committed after a batch is durable: use groupId",
    "auto.commit.interval.ms": "offsets are committed after a batch is durable: use groupId",
    "interceptor.classes": "interceptors are Java classes and are not supported",
    "partition.assignment.strategy": "no group is joined: Spark assigns the partitions",
    "group.instance.id": "no group is joined: Spark assigns the partitions",
    "group.protocol": "no group is joined: Spark assigns the partitions",
    "group.remote.assignor": "no group is joined: Spark assigns the partitions",
}

_TAKEN_BY_LOWER = {name.lower(): name for name in TAKEN}
_REFUSED_BY_LOWER = {name.lower(): name for name in REFUSED}


def check_names(names: Iterable[str], *, is_stream: bool) -> None:
    """Refuse what is not an option of reading; names starting with kafka. are looked at elsewhere."""
    for name in names:
        lower = name.lower()
        if lower.startswith("kafka."):
            continue
        proper = _TAKEN_BY_LOWER.get(lower)
        if proper is None:
            raise _refusal(lower, name)
        kind = TAKEN[proper]
        if kind == "batch" and is_stream:
            raise ConfigError(proper, HIDDEN, "a streaming query has no end; the option is for batch queries")
        if kind == "stream" and not is_stream:
            raise ConfigError(proper, HIDDEN, "the option is for streaming queries; a batch query reads once")


def _refusal(lower: str, given: str) -> ConfigError:
    if lower in _REFUSED_BY_LOWER:
        proper = _REFUSED_BY_LOWER[lower]
        return ConfigError(proper, HIDDEN, f"not supported: {REFUSED[proper]}")
    meant = closest(lower, [*_TAKEN_BY_LOWER, "kafka.bootstrap.servers"])
    hint = f"; did you mean {_TAKEN_BY_LOWER.get(meant, meant)!r}?" if meant else ""
    return ConfigError(given, HIDDEN, f"is not an option of this source{hint}")
