"""Waiting until what was made is known everywhere.

A controller answers that a topic was made before the brokers have heard of it, and whoever commits an offset or lists
groups' lag in that moment is told that the topic does not exist. Who makes a topic wants to use it, so the admin client
asks every broker until each knows it and names leaders.

The topic exists whatever is seen here: patience is short, and running out of it is no error. Neither is a broker that
does not answer, nor a user who may make topics but not look at them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from seamark.client.errors import ClientError
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import MOST_AT_ONCE
from seamark.client.timing import Deadline
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

_PATIENCE_S = 5.0
_PAUSE_S = 0.02

_NOT_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})


async def until_known(network: NetworkClient, least_partitions: Mapping[str, int], deadline: Deadline) -> None:
    """Return when every broker that answers knows each topic, with at least so many partitions, all of them led."""
    if least_partitions:
        patience = Deadline(deadline.at_most(_PATIENCE_S))
        brokers = tuple(network.view.brokers)
        await asyncio.gather(*(_until_known_by(broker, network, least_partitions, patience) for broker in brokers))


async def _until_known_by(
    broker: int, network: NetworkClient, least_partitions: Mapping[str, int], patience: Deadline
) -> None:
    missing = list(least_partitions)
    while not patience.is_over:
        asked = missing[:MOST_AT_ONCE]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in asked], allow_auto_topic_creation=False
        )
        try:
            answer = await network.send(broker, request, MetadataResponse, deadline=patience, min_version=4)
        except ClientError:
            return
        answered = {topic.name: topic for topic in answer.topics}
        to_come = [name for name in asked if name in answered and _is_to_come(answered[name], least_partitions[name])]
        missing = to_come + missing[MOST_AT_ONCE:]
        if not missing:
            return
        if to_come:
            await asyncio.sleep(patience.at_most(_PAUSE_S))


def _is_to_come(topic: MetadataResponseTopic, least: int) -> bool:
    if topic.error_code:
        return topic.error_code in _NOT_YET
    return len(topic.partitions) < least or any(each.error_code in _NOT_YET for each in topic.partitions)
