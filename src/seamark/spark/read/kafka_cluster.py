"""Answers about the cluster from real brokers: an admin client that loads only what planning needs.

There is one connection per broker, which lives as long as the query. Each call is tried again until
``default.api.timeout.ms`` has passed, because Spark ends a query at the first error of its source. The process of a
streaming source starts with every run of a query, and Spark waits for it: what only queries with a group or with lag
need is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from seamark.client import Offset
from seamark.client.admin.offsets import OffsetSpec, alter_group_offsets, list_group_offsets, list_offsets
from seamark.client.admin.session import AdminSession
from seamark.client.admin.topics import describe_topics, list_topics
from seamark.client.config.config import ClientConfig, ConsumerConfig
from seamark.client.errors import BrokerError, ClientError
from seamark.readable_log import readable_logger
from seamark.spark.read.cluster import FoundTopic, GroupState
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from seamark.client.cluster_view import TopicView

log = readable_logger("seamark.spark")

# A commit stands between two batches: rather late than long.
_COMMIT_SECONDS = 10.0
_TIMES_SECONDS = 5.0


class KafkaCluster(AdminSession):
    """Make it on any thread; call from one at a time."""

    def __init__(self, config: ConsumerConfig) -> None:
        # What an admin client has of a consumer's settings.
        super().__init__(**{field.name: getattr(config, field.name) for field in fields(ClientConfig)})
        self._is_read_committed = config.isolation_level == "read_committed"
        self._patience = config.default_api_timeout_ms / 1000

    def topics(self, names: Sequence[str] | None) -> dict[str, FoundTopic]:
        """The named topics that exist, or all but Kafka's own."""
        if names is None:
            listed = self._run(list_topics(self._network, self._deadline(None)))
            return {name: _found(topic) for name, topic in listed.items() if not topic.error}
        described = self._run(describe_topics(self._network, names, self._deadline(None)))
        _raise_unless_missing(described.errors)
        return {name: _found(topic) for name, topic in described.items()}

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset to be written; with read_committed the first that an open transaction may still change."""
        return self._listed(dict.fromkeys(partitions, "latest"))

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._listed(dict.fromkeys(partitions, "earliest"))

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time; None where every record is older."""
        return {partition: None if offset < 0 else offset for partition, offset in self._listed(times_ms).items()}

    def unread_times(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The time in ms of the first record at or beyond each position, where the partition tells it.

        It is for people to look at, never for decisions: what does not answer is left out.
        """
        from seamark.client.admin.record_times import LogPlace, record_times

        places = [LogPlace(*position) for position in positions.items()]
        deadline = self._deadline(min(_TIMES_SECONDS, self._patience))
        try:
            times = self._run(record_times(self._network, places, deadline))
        except ClientError as error:
            log.debug("the age of the first unread records is not known: %s", error)
            return {}
        return {place.partition: time_ms for place, time_ms in times.items() if time_ms is not None and time_ms >= 0}

    def group_state(self, group: str) -> GroupState:
        from seamark.client.admin.groups import describe_groups

        described = self._run(describe_groups(self._network, [group], self._deadline(None)))
        error = described.errors.get(group)
        if error is not None:
            if isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return GroupState("Dead", 0, False)
            raise error
        return GroupState(described[group].state, len(described[group].members), described[group].is_active)

    def committed(
        self, group: str, partitions: Collection[TopicPartition], *, is_brief: bool = False
    ) -> dict[TopicPartition, Offset]:
        """What the group has committed; ``is_brief`` waits for it no longer than for a commit."""
        deadline = self._deadline(self._commit_seconds if is_brief else None)
        offsets = self._run(list_group_offsets(self._network, {group: list(partitions)}, deadline))
        offsets.raise_if_failed()
        return offsets[group]

    def committing_alone(self, group: str) -> AbstractContextManager[None]:
        """Keeps other queries of this host from committing to the group meanwhile; GroupLocked if that takes long."""
        from seamark.spark.read.group_lock import group_lock

        return group_lock(group, _COMMIT_SECONDS)

    def commit(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, ClientError]:
        """Commit for a group without members; gives what was refused, and nothing when all was stored.

        The group is not looked at first: the broker refuses the commit itself when the group has members.
        """
        deadline = self._deadline(self._commit_seconds)
        work = alter_group_offsets(self._network, group, offsets, deadline, look_first=False)
        return self._run(work).errors

    def close(self) -> None:
        if self._io.owner_is_here:
            self._run(self._network.close())

    @property
    def _commit_seconds(self) -> float:
        return min(_COMMIT_SECONDS, self._patience)

    def _listed(self, specs: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int]:
        if not specs:
            return {}
        return self._run(self._list(specs))

    async def _list(self, specs: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int]:
        # What the connections know of leaders may be older than the partitions that are asked about.
        if any(self._network.view.partition(partition) is None for partition in specs):
            self._network.request_refresh()
        answers = await list_offsets(self._network, specs, self._deadline(None), read_committed=self._is_read_committed)
        _raise_unless_missing(answers.errors)
        return {partition: answer.offset for partition, answer in answers.items()}


def _found(topic: TopicView) -> FoundTopic:
    return FoundTopic(topic.topic_id.hex() if any(topic.topic_id) else "", tuple(sorted(topic.partitions)))


def _raise_unless_missing(errors: Mapping[Any, ClientError]) -> None:
    for error in errors.values():
        if not (isinstance(error, BrokerError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise error
