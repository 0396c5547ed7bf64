r"""What a consumer reads: topics by name or by pattern, or partitions of its own choice; one of the three at a time.

A pattern must match the whole name, as in Kafka's own client. A text is one topic if it could be a topic's name, and
a pattern otherwise: ``orders.eu`` is a topic, ``orders\..*`` and ``^orders`` are patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from seamark.client.cluster_view import ClusterView
from seamark.client.core.listener import NO_LISTENER, Listener
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class SubscriptionKind(Enum):
    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    ASSIGNED = "manually assigned partitions"

    @property
    def reads_something(self) -> bool:
        return self is not SubscriptionKind.NONE


class Subscription:
    """The consumer's wish; replaced by each call that changes it."""

    def __init__(self, *, excludes_internal: bool = True) -> None:
        self.kind = SubscriptionKind.NONE
        self.topics: tuple[str, ...] = ()
        self.pattern: re.Pattern[str] | None = None
        self.listener: Listener = NO_LISTENER
        self._excludes_internal = excludes_internal

    @property
    def is_group(self) -> bool:
        """Are partitions assigned by the group?"""
        return self.kind in (SubscriptionKind.TOPICS, SubscriptionKind.PATTERN)

    def subscribe(self, wanted: object, listener: Listener) -> None:
        """Want topics, given by name or by pattern; that an empty list means nothing is for the caller to see."""
        read = read_topics(wanted)
        kind = SubscriptionKind.PATTERN if isinstance(read, re.Pattern) else SubscriptionKind.TOPICS
        self._check_change(kind)
        self.kind = kind
        self.listener = listener
        if isinstance(read, re.Pattern):
            if self.pattern != read:
                self.topics = ()
            self.pattern = read
        else:
            self.topics = read

    def assign(self) -> None:
        self._check_change(SubscriptionKind.ASSIGNED)
        self.kind = SubscriptionKind.ASSIGNED

    def clear(self) -> None:
        self.kind = SubscriptionKind.NONE
        self.topics = ()
        self.pattern = None
        self.listener = NO_LISTENER

    def match(self, view: ClusterView) -> bool:
        """Look for the pattern's topics; says whether they changed."""
        if self.pattern is None:
            return False
        matched = tuple(
            sorted(
                name
                for name, topic in view.topics.items()
                if topic.error is ErrorCode.NONE
                and not (topic.is_internal and self._excludes_internal)
                and self.pattern.fullmatch(name)
            )
        )
        changed = matched != self.topics
        self.topics = matched
        return changed

    def _check_change(self, kind: SubscriptionKind) -> None:
        if self.kind not in (SubscriptionKind.NONE, kind):
            raise UsageError(
                f"this consumer is subscribed to {self.kind.value}; call unsubscribe() before switching to {kind.value}"
            )


def read_topics(wanted: object) -> tuple[str, ...] | re.Pattern[str]:
    """What the argument of ``subscribe`` means."""
    if isinstance(wanted, re.Pattern):
        if isinstance(wanted.pattern, bytes):
            raise UsageError("a topic pattern must be a pattern of str, not of bytes")
        return wanted
    if isinstance(wanted, str):
        if _TOPIC_NAME.fullmatch(wanted):
            return (wanted,)
        try:
            return re.compile(wanted)
        except re.error as error:
            raise UsageError(f"{wanted!r} is neither a topic name nor a valid pattern: {error}") from error
    if not isinstance(wanted, Iterable) or isinstance(wanted, bytes):
        raise UsageError(f"topics must be a list of names, a name or a pattern, got {wanted!r}")
    topics = tuple(wanted)
    for topic in topics:
        if not isinstance(topic, str) or not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
            raise UsageError(f"{topic!r} is not a valid topic name")
    return tuple(sorted(set(topics)))
