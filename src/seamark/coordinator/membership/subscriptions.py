"""Which topics the members of a consumer group subscribe to, read from the metadata they sent when joining.

The only place where the coordinator looks into a protocol's metadata. A group whose metadata cannot be read counts as
subscribed to everything, so that none of its offsets is deleted or expired by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.errors import DecodeError
from seamark.wire.protocol.consumer_protocol import decode_subscription

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(protocol_type: str | None, metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All subscribed topics, or None when they cannot be known."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    try:
        for encoded in metadata:
            topics.update(decode_subscription(encoded).topics)
    except DecodeError:
        return None
    return frozenset(topics)
