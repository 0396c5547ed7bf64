"""Reads the checkpoint directory of a Spark streaming query: which batches there are and where each source stood.

A batch is planned once ``offsets/N`` is there and done once ``commits/N`` is. ``offsets/N`` is a version line, a line
of JSON about the batch, and a line per source: in version 1 in the order of the query's plan, in version 2 with the
name of the source before it. Both the offsets of our source and those of Spark's own Kafka source are understood;
sources of other kinds are told apart and otherwise left alone. Nothing is written here, ever.

The directory must be on a file system of this machine: what lies in an object store is copied first.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seamark.spark.errors import BadCheckpoint
from seamark.spark.read.offset_document import SourceOffsets, read_document

_NO_OFFSET = "-"
_OFFSET_VERSIONS = ("v1", "v2")
# A line holds a number per partition; a checkpoint of a hundred thousand partitions stays far below this.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class NotKafka:
    """A source that is not one of Kafka; ``reason`` says how that was noticed."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointBatch:
    """One batch; ``sources`` has the end offsets of each, None for one that has not been read yet."""

    number: int
    is_done: bool
    planned_ms: int | None
    sources: dict[str, SourceOffsets | NotKafka | None]


class Checkpoint:
    """A checkpoint directory that was found to be one."""

    def __init__(self, directory: Path, query_id: str, planned: list[int], done: list[int]) -> None:
        self.directory = directory
        self.query_id = query_id
        self.planned = planned
        self.done = done

    @classmethod
    def open(cls, directory: Path | str) -> Checkpoint:
        """BadCheckpoint says what the directory lacks."""
        if re.match(r"[a-z][a-z0-9+.-]+://", str(directory), re.IGNORECASE) and not str(directory).startswith("file:"):
            raise BadCheckpoint(f"{directory}: must be a directory on this machine, copy the checkpoint first")
        path = Path(re.sub(r"^file:(//)?(?=/)", "", str(directory)))
        if not path.is_dir():
            raise BadCheckpoint(f"{path}: no such directory")
        if not (path / "offsets").is_dir():
            raise BadCheckpoint(f"{path} is not the checkpoint of a streaming query: it has no directory 'offsets'")
        planned, done = _numbers(path / "offsets"), _numbers(path / "commits")
        if not planned:
            raise BadCheckpoint(f"{path}: the query has planned no batch yet")
        return cls(path, _query_id(path / "metadata"), planned, [number for number in done if number in set(planned)])

    def batch(self, number: int) -> CheckpointBatch:
        if number not in self.planned:
            raise BadCheckpoint(
                f"{self.directory} has no batch {number}: it has {self.planned[0]} to {self.planned[-1]}"
            )
        path = self.directory / "offsets" / str(number)
        lines = _text(path).split("\n")
        version = lines[0].strip()
        if version not in _OFFSET_VERSIONS:
            raise BadCheckpoint(f"{path} has version {version[:20]!r}; v1 and v2 are supported")
        if len(lines) < 3:
            raise BadCheckpoint(f"{path} is truncated: it has no source")
        sources: dict[str, SourceOffsets | NotKafka | None] = {}
        for place, line in enumerate(lines[2:]):
            name, text = str(place), line
            if version == "v2":
                name, mark, text = line.partition(":")
                if not mark:
                    raise BadCheckpoint(f"{path}, line {place + 3}: the name of the source is missing")
            sources[name] = None if text.strip() == _NO_OFFSET else _source(text)
        return CheckpointBatch(number, number in self.done, _planned_ms(lines[1]), sources)

    def last_done(self) -> CheckpointBatch:
        """The last batch whose results are durable: what a group may be told."""
        if not self.done:
            raise BadCheckpoint(f"{self.directory}: no batch is done yet, so there is nothing to commit")
        return self.batch(self.done[-1])


def kafka_source(batch: CheckpointBatch, wanted: str | None, where: Path) -> tuple[str, SourceOffsets]:
    """The one source that is meant; BadCheckpoint if it cannot be told or is not one of Kafka."""
    kafka = {name: source for name, source in batch.sources.items() if isinstance(source, SourceOffsets)}
    if wanted is not None:
        if wanted not in batch.sources:
            raise BadCheckpoint(f"{where}: batch {batch.number} has no source {wanted!r}, only {_listed(batch)}")
        source = batch.sources[wanted]
        if isinstance(source, NotKafka):
            raise BadCheckpoint(f"{where}: source {wanted} of batch {batch.number}: {source.reason}")
        if source is None:
            raise BadCheckpoint(f"{where}: source {wanted} has read nothing up to batch {batch.number}")
        return wanted, source
    if len(kafka) == 1:
        return next(iter(kafka.items()))
    if kafka:
        raise BadCheckpoint(f"{where}: batch {batch.number} has several Kafka sources, choose one: {_listed(batch)}")
    others = [source.reason for source in batch.sources.values() if isinstance(source, NotKafka)]
    raise BadCheckpoint(f"{where}: batch {batch.number} has no Kafka source" + (f": {others[0]}" if others else ""))


def _listed(batch: CheckpointBatch) -> str:
    return ", ".join(f"{name} ({_of_what(source)})" for name, source in batch.sources.items())


def _of_what(source: SourceOffsets | NotKafka | None) -> str:
    if isinstance(source, SourceOffsets):
        return f"topics {', '.join(sorted(source.topics))}"
    return "nothing read yet" if source is None else "not Kafka"


def _source(text: str) -> SourceOffsets | NotKafka:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return NotKafka("its offsets are not JSON: the file is damaged, or it is another kind of source")
    try:
        return read_document(document)
    except BadCheckpoint as error:
        return NotKafka(str(error))


def _numbers(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    names = (path.name for path in directory.iterdir())
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _query_id(path: Path) -> str:
    try:
        content = json.loads(_text(path))
    except (BadCheckpoint, ValueError):
        return ""
    query_id = content.get("id") if isinstance(content, dict) else None
    return query_id if isinstance(query_id, str) else ""


def _planned_ms(line: str) -> int | None:
    try:
        content = json.loads(line)
    except ValueError:
        return None
    moment = content.get("batchTimestampMs") if isinstance(content, dict) else None
    return moment if isinstance(moment, int) and moment > 0 else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise BadCheckpoint(f"{path} is larger than {_MOST_BYTES >> 20} MB: no checkpoint has such files")
        return content.decode()
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadCheckpoint(f"{path} is not text: it is damaged, or not a file of Spark's") from None
