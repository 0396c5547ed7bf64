"""What is known of a group's past: its commits in the order they were stored, looks at its logs, its generations.

Kafka compacts its offsets topic, so a history may have holes. ``is_complete`` of a commit says that the commit before
it in the list is the one that was stored before it; a rule that compares the two asks for it, and none goes across a
hole. Looks at the logs are samples: between two of them a log's end lies between theirs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

Origin = Literal["member", "outside"]


class Commit(NamedTuple):
    """``origin`` is None where it could not be inferred; ``done_ahead`` counts records done beyond the offset."""

    at_ms: int
    offset: int
    origin: Origin | None = None
    metadata_size: int = 0
    done_ahead: int = 0
    expire_ms: int = -1
    is_complete: bool = True


class Deletion(NamedTuple):
    """The stored offset was taken away; ``is_complete`` as of a commit."""

    at_ms: int
    is_complete: bool = True


class LogSample(NamedTuple):
    at_ms: int
    log_start: int
    log_end: int


class Generation(NamedTuple):
    """A generation began; ``assigned`` has what its members were given."""

    at_ms: int
    number: int
    members: int
    assigned: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """``commits`` in the order they were stored, ``samples`` in the order of time, up to ``now_ms``."""

    group: str
    topic: str
    partition: int
    now_ms: int
    commits: Sequence[Commit] = ()
    deletions: Sequence[Deletion] = ()
    samples: Sequence[LogSample] = ()

    def pairs(self) -> Iterator[tuple[Commit, Commit]]:
        """Commits that certainly follow each other, with no deletion between them."""
        for _, before, after in self.steps():
            yield before, after

    def steps(self) -> Iterator[tuple[int, Commit, Commit]]:
        """As ``pairs``, with the second one's place in ``commits``."""
        gone = sorted(deletion.at_ms for deletion in self.deletions)
        for place, (before, after) in enumerate(pairwise(self.commits), 1):
            is_deleted = bisect_left(gone, before.at_ms) < bisect_right(gone, after.at_ms)
            if after.is_complete and not is_deleted:
                yield place, before, after

    def unread_since(self, offset: int, from_ms: int, until_ms: int) -> int | None:
        """When it was first seen, in this stretch, that there was a record at or beyond ``offset``."""
        for sample in self.samples[bisect_left(self.samples, from_ms, key=lambda sample: sample.at_ms) :]:
            if sample.at_ms > until_ms:
                return None
            if sample.log_end > max(offset, sample.log_start):
                return sample.at_ms
        return None

    def sample_before(self, at_ms: int) -> LogSample | None:
        index = bisect_right(self.samples, at_ms, key=lambda sample: sample.at_ms)
        return self.samples[index - 1] if index else None

    def sample_after(self, at_ms: int) -> LogSample | None:
        index = bisect_left(self.samples, at_ms, key=lambda sample: sample.at_ms)
        return self.samples[index] if index < len(self.samples) else None


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """A group up to ``now_ms``, the time of the last look."""

    group: str
    now_ms: int
    partitions: Sequence[PartitionHistory] = ()
    generations: Sequence[Generation] = field(default_factory=tuple)
