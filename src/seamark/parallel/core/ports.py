"""The one narrow port to Kafka: what a parallel consumer needs of a client, and nothing else.

An adapter owns the connection to the group. All calls come from one thread. Terms are the runtime's own numbers: an
adapter only says when a partition came and went, and the runtime stamps what it polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition


class MetadataTooLong(SeamarkError):
    """The broker refused a commit because of the length of its metadata; adapters translate to this."""


Headers = Sequence[tuple[str, bytes | None]]

# The leader epoch of a record or a commit that does not name one.
NO_EPOCH = -1


class Message(Protocol):
    """A polled record; both clients' own record types are one."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


class Committed(NamedTuple):
    """What the group had committed when a partition was assigned; offset -1 if nothing."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class Polled(NamedTuple):
    """Records of one partition, upwards; ``position`` is where the next poll goes on, -1 if that is not known.

    Without records ``leader_epoch`` is that of the batch before ``position``, which nobody is shown anything of.
    """

    partition: TopicPartition
    records: Sequence[Message]
    position: int = -1
    leader_epoch: int = NO_EPOCH


class ToCommit(NamedTuple):
    offset: int
    metadata: str
    leader_epoch: int = NO_EPOCH


class SetAside(NamedTuple):
    """A partition that is not read on, as its batch at ``offset`` cannot be; ``next_offset`` is behind the batch."""

    partition: TopicPartition
    offset: int
    reason: str
    next_offset: int

    def __str__(self) -> str:
        return (
            f"{self.partition} is not read beyond offset {self.offset}: {self.reason}; other partitions continue. To "
            f"skip the batch, stop the group, commit offset {self.next_offset} for it (seamark groups reset), and "
            "start again"
        )


class Rebalance(Protocol):
    """What the runtime wants to hear; called from inside ``poll`` and ``close``, on the thread that called those."""

    def on_assigned(self, committed: Mapping[TopicPartition, Committed]) -> None:
        """These partitions are ours from now on; they start at ``committed``, or at their reset position.

        Where the log was truncated below ``committed``, records from the truncation on are polled.
        """

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These go away when this returns; commits still count until then."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are somebody else's already; commits count no more."""


class PolledColumns(NamedTuple):
    """Records of one partition as a ``pyarrow.RecordBatch``, with their offsets, upwards; ``position`` as above.

    All were written under one ``leader_epoch``: a port begins other columns where it changes. Without rows it is that
    of the batch before ``position``.
    """

    partition: TopicPartition
    batch: Any
    offsets: list[int]
    position: int = -1
    leader_epoch: int = NO_EPOCH


CommitDone = Callable[[Mapping[TopicPartition, BaseException | None]], object]
ProduceDone = Callable[[BaseException | None], object]


class KafkaPort(Protocol):
    def subscribe(self, topics: Sequence[str], rebalance: Rebalance) -> None: ...

    def poll(self, timeout: float, max_records: int) -> Sequence[Polled]:
        """Whatever has come, by partition; keeps the membership alive even if all partitions are paused."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...

    def commit(
        self, offsets: Mapping[TopicPartition, ToCommit], done: CommitDone | None = None, timeout: float | None = None
    ) -> Mapping[TopicPartition, BaseException | None]:
        """With ``done``, return at once and call it from a later call; else wait. Errors are per partition.

        Commits take effect in the order of the calls: one that waits lets those before it end first. A partition whose
        outcome is not known counts as refused.
        """

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: ProduceDone) -> None:
        """Write a record; ``done`` is called once it is stored or refused, on any thread."""

    def wake(self) -> None:
        """End a waiting ``poll``; the one call that other threads may make."""

    def close(self, timeout: float) -> None:
        """Leave the group, which revokes what is assigned."""


@runtime_checkable
class LogEndsPort(Protocol):
    """A port that knows, without asking anybody, where logs ended when they were last read."""

    def log_ends(self) -> Mapping[TopicPartition, int]:
        """By partition; those of which nothing is known are left out."""


@runtime_checkable
class SetAsidePort(Protocol):
    """A port that goes on with the other partitions where the batch of one cannot be read."""

    def set_aside(self) -> Sequence[SetAside]:
        """The partitions that wait for somebody to get them past such a batch."""


@runtime_checkable
class ColumnsPort(Protocol):
    """A port that can also hand out columns, without an object per record."""

    def poll_columns(self, timeout: float, max_bytes: int) -> Sequence[PolledColumns]:
        """As ``poll``; a partition whose position moved without records comes with an empty batch of None."""
