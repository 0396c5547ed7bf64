"""Reads the arguments of the clients' calls: a wrong kind is refused with a sentence before anything is sent.

A text is an iterable of texts too: ``delete_topics("ab")`` would delete the topics ``a`` and ``b`` if it were let
through. In the admin client's calls names and partitions themselves are left to the broker, which answers for each of
them; those of a consumer are checked here, because what cannot exist would be waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from seamark.client.records import Offset
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition

T = TypeVar("T")
V = TypeVar("V")

_LARGEST_PARTITION = 2**31 - 1


def one_of(name: str, given: Any, other_name: str, other: Any) -> Any:
    """An argument with two names: ours, and the one that users of other Python clients know. None is not given.

    >>> one_of("value", None, "value_deserializer", str)
    <class 'str'>
    """
    if given is not None and other is not None:
        raise UsageError(f"{name}= and {other_name}= are the same argument: pass only one")
    return other if given is None else given


def read_names(argument: str, wanted: Iterable[str], what: str = "names") -> list[str]:
    """A list of names, each a text."""
    return _read_list(argument, wanted, str, what)


def read_items(argument: str, wanted: Iterable[T], kind: type[T]) -> list[T]:
    """A list of values of one type."""
    return _read_list(argument, wanted, kind, kind.__name__)


def read_addresses(argument: str, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
    """A list of partitions, each (topic, partition)."""
    return [_address(argument, item) for item in _listed(argument, wanted, "TopicPartition")]


def read_by_address(argument: str, wanted: Mapping[TopicPartition, V]) -> dict[TopicPartition, V]:
    """A mapping whose keys are partitions."""
    return {_address(argument, key): value for key, value in read_mapping(argument, wanted, "TopicPartition").items()}


def read_mapping(argument: str, wanted: Mapping[T, V], keys: str) -> Mapping[T, V]:
    if not isinstance(wanted, Mapping):
        raise UsageError(f"{argument} must be a mapping keyed by {keys}, got {wanted!r}")
    return wanted


def read_whole(argument: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"the values of {argument} must be integers from {least} to {most}, got {value!r}")
    return value


def read_group_id(group_id: str) -> str:
    """The group that offsets are committed for; Kafka lets nobody commit for the group without a name."""
    if not isinstance(group_id, str) or not group_id:
        raise UsageError(f"group_id must be the name of a group, got {group_id!r}")
    return group_id


def _read_list(argument: str, wanted: Iterable[T], kind: type[T], what: str) -> list[T]:
    items = _listed(argument, wanted, what)
    for item in items:
        if not isinstance(item, kind):
            raise UsageError(f"{argument} must be a list of {what}, but contains {item!r}")
    return items


def _listed(argument: str, wanted: Iterable[T], what: str) -> list[T]:
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        remedy = f"; write [{wanted!r}]" if isinstance(wanted, str) and what.endswith("s") else ""
        raise UsageError(f"{argument} must be a list of {what}, got {wanted!r}{remedy}")
    if isinstance(wanted, TopicPartition):
        raise UsageError(f"{argument} must be a list of {what}, not a single one; write [{wanted!r}]")
    return list(wanted)


def _address(argument: str, wanted: object) -> TopicPartition:
    if isinstance(wanted, tuple) and len(wanted) == 2:
        topic, index = wanted
        if isinstance(topic, str) and isinstance(index, int) and not isinstance(index, bool):
            return TopicPartition(topic, index)
    raise UsageError(f"{argument} must contain TopicPartition(topic, partition), got {wanted!r}")


def read_partitions(wanted: object) -> tuple[TopicPartition, ...]:
    """What the argument of ``assign`` and its kin means: an iterable of (topic, partition)."""
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise UsageError(f"partitions must be a list of TopicPartition, got {wanted!r}")
    return tuple(dict.fromkeys(read_partition(partition) for partition in wanted))


def read_partition(wanted: object) -> TopicPartition:
    if not isinstance(wanted, tuple) or len(wanted) != 2:
        raise UsageError(f"a partition must be TopicPartition(topic, partition), got {wanted!r}")
    topic, index = wanted
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"{topic!r} is not a valid topic name")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index <= _LARGEST_PARTITION:
        raise UsageError(f"a partition number must be an integer >= 0, got {index!r}")
    return TopicPartition(topic, index)


def read_offsets(offsets: object) -> dict[TopicPartition, Offset]:
    """What the argument of a commit means."""
    if not isinstance(offsets, Mapping):
        raise UsageError(f"offsets to commit must be a mapping from TopicPartition to Offset, got {offsets!r}")
    return {
        read_partition(partition): offset if isinstance(offset, Offset) else Offset(offset)
        for partition, offset in offsets.items()
    }
