"""How far a query has got, as the JSON document that Spark keeps in its checkpoint.

Per topic its id, the next offset to read of each partition, and the first offset that this query ever read of it. The
first offsets are what makes a restart exact: Spark asks for the initial offset again when its first batch failed, and
by then "latest" may have moved. ``query`` and ``batch`` name the work in the metadata of group commits; both are fixed
by the document that came before, so equal progress is always equal text (Spark takes a difference in key order for new
rows). Nothing here is secret: the document is stored in plain text.

Spark's own Kafka source stores ``{"topic": {"0": 5}}``; such a document is read too, so a query can change its format
name and keep its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from seamark.spark.errors import BadCheckpoint
from seamark.topic_partition import TopicPartition

FORMAT = 1
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """One topic; ``topic_id`` is empty where the broker, or an older document, does not tell it."""

    topic_id: str
    next: Mapping[int, int]
    first: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """A point in the life of a query; ``is_initial`` before its first batch, ``batch`` counts from 0 then."""

    topics: Mapping[str, TopicOffsets]
    query: str = ""
    batch: int = -1
    group: str | None = None
    is_initial: bool = field(default=False)

    def next_offsets(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(name, index): offset
            for name, topic in sorted(self.topics.items())
            for index, offset in sorted(topic.next.items())
        }

    def partitions(self) -> Iterator[TopicPartition]:
        return iter(self.next_offsets())

    def topic_id(self, topic: str) -> str:
        offsets = self.topics.get(topic)
        return "" if offsets is None else offsets.topic_id

    def following(self, topics: Mapping[str, TopicOffsets]) -> SourceOffsets:
        """The point after one more batch."""
        return replace(self, topics=topics, batch=self.batch + 1, is_initial=False)


def write_document(offsets: SourceOffsets) -> dict[str, Any]:
    """The document, its keys in one order always."""
    document: dict[str, Any] = {"batch": offsets.batch}
    if offsets.group is not None:
        document["group"] = offsets.group
    if offsets.is_initial:
        document["initial"] = True
    document["query"] = offsets.query
    document["seamark"] = FORMAT
    document["topics"] = {
        name: {"first": _written(topic.first), "id": topic.topic_id, "next": _written(topic.next)}
        for name, topic in sorted(offsets.topics.items())
    }
    return document


def _written(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(index): offsets[index] for index in sorted(offsets)}


def read_document(document: Any) -> SourceOffsets:
    """The offsets of a document of ours or of Spark's Kafka source; BadCheckpoint for anything else."""
    if not isinstance(document, dict):
        raise BadCheckpoint(f"an offset of this source is a JSON object, not {_short(document)}")
    if "seamark" not in document:
        return _of_spark(document)
    if document["seamark"] != FORMAT:
        raise BadCheckpoint(
            f"the checkpoint has offsets of format {_short(document['seamark'])}, this version reads format {FORMAT}"
        )
    topics = document.get("topics")
    if not isinstance(topics, dict):
        raise BadCheckpoint("the checkpoint's offsets contain no topics")
    query, batch, group = document.get("query", ""), document.get("batch", -1), document.get("group")
    if not isinstance(query, str) or not _is_whole(batch, -1) or not (group is None or isinstance(group, str)):
        raise BadCheckpoint("the checkpoint's offsets have a query, batch or group of the wrong type")
    return SourceOffsets(
        {name: _topic(name, entry) for name, entry in topics.items()},
        query=query,
        batch=batch,
        group=group,
        is_initial=document.get("initial") is True,
    )


def _topic(name: str, entry: Any) -> TopicOffsets:
    if not isinstance(entry, dict) or not isinstance(entry.get("id", ""), str):
        raise BadCheckpoint(f"the checkpoint's entry of topic {name!r} is not an entry of this source")
    following = _offsets(name, entry.get("next"))
    first = _offsets(name, entry.get("first", {}))
    if any(index not in following or first[index] > following[index] for index in first):
        raise BadCheckpoint(f"the checkpoint's offsets of topic {name!r} end before they begin")
    return TopicOffsets(entry.get("id", ""), following, first)


def _of_spark(document: dict[str, Any]) -> SourceOffsets:
    if not document or not all(isinstance(entry, dict) for entry in document.values()):
        raise BadCheckpoint(
            "the checkpoint's offsets are neither this source's nor those of Spark's Kafka source: "
            "it belongs to a query over another source"
        )
    topics = {name: _offsets(name, entry) for name, entry in document.items()}
    return SourceOffsets({name: TopicOffsets("", offsets, dict(offsets)) for name, offsets in topics.items()})


def _offsets(topic: str, entry: Any) -> dict[int, int]:
    if not isinstance(entry, dict):
        raise BadCheckpoint(f"the checkpoint's offsets of topic {topic!r} are not an object of partitions")
    offsets: dict[int, int] = {}
    for key, offset in entry.items():
        is_partition = isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= 10
        if not is_partition or not _is_whole(offset, 0):
            raise BadCheckpoint(
                f"the checkpoint has {_short(offset)} as offset of partition {_short(key)} of {topic!r}"
            )
        offsets[int(key)] = offset
    return offsets


def _is_whole(number: Any, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= _MOST


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
