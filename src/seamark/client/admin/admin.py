"""The admin client: topics, settings, groups, offsets and access rules of a cluster, one blocking call each.

A call that is about many things answers for each of them (``Results``); raising is the caller's choice. Every call
takes a ``timeout`` in seconds, ``default.api.timeout.ms`` by default, and may be made from any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from seamark.acls import Acl, AclFilter
from seamark.client.admin import acls, configs, groups, offsets, topics
from seamark.client.admin.offsets import GroupPartitions, OffsetSpec
from seamark.client.admin.record_times import LogPlace, record_times
from seamark.client.admin.session import AdminSession
from seamark.client.admin.types import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    GroupDescription,
    GroupListing,
    ListedOffset,
    NewTopic,
    Resource,
)
from seamark.client.cluster_view import TopicView
from seamark.client.net.fanout import Results
from seamark.client.records import Offset
from seamark.topic_partition import TopicPartition


class Admin(AdminSession):
    """Look at and change a cluster; ``with Admin(bootstrap_servers="host:9092") as admin``.

    Options are Kafka's keys in a mapping, or keywords with underscores for dots.
    """

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> dict[str, TopicView]:
        """Every topic; internal ones on request."""
        return self._run(topics.list_topics(self._network, self._deadline(timeout), include_internal=include_internal))

    def describe_topics(self, names: Iterable[str], *, timeout: float | None = None) -> Results[str, TopicView]:
        """Partitions, leaders and replicas of topics."""
        return self._run(topics.describe_topics(self._network, names, self._deadline(timeout)))

    def create_topics(
        self, new_topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> Results[str, None]:
        """Make topics, known to all brokers on return; with ``validate_only`` only see whether they could be made."""
        return self._run(
            topics.create_topics(self._network, new_topics, self._deadline(timeout), validate_only=validate_only)
        )

    def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> Results[str, None]:
        """Remove topics with their records."""
        return self._run(topics.delete_topics(self._network, names, self._deadline(timeout)))

    def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False, timeout: float | None = None
    ) -> Results[str, None]:
        """Give topics more partitions; ``counts`` has the new totals."""
        return self._run(
            topics.create_partitions(self._network, counts, self._deadline(timeout), validate_only=validate_only)
        )

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> Results[TopicPartition, int]:
        """Drop the records before an offset, -1 being the end; the answer is each partition's new start."""
        return self._run(topics.delete_records(self._network, before, self._deadline(timeout)))

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Id, controller and brokers."""
        return self._run(topics.describe_cluster(self._network, self._deadline(timeout)))

    def describe_configs(
        self, resources: Iterable[Resource], *, timeout: float | None = None
    ) -> Results[Resource, dict[str, ConfigEntry]]:
        """Settings of topics, brokers or groups."""
        return self._run(configs.describe_configs(self._network, resources, self._deadline(timeout)))

    def alter_configs(
        self,
        changes: Mapping[Resource, Mapping[str, ConfigChange | str | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[Resource, None]:
        """Change single settings and leave the others; None takes one back to its default."""
        return self._run(
            configs.alter_configs(self._network, changes, self._deadline(timeout), validate_only=validate_only)
        )

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """Every group of the cluster with its type and state."""
        return self._run(groups.list_groups(self._network, self._deadline(timeout), states=states, types=types))

    def describe_groups(
        self, group_ids: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Results[str, GroupDescription]:
        """State and members of the named groups, or of all."""
        return self._run(groups.describe_groups(self._network, group_ids, self._deadline(timeout)))

    def delete_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> Results[str, None]:
        """Remove groups that have no members, with their offsets."""
        return self._run(groups.delete_groups(self._network, group_ids, self._deadline(timeout)))

    def list_group_offsets(
        self, group_ids: GroupPartitions | Iterable[str], *, require_stable: bool = False, timeout: float | None = None
    ) -> Results[str, dict[TopicPartition, Offset]]:
        """What groups have committed; a mapping names partitions per group, None standing for all."""
        return self._run(
            offsets.list_group_offsets(self._network, group_ids, self._deadline(timeout), require_stable=require_stable)
        )

    def alter_group_offsets(
        self,
        group_id: str,
        new_offsets: Mapping[TopicPartition, Offset | int],
        *,
        look_first: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Commit on behalf of a group without members; an active group is refused.

        ``look_first=False`` is for callers who have looked at the group themselves: the broker's refusal remains.
        """
        return self._run(
            offsets.alter_group_offsets(
                self._network,
                group_id,
                new_offsets,
                self._deadline(timeout),
                look_first=look_first,
            )
        )

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> Results[TopicPartition, None]:
        """Forget what a group has committed."""
        return self._run(offsets.delete_group_offsets(self._network, group_id, partitions, self._deadline(timeout)))

    def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], *, read_committed: bool = False, timeout: float | None = None
    ) -> Results[TopicPartition, ListedOffset]:
        """Per partition "earliest", "latest", "max_timestamp", or the first offset at or after a time in ms."""
        return self._run(
            offsets.list_offsets(self._network, specs, self._deadline(timeout), read_committed=read_committed)
        )

    def record_times(
        self, places: Iterable[LogPlace], *, timeout: float | None = None
    ) -> Results[LogPlace, int | None]:
        """The time in ms of the first record at or beyond each offset; None where the log holds none from there on.

        The records are read, which needs the right to; each costs a fetch of one batch.
        """
        return self._run(record_times(self._network, places, self._deadline(timeout)))

    def describe_acls(self, matching: AclFilter | None = None, *, timeout: float | None = None) -> list[Acl]:
        """The access rules that match a filter; all of them by default."""
        return self._run(acls.describe_acls(self._network, matching or AclFilter(), self._deadline(timeout)))

    def create_acls(self, rules: Iterable[Acl], *, timeout: float | None = None) -> Results[Acl, None]:
        """Add access rules."""
        return self._run(acls.create_acls(self._network, rules, self._deadline(timeout)))

    def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: float | None = None
    ) -> Results[AclFilter, list[Acl]]:
        """Remove the rules that match any of the filters; the answer has what was removed."""
        return self._run(acls.delete_acls(self._network, filters, self._deadline(timeout)))

    def close(self) -> None:
        """End the connections; may be called again. In a forked child it does nothing: they are the parent's."""
        if self._io.owner_is_here:
            self._run(self._network.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
