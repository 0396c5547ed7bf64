"""The records of a check: whatever a user has at hand becomes records in partitions, and each delivery a fresh copy.

A record is anything with ``key`` and ``value`` (a client's record, also one that was consumed before), a (key, value)
pair, a mapping with these names, or a bare value without a key. Records with a topic and a partition keep both; others
are spread over the seed's partitions by their key, so that the order of a key means something.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from seamark.errors import UsageError
from seamark.simulation.parallel.log import PartitionLog, SimulatedRecord
from seamark.topic_partition import TopicPartition

TOPIC = "checked"
_IMMUTABLE = (bytes, str, int, float, type(None))


class GivenRecord(NamedTuple):
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    source: TopicPartition | None = None


def given_records(records: Iterable[Any]) -> list[GivenRecord]:
    given = [_given(record) for record in records]
    if not given:
        raise UsageError("a check needs at least one record")
    return given


def _given(record: Any) -> GivenRecord:
    if isinstance(record, tuple) and len(record) == 2:
        return GivenRecord(record[0], record[1])
    if isinstance(record, Mapping):
        unknown = set(record) - {"key", "value", "headers", "timestamp_ms"}
        if unknown or "value" not in record:
            raise UsageError(
                f"a record given as a mapping must have value and may have key and headers, got {record!r}"
            )
        return GivenRecord(
            record.get("key"), record["value"], tuple(record.get("headers", ())), record.get("timestamp_ms", 0)
        )
    if hasattr(record, "value") and hasattr(record, "key"):
        source = None
        if isinstance(getattr(record, "topic", None), str) and isinstance(getattr(record, "partition", None), int):
            source = TopicPartition(record.topic, record.partition)
        return GivenRecord(
            record.key,
            record.value,
            tuple(getattr(record, "headers", ()) or ()),
            getattr(record, "timestamp_ms", 0),
            source,
        )
    return GivenRecord(None, record)


def make_logs(given: Iterable[GivenRecord], partitions: int) -> dict[TopicPartition, PartitionLog]:
    logs: dict[TopicPartition, PartitionLog] = {}
    for number, record in enumerate(given):
        source = record.source
        if source is None:
            # Kafka spreads records without a key too; repr is equal for equal keys of the usual types.
            spread = number if record.key is None else zlib.crc32(repr(record.key).encode())
            source = TopicPartition(TOPIC, spread % partitions)
        log = logs.get(source)
        if log is None:
            log = logs[source] = PartitionLog(source)
        log.append(record.key, record.value, record.headers, record.timestamp_ms)
    return logs


def fresh(record: SimulatedRecord) -> SimulatedRecord:
    """As the next delivery would bring it: what a handler did to an earlier copy is not in it."""
    delivered = copy.copy(record)
    if not isinstance(record.value, _IMMUTABLE):
        delivered.value = copy.deepcopy(record.value)
    if not isinstance(record.key, _IMMUTABLE):
        delivered.key = copy.deepcopy(record.key)
    return delivered
