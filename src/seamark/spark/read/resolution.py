"""From what the options say to offsets: which partitions a query has, and where it begins and ends in each.

Everything that cannot be is found here, before Spark plans a task: missing topics, a JSON object that leaves partitions
out, offsets outside the log, times younger than any record, a group without offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from seamark.errors import HIDDEN, ConfigError
from seamark.readable_log import readable_logger
from seamark.spark.errors import NoGroupOffset, OffsetNotInLog, RecordsLost, TopicMissing
from seamark.spark.read.cluster import Cluster, FoundTopic
from seamark.spark.read.group_commits import read_mark
from seamark.spark.read.options import EARLIEST, LATEST, AtOffsets, AtTimes, Point, ReadOptions, Subscription
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead

log = readable_logger("seamark.spark")


def find_topics(
    cluster: Cluster, subscription: Subscription, among: Collection[str] | None = None
) -> dict[str, FoundTopic]:
    """The query's topics that exist now, with the partitions it reads of them; ``among`` these names, if given."""
    existing = cluster.topics(subscription.names if among is None else sorted(among))
    topics = {name: topic for name, topic in existing.items() if subscription.includes(name)}
    if subscription.partitions is None:
        return topics
    return {
        name: FoundTopic(
            topic.topic_id, tuple(index for index in topic.partitions if index in subscription.partitions[name])
        )
        for name, topic in topics.items()
    }


def require_topics(topics: Mapping[str, FoundTopic], subscription: Subscription) -> None:
    """Refuse to start without what the query names; a pattern may match nothing yet."""
    for name in subscription.names or ():
        if name not in topics:
            raise TopicMissing(f"topic {name!r} does not exist")
    for name, indexes in (subscription.partitions or {}).items():
        missing = sorted(set(indexes) - set(topics[name].partitions))
        if missing:
            raise TopicMissing(f"assign: topic {name!r} has no partition {missing[0]}")


def partitions_of(topics: Mapping[str, FoundTopic]) -> list[TopicPartition]:
    return [TopicPartition(name, index) for name in sorted(topics) for index in topics[name].partitions]


def starting_offsets(
    cluster: Cluster, options: ReadOptions, topics: Mapping[str, FoundTopic]
) -> dict[TopicPartition, int]:
    """Where each partition begins."""
    partitions = partitions_of(topics)
    point = options.starting
    if isinstance(point, AtOffsets):
        return _explicit(cluster, point, partitions)
    if isinstance(point, AtTimes):
        return _at_times(cluster, point, partitions)
    if point.word == "group":
        return _at_group(cluster, options, topics)
    return cluster.log_starts(partitions) if point.word == "earliest" else cluster.log_ends(partitions)


def ending_offsets(cluster: Cluster, point: Point, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where a batch query ends in each partition."""
    if isinstance(point, AtOffsets):
        return _explicit(cluster, point, partitions)
    if isinstance(point, AtTimes):
        return _at_times(cluster, point, partitions)
    return cluster.log_ends(partitions)


def _explicit(cluster: Cluster, point: AtOffsets, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    _check_named(point.option, point.offsets, partitions)
    starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    resolved: dict[TopicPartition, int] = {}
    for partition in partitions:
        offset = point.offsets[partition]
        if offset == EARLIEST:
            offset = starts[partition]
        elif offset == LATEST:
            offset = ends[partition]
        elif not starts[partition] <= offset <= ends[partition]:
            raise OffsetNotInLog(point.option, partition, offset, starts[partition], ends[partition])
        resolved[partition] = offset
    return resolved


def _at_times(cluster: Cluster, point: AtTimes, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    times = dict.fromkeys(partitions, point.every_ms) if point.every_ms is not None else point.times_ms
    _check_named(point.option, times, partitions)
    offsets = cluster.offsets_at({partition: times[partition] or 0 for partition in partitions})
    none_found = [partition for partition in partitions if offsets[partition] is None]
    if none_found and not point.or_latest:
        raise ConfigError(
            point.option,
            times[none_found[0]],
            f"{none_found[0]} has no record at or after it; startingOffsetsByTimestampStrategy=latest allows that",
        )
    ends = cluster.log_ends(none_found)
    resolved: dict[TopicPartition, int] = {}
    for partition in partitions:
        offset = offsets[partition]
        resolved[partition] = ends[partition] if offset is None else offset
    return resolved


def _at_group(cluster: Cluster, options: ReadOptions, topics: Mapping[str, FoundTopic]) -> dict[TopicPartition, int]:
    assert options.group is not None
    partitions = partitions_of(topics)
    committed = cluster.committed(options.group, partitions)
    starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    resolved: dict[TopicPartition, int] = {}
    for partition in partitions:
        offset = committed.get(partition)
        if offset is not None:
            topic_id = read_mark(offset.metadata).topic_id
            if topic_id and topic_id != topics[partition.topic].topic_id:
                problem = f"the group's offset {offset.offset} of {partition} belongs to a topic that was deleted since"
            elif not starts[partition] <= offset.offset <= ends[partition]:
                held = f"holds offsets from {starts[partition]} up to {ends[partition]}"
                problem = f"{partition} {held}, the group is at {offset.offset}"
            else:
                resolved[partition] = offset.offset
                if ahead := done_ahead.decode(offset.metadata, offset.offset):
                    log.warning(
                        "startingOffsets=group: group %r has done %d records of %s beyond its committed offset %d; "
                        "the query processes them again",
                        options.group, ahead.count, partition, offset.offset,
                    )  # fmt: skip
                continue
            if options.fail_on_loss:
                raise RecordsLost(f"startingOffsets=group: {problem}")
            log.warning("startingOffsets=group: %s; starting at the %s offset", problem, options.group_fallback)
        if options.group_fallback == "fail":
            raise NoGroupOffset(
                f"startingOffsets=group: group {options.group!r} has no usable offset for {partition}, and "
                "groupFallback=fail is set"
            )
        resolved[partition] = starts[partition] if options.group_fallback == "earliest" else ends[partition]
    return resolved


def _check_named(option: str, named: Mapping[TopicPartition, object], partitions: Collection[TopicPartition]) -> None:
    missing = sorted(set(partitions) - set(named))
    unknown = sorted(set(named) - set(partitions))
    if missing:
        raise ConfigError(option, HIDDEN, f"{missing[0]} is missing; every partition of the query must be given")
    if unknown:
        raise ConfigError(option, HIDDEN, f"{unknown[0]} is not a partition of the query")
