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

from seamark.client.admin.types import OFFSET_SPECS, ListedOffset, number_of
from seamark.client.arguments import read_addresses, read_by_address, read_group_id, read_names, read_offsets
from seamark.client.cluster_view import Node
from seamark.client.errors import BrokerError, ClientError, CoordinatorMoved, UnsupportedByBroker, broker_error
from seamark.client.group_offsets import (
    MANY_GROUPS,
    NO_IDENTITY,
    STABLE_OFFSETS,
    FetchedOffsets,
    commit_codes,
    fetched_by_group,
    fetched_offsets,
    offset_commit_request,
    offset_fetch_request,
)
from seamark.client.net.client import NetworkClient
from seamark.client.net.exchanges import MOST_AT_ONCE
from seamark.client.net.fanout import AskNode, Results, by_coordinator, by_leader, by_topic, retry_each
from seamark.client.records import LARGEST_OFFSET, Offset
from seamark.client.requests import Request
from seamark.client.timing import Deadline
from seamark.counts import counted
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.records import LARGEST_PARTITION
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages import list_offsets as offsets_api
from seamark.wire.protocol.messages import offset_delete as delete_api
from seamark.wire.protocol.messages.offset_commit import OffsetCommitResponse
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchResponse

# What one OffsetCommit or OffsetDelete makes the coordinator write: half of what Kafka takes as one batch by default.
_WRITTEN_AT_ONCE = 500_000
_RECORD_BYTES = 100

GroupPartitions = Mapping[str, Iterable[TopicPartition] | None]
OffsetSpec = str | int


async def list_group_offsets(
    network: NetworkClient,
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
        name: None if some is None else read_addresses(f"group_ids[{name!r}]", some) for name, some in wanted.items()
    }

    def weigh(group_id: str) -> int:
        partitions = asked[group_id] or ()
        return 1 + len(partitions) + len({partition.topic for partition in partitions})

    async def ask(node: Node, some: list[str]) -> dict[str, dict[TopicPartition, Offset] | ClientError]:
        async def fetch(these: list[str], *, is_batched: bool) -> dict[str, dict[TopicPartition, Offset] | ClientError]:
            # Version 2 is the first that can ask for all.
            least = MANY_GROUPS if is_batched else STABLE_OFFSETS if require_stable else 2
            response = await network.send(
                node.id,
                offset_fetch_request({name: asked[name] for name in these}, is_stable=require_stable),
                OffsetFetchResponse,
                deadline=deadline,
                min_version=least,
                max_version=None if is_batched else MANY_GROUPS - 1,
            )
            answers = fetched_by_group(response) if is_batched else {these[0]: fetched_offsets(these[0], response)}
            return {name: _committed(network, name, fetched) for name, fetched in answers.items()}

        try:
            return await fetch(some, is_batched=True)
        except UnsupportedByBroker:
            answers = await asyncio.gather(*(fetch([name], is_batched=False) for name in some))
            return {name: answer for part in answers for name, answer in part.items()}

    async def attempt(names: Sequence[str]) -> dict[str, dict[TopicPartition, Offset] | ClientError]:
        return await by_coordinator(network, names, ask, deadline, at_once=MOST_AT_ONCE, weigh=weigh)

    return await retry_each(
        asked, attempt, operation="reading committed offsets", config=network.config, deadline=deadline
    )


def _committed(
    network: NetworkClient, group_id: str, fetched: FetchedOffsets
) -> dict[TopicPartition, Offset] | ClientError:
    if fetched.error:
        return broker_error(fetched.error, "OffsetFetch", f"group {group_id!r}")
    for partition, code in fetched.errors.items():
        # One unstable or forbidden partition makes the answer incomplete, which must not look complete.
        return broker_error(code, "OffsetFetch", f"{partition} in group {group_id!r}")
    committed: dict[TopicPartition, Offset] = {}
    for partition, offset in fetched.offsets.items():
        if not 0 <= partition.partition <= LARGEST_PARTITION:
            # Kafka loads whatever number a record of its offsets topic has.
            text = f"group {group_id!r} has a committed offset for partition {partition.partition} of topic "
            text += f"{partition.topic!r}, which is not a valid partition number: ignored"
            network.log.say_once(logging.WARNING, "impossible_partition", group_id, text)
        elif offset is not None:
            committed[partition] = offset
    return committed


async def alter_group_offsets(
    network: NetworkClient,
    group_id: str,
    offsets: Mapping[TopicPartition, Offset | int],
    deadline: Deadline,
    *,
    look_first: bool = True,
) -> Results[TopicPartition, None]:
    """Commit offsets on behalf of a group that has no members."""
    read_group_id(group_id)
    wanted = read_offsets(offsets)
    refusal = await _refusal_if_active(network, group_id, deadline) if look_first else None
    if refusal is not None:
        return Results({}, dict.fromkeys(wanted, refusal))

    async def attempt(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ClientError | None]:
        request = offset_commit_request(
            group_id, NO_IDENTITY, {partition: wanted[partition] for partition in partitions}
        )

        async def ask(node: Node, _: list[str]) -> dict[str, dict[TopicPartition, ClientError | None] | ClientError]:
            response = await network.send(node.id, request, OffsetCommitResponse, deadline=deadline, min_version=2)
            return {group_id: _outcomes(commit_codes(response), "OffsetCommit", group_id)}

        return await _of_one_group(network, group_id, partitions, ask, deadline)

    def weigh(partition: TopicPartition) -> int:
        return _stored_bytes(group_id, partition) + len(wanted[partition].metadata.encode("utf-8", "replace"))

    return await retry_each(
        wanted, attempt, operation="altering offsets", config=network.config, deadline=deadline,
        at_once=_WRITTEN_AT_ONCE, weigh=weigh,
    )  # fmt: skip


def _stored_bytes(group_id: str, partition: TopicPartition) -> int:
    return _RECORD_BYTES + len(group_id.encode("utf-8", "replace")) + len(partition.topic.encode("utf-8", "replace"))


async def delete_group_offsets(
    network: NetworkClient,
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
            return {group_id: _outcomes(_deletion_codes(response), "OffsetDelete", group_id)}

        return await _of_one_group(network, group_id, some, ask, deadline)

    return await retry_each(
        asked, attempt, operation="deleting offsets", config=network.config, deadline=deadline,
        at_once=_WRITTEN_AT_ONCE, weigh=lambda partition: _stored_bytes(group_id, partition),
    )  # fmt: skip


async def _of_one_group(
    network: NetworkClient,
    group_id: str,
    partitions: Sequence[TopicPartition],
    ask: AskNode[dict[TopicPartition, ClientError | None]],
    deadline: Deadline,
) -> dict[TopicPartition, ClientError | None]:
    answers: dict[str, dict[TopicPartition, ClientError | None] | ClientError] = await by_coordinator(
        network, [group_id], ask, deadline, at_once=1
    )
    answer = answers[group_id]
    if isinstance(answer, ClientError):
        return dict.fromkeys(partitions, answer)
    if any(isinstance(outcome, CoordinatorMoved) for outcome in answer.values()):
        network.coordinators.moved(group_id)
    return answer


def _deletion_codes(response: delete_api.OffsetDeleteResponse) -> list[tuple[TopicPartition, ErrorCode]]:
    return [
        (TopicPartition(topic.name, partition.partition_index), error_code(partition.error_code))
        for topic in response.topics
        for partition in topic.partitions
    ]


def _outcomes(
    codes: Iterable[tuple[TopicPartition, ErrorCode]], api: str, group_id: str
) -> dict[TopicPartition, ClientError | None]:
    return {
        partition: broker_error(code, api, f"{partition} in group {group_id!r}") if code else None
        for partition, code in codes
    }


async def _refusal_if_active(network: NetworkClient, group_id: str, deadline: Deadline) -> ClientError | None:
    from seamark.client.admin.groups import describe_groups

    described = await describe_groups(network, [group_id], deadline)
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
            partition: broker_error(listed.error_code, "ListOffsets", f"partition {partition}")
            if listed.error_code
            else ListedOffset(listed.offset, listed.timestamp, listed.leader_epoch)
            for topic in response.topics
            for listed in topic.partitions
            for partition in (TopicPartition(topic.name, listed.partition_index),)
        }

    # Version 7 is the first that knows the largest timestamp, 2 the first with an isolation level.
    least = 7 if OFFSET_SPECS["max_timestamp"] in times.values() else 2

    async def attempt(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ListedOffset | ClientError]:
        return await by_leader(
            network, partitions, make, offsets_api.ListOffsetsResponse, read, deadline, min_version=least
        )

    return await retry_each(times, attempt, operation="listing offsets", config=network.config, deadline=deadline)


def _time_of(spec: OffsetSpec) -> int:
    if isinstance(spec, str):
        return number_of(spec, OFFSET_SPECS, "an offset to list")
    if isinstance(spec, bool) or not isinstance(spec, int) or not 0 <= spec <= LARGEST_OFFSET:
        raise UsageError(
            f"a timestamp must be an integer number of milliseconds from 0 to {LARGEST_OFFSET}, got {spec!r}"
        )
    return spec
