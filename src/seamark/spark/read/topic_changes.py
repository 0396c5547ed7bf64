"""What happens when topics are not what they were: made anew, deleted, grown, cut short, or another query's.

``merged`` brings a query's offsets together with the topics as they are now, by the user's policies. Nothing is skipped
silently: what is left out without an error is logged as a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seamark.readable_log import readable_logger
from seamark.spark.errors import BadCheckpoint, RecordsLost, TopicRecreated
from seamark.spark.read.cluster import Cluster, FoundTopic
from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets
from seamark.spark.read.options import ReadOptions, Subscription
from seamark.spark.read.ranges import OffsetRange
from seamark.spark.read.resolution import find_topics
from seamark.topic_partition import TopicPartition

log = readable_logger("seamark.spark")


class Merged(NamedTuple):
    """Offsets to go on from; ``is_changed`` when topics or partitions came, went or were made anew."""

    topics: dict[str, TopicOffsets]
    is_changed: bool


def check_belongs(offsets: SourceOffsets, subscription: Subscription) -> None:
    """Refuse a checkpoint that is about other topics altogether."""
    if offsets.topics and not any(subscription.includes(name) for name in offsets.topics):
        has = ", ".join(sorted(offsets.topics)[:5])
        wants = subscription.pattern or ", ".join(subscription.names or ())
        raise BadCheckpoint(f"the checkpoint is of {has}, but the query reads {wants}; use a separate checkpoint")


def merged(
    offsets: SourceOffsets, existing: Mapping[str, FoundTopic], cluster: Cluster, options: ReadOptions
) -> Merged:
    """The query's offsets over the topics as they are now."""
    topics: dict[str, TopicOffsets] = {}
    is_changed = False
    for name, topic in offsets.topics.items():
        now = existing.get(name)
        if now is None:
            _lost(options, f"topic {name!r} no longer exists, and its unread records are lost")
            is_changed = True
        elif topic.topic_id and now.topic_id and topic.topic_id != now.topic_id:
            _recreated(options, name, topic.topic_id, now.topic_id)
            topics[name] = _from_log_start(name, now, cluster)
            is_changed = True
        else:
            gone = sorted(set(topic.next) - set(now.partitions))
            if gone:
                _lost(
                    options, f"partition {gone[0]} of topic {name!r} no longer exists, and its unread records are lost"
                )
            new = tuple(index for index in now.partitions if index not in topic.next)
            added = _from_log_start(name, FoundTopic(now.topic_id, new), cluster).next
            kept = {index: offset for index, offset in topic.next.items() if index in now.partitions}
            first = {index: offset for index, offset in topic.first.items() if index in now.partitions}
            topic_id = now.topic_id or topic.topic_id
            topics[name] = TopicOffsets(topic_id, kept | dict(added), first | dict(added))
            is_changed = is_changed or bool(gone or added or topic_id != topic.topic_id)
    for name in sorted(set(existing) - set(offsets.topics)):
        topics[name] = _from_log_start(name, existing[name], cluster)
        is_changed = True
    return Merged(topics, is_changed)


def ends_that_went_back(
    begin: Mapping[TopicPartition, int], heads: Mapping[TopicPartition, int], options: ReadOptions
) -> dict[TopicPartition, int]:
    """Partitions whose log ends before what was read of it: an unclean election cut it."""
    shorter = {
        partition: heads[partition] for partition, offset in begin.items() if heads.get(partition, offset) < offset
    }
    for partition, head in sorted(shorter.items()):
        _lost(
            options,
            f"the log of {partition} now ends at {head}, before offset {begin[partition]}, which was already read",
        )
    return shorter


def readable_ranges(ranges: Sequence[OffsetRange], cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """The ranges as far as the logs still hold them, checked before any task starts."""
    wanted = [asked for asked in ranges if asked.size > 0]
    topics = find_topics(cluster, options.subscription, {asked.partition.topic for asked in wanted}) if wanted else {}
    starts = cluster.log_starts(
        [asked.partition for asked in wanted if asked.partition.partition in _indexes(topics, asked.partition.topic)]
    )
    readable = []
    for asked in wanted:
        topic = topics.get(asked.partition.topic)
        if topic is None or asked.partition not in starts:
            _lost(options, f"{asked.partition} no longer exists, and its offsets {asked.begin} to {asked.end} are lost")
            continue
        if asked.topic_id and topic.topic_id and asked.topic_id != topic.topic_id:
            _recreated(options, asked.partition.topic, asked.topic_id, topic.topic_id)
            continue
        if starts[asked.partition] > asked.begin:
            gone = min(starts[asked.partition], asked.end)
            _lost(options, f"offsets {asked.begin} to {gone} of {asked.partition} were deleted before they were read")
        readable.append(asked._replace(begin=max(asked.begin, starts[asked.partition])))
    return [asked for asked in readable if asked.size > 0]


def _indexes(topics: Mapping[str, FoundTopic], topic: str) -> tuple[int, ...]:
    return topics[topic].partitions if topic in topics else ()


def _from_log_start(name: str, topic: FoundTopic, cluster: Cluster) -> TopicOffsets:
    partitions = [TopicPartition(name, index) for index in topic.partitions]
    starts = cluster.log_starts(partitions) if partitions else {}
    offsets = {partition.partition: offset for partition, offset in starts.items()}
    return TopicOffsets(topic.topic_id, offsets, dict(offsets))


def _recreated(options: ReadOptions, topic: str, known: str, new: str) -> None:
    error = TopicRecreated(topic, known, new)
    if options.on_topic_recreated == "fail":
        raise error
    log.warning("topic %r was deleted and recreated (id %s became %s): reading the new one", topic, known, new)


def _lost(options: ReadOptions, what: str) -> None:
    if options.fail_on_loss:
        raise RecordsLost(what)
    log.warning("%s; continuing, because failOnDataLoss=false", what)
