"""The rules by which topics are made and given more partitions, as Kafka's controller checks them.

``plan_…`` checks and works out replicas without changing anything, which is also what ``validate_only`` asks for. What
one request may change is limited, as in Kafka, whose controller refuses more than 10,000 records at once. So is how
many partitions there are, which Kafka leaves to whoever may create topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from seamark.broker.cluster.cluster import Cluster
from seamark.broker.cluster.leadership import spread
from seamark.broker.cluster.topics import OFFSETS_TOPIC, Topic, check_collision, check_name, metric_name
from seamark.broker.config.topic_configs import parse_topic_configs
from seamark.broker.refusals import RequestRefused
from seamark.counts import counted, number_text
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode

# What a request may make, change or remove: topics, partitions, configuration values, access rules.
MOST_CHANGES = 10_000
# How many partitions a Metadata request makes that asks about topics which do not exist. More topics than that take
# more requests; clients ask again by themselves.
MOST_MADE_BY_METADATA = 200


class TopicPlan(NamedTuple):
    """A topic that may be made."""

    name: str
    replicas: list[list[int]]
    configs: dict[str, Any]

    @property
    def replication_factor(self) -> int:
        return len(self.replicas[0])


def plan_topic(
    cluster: Cluster,
    name: str,
    partition_count: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]],
    configs: Mapping[str, str | None],
    beside: Mapping[str, str] | None = None,
) -> TopicPlan:
    """Check a new topic; -1 stands for the broker's defaults. RequestRefused says what is wrong.

    ``beside`` has the names of topics that are planned with it, by what metrics make of them.
    """
    check_new_name(cluster, name)
    check_collision(name, beside or {})
    if assignments:
        if partition_count != -1 or replication_factor != -1:
            raise RequestRefused(
                ErrorCode.INVALID_REQUEST,
                "if replicas are assigned per partition, the number of partitions and the replication factor "
                "must be -1",
            )
        replicas = _check_assignments(cluster, assignments)
    else:
        replicas = _spread(cluster, name, partition_count, replication_factor)
    return TopicPlan(name, replicas, parse_topic_configs(configs))


def check_new_name(cluster: Cluster, name: str) -> None:
    """Refuse a name that no new topic can have."""
    check_name(name)
    if name in cluster.topics:
        raise RequestRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"the topic {name!r} already exists")
    check_collision(name, cluster.topics_by_metric_name)


def _spread(cluster: Cluster, name: str, partition_count: int, replication_factor: int) -> list[list[int]]:
    if replication_factor == -1:
        replication_factor = cluster.default_replication_factor
    if replication_factor < 1:
        raise RequestRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor must be >= 1, or -1 for the broker's default, got {replication_factor}",
        )
    if partition_count == -1:
        partition_count = cluster.settings["num.partitions"]
    if partition_count < 1:
        raise RequestRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"the number of partitions must be >= 1, or -1 for the broker's default, got {partition_count}",
        )
    _check_count(partition_count)
    node_ids = [node.id for node in cluster.nodes]
    if replication_factor > len(node_ids):
        raise RequestRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} is larger than the number of nodes, {len(node_ids)}",
        )
    return spread(name, 0, partition_count, node_ids, replication_factor)


def _check_count(partition_count: int) -> None:
    if partition_count > MOST_CHANGES:
        raise TooManyChanges


class TooManyChanges(RequestRefused):
    """A request changes too much at once, and is refused as Kafka does: with all that is in it."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.POLICY_VIOLATION,
            f"a request may create, change or delete at most {number_text(MOST_CHANGES)} topics, partitions and "
            "values: send several",
        )


def _check_assignments(cluster: Cluster, assignments: Mapping[int, Sequence[int]]) -> list[list[int]]:
    if sorted(assignments) != list(range(len(assignments))):
        raise RequestRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "replicas must be assigned to partitions 0, 1, 2 and so on, without gaps",
        )
    replicas = [list(assignments[index]) for index in range(len(assignments))]
    _check_replica_lists(cluster, replicas, len(replicas[0]))
    return replicas


def _check_replica_lists(cluster: Cluster, replicas: Sequence[Sequence[int]], factor: int) -> None:
    known = {node.id for node in cluster.nodes}
    for node_ids in replicas:
        reason = ""
        if not node_ids:
            reason = "a partition has no replica"
        elif len(set(node_ids)) != len(node_ids):
            reason = f"the replicas {list(node_ids)} contain a node more than once"
        elif not known.issuperset(node_ids):
            unknown = min(set(node_ids) - known)
            reason = f"the replicas {list(node_ids)} contain node {unknown}, which does not exist"
        elif len(node_ids) != factor:
            reason = f"all partitions must have the same number of replicas, got {factor} and {len(node_ids)}"
        if reason:
            raise RequestRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def plan_partitions(
    cluster: Cluster, topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None
) -> list[list[int]]:
    """Check a topic's new partition count and return the replicas of the added ones."""
    present = len(topic.partitions)
    if topic.name == OFFSETS_TOPIC:
        # As many as groups are spread over: they would all be looked for elsewhere.
        raise RequestRefused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the partitions of {OFFSETS_TOPIC} cannot be changed: groups are distributed over them",
        )
    if count == present:
        raise RequestRefused(ErrorCode.INVALID_PARTITIONS, f"{topic.name} already has {counted(present, 'partition')}")
    if count < present:
        raise RequestRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} has {counted(present, 'partition')} and cannot be reduced to {count}",
        )
    added = count - present
    _check_count(added)
    factor = len(topic.partitions[0].replicas)
    if assignments is None:
        return spread(topic.name, present, added, [node.id for node in cluster.nodes], factor)
    if len(assignments) != added:
        raise RequestRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{counted(added, 'partition')} to add, but replicas for {len(assignments)}",
        )
    _check_replica_lists(cluster, assignments, factor)
    return [list(node_ids) for node_ids in assignments]


def check_room(cluster: Cluster, count: int) -> None:
    """Refuse so many more partitions if all together would be more than there may be."""
    most = cluster.settings["seamark.max.partitions"]
    if cluster.partition_total + count > most:
        raise RequestRefused(
            ErrorCode.POLICY_VIOLATION,
            f"there are {counted(cluster.partition_total, 'partition')}, and {number_text(count)} more would exceed "
            f"seamark.max.partitions={number_text(most)}",
        )


def create_planned(cluster: Cluster, plans: Iterable[TopicPlan]) -> list[Topic]:
    """Make topics with one change of the cluster's state, all of them or with StorageFailed none."""
    return cluster.create_topics([(plan.name, plan.replicas, plan.configs) for plan in plans])


def create_checked(
    cluster: Cluster, name: str, partition_count: int, replication_factor: int, configs: Mapping[str, str | None]
) -> None:
    """Make a topic for a caller in this process: what is wrong is a UsageError."""
    for what, number in (("partitions", partition_count), ("replication_factor", replication_factor)):
        if not isinstance(number, int):
            raise UsageError(f"cannot create topic {name!r}: {what} must be an integer, got {number!r}")
    try:
        plan = plan_topic(cluster, name, partition_count, replication_factor, {}, configs)
        check_room(cluster, len(plan.replicas))
        create_planned(cluster, [plan])
    except RequestRefused as refusal:
        raise UsageError(f"cannot create topic {name!r}: {refusal.reason}") from None


def create_automatically(cluster: Cluster, names: Iterable[str]) -> dict[str, ErrorCode]:
    """Make topics that a client asked about, with the broker's defaults; what each that was missing is answered with.

    Those that are made are UNKNOWN_TOPIC_OR_PARTITION, and those that are too many for one request
    LEADER_NOT_AVAILABLE; upon both every client asks again. A topic that has more partitions by default than a request
    may make is made alone.
    """
    codes: dict[str, ErrorCode] = {}
    plans: list[TopicPlan] = []
    beside: dict[str, str] = {}
    count = 0
    partition_count = cluster.settings["num.partitions"]
    for name in names:
        codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if count and count + partition_count > MOST_MADE_BY_METADATA:
            codes[name] = ErrorCode.LEADER_NOT_AVAILABLE
        elif name == OFFSETS_TOPIC:
            cluster.create_offsets_topic()
        elif name not in cluster.topics:
            try:
                plan = plan_topic(cluster, name, -1, -1, {}, {}, beside)
                check_room(cluster, count + len(plan.replicas))
            except RequestRefused as refusal:
                codes[name] = refusal.code
            else:
                plans.append(plan)
                beside[metric_name(name)] = name
                count += len(plan.replicas)
    if plans:
        create_planned(cluster, plans)
    return codes
