"""What consumers tell each other through the coordinator: a member's subscription, and the leader's assignment for it.

Both are opaque bytes to the group protocol, with a 16-bit version in front. v1 adds the partitions a member already
owns, v2 the generation in which it got them, v3 its rack; an assignment has had the same fields in all four versions.

A newer version only ever adds fields behind the known ones, so it is read as version 3 and what is left over is
ignored. A subscription is written in one canonical order, because the coordinator compares its bytes: a member that
joins again with the same wishes must not start a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.errors import UnknownVersion
from seamark.wire.schema.codec import VERSION_BYTES, decode_from, encode_versioned, version_of
from seamark.wire.schema.schema import Message, Struct, array, bytes_, field, int32, string

NEWEST_VERSION = 3


class TopicPartitions(Struct):
    """Some partitions of one topic."""

    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class Subscription(Message, versions="0-3"):
    """What a member wants, and what it has.

    ``generation_id`` is -1 for a member that owns nothing yet or speaks an older version.
    """

    topics: list[str] = field(array(string))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = field(array(TopicPartitions), versions="1+", ignorable=True)
    generation_id: int = field(int32, versions="2+", default=-1, ignorable=True)
    rack_id: str | None = field(string, versions="3+", nullable="3+", default=None, ignorable=True)


class Assignment(Message, versions="0-3"):
    """What a member gets."""

    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """The subscription with topics and owned partitions in ascending order; fields the version lacks are left out."""
    try:
        ordered = Subscription(
            topics=sorted(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=_in_order(subscription.owned_partitions) if version >= 1 else [],
            generation_id=subscription.generation_id,
            rack_id=subscription.rack_id,
        )
    except (TypeError, AttributeError):
        # What cannot be sorted cannot be written either: the encoder names the field.
        ordered = subscription
    return encode_versioned(ordered, version)


def decode_subscription(data: bytes | memoryview) -> Subscription:
    """The subscription in ``data``, its lists in the order they came in; an empty rack means none, as in Kafka."""
    subscription, _ = decode_from(Subscription, data, VERSION_BYTES, _version_to_read(data, "Subscription"))
    subscription.rack_id = subscription.rack_id or None
    return subscription


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """The assignment in the order it is in."""
    return encode_versioned(assignment, version)


def decode_assignment(data: bytes | memoryview) -> Assignment:
    assignment, _ = decode_from(Assignment, data, VERSION_BYTES, _version_to_read(data, "Assignment"))
    return assignment


def _version_to_read(data: bytes | memoryview, name: str) -> int:
    version = version_of(data, name)
    if version < 0:
        raise UnknownVersion(f"{name}.version", 0, f"version {version} is negative")
    return min(version, NEWEST_VERSION)


def _in_order(owned: Iterable[TopicPartitions]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for entry in owned:
        by_topic.setdefault(entry.topic, []).extend(entry.partitions)
    return [TopicPartitions(topic=topic, partitions=sorted(by_topic[topic])) for topic in sorted(by_topic)]
