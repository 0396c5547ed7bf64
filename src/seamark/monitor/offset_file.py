"""Committed offsets in a file: JSON with everything, or CSV as Kafka's own tool exports and imports it.

CSV has ``topic,partition,offset`` for one group or ``group,topic,partition,offset`` for several, without a header;
ours is written with the group. A name that a spreadsheet would take for a formula has an apostrophe before it, which is
taken off when it is read. JSON carries a format version, and metadata and leader epochs.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from seamark.client import Offset
from seamark.client.records import LARGEST_OFFSET
from seamark.errors import UsageError
from seamark.json_fields import no_field_twice
from seamark.readable_text import no_formula, readable_json, without_apostrophe
from seamark.suggest import unknown
from seamark.topic_partition import TopicPartition

FORMAT = "seamark.offsets"
VERSION = 1

_FIELDS = ("format", "version", "cluster_id", "groups")
_ENTRY = ("topic", "partition", "offset", "metadata", "leader_epoch")

Offsets = dict[TopicPartition, Offset]
# A plain number says nothing of metadata.
OffsetsRead = dict[TopicPartition, Offset | int]
# The group of rows that name none.
ANY_GROUP = ""


def offsets_json(cluster_id: str, groups: Mapping[str, Offsets]) -> str:
    content = {
        "format": FORMAT,
        "version": VERSION,
        "cluster_id": cluster_id,
        "groups": {
            group: [
                {
                    "topic": partition.topic, "partition": partition.partition, "offset": offset.offset,
                    "metadata": offset.metadata, "leader_epoch": offset.leader_epoch,
                }
                for partition, offset in sorted(offsets.items(), key=lambda item: item[0])
            ]
            for group, offsets in sorted(groups.items())
        },
    }  # fmt: skip
    return readable_json(content, indent=1) + "\n"


def offsets_csv(groups: Mapping[str, Offsets]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in sorted(groups.items()):
        writer.writerows(
            [no_formula(group), no_formula(topic), index, offset.offset]
            for (topic, index), offset in sorted(offsets.items())
        )
    return out.getvalue()


def read_offsets(path: Path) -> dict[str, OffsetsRead]:
    """Offsets by group; those of a file that names no group are under ``ANY_GROUP``."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error.__class__.__name__})") from None
    offsets = _of_json(text, path) if text.lstrip().startswith("{") else _of_csv(text, path)
    if not any(offsets.values()):
        raise UsageError(f"{path}: contains no offsets")
    return offsets


def offsets_for(by_group: Mapping[str, OffsetsRead], group: str) -> OffsetsRead:
    """What a file says of one group."""
    return by_group.get(group) or by_group.get(ANY_GROUP) or {}


def _of_json(text: str, path: Path) -> dict[str, OffsetsRead]:
    try:
        content = json.loads(text, object_pairs_hook=no_field_twice)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not valid JSON ({error})") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    if content.get("format") != FORMAT:
        raise UsageError(f"{path}: not an offsets file (format {content.get('format')!r})")
    if content.get("version") != VERSION:
        raise UsageError(f"{path}: version {content.get('version')!r} of the format is not supported, only {VERSION}")
    if wrong := next((name for name in content if name not in _FIELDS), None):
        raise UsageError(f"{path}: {unknown('field', wrong, _FIELDS)}")
    groups: dict[str, OffsetsRead] = {}
    for group, entries in _mapping(content.get("groups"), path).items():
        offsets = groups.setdefault(group, {})
        for entry in entries if isinstance(entries, list) else [None]:
            try:
                partition, offset = _entry(_mapping(entry, path))
            except ValueError as error:
                raise UsageError(f"{path}: an entry of group {group!r} is not an offset: {error}") from None
            if partition in offsets:
                raise UsageError(f"{path}: group {group!r} has {partition} twice")
            offsets[partition] = offset
    return groups


def _mapping(value: object, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: not an offsets file: expected an object, got {str(value)[:40]!r}")
    return value


def _entry(entry: Mapping[str, Any]) -> tuple[TopicPartition, Offset | int]:
    for name in entry:
        if name not in _ENTRY:
            raise ValueError(unknown("field", name, _ENTRY))
    for name in ("topic", "partition", "offset"):
        if name not in entry:
            raise ValueError(f"{name!r} is missing")
    topic, metadata = entry["topic"], entry.get("metadata", "")
    for name, text in (("topic", topic), ("metadata", metadata)):
        if not isinstance(text, str):
            raise ValueError(f"{name!r} must be a string, got {text!r}")  # noqa: TRY004 - told with the others
    partition, offset = (_number(name, entry[name], 0) for name in ("partition", "offset"))
    if entry.keys().isdisjoint(("metadata", "leader_epoch")):
        return TopicPartition(topic, partition), offset
    return TopicPartition(topic, partition), Offset(
        offset, metadata, _number("leader_epoch", entry.get("leader_epoch", -1), -1)
    )


def _number(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name!r} must be an integer >= {least}, got {value!r}")
    if value > LARGEST_OFFSET:
        raise ValueError(f"{name!r} is larger than any offset ({LARGEST_OFFSET})")
    return value


def _of_csv(text: str, path: Path) -> dict[str, OffsetsRead]:
    groups: dict[str, OffsetsRead] = {}
    for number, row in _csv_rows(text, path):
        if not row:
            continue
        if len(row) not in (3, 4):
            raise UsageError(f"{path}, line {number}: must be topic,partition,offset or group,topic,partition,offset")
        group, topic, *numbers = map(without_apostrophe, row if len(row) == 4 else (ANY_GROUP, *row))
        if not all(text.strip().isascii() and text.strip().isdecimal() for text in numbers):
            raise UsageError(f"{path}, line {number}: partition and offset must be integers >= 0")
        index, offset = (_csv_number(text, path, number) for text in numbers)
        partition = TopicPartition(topic, index)
        if partition in groups.setdefault(group, {}):
            of_group = f" of group {group!r}" if group else ""
            raise UsageError(f"{path}, line {number}: {partition}{of_group} appears twice")
        groups[group][partition] = offset
    return groups


def _csv_rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text))
    try:
        yield from enumerate(reader, 1)
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: not CSV ({error})") from None


def _csv_number(text: str, path: Path, number: int) -> int:
    # Python converts only so many digits; the largest number of Kafka has 19.
    digits = text.strip().lstrip("0") or "0"
    if len(digits) > 19 or int(digits) > LARGEST_OFFSET:
        raise UsageError(f"{path}, line {number}: {digits[:20]}… is larger than any offset ({LARGEST_OFFSET})")
    return int(digits)
