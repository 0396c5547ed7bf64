"""What the admin client is asked with and answers with: plain frozen values, words in place of Kafka's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from seamark.client.cluster_view import Node
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition

RESOURCE_TYPES = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}
CONFIG_SOURCES = {
    1: "topic", 2: "dynamic_broker", 3: "dynamic_default_broker", 4: "static_broker", 5: "default",
    6: "dynamic_broker_logger", 7: "client_metrics", 8: "group",
}  # fmt: skip
CONFIG_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
# ListOffsets' special timestamps.
OFFSET_SPECS = {"latest": -1, "earliest": -2, "max_timestamp": -3}

T = TypeVar("T")


def number_of(word: str, words: Mapping[str, int], what: str) -> int:
    """Kafka's number for a word; UsageError names the words there are."""
    number = words.get(word)
    if number is None:
        raise UsageError(f"{what} is one of {', '.join(words)}, not {word!r}")
    return number


def word_of(number: int, words: Mapping[str, int]) -> str:
    """The word for a number off the wire; one that is not known stays a number."""
    return next((word for word, known in words.items() if known == number), f"unknown({number})")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 leaves partitions or replication to the broker. ``assignments`` names replicas by hand."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that has a configuration: ``Resource("topic", "orders")``, ``Resource("broker", "1")``."""

    kind: str
    name: str

    def __post_init__(self) -> None:
        number_of(self.kind, RESOURCE_TYPES, "the kind of a resource")

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting; ``value`` is None for a sensitive one."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one setting; "append" and "subtract" are for lists."""

    value: str | None
    operation: str = "set"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster with its brokers; ``controller_id`` is -1 while there is no controller."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups reports it; ``state`` and ``type`` are empty from brokers that do not tell them."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: Node


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; ``epoch`` is -1 in classic groups, ``target`` what a member of a consumer group is moving to."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] = ()
    rack: str | None = None
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; ``type`` is classic, consumer, share or streams. Members of the last two are not shown."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: Node
    epoch: int = -1

    @property
    def is_active(self) -> bool:
        """Whether somebody may be committing: then nobody else should."""
        return self.state not in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset found by time; -1 where no record is at or after the timestamp."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
