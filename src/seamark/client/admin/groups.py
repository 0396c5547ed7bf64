"""Groups, for the admin client: which there are, what they do, removing them. Runs on the I/O loop.

A group has a type: classic ones are described by DescribeGroups, those of the newer protocol by ConsumerGroupDescribe;
others (share, streams) are shown with what ListGroups says of them. Where the type is not known the classic question is
asked first, since every broker understands it; a group that it does not find is asked for in the other way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from seamark.client.admin.topics import fetch_topics
from seamark.client.admin.types import GroupDescription, GroupListing, GroupMember
from seamark.client.arguments import read_names
from seamark.client.cluster_view import Node
from seamark.client.errors import BrokerError, ClientError, UnsupportedByBroker, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import AskNode, Results, by_coordinator, retry_each
from seamark.client.requests import VersionedRequest
from seamark.client.timing import Deadline
from seamark.errors import DecodeError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import decode_assignment, decode_subscription
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages import consumer_group_describe as newer
from seamark.wire.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from seamark.wire.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from seamark.wire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from seamark.wire.schema.schema import Message

# Groups in one DescribeGroups request: an answer with a few members each stays around a megabyte.
_DESCRIBED_AT_ONCE = 2500
_OTHER_TYPES = ("share", "streams")


async def list_groups(
    network: NetworkClient,
    deadline: Deadline,
    *,
    states: Iterable[str] = (),
    types: Iterable[str] = (),
) -> list[GroupListing]:
    """Every group of the cluster: one request per broker. Filters need brokers that know them (2.6, 3.8)."""
    wanted_states, wanted_types = read_names("states", states), read_names("types", types)
    _, cluster = await fetch_topics(network, (), deadline)

    def make(version: int) -> Message:
        if version >= 5:
            return ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)
        return ListGroupsRequest(states_filter=wanted_states if version >= 4 else [])

    async def ask(node: Node) -> list[GroupListing] | ClientError:
        least = 5 if wanted_types else 4 if wanted_states else 0
        request = VersionedRequest(ListGroupsRequest, make)
        response = await network.send(node.id, request, ListGroupsResponse, deadline=deadline, min_version=least)
        if response.error_code:
            return broker_error(response.error_code, "ListGroups", f"broker {node}")
        return [
            GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type.lower(), node)
            for group in response.groups
        ]

    async def attempt(nodes: Sequence[Node]) -> dict[Node, list[GroupListing] | ClientError]:
        answers = await asyncio.gather(*(ask(node) for node in nodes))
        return dict(zip(nodes, answers, strict=True))

    results = await retry_each(
        cluster.brokers, attempt, operation="listing groups", config=network.config, deadline=deadline
    )
    results.raise_if_failed()
    by_group = {listing.group_id: listing for listings in results.values() for listing in listings}
    for listing in by_group.values():
        network.coordinators.learn(listing.group_id, listing.coordinator)
    return [by_group[group_id] for group_id in sorted(by_group)]


async def describe_groups(
    network: NetworkClient, groups: Iterable[str] | None, deadline: Deadline
) -> Results[str, GroupDescription]:
    """The named groups, or every group of the cluster for None."""
    listings: dict[str, GroupListing] = {}
    if groups is None:
        listings = {listing.group_id: listing for listing in await list_groups(network, deadline)}
        groups = listings
    names = list(dict.fromkeys(read_names("group_ids", groups, "group ids")))
    asking = _Describe(network, listings, deadline)
    results = await retry_each(
        names, asking.attempt, operation="describing groups", config=network.config, deadline=deadline
    )
    missing = {name for name, error in results.errors.items() if _is_not_found(error)}
    if missing and not listings:
        # A share or streams group is found by neither question, only in the list.
        for listing in await _list_other_types(network, deadline):
            if listing.group_id in missing:
                results.values_by_key[listing.group_id] = _as_listed(listing)
                del results.errors[listing.group_id]
    return results


async def _list_other_types(network: NetworkClient, deadline: Deadline) -> list[GroupListing]:
    """The groups that no question describes. The whole list would be long, where thousands of groups are asked for."""
    try:
        return await list_groups(network, deadline, types=_OTHER_TYPES)
    except UnsupportedByBroker:
        # Brokers that cannot filter by type are older than those types.
        return []


class _Describe:
    """One describe call: asks by type where it is known."""

    def __init__(
        self,
        network: NetworkClient,
        listings: dict[str, GroupListing],
        deadline: Deadline,
    ) -> None:
        self._network = network
        self._listings = listings
        self._deadline = deadline

    async def attempt(self, groups: Sequence[str]) -> dict[str, GroupDescription | ClientError]:
        answers: dict[str, GroupDescription | ClientError] = {}
        by_type: dict[str, list[str]] = {"classic": [], "consumer": []}
        for name in groups:
            listed = self._listings.get(name)
            if listed is not None and listed.type in _OTHER_TYPES:
                answers[name] = _as_listed(listed)
            else:
                by_type["consumer" if listed is not None and listed.type == "consumer" else "classic"].append(name)
        classic, consumer = await asyncio.gather(
            self._ask(by_type["classic"], self._classic), self._ask(by_type["consumer"], self._consumer)
        )
        answers |= classic | consumer
        unfound = [name for name in by_type["classic"] if _is_not_found(answers.get(name))]
        if unfound:
            for name, answer in (await self._ask(unfound, self._consumer)).items():
                if not isinstance(answer, BrokerError) or answer.is_retriable:
                    answers[name] = answer
        return answers

    async def _ask(
        self, groups: list[str], ask: AskNode[GroupDescription]
    ) -> dict[str, GroupDescription | ClientError]:
        if not groups:
            return {}
        return await by_coordinator(self._network, groups, ask, self._deadline, at_once=_DESCRIBED_AT_ONCE)

    async def _classic(self, node: Node, groups: list[str]) -> dict[str, GroupDescription | ClientError]:
        request = DescribeGroupsRequest(groups=groups)
        response = await self._network.send(node.id, request, DescribeGroupsResponse, deadline=self._deadline)
        return {group.group_id: _classic_group(group, node) for group in response.groups}

    async def _consumer(self, node: Node, groups: list[str]) -> dict[str, GroupDescription | ClientError]:
        request = newer.ConsumerGroupDescribeRequest(group_ids=groups)
        try:
            response = await self._network.send(
                node.id, request, newer.ConsumerGroupDescribeResponse, deadline=self._deadline
            )
        except UnsupportedByBroker:
            # It is older than the newer protocol, and has no groups of it.
            return {name: _not_found(name) for name in groups}
        return {group.group_id: _newer_group(group, node) for group in response.groups}


async def delete_groups(network: NetworkClient, groups: Iterable[str], deadline: Deadline) -> Results[str, None]:
    """Remove groups with their offsets; one that has members is refused by the broker (NON_EMPTY_GROUP)."""
    asked = read_names("group_ids", groups, "group ids")

    async def ask(node: Node, some: list[str]) -> dict[str, ClientError | None]:
        request = DeleteGroupsRequest(groups_names=some)
        response = await network.send(node.id, request, DeleteGroupsResponse, deadline=deadline)
        return {
            result.group_id: broker_error(result.error_code, "DeleteGroups", f"group {result.group_id!r}")
            if result.error_code
            else None
            for result in response.results
        }

    async def attempt(some: Sequence[str]) -> dict[str, ClientError | None]:
        return await by_coordinator(network, some, ask, deadline, at_once=_DESCRIBED_AT_ONCE)

    return await retry_each(asked, attempt, operation="deleting groups", config=network.config, deadline=deadline)


def _classic_group(group: DescribeGroupsResponseGroup, node: Node) -> GroupDescription | ClientError:
    if group.error_code:
        return broker_error(group.error_code, "DescribeGroups", f"group {group.group_id!r}", group.error_message)
    if group.group_state == "Dead" and not group.members:
        # How brokers before version 6 say that there is no such group (D35).
        return _not_found(group.group_id)
    is_consumer = group.protocol_type == "consumer"
    return GroupDescription(
        group.group_id,
        "classic",
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(_classic_member(member, is_consumer) for member in group.members),
        node,
    )


def _classic_member(member: DescribeGroupsResponseMember, is_consumer: bool) -> GroupMember:
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    rack = None
    if is_consumer:
        # What a member wrote is its own: bytes that are not a consumer's are shown as none.
        try:
            if member.member_metadata:
                subscription = decode_subscription(member.member_metadata)
                topics, rack = tuple(sorted(subscription.topics)), subscription.rack_id
            if member.member_assignment:
                parts = decode_assignment(member.member_assignment).assigned_partitions
                assignment = tuple(
                    sorted(TopicPartition(part.topic, index) for part in parts for index in part.partitions)
                )
        except DecodeError:
            pass
    return GroupMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, topics, assignment, (), rack
    )


def _newer_group(group: newer.ConsumerGroupDescribeResponseGroup, node: Node) -> GroupDescription | ClientError:
    if group.error_code:
        return broker_error(group.error_code, "ConsumerGroupDescribe", f"group {group.group_id!r}", group.error_message)
    return GroupDescription(
        group.group_id,
        "consumer",
        group.group_state,
        "consumer",
        group.assignor_name,
        tuple(_newer_member(member) for member in group.members),
        node,
        group.group_epoch,
    )


def _newer_member(member: newer.ConsumerGroupDescribeResponseMember) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(sorted(member.subscribed_topic_names)),
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.rack_id,
        member.member_epoch,
    )


def _partitions(assignment: newer.ConsumerGroupDescribeResponseAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(part.topic_name, index) for part in assignment.topic_partitions for index in part.partitions
        )
    )


def _as_listed(listing: GroupListing) -> GroupDescription:
    return GroupDescription(
        listing.group_id, listing.type, listing.state, listing.protocol_type, "", (), listing.coordinator
    )


def _not_found(group_id: str) -> BrokerError:
    return broker_error(ErrorCode.GROUP_ID_NOT_FOUND, "DescribeGroups", f"group {group_id!r}")


def _is_not_found(answer: object) -> bool:
    return isinstance(answer, BrokerError) and answer.code is ErrorCode.GROUP_ID_NOT_FOUND
