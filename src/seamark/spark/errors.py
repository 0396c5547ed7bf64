"""What the Spark source raises beside the client's own errors; ``str()`` of each is the sentence that a user reads.

Spark shows the last line of a Python traceback at the end of its own error, so each is one line. All of them survive
pickling, because Spark carries them between processes.
"""

from __future__ import annotations

from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition


class SparkSourceError(SeamarkError):
    """The root of what the source raises itself."""


class BadCheckpoint(SparkSourceError):
    """The checkpoint holds offsets that this query cannot go on from."""


class TopicMissing(SparkSourceError):
    """A topic that the query names is not there."""


class TopicRecreated(SparkSourceError):
    """A topic has another id than when the query last read it: it was deleted and made anew."""

    def __init__(self, topic: str, known: str, found: str) -> None:
        super().__init__(
            f"topic {topic!r} was deleted and recreated (id {known} became {found}): the old offsets are "
            "invalid in the new topic; start with a new checkpoint, or set onTopicRecreated=restart to read the new "
            "topic from its beginning"
        )
        self.topic = topic
        self.known = known
        self.found = found

    def __reduce__(self) -> tuple[type[TopicRecreated], tuple[str, str, str]]:
        return type(self), (self.topic, self.known, self.found)


class RecordsLost(SparkSourceError):
    """Records that the query has not read are gone; with failOnDataLoss=false it goes on behind them."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; set failOnDataLoss=false to continue without them")
        self.what = what

    def __reduce__(self) -> tuple[type[RecordsLost], tuple[str]]:
        return type(self), (self.what,)


class OffsetNotInLog(SparkSourceError):
    """A starting or ending offset is outside what the partition holds."""

    def __init__(self, option: str, partition: TopicPartition, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(f"{option}: {partition} holds offsets from {log_start} up to {log_end}, not {offset}")
        self.values = (option, partition, offset, log_start, log_end)

    def __reduce__(self) -> tuple[type[OffsetNotInLog], tuple[str, TopicPartition, int, int, int]]:
        return type(self), self.values


class GroupIsActive(SparkSourceError):
    """The group has members, and Kafka accepts commits from members only then."""

    def __init__(self, group: str, state: str, members: int) -> None:
        super().__init__(
            f"groupId={group!r}: the group is {state} with {counted(members, 'member')}, and Kafka accepts commits "
            "from members only; stop them, choose another groupId, or set onActiveGroup=warn to run without committing"
        )
        self.values = (group, state, members)

    def __reduce__(self) -> tuple[type[GroupIsActive], tuple[str, str, int]]:
        return type(self), self.values


class GroupLocked(SparkSourceError):
    """Another query of this host has been committing to the group for too long."""


class NoGroupOffset(SparkSourceError):
    """The query starts at the group's offsets, and the group has none for some partition."""


class AsyncProgress(SparkSourceError):
    """Asynchronous progress tracking lets the source run ahead of the checkpoint, so nothing may be committed."""
