"""Answers about the cluster from real brokers, over the client's one I/O thread.

There is one connection per broker, which lives as long as the query. Each call is tried again until
``default.api.timeout.ms`` has passed, because Spark ends a query at the first error of its source. The process of a
streaming source starts with every run of a query, and Spark waits for it: what only queries with a group or with lag
need is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from seamark.client.admin.offsets import OffsetSpec, alter_group_offsets, list_group_offsets, list_offsets
from seamark.client.admin.topics import describe_topics, list_topics
from seamark.client.admin.types import ListedOffset
from seamark.client.cluster_view import NO_TOPIC_ID, TopicView
from seamark.client.config.config import ConsumerConfig
from seamark.client.errors import BrokerError, ClientError
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.records import Offset
from seamark.client.timing import Deadline
from seamark.readable_log import readable_logger
from seamark.spark.read.cluster import FoundTopic, GroupState
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

T = TypeVar("T")
log = readable_logger("seamark.spark")

# A commit stands between two batches: rather late than long.
_COMMIT_SECONDS = 10.0
_TIMES_SECONDS = 5.0


class KafkaCluster:
    """Make it on any thread; call from one at a time."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._network = NetworkClient(config)
        self._io = IoThread.get()

    def topics(self, names: Sequence[str] | None) -> dict[str, FoundTopic]:
        """The named topics that exist, or all but Kafka's own."""
        if names is None:
            listed = self._run(list_topics(self._network, self._deadline()))
            return {name: _found(topic) for name, topic in listed.items() if not topic.error}
        described = self._run(describe_topics(self._network, names, self._deadline()))
        _raise_unless_missing(described.errors)
        return {name: _found(topic) for name, topic in described.items()}

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset to be written; with read_committed the first that an open transaction may still change."""
        return {each: found.offset for each, found in self._listed(dict.fromkeys(partitions, "latest")).items()}

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: found.offset for each, found in self._listed(dict.fromkeys(partitions, "earliest")).items()}

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time; None where every record is older."""
        found = self._listed(times_ms)
        return {each: None if answer.offset < 0 else answer.offset for each, answer in found.items()}

    def unread_times(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The time in ms of the first record at or beyond each position, where the partition tells it.

        It is for people to look at, never for decisions: what does not answer is left out.
        """
        from seamark.client.admin.record_times import LogPlace, record_times

        deadline = Deadline(min(_TIMES_SECONDS, self._config.default_api_timeout_ms / 1000))
        places = [LogPlace(*each) for each in positions.items()]
        try:
            found = self._run(record_times(self._network, places, deadline))
        except ClientError as error:
            log.debug("the age of the first unread records is not known: %s", error)
            return {}
        return {place.partition: time_ms for place, time_ms in found.items() if time_ms is not None and time_ms >= 0}

    def group_state(self, group: str) -> GroupState:
        from seamark.client.admin.groups import describe_groups

        found = self._run(describe_groups(self._network, [group], self._deadline()))
        error = found.errors.get(group)
        if error is not None:
            if isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return GroupState("Dead", 0, False)
            raise error
        return GroupState(found[group].state, len(found[group].members), found[group].is_active)

    def committed(
        self, group: str, partitions: Collection[TopicPartition], *, is_brief: bool = False
    ) -> dict[TopicPartition, Offset]:
        """What the group has committed; ``is_brief`` waits for it no longer than for a commit."""
        asked = {group: list(partitions)}
        deadline = self._commit_deadline() if is_brief else self._deadline()
        found = self._run(list_group_offsets(self._network, asked, deadline))
        found.raise_if_failed()
        return found[group]

    def committing_alone(self, group: str) -> AbstractContextManager[None]:
        """Keeps other queries of this host from committing to the group meanwhile; GroupLocked if that takes long."""
        from seamark.spark.read.group_lock import group_lock

        return group_lock(group, _COMMIT_SECONDS)

    def commit(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, ClientError]:
        """Commit for a group without members; gives what was refused, and nothing when all was stored."""
        deadline = self._commit_deadline()
        return self._run(alter_group_offsets(self._network, group, offsets, deadline, look_first=False)).errors

    def close(self) -> None:
        self._run(self._network.close())

    def _listed(self, specs: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, ListedOffset]:
        if not specs:
            return {}
        return self._run(self._list(specs))

    async def _list(self, specs: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, ListedOffset]:
        deadline = self._deadline()
        # What the connections know of leaders may be older than the partitions that are asked about.
        if any(self._network.view.partition(partition) is None for partition in specs):
            self._network.request_refresh()
        found = await list_offsets(
            self._network, specs, deadline, read_committed=self._config.isolation_level == "read_committed"
        )
        _raise_unless_missing(found.errors)
        return dict(found)

    def _commit_deadline(self) -> Deadline:
        return Deadline(min(_COMMIT_SECONDS, self._config.default_api_timeout_ms / 1000))

    def _deadline(self) -> Deadline:
        return Deadline(self._config.default_api_timeout_ms / 1000)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._io.run(work)


def _found(topic: TopicView) -> FoundTopic:
    topic_id = "" if topic.topic_id == NO_TOPIC_ID else topic.topic_id.hex()
    return FoundTopic(topic_id, tuple(sorted(topic.partitions)))


def _raise_unless_missing(errors: Mapping[Any, ClientError]) -> None:
    for error in errors.values():
        if not (isinstance(error, BrokerError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise error
