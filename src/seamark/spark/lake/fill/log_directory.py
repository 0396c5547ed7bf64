"""Log directories copied from a broker: ``__consumer_offsets-7/00000000000000000000.log`` and so on.

A copy of a running broker may end inside a batch, which is then left for the next copy, as is everything damaged that
has nothing sound behind it. A damaged batch before sound ones becomes a row of ``rejects`` with its bytes; where not
even its length can be trusted, the rest of the segment is one. Nothing in the directory is changed.

Log files do not say which transactions were aborted in a form that is read here, so commits of aborted transactions
are rows like all others; the topic itself is read without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.client.fetch.arrow import MOST_ROWS
from seamark.client.fetch.chunks import end_of
from seamark.client.fetch.records import ReadLimits
from seamark.errors import DecodeError
from seamark.spark.lake.errors import TOPIC
from seamark.spark.lake.fill.planning import before_of
from seamark.spark.lake.fill.tasks import FETCH_BYTES, Before, Damaged
from seamark.spark.lake.tables.lake import LakeError
from seamark.spark.lake.tables.manifest import Manifest
from seamark.wire.records.record_batch import HEADER_BYTES, LENGTH_POSITION

if TYPE_CHECKING:
    from seamark.spark.lake.decode.decode import Records

_PARTITION = re.compile(rf"{TOPIC}-(\d+)(?:\..*)?", re.ASCII)
_SEGMENT = re.compile(r"\d{20}\.log", re.ASCII)
# A batch is at most as long as a 32-bit length; one beyond this was never written by a coordinator.
_MOST_BATCH_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class DirectoryTask:
    """The segments of one partition, in the order of their offsets."""

    partition: int
    before: Before
    segments: tuple[str, ...]

    @property
    def stretch(self) -> tuple[int, int]:
        """From the first segment's offset; the end is what the records say."""
        return int(Path(self.segments[0]).stem), 0

    def records(self) -> Iterator[Records | Damaged]:
        start = self.before.covered.end if self.before.covered else 0
        at = max(start, self.stretch[0])
        damaged: list[Damaged] = []
        for place, path in enumerate(self.segments):
            is_last = place == len(self.segments) - 1
            if not is_last and int(Path(self.segments[place + 1]).stem) <= start:
                continue
            for piece in read_segment(path, start):
                if isinstance(piece, Damaged):
                    damaged.append(piece)
                    continue
                records, end = piece
                if end > start:
                    yield from (batch._replace(offset=at) for batch in damaged)
                    if records is not None:
                        yield records
                    at = end
                damaged.clear()


def directory_tasks(directory: Path, published: Manifest) -> list[DirectoryTask]:
    """A task per partition of the offsets topic that is found in the directory or is the directory."""
    if not directory.is_dir():
        raise LakeError(f"{directory} is not a directory with copied logs of {TOPIC}")
    paths: dict[int, Path] = {}
    for path in [directory, *sorted(directory.glob(f"{TOPIC}-*")), *sorted(directory.glob(f"*/{TOPIC}-*"))]:
        match = _PARTITION.fullmatch(path.name)
        if match and path.is_dir():
            number = int(match[1])
            if number in paths:
                raise LakeError(f"{paths[number]} and {path} both contain partition {number} of {TOPIC}: keep only one")
            paths[number] = path
    if not paths:
        raise LakeError(f"{directory} contains no logs of {TOPIC}: no directory such as {TOPIC}-0")
    tasks = []
    for number, path in sorted(paths.items()):
        segments = tuple(str(file) for file in sorted(path.iterdir()) if _SEGMENT.fullmatch(file.name))
        if segments:
            tasks.append(DirectoryTask(number, before_of(published, number), segments))
    return tasks


def read_segment(path: str, start: int) -> Iterator[tuple[Records | None, int] | Damaged]:
    """What a segment holds at or beyond an offset: records with the offset behind them, and what is damaged."""
    name = Path(path).name
    with Path(path).open("rb") as file:
        rest = b""
        while chunk := file.read(FETCH_BYTES):
            buffer = rest + chunk
            end = _whole(buffer)
            if end:
                yield from _decoded(buffer[:end], start)
            rest = buffer[end:]
            if len(rest) >= HEADER_BYTES and not HEADER_BYTES <= _size(rest, 0) <= _MOST_BATCH_BYTES:
                yield Damaged(0, rest, f"the rest of {name} cannot be read: a batch has no valid length")
                return
    if rest:
        yield Damaged(0, rest, f"{name} ends {len(rest)} bytes into a batch")


def _decoded(batches: bytes, start: int) -> Iterator[tuple[Records | None, int] | Damaged]:
    """Rows in parts that memory is allowed for: a few bytes of a batch can unfold to many."""
    end, at = end_of(batches, 0)[0], start
    while at < end:
        try:
            records, at = _part(batches, at)
        except DecodeError:
            yield from _one_by_one(batches, at)
            return
        yield records, at
    if start >= end:
        yield None, end


def _part(batches: bytes, start: int) -> tuple[Records | None, int]:
    from seamark.spark.lake.decode.decode import Records
    from seamark.wire.columns.columns import decode_columns

    limits = ReadLimits()
    decoded = decode_columns(
        batches,
        start=start,
        timestamp_unit="us",
        max_batch_bytes=limits.batch_bytes,
        max_headers=limits.record_headers,
        stop_bytes=limits.poll_bytes,
        stop_rows=MOST_ROWS,
    )
    assert decoded.next_offset is not None
    return Records.of(decoded.batch) if decoded.row_count else None, decoded.next_offset


def _one_by_one(batches: bytes, start: int) -> Iterator[tuple[Records | None, int] | Damaged]:
    """Batches of which at least one is damaged."""
    at = 0
    while at < len(batches):
        size = _size(batches, at)
        batch = batches[at : at + size]
        try:
            offset, end = start, end_of(batch, 0)[0]
            while offset < end:
                records, offset = _part(batch, offset)
                yield records, offset
        except DecodeError as error:
            yield Damaged(0, batch, str(error))
        at += size


def _whole(buffer: bytes) -> int:
    """Where the whole batches end."""
    at = 0
    while len(buffer) - at >= HEADER_BYTES:
        size = _size(buffer, at)
        if size < HEADER_BYTES or size > _MOST_BATCH_BYTES or at + size > len(buffer):
            break
        at += size
    return at


def _size(buffer: bytes, at: int) -> int:
    length_at = at + LENGTH_POSITION
    return LENGTH_POSITION + 4 + int.from_bytes(buffer[length_at : length_at + 4], "big", signed=True)
