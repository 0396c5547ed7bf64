"""What is committed to the consumer group, and when.

Only offsets that Spark has in its checkpoint are ever given to this class. The group is read before each commit, and
per partition the checkpoint's offset is

* committed when it is ahead of the group, or the group has none, or one of a topic that was deleted since;
* committed again when it is the same and has not been committed for six hours, so that it does not expire;
* held back when it is behind the group: the group's offset never goes backwards;
* refused as a conflict when somebody else has moved the group since this run last agreed with it, in either direction:
  who reads the group takes its offset for the progress of one query, so one of the two has to stop. It ends when the
  group is set to where the query stands.

A commit of ours is known by the ``source`` in its metadata, which is the same for all runs from one checkpoint. The
first look of a run takes the group as it stands, so a restart takes a group over.

Kafka has no commit on condition. Queries that share ``group_lock``, those of one user on one host, are kept apart;
against any other committer the time between our read and our write remains. An idle query looks again every ten
seconds and puts right what a late commit of its own has undone. A commit that is not made does not stop the query: the
offsets are in the checkpoint, and the reason is in ``status``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from seamark.client import Offset
from seamark.client.errors import ClientError
from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.readable_log import readable_logger
from seamark.spark.read.cluster import Cluster
from seamark.spark.read.offset_document import SourceOffsets
from seamark.topic_partition import TopicPartition

log = readable_logger("seamark.spark")

# Brokers keep the offsets of an empty group for a week by default, some for a day.
REFRESH_MS = 6 * 3600 * 1000
# Spark asks an idle query every few milliseconds; the group is read this often then.
LOOK_AGAIN_MS = 10_000
# The same after a commit that failed.
RETRY_MS = 1000
_WRITER = "seamark-spark"

# What a status begins with.
NONE_YET = "none yet"
OK = "ok"
CONFLICT = "conflict"
HELD_BACK = "held back"
FAILED = "not committed"
OFF = "off"


class Mark(NamedTuple):
    """What the metadata of a commit of ours says; all of it is empty for anybody else's."""

    source: str = ""
    query: str = ""
    topic_id: str = ""


class Left(NamedTuple):
    """The offset at which this run last agreed with the group."""

    offset: int
    # When it was committed, by our monotonic clock; None when that was before this run looked for the first time.
    at_ms: int | None


class Decision(NamedTuple):
    """``agreed`` is where the group stands wherever it is neither committed to nor in conflict."""

    due: dict[TopicPartition, int]
    agreed: dict[TopicPartition, Left]
    held_back: tuple[TopicPartition, ...]
    overtaken: tuple[TopicPartition, ...]
    conflicts: tuple[TopicPartition, ...]


def decide(
    durable: SourceOffsets, committed: Mapping[TopicPartition, Offset], left: Mapping[TopicPartition, Left], now_ms: int
) -> Decision:
    """Which of the durable offsets to commit to a group that has ``committed``."""
    due: dict[TopicPartition, int] = {}
    agreed: dict[TopicPartition, Left] = {}
    held_back: list[TopicPartition] = []
    overtaken: list[TopicPartition] = []
    conflicts: list[TopicPartition] = []
    for partition, offset in durable.next_offsets().items():
        has, last = committed.get(partition), left.get(partition)
        mark = Mark() if has is None else read_mark(has.metadata)
        topic_id = durable.topic_id(partition.topic)
        is_ours = bool(mark.source) and mark.source == durable.query
        has_moved = has is not None and last is not None and last.offset != has.offset
        if has is None or (mark.topic_id and topic_id and mark.topic_id != topic_id):
            due[partition] = offset
        elif has_moved and not is_ours and (mark.source or has.offset != offset):
            conflicts.append(partition)
        elif has.offset == offset:
            # What has moved since we last looked was committed just now, by whomever.
            at_ms = None if last is None else last.at_ms if last.offset == offset else now_ms
            agreed[partition] = Left(offset, at_ms)
            if at_ms is None or now_ms - at_ms >= REFRESH_MS:
                due[partition] = offset
        elif offset > has.offset:
            due[partition] = offset
        else:
            agreed[partition] = Left(has.offset, None)
            (overtaken if is_ours else held_back).append(partition)
    return Decision(due, agreed, tuple(held_back), tuple(overtaken), tuple(conflicts))


def commit_metadata(source: str, query: str, batch: int, topic_id: str) -> str:
    """The text beside a committed offset: who did it, and what the number is about."""
    content = {"batch": batch, "by": _WRITER, "query": query, "source": source, "topic": topic_id}
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def read_mark(metadata: str) -> Mark:
    """What ``commit_metadata`` wrote; an empty mark for anything else."""
    try:
        content = json.loads(metadata)
    except (ValueError, RecursionError):
        return Mark()
    if not isinstance(content, dict) or content.get("by") != _WRITER:
        return Mark()
    told = [content.get(name) for name in ("source", "query", "topic")]
    return Mark(*(value if isinstance(value, str) else "" for value in told))


class GroupCommits:
    """The commits of one run of a query to one group. ``status`` is "ok", or says what is not committed and why.

    ``is_beside_source``: the source of the same query commits as well, and may well be a batch ahead.
    """

    def __init__(self, cluster: Cluster, group: str, *, is_beside_source: bool = False) -> None:
        self._cluster = cluster
        self._group = group
        self._is_beside_source = is_beside_source
        self._left: dict[TopicPartition, Left] = {}
        self._last: SourceOffsets | None = None
        self._is_done = True
        self._next_look_ms = 0
        self._logged = OK
        self.status = NONE_YET

    def durable(self, offsets: SourceOffsets, now_ms: int, query: str = "", batch: int | None = None) -> bool:
        """Commit what is due; whether the group has all that it should have.

        ``query`` and ``batch`` are Spark's own where they are known; else the metadata has those of the document.
        """
        if offsets == self._last and now_ms < self._next_look_ms:
            return self._is_done
        kind = self._bring_up_to(offsets, now_ms, query or offsets.query, batch)
        self._last = offsets
        self._is_done = kind in (OK, HELD_BACK)
        self._next_look_ms = now_ms + (RETRY_MS if kind == FAILED else LOOK_AGAIN_MS)
        return self._is_done

    def _bring_up_to(self, offsets: SourceOffsets, now_ms: int, query: str, batch: int | None) -> str:
        """Look, decide and commit; how the status begins after that."""
        number = offsets.batch if batch is None else batch
        try:
            with self._cluster.committing_alone(self._group):
                committed = self._cluster.committed(self._group, list(offsets.partitions()), is_brief=True)
                decision = decide(offsets, committed, self._left, now_ms)
                errors = self._commit(offsets, decision.due, query, number)
        except SeamarkError as error:
            return self._tell(FAILED, str(error))
        self._left |= decision.agreed
        for partition, offset in decision.due.items():
            if partition not in errors:
                self._left[partition] = Left(offset, now_ms)
        if errors:
            return self._tell(FAILED, str(next(iter(errors.values()))))
        if decision.conflicts:
            return self._tell(CONFLICT, self._conflict(decision.conflicts, committed, offsets))
        behind = decision.held_back if self._is_beside_source else (*decision.held_back, *decision.overtaken)
        if behind:
            return self._tell(HELD_BACK, _held_back(behind, committed, offsets))
        return self._tell(OK)

    def _commit(
        self, offsets: SourceOffsets, due: Mapping[TopicPartition, int], query: str, batch: int
    ) -> dict[TopicPartition, ClientError]:
        if not due:
            return {}
        wanted = {
            partition: Offset(offset, commit_metadata(offsets.query, query, batch, offsets.topic_id(partition.topic)))
            for partition, offset in due.items()
        }
        return self._cluster.commit(self._group, wanted)

    def _tell(self, kind: str, reason: str = "") -> str:
        """Set the status and log what is new about it: the offsets in a conflict change with every batch."""
        self.status = f"{kind}: {reason}" if reason else kind
        logged = self.status if kind == FAILED else kind
        if logged != self._logged:
            self._logged = logged
            if kind == OK:
                log.info("group %s: commits are accepted again", self._group)
            else:
                log.warning("group %s: %s", self._group, self.status)
        return kind

    def _conflict(
        self, partitions: tuple[TopicPartition, ...], committed: Mapping[TopicPartition, Offset], offsets: SourceOffsets
    ) -> str:
        first = partitions[0]
        mark = read_mark(committed[first].metadata)
        who = f"query {mark.query}" if mark.query else "another client"
        more = f", and so for {counted(len(partitions) - 1, 'more partition')}" if len(partitions) > 1 else ""
        return (
            f"{first} of group {self._group!r} is at {committed[first].offset}, committed by {who}; this query left it "
            f"at {self._left[first].offset} and has finished {offsets.next_offsets()[first]}; "
            f"it is not committed{more}. Give each query its own groupId; "
            "this one takes the group over when it is restarted"
        )


def _held_back(
    partitions: tuple[TopicPartition, ...], committed: Mapping[TopicPartition, Offset], offsets: SourceOffsets
) -> str:
    first = partitions[0]
    return (
        f"the group is ahead of the checkpoint on {counted(len(partitions), 'partition')}, such as {first} "
        f"({committed[first].offset}, the checkpoint {offsets.next_offsets()[first]})"
    )
