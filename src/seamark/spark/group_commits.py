"""What is committed to the consumer group, and when.

Only offsets that Spark has in its checkpoint are ever given to this class. Of those it chooses, per partition:

* ahead of what the group has: committed;
* the same, and not committed by us for six hours: committed again, so that the broker does not expire it;
* behind: held back. The group's offset never goes backwards, whoever moved it forward;
* of another topic id than the group's offset was committed under: committed, the old number means nothing any more.

What the group has is read once and then known from our own commits. A refused commit does not stop the query: the
offsets are in the checkpoint, the reason is in ``status``, and the next batch tries again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from seamark.client.errors import ClientError
from seamark.client.records_api import Offset
from seamark.counts import counted
from seamark.spark.cluster import Cluster
from seamark.spark.offset_document import SourceOffsets
from seamark.topic_partition import TopicPartition

# Brokers keep the offsets of an empty group for a week by default, some for a day.
REFRESH_MS = 6 * 3600 * 1000
_WRITER = "seamark-spark"


class Known(NamedTuple):
    """What the group has for a partition; ``topic_id`` is empty when it was not committed by a source like this."""

    offset: int
    topic_id: str
    # By our monotonic clock; None when somebody else committed it, or we did in an earlier run.
    at_ms: int | None


class Decision(NamedTuple):
    due: dict[TopicPartition, int]
    held_back: tuple[TopicPartition, ...]


def decide(durable: SourceOffsets, known: Mapping[TopicPartition, Known], now_ms: int) -> Decision:
    """Which of the durable offsets to commit."""
    due: dict[TopicPartition, int] = {}
    held_back: list[TopicPartition] = []
    for partition, offset in durable.next_offsets().items():
        has = known.get(partition)
        topic_id = durable.topic_id(partition.topic)
        if has is None or (has.topic_id and topic_id and has.topic_id != topic_id) or offset > has.offset:
            due[partition] = offset
        elif offset < has.offset:
            held_back.append(partition)
        elif has.at_ms is None or now_ms - has.at_ms >= REFRESH_MS:
            due[partition] = offset
    return Decision(due, tuple(held_back))


def commit_metadata(query: str, batch: int, topic_id: str) -> str:
    """The text beside a committed offset: who did it, and what the number is about."""
    content = {"batch": batch, "by": _WRITER, "query": query, "topic": topic_id}
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def committed_topic_id(metadata: str) -> str:
    """The topic id in the metadata of a commit of ours; empty for anybody else's."""
    try:
        content = json.loads(metadata)
    except ValueError:
        return ""
    if not isinstance(content, dict) or content.get("by") != _WRITER:
        return ""
    topic_id = content.get("topic")
    return topic_id if isinstance(topic_id, str) else ""


class GroupCommits:
    """The commits of one query to one group. ``status`` is "ok", or the sentence that says why there are none."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._known: dict[TopicPartition, Known] | None = None
        self._last: tuple[SourceOffsets, int] | None = None
        self.status = "none yet"
        self.held_back: tuple[TopicPartition, ...] = ()

    def durable(self, offsets: SourceOffsets, now_ms: int, query: str = "", batch: int | None = None) -> bool:
        """Commit what is due; whether everything is stored.

        ``query`` and ``batch`` are Spark's own where they are known; else the metadata has those of the document.
        """
        # Spark asks every few milliseconds while there is nothing to do.
        if self._last is not None and self._last[0] == offsets and now_ms - self._last[1] < REFRESH_MS:
            return True
        try:
            if self._known is None or any(each not in self._known for each in offsets.partitions()):
                self._read_again(offsets)
            assert self._known is not None
            decision = decide(offsets, self._known, now_ms)
            errors = self._commit(offsets, decision.due, query or offsets.query, batch)
        except ClientError as error:
            self._give_up(str(error))
            return False
        for partition, offset in decision.due.items():
            if partition not in errors:
                self._known[partition] = Known(offset, offsets.topic_id(partition.topic), now_ms)
        self.held_back = decision.held_back
        if errors:
            self._give_up(str(next(iter(errors.values()))))
            return False
        self.status = "ok" if not self.held_back else _held_back(self.held_back)
        self._last = (offsets, now_ms)
        return True

    def forget(self) -> None:
        """Ask the group again before the next commit: somebody else commits for the same query."""
        self._known = None
        self._last = None

    def _give_up(self, reason: str) -> None:
        # Whoever kept us from committing may have committed: what the group has must be asked again.
        self.forget()
        self.status = f"not committed: {reason}"

    def _read_again(self, offsets: SourceOffsets) -> None:
        kept = self._known or {}
        found = self._cluster.committed(self._group, list(offsets.partitions()))
        self._known = {
            partition: kept.get(partition, Known(offset.offset, committed_topic_id(offset.metadata), None))
            for partition, offset in found.items()
        }

    def _commit(
        self, offsets: SourceOffsets, due: Mapping[TopicPartition, int], query: str, batch: int | None
    ) -> dict[TopicPartition, ClientError]:
        if not due:
            return {}
        number = offsets.batch if batch is None else batch
        wanted = {
            partition: Offset(offset, commit_metadata(query, number, offsets.topic_id(partition.topic)))
            for partition, offset in due.items()
        }
        return self._cluster.commit(self._group, wanted)


def _held_back(partitions: tuple[TopicPartition, ...]) -> str:
    on = counted(len(partitions), "partition")
    return f"held back: the group is ahead of the checkpoint on {on}, such as {partitions[0]}"
