"""What there is to do: how the offsets topic is read, and a task for each of its partitions that has something new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from seamark.client.errors import ClientError
from seamark.readable_log import readable_logger
from seamark.spark.lake.errors import TOPIC, TopicNotReadable, is_refusal
from seamark.spark.lake.fill.tasks import FETCH_BYTES, Before, TopicTask
from seamark.spark.lake.tables.lake import LakeError
from seamark.spark.lake.tables.manifest import Manifest
from seamark.spark.read.kafka_cluster import KafkaCluster
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.ranges import OffsetRange
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.spark.read.cluster import Cluster

log = readable_logger("seamark.spark")

# Files of group states that are searched for rebalances: the last few hours of a sampler that looks every minute.
_LOOKS = 200


def topic_options(config: Mapping[str, Any], **more: str) -> ReadOptions:
    """How the offsets topic is read with these client properties; commits of aborted transactions are left out."""
    given = reader_options(config) | more
    return ReadOptions.of(given, is_stream=False)


def reader_options(config: Mapping[str, Any]) -> dict[str, str]:
    """The same as options of ``format("seamark")``."""
    kafka = {f"kafka.{name}": str(value) for name, value in config.items()}
    fixed = {"subscribe": TOPIC, "failOnDataLoss": "false", "fetchBytes": str(FETCH_BYTES)}
    return {"kafka.isolation.level": "read_committed", **kafka, **fixed}


def cluster_id(config: Mapping[str, Any]) -> str | None:
    """The id that the cluster gives itself."""
    from seamark.client import Admin

    with Admin(dict(config)) as admin:
        return admin.describe_cluster().cluster_id or None


@contextmanager
def asking(options: ReadOptions) -> Iterator[Cluster]:
    """A connection for planning; what the cluster refuses becomes a sentence about the topic."""
    with closing(KafkaCluster(options.client)) as cluster:
        try:
            yield cluster
        except ClientError as error:
            if is_refusal(str(error)):
                raise TopicNotReadable(str(error)) from None
            raise


def plan(cluster: Cluster, options: ReadOptions, published: Manifest) -> tuple[str | None, list[TopicTask]]:
    """The topic's id, and a task per partition that has something new; none while nobody has committed yet."""
    topic = cluster.topics([TOPIC]).get(TOPIC)
    if topic is None:
        if published.covered:
            raise LakeError(
                f"the cluster has no topic {TOPIC}, but the lake has records of it: is this another cluster?"
            )
        log.warning("%s does not exist yet: nothing has been committed on this cluster", TOPIC)
        return published.topic_id, []
    if published.topic_id and topic.topic_id and topic.topic_id != published.topic_id:
        raise LakeError(
            f"{TOPIC} was recreated (id {published.topic_id} became {topic.topic_id}): its offsets do not match "
            "the lake's history; use a new lake in another directory"
        )
    partitions = [TopicPartition(TOPIC, number) for number in topic.partitions]
    starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    tasks = []
    for partition in partitions:
        covered = published.covered.get(partition.partition)
        begin = max(starts[partition], covered.end) if covered else starts[partition]
        if covered and ends[partition] < covered.end:
            raise LakeError(
                f"{partition} ends at offset {ends[partition]}, but the lake has it up to {covered.end}: "
                "it is another cluster, or records were lost"
            )
        if begin < ends[partition]:
            wanted = OffsetRange(partition, topic.topic_id, begin, ends[partition])
            tasks.append(TopicTask(partition.partition, before_of(published, partition.partition), wanted, options))
    # The longest first: what is left at the end then is short.
    tasks.sort(key=lambda task: task.wanted.size, reverse=True)
    return topic.topic_id or published.topic_id, tasks


def before_of(published: Manifest, partition: int) -> Before:
    """What a task of the partition goes on from."""
    keys, groups = (
        tuple(file.path for file in published.files(table) if file.part == partition)
        for table in ("state_keys", "state_groups")
    )
    looks = tuple(file.path for file in published.files("group_states")[-_LOOKS:])
    return Before(published.covered.get(partition), keys, groups, looks)
