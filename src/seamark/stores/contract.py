"""The contract of a place that keeps the committed offsets of consumer groups: Kafka, ZooKeeper, a file.

Every store answers the same calls the same way, and one suite (tests/contracts/test_offset_stores.py) holds for all.
What a store cannot keep it drops (ZooKeeper keeps no metadata; ``keeps_metadata`` says so). A stored value that is not
an offset is an answer (``BadOffset``), not an exception: one bad node never hides its neighbours. Looking raises
``StoreUnavailable`` where the store cannot be reached; changing raises nothing for what the store does: every partition
has its own outcome, and one that is ``StoreUnavailable`` may or may not have been changed.

All calls block and may be made from any thread. ``read_many`` and ``write_many`` are lazy and work in batches, so that
memory is bounded by a batch and not by the number of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition

# The largest offset that Kafka's 64-bit fields can hold.
LARGEST_OFFSET = (1 << 63) - 1


class StoredOffset(NamedTuple):
    """What is kept for one partition; ``leader_epoch`` is None where the store or the writer did not say."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class BadOffset(NamedTuple):
    """Something in an offset's place that is not one; ``path`` says where in the store, ``text`` what is there."""

    path: str
    text: str

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"{self.path} holds {shown!r}, which is not an offset"


class GroupOffsets(dict[TopicPartition, StoredOffset | BadOffset]):
    """The offsets of one group; ``strays`` are entries of the store that belong to no partition."""

    __slots__ = ("strays",)

    def __init__(
        self, offsets: Mapping[TopicPartition, StoredOffset | BadOffset] | None = None, strays: Iterable[BadOffset] = ()
    ) -> None:
        super().__init__(offsets or {})
        self.strays = tuple(strays)

    @property
    def good(self) -> dict[TopicPartition, StoredOffset]:
        return {partition: stored for partition, stored in self.items() if isinstance(stored, StoredOffset)}

    @property
    def bad(self) -> list[BadOffset]:
        """Everything that is not an offset, strays included."""
        return [stored for stored in self.values() if isinstance(stored, BadOffset)] + list(self.strays)


# A group, and what is to be stored for it.
GroupWrite = tuple[str, Mapping[TopicPartition, StoredOffset]]
# Per partition None where it was done, else why it was not.
Outcomes = dict[TopicPartition, SeamarkError | None]


@runtime_checkable
class OffsetStore(Protocol):
    """One place where committed offsets are kept; use it as a context manager or call ``close``."""

    # How messages and plans call it, without secrets: "zookeeper zk1:2181/kafka", "kafka broker:9092".
    @property
    def name(self) -> str: ...

    # Whether metadata and leader epochs written are read back.
    @property
    def keeps_metadata(self) -> bool: ...

    def groups(self) -> Iterable[str]:
        """The groups that have something stored, sorted; Kafka lists some that have not."""
        ...

    def topics(self, group: str) -> list[str]:
        """The topics that the group has something stored for, sorted."""
        ...

    def read(self, group: str, topics: Iterable[str] | None = None) -> GroupOffsets:
        """What the group has stored, of the given topics or of all; nothing for a group that does not exist."""
        ...

    def read_many(self, groups: Iterable[str]) -> Iterator[tuple[str, GroupOffsets]]:
        """``read`` of many groups in the order given, in batches."""
        ...

    def write(self, group: str, offsets: Mapping[TopicPartition, StoredOffset]) -> Outcomes:
        """Store offsets, making the group where it does not exist; every partition given has an outcome."""
        ...

    def write_many(self, items: Iterable[GroupWrite]) -> Iterator[tuple[str, Outcomes]]:
        """``write`` for many groups in the order given, in batches.

        A group's outcome comes after its offsets are stored. ``items`` is read only as far as the batch needs.
        """
        ...

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> Outcomes:
        """Forget offsets; one that is not stored counts as forgotten."""
        ...

    def active_members(self, group: str) -> list[str]:
        """Who may be committing to this group now, sorted; empty where nobody is or the group does not exist."""
        ...

    def active_members_many(self, groups: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        """``active_members`` of many groups in the order given, in batches."""
        ...

    def close(self) -> None:
        """Let go of connections; may be called again."""
        ...


def is_offset(number: int) -> bool:
    """Whether a number may be stored as an offset."""
    return 0 <= number <= LARGEST_OFFSET


def in_batches(items: Iterable[GroupWrite], most_offsets: int) -> Iterator[list[GroupWrite]]:
    """Groups in lists that end as soon as they hold so many offsets; nothing is read beyond the list that is given."""
    batch: list[GroupWrite] = []
    size = 0
    for group, offsets in items:
        batch.append((group, offsets))
        size += len(offsets)
        if size >= most_offsets:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
