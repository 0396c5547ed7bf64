"""Offsets, for the admin client: what groups have committed, changing it, and what partitions hold. Runs on the I/O
loop.

Committed offsets of many groups are read with one OffsetFetch per coordinator (version 8); older brokers get one
request per group, all at once. Offsets are changed only in groups that nobody is a member of: the group is looked at
first, and the broker refuses an anonymous commit to a group with members as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from seamark.client.admin.arguments import read_addresses, read_by_address, read_group_id, read_names
from seamark.client.admin.coordinators import AskNode, GroupCoordinators
from seamark.client.admin.types import OFFSET_SPECS, ListedOffset, number_of
from seamark.client.cluster_view import Node
from seamark.client.core.subscriptions import read_offsets
from seamark.client.deadline import Deadline
from seamark.client.errors import BrokerError, ClientError, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import by_leader, by_topic
from seamark.client.net.results import Results
from seamark.client.net.retries import MOST_AT_ONCE, settle
from seamark.client.records import LARGEST_OFFSET, Offset
from seamark.client.requests import Request
from seamark.counts import counted
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.records import LARGEST_PARTITION
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages import list_offsets as offsets_api
from seamark.wire.protocol.messages import offset_commit as commit_api
from seamark.wire.protocol.messages import offset_delete as delete_api
from seamark.wire.protocol.messages import offset_fetch as fetch_api

# The first OffsetFetch that carries many groups.
_BATCHED = 8
# What one OffsetCommit or OffsetDelete makes the coordinator write: half of what Kafka takes as one batch by default.
_WRITTEN_AT_ONCE = 500_000
_RECORD_BYTES = 100

GroupPartitions = Mapping[str, Iterable[TopicPartition] | None]
OffsetSpec = str | int


async def list_group_offsets(
    network: NetworkClient,
    coordinators: GroupCoordinators,
    groups: GroupPartitions | Iterable[str],
    deadline: Deadline,
    *,
    require_stable: bool = False,
) -> Results[str, dict[TopicPartition, Offset]]:
    """What each group has committed, of the given partitions or (None) of all.

    Partitions without a commit are left out.
    """
    # Results of another call are taken for the names in them.
    names_only = not isinstance(groups, Mapping) or isinstance(groups, Results)
    names = read_names("group_ids", groups, "group ids")
    wanted: GroupPartitions = dict.fromkeys(names) if names_only else groups  # type: ignore[assignment]
    asked = {
        name: None if some is None else by_topic(read_addresses(f"group_ids[{name!r}]", some))
        for name, some in wanted.items()
    }
    fetching = _Fetch(network, asked, require_stable, deadline)

    async def attempt(names: Sequence[str]) -> dict[str, dict[TopicPartition, Offset] | ClientError]:
        return await coordinators.ask(names, fetching.ask, deadline, at_once=MOST_AT_ONCE, weigh=fetching.weigh)

    return await settle(asked, attempt, operation="reading committed offsets", config=network.config, deadline=deadline)


class _Fetch:
    def __init__(
        self,
        network: NetworkClient,
        asked: dict[str, dict[str, list[int]] | None],
        require_stable: bool,
        deadline: Deadline,
    ) -> None:
        self._network = network
        self._asked = asked
        self._require_stable = require_stable
        self._deadline = deadline

    def weigh(self, group_id: str) -> int:
        topics = self._asked[group_id]
        return 1 if topics is None else 1 + sum(len(indexes) + 1 for indexes in topics.values())

    async def ask(self, node: Node, groups: list[str]) -> dict[str, dict[TopicPartition, Offset] | ClientError]:
        connection = await self._network.connection_to(node.id).ready(self._deadline)
        assert connection.versions is not None
        if connection.versions.has(fetch_api.OffsetFetchRequest, least=_BATCHED):
            request = fetch_api.OffsetFetchRequest(
                groups=[fetch_api.OffsetFetchRequestGroup(group_id=name, topics=self._topics(name)) for name in groups],
                require_stable=self._require_stable,
            )
            response = await self._network.send(
                node.id, request, fetch_api.OffsetFetchResponse, deadline=self._deadline, min_version=_BATCHED
            )
            return {
                each.group_id: self._committed(each.group_id, each.error_code, each.topics) for each in response.groups
            }
        answers = await asyncio.gather(*(self._ask_one(node, name) for name in groups))
        return dict(zip(groups, answers, strict=True))

    async def _ask_one(self, node: Node, group_id: str) -> dict[TopicPartition, Offset] | ClientError:
        request = fetch_api.OffsetFetchRequest(
            group_id=group_id, topics=self._topics(group_id), require_stable=self._require_stable
        )
        # Version 2 is the first that can ask for all, 7 the first that can insist on stable offsets.
        response = await self._network.send(
            node.id, request, fetch_api.OffsetFetchResponse, deadline=self._deadline,
            min_version=7 if self._require_stable else 2, max_version=_BATCHED - 1,
        )  # fmt: skip
        return self._committed(group_id, response.error_code, response.topics)

    def _committed(
        self, group_id: str, code: int, topics: Iterable[fetch_api.OffsetFetchResponseTopic]
    ) -> dict[TopicPartition, Offset] | ClientError:
        if code:
            return broker_error(code, "OffsetFetch", f"group {group_id!r}")
        found: dict[TopicPartition, Offset] = {}
        for topic in topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    # One unstable or forbidden partition makes the answer incomplete, which must not look complete.
                    return broker_error(each.error_code, "OffsetFetch", f"{partition} in group {group_id!r}")
                if not 0 <= each.partition_index <= LARGEST_PARTITION:
                    # Kafka loads whatever number a record of its offsets topic has.
                    text = f"group {group_id!r} has an offset of partition {each.partition_index} of topic "
                    text += f"{topic.name!r}, which no topic can have: it is left out"
                    self._network.log.say_once(logging.WARNING, "impossible_partition", group_id, text)
                elif each.committed_offset >= 0:
                    epoch = max(each.committed_leader_epoch, -1)
                    found[partition] = Offset(each.committed_offset, each.metadata or "", epoch)
        return found

    def _topics(self, group_id: str) -> list[fetch_api.OffsetFetchRequestTopic] | None:
        topics = self._asked[group_id]
        if topics is None:
            return None
        return [
            fetch_api.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in topics.items()
        ]


async def alter_group_offsets(
    network: NetworkClient,
    coordinators: GroupCoordinators,
    group_id: str,
    offsets: Mapping[TopicPartition, Offset | int],
    deadline: Deadline,
    *,
    look_first: bool = True,
) -> Results[TopicPartition, None]:
    """Commit offsets on behalf of a group that has no members."""
    read_group_id(group_id)
    wanted = read_offsets(offsets)
    refusal = await _refusal_if_active(network, coordinators, group_id, deadline) if look_first else None
    if refusal is not None:
        return Results({}, dict.fromkeys(wanted, refusal))

    async def attempt(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ClientError | None]:
        request = commit_api.OffsetCommitRequest(
            group_id=group_id,
            topics=[
                commit_api.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_commit_of(index, wanted[TopicPartition(topic, index)]) for index in indexes],
                )
                for topic, indexes in by_topic(partitions).items()
            ],
        )

        async def ask(node: Node, _: list[str]) -> dict[str, dict[TopicPartition, ClientError | None] | ClientError]:
            response = await network.send(
                node.id, request, commit_api.OffsetCommitResponse, deadline=deadline, min_version=2
            )
            return {group_id: _outcomes(response.topics, "OffsetCommit", group_id)}

        return await _of_one_group(coordinators, group_id, partitions, ask, deadline)

    def weigh(partition: TopicPartition) -> int:
        return _stored_bytes(group_id, partition) + len(wanted[partition].metadata.encode("utf-8", "replace"))

    return await settle(
        wanted, attempt, operation="altering offsets", config=network.config, deadline=deadline,
        at_once=_WRITTEN_AT_ONCE, weigh=weigh,
    )  # fmt: skip


def _stored_bytes(group_id: str, partition: TopicPartition) -> int:
    return _RECORD_BYTES + len(group_id.encode("utf-8", "replace")) + len(partition.topic.encode("utf-8", "replace"))


def _commit_of(index: int, offset: Offset) -> commit_api.OffsetCommitRequestPartition:
    return commit_api.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


async def delete_group_offsets(
    network: NetworkClient,
    coordinators: GroupCoordinators,
    group_id: str,
    partitions: Iterable[TopicPartition],
    deadline: Deadline,
) -> Results[TopicPartition, None]:
    """Forget committed offsets; the broker refuses those of topics that the group is subscribed to."""
    asked = read_addresses("partitions", partitions)

    async def attempt(some: Sequence[TopicPartition]) -> dict[TopicPartition, ClientError | None]:
        request = delete_api.OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                delete_api.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[delete_api.OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
                )
                for topic, indexes in by_topic(some).items()
            ],
        )

        async def ask(node: Node, _: list[str]) -> dict[str, dict[TopicPartition, ClientError | None] | ClientError]:
            response = await network.send(node.id, request, delete_api.OffsetDeleteResponse, deadline=deadline)
            if response.error_code:
                return {group_id: broker_error(response.error_code, "OffsetDelete", f"group {group_id!r}")}
            return {group_id: _outcomes(response.topics, "OffsetDelete", group_id)}

        return await _of_one_group(coordinators, group_id, some, ask, deadline)

    return await settle(
        asked, attempt, operation="deleting offsets", config=network.config, deadline=deadline,
        at_once=_WRITTEN_AT_ONCE, weigh=lambda partition: _stored_bytes(group_id, partition),
    )  # fmt: skip


async def _of_one_group(
    coordinators: GroupCoordinators,
    group_id: str,
    partitions: Sequence[TopicPartition],
    ask: AskNode[dict[TopicPartition, ClientError | None]],
    deadline: Deadline,
) -> dict[TopicPartition, ClientError | None]:
    answers: dict[str, dict[TopicPartition, ClientError | None] | ClientError] = await coordinators.ask(
        [group_id],
        ask,
        deadline,
        at_once=1,
    )
    answer = answers[group_id]
    if isinstance(answer, ClientError):
        return dict.fromkeys(partitions, answer)
    if any(isinstance(each, BrokerError) and each.code is ErrorCode.NOT_COORDINATOR for each in answer.values()):
        coordinators.forget(group_id)
    return answer


def _outcomes(
    topics: Iterable[commit_api.OffsetCommitResponseTopic | delete_api.OffsetDeleteResponseTopic],
    api: str,
    group_id: str,
) -> dict[TopicPartition, ClientError | None]:
    return {
        partition: broker_error(each.error_code, api, f"{partition} in group {group_id!r}") if each.error_code else None
        for topic in topics
        for each in topic.partitions
        for partition in (TopicPartition(topic.name, each.partition_index),)
    }


async def _refusal_if_active(
    network: NetworkClient, coordinators: GroupCoordinators, group_id: str, deadline: Deadline
) -> ClientError | None:
    from seamark.client.admin.groups import describe_groups

    described = await describe_groups(network, coordinators, [group_id], deadline)
    error = described.errors.get(group_id)
    if error is not None:
        # A group that does not exist yet is made by the commit.
        is_missing = isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND
        return None if is_missing else error
    group = described[group_id]
    if not group.is_active:
        return None
    message = f"it is {group.state} with {counted(len(group.members), 'member')}; stop them first"
    return broker_error(ErrorCode.NON_EMPTY_GROUP, "OffsetCommit", f"group {group_id!r}", message)


async def list_offsets(
    network: NetworkClient,
    specs: Mapping[TopicPartition, OffsetSpec],
    deadline: Deadline,
    *,
    read_committed: bool = False,
) -> Results[TopicPartition, ListedOffset]:
    """Per partition "earliest", "latest", "max_timestamp", or the first record at or after a time in milliseconds."""
    times = {partition: _time_of(spec) for partition, spec in read_by_address("specs", specs).items()}

    def make(partitions: Sequence[TopicPartition]) -> Request:
        return offsets_api.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1 if read_committed else 0,
            topics=[
                offsets_api.ListOffsetsRequestTopic(
                    name=topic,
                    partitions=[
                        offsets_api.ListOffsetsRequestPartition(
                            partition_index=index, timestamp=times[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ],
            timeout_ms=min(deadline.remaining_ms, network.config.request_timeout_ms),
        )

    def read(response: offsets_api.ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | ClientError]:
        return {
            partition: broker_error(each.error_code, "ListOffsets", f"partition {partition}")
            if each.error_code
            else ListedOffset(each.offset, each.timestamp, each.leader_epoch)
            for topic in response.topics
            for each in topic.partitions
            for partition in (TopicPartition(topic.name, each.partition_index),)
        }

    # Version 7 is the first that knows the largest timestamp, 2 the first with an isolation level.
    least = 7 if OFFSET_SPECS["max_timestamp"] in times.values() else 2

    async def attempt(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ListedOffset | ClientError]:
        return await by_leader(
            network, partitions, make, offsets_api.ListOffsetsResponse, read, deadline, min_version=least
        )

    return await settle(times, attempt, operation="listing offsets", config=network.config, deadline=deadline)


def _time_of(spec: OffsetSpec) -> int:
    if isinstance(spec, str):
        return number_of(spec, OFFSET_SPECS, "an offset to list")
    if isinstance(spec, bool) or not isinstance(spec, int) or not 0 <= spec <= LARGEST_OFFSET:
        raise UsageError(f"a time is a whole number of milliseconds from 0 to {LARGEST_OFFSET}, not {spec!r}")
    return spec
