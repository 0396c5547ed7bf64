"""Batches that cannot be read, for commands that read records: what to do about one, or going on without them.

Each stretch of a log that is skipped is told once where it begins, with the cause, and once more at the end with the
offsets: a log full of such batches must not fill the screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.cli.show.terminal_text import say
from seamark.counts import some_of
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from seamark.client import Consumer, TopicPartition
    from seamark.client.errors import CorruptRecords


class UnreadableBatches:
    """What was skipped, by partition."""

    def __init__(self) -> None:
        # First offset and the one behind the last, of each stretch.
        self._skipped: dict[TopicPartition, list[tuple[int, int]]] = {}

    def skip(self, consumer: Consumer, error: CorruptRecords) -> int:
        """Place the consumer behind the batch; gives the offset where it goes on."""
        behind = _behind(error)
        stretches = self._skipped.setdefault(error.partition, [])
        if stretches and stretches[-1][1] == error.offset:
            stretches[-1] = stretches[-1][0], behind
        else:
            stretches.append((error.offset, behind))
            say(f"seamark: {error.partition} is skipped from offset {error.offset} on: {error.reason}")
        consumer.seek(error.partition, behind)
        return behind

    def tell(self) -> None:
        """Say at the end what was not read; nothing if all was."""
        stretches = [
            f"{partition} at offset {first}"
            if behind == first + 1
            else f"{partition} from offset {first} to {behind - 1}"
            for partition, ranges in sorted(self._skipped.items())
            for first, behind in ranges
        ]
        if stretches:
            say(f"seamark: skipped because they cannot be read: {some_of(stretches)}")


def stopped_by(error: CorruptRecords, option: str) -> SeamarkError:
    """The error for a command that stops at the batch, with the options that let it go on."""
    from seamark.client.errors import RecordsTooLarge

    remedy = f"Use {option} to skip them"
    if isinstance(error, RecordsTooLarge):
        remedy += f", or -o {error.setting}=N with a larger N to read them"
    return SeamarkError(
        f"the records of {error.partition} at offset {error.offset} cannot be read: {error.reason}. {remedy}"
    )


def _behind(error: CorruptRecords) -> int:
    from seamark.client.errors import RecordsTooLarge

    # What a damaged batch says about its own end cannot be trusted, so one offset is tried after the other.
    return error.next_offset if isinstance(error, RecordsTooLarge) else error.offset + 1
