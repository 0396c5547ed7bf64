"""The segments of a log in the order of their offsets, and the questions that are asked of all of them.

The row is never empty, and each segment begins where the one before it ends: offsets may be missing inside a segment,
after compaction, but never between two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from seamark.readable_log import readable_logger
from seamark.storage.aside import Pauses
from seamark.storage.errors import StorageFailed
from seamark.storage.files.filesystem import Filesystem, remove_if_there
from seamark.storage.segments.segment import Segment

logger = readable_logger("seamark.storage")


class Segments:
    """The last one is ``active``: it is written to. The others are sealed."""

    __slots__ = ("_bases", "_row", "active")

    def __init__(self, row: Sequence[Segment]) -> None:
        self._row = list(row)
        self._bases = [segment.base_offset for segment in row]
        self.active = row[-1]

    def __len__(self) -> int:
        return len(self._row)

    def __getitem__(self, number: int) -> Segment:
        return self._row[number]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._row)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._row)

    @property
    def sealed(self) -> list[Segment]:
        return self._row[:-1]

    def add(self, segment: Segment) -> None:
        """Go on with another segment; the one before is sealed from now on."""
        self._row.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put ``new`` where ``old``, some neighbours among the sealed ones, were."""
        first = self._row.index(old[0])
        last = first + len(old)
        self._row[first:last] = new
        self._bases[first:last] = [segment.base_offset for segment in new]

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes | memoryview:
        """Return whole batches of one segment, or nothing when there is no record from ``offset`` to ``end_offset``."""
        number = bisect_right(self._bases, offset) - 1
        while offset < end_offset:
            segment = self._row[number]
            content = segment.read(offset, max_bytes, end_offset)
            if content and not segment.is_end_mark(content):
                return content
            number += 1
            if number == len(self._row):
                break
            offset = self._bases[number]
        return b""

    def find_timestamp(self, timestamp_ms: int, from_offset: int) -> Pauses[tuple[int, int] | None]:
        """Return offset and timestamp of the first record from ``from_offset`` on that is not older."""
        for segment in list(self._row):
            place = yield from segment.find_timestamp(timestamp_ms, from_offset)
            if place is not None:
                return place
        return None

    def find_max_timestamp(self, from_offset: int) -> Pauses[tuple[int, int] | None]:
        """Return offset and timestamp of the first record from ``from_offset`` on with the largest timestamp."""
        best: tuple[int, int] | None = None
        for segment in list(self._row):
            if best is None or segment.max_timestamp_ms > best[1]:
                place = yield from segment.find_max_timestamp(from_offset)
                if place is not None and (best is None or place[1] > best[1]):
                    best = place
        return best


def remove_files(filesystem: Filesystem, segments: Sequence[Segment]) -> None:
    """Remove what lies on disk of segments that are no longer part of a log."""
    for segment in segments:
        try:
            remove_if_there(filesystem, segment.index_path)
            remove_if_there(filesystem, segment.path)
        except StorageFailed as error:
            logger.warning("%s: not removed (%s); retried when the log is opened again", segment.path, error)
