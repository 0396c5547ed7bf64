"""Where a reader stands among the records of one batch, and what it makes of each of them.

A reader takes records and moves the cursor behind them, or takes none and leaves it where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from seamark.wire.records.record_batch import BatchHeader

# A header is two bytes in a batch and a hundred as objects, and empty ones compress to nothing. No producer of messages
# writes as many to one record as the first, nor to all records of a batch as the second.
MAX_HEADERS_PER_RECORD = 10_000
MAX_HEADERS_PER_BATCH = 1 << 20

FrozenHeaders = tuple[tuple[str, bytes | None], ...]

R = TypeVar("R")
# Makes a record of topic, partition, offset, key, value, headers, timestamp, timestamp type and leader epoch.
MakeRecord = Callable[[str, int, int, bytes | None, bytes | None, FrozenHeaders, int, int, int], R]


class RecordCursor:
    """``content`` holds the records unfolded; those from ``position`` to ``end``, ``left`` in number, are yet to be
    read. ``last_delta`` is the offset delta of the last one that was read, -1 before the first; ``header_count`` is
    the number of headers read so far.
    """

    __slots__ = ("content", "end", "header", "header_count", "last_delta", "left", "max_headers", "position")

    content: bytes
    end: int
    header: BatchHeader
    header_count: int
    last_delta: int
    left: int
    max_headers: int
    position: int
