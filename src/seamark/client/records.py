"""What users hold in their hands: a consumed record, and an offset to commit.

Both are plain slotted classes: a consumer makes hundreds of thousands of records a second, and a frozen dataclass takes
twice as long to make. They are values; nothing in Seamark changes one after it was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition

CREATE_TIME = 0
LOG_APPEND_TIME = 1
NO_TIMESTAMP = -1

# Kafka's offsets have 64 bits, leader epochs 32, and texts a length of 16.
LARGEST_OFFSET = 2**63 - 1
_LARGEST_EPOCH = 2**31 - 1
_LONGEST_METADATA = 2**15 - 1

Headers = tuple[tuple[str, bytes | None], ...]

# What keys and values are after deserializing. A plain ``Record`` is one of anything.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    K_co = TypeVarWithDefault("K_co", covariant=True, default=Any)
    V_co = TypeVarWithDefault("V_co", covariant=True, default=Any)
else:
    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)
# None, which a key or value of any type may be left out for.
_NOTHING: Any = None


class Offset:
    """A position to commit, exclusive: the next offset to process. ``Offset(7)`` says that 6 and below are done.

    ``leader_epoch`` is that of the record before it, or -1; it lets a client notice a truncated log.
    """

    __slots__ = ("leader_epoch", "metadata", "offset")

    def __init__(self, offset: int, metadata: str = "", leader_epoch: int = -1) -> None:
        if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= LARGEST_OFFSET:
            raise UsageError(f"an offset to commit must be an integer from 0 to {LARGEST_OFFSET}, got {offset!r}")
        if not isinstance(metadata, str) or len(metadata) > _LONGEST_METADATA or not metadata.isascii():
            _check_metadata(metadata)
        if (
            isinstance(leader_epoch, bool)
            or not isinstance(leader_epoch, int)
            or not -1 <= leader_epoch <= _LARGEST_EPOCH
        ):
            raise UsageError(f"a leader epoch must be an integer from -1 to {_LARGEST_EPOCH}, got {leader_epoch!r}")
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Offset):
            return NotImplemented
        return (self.offset, self.metadata, self.leader_epoch) == (other.offset, other.metadata, other.leader_epoch)

    def __hash__(self) -> int:
        return hash((self.offset, self.metadata, self.leader_epoch))

    def __repr__(self) -> str:
        metadata = f", metadata={self.metadata!r}" if self.metadata else ""
        epoch = f", leader_epoch={self.leader_epoch}" if self.leader_epoch >= 0 else ""
        return f"Offset({self.offset}{metadata}{epoch})"


def _check_metadata(metadata: object) -> None:
    """Refuse what no commit can carry: it would fail in the same way however often it were sent."""
    if not isinstance(metadata, str):
        raise UsageError(f"the metadata of an offset must be a string, got {metadata!r}")
    try:
        size = len(metadata.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the metadata of an offset cannot be encoded as UTF-8: {metadata[error.start]!r} is an unpaired surrogate"
        ) from None
    if size > _LONGEST_METADATA:
        raise UsageError(f"the metadata of an offset may have at most {_LONGEST_METADATA} bytes, got {size}")


class Record(Generic[K_co, V_co]):
    """One record as a consumer gives it; ``key`` and ``value`` are what the deserializers made.

    Either may be None: there is no key, or the record is a tombstone. ``timestamp_type`` is 0 for the producer's time
    and 1 for the broker's.
    """

    __slots__ = (
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp_ms",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: K_co = _NOTHING,
        value: V_co = _NOTHING,
        headers: Headers = (),
        timestamp_ms: int = NO_TIMESTAMP,
        timestamp_type: int = CREATE_TIME,
        leader_epoch: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = timestamp_type
        self.leader_epoch = leader_epoch

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    # Keys and values may be anything, so a record has no hash of its own.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Record({self.topic}-{self.partition} @ {self.offset}, key={self.key!r}, value={self.value!r}, "
            f"timestamp_ms={self.timestamp_ms})"
        )
