"""Reading dead-letter topics from one end to the other, and what there is to say about a letter.

A read ends at the offsets that the log had when it began, so that it ends. Records that were not written by a parallel
consumer are letters without provenance: they are shown and counted, and never put back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from seamark.cli.records.unreadable_batches import UnreadableBatches
from seamark.errors import SeamarkError
from seamark.parallel.core.dead_letters import Provenance, decode, own_headers
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.client import Consumer, Record

SUFFIX = ".dead-letters"
# So long without a record a read waits before it is given up.
_IDLE_S = 15.0
_YEAR_10000_MS = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead-letter topic; ``provenance`` is None if it does not say where it came from."""

    record: Record
    provenance: Provenance | None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.record.topic, self.record.partition)


class ReadStopped(SeamarkError):
    """The cluster stopped answering in the middle of a topic."""


def open_reader(config: Mapping[str, str], group: str = "") -> Consumer:
    from seamark.client import Consumer

    extra = {"group.id": group} if group else {}
    return Consumer(
        {
            **config,
            **extra,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
        }
    )


def partitions_of(reader: Consumer, topic: str) -> tuple[TopicPartition, ...]:
    partitions = reader.partitions_for(topic)
    if not partitions:
        raise SeamarkError(f"there is no topic {topic!r}")
    return partitions


def letters(
    reader: Consumer,
    starts: Mapping[TopicPartition, int],
    on_unreadable: Callable[[TopicPartition, int], None] = lambda _partition, _offset: None,
) -> Iterator[Letter]:
    """Everything from ``starts`` to where the log ends now, partition by partition as it comes.

    Batches that cannot be read are told on standard error and to ``on_unreadable``, and skipped.
    """
    from seamark.client.errors import CorruptRecords

    firsts = reader.beginning_offsets(starts)
    ends = reader.end_offsets(starts)
    positions = {partition: max(start, firsts[partition]) for partition, start in starts.items()}
    left = {partition for partition, position in positions.items() if position < ends[partition]}
    if not left:
        return
    reader.assign(sorted(left))
    for partition in left:
        reader.seek(partition, positions[partition])
    deadline = time.monotonic() + _IDLE_S
    unreadable = UnreadableBatches()
    while left:
        try:
            records = reader.poll(timeout=0.2)
        except CorruptRecords as error:
            on_unreadable(error.partition, error.offset)
            unreadable.skip(reader, error)
            deadline = time.monotonic() + _IDLE_S
            records = []
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            if record.offset < ends[place]:
                yield Letter(record, decode(record.headers))
        if records:
            deadline = time.monotonic() + _IDLE_S
        done = {partition for partition in left if reader.position(partition) >= ends[partition]}
        left -= done
        reader.pause(done)
        if time.monotonic() > deadline:
            raise ReadStopped(f"nothing was received from {min(left)} for {_IDLE_S:.0f} s")
    unreadable.tell()


def text_of(content: bytes | None) -> str | None:
    """Bytes as text, or in hexadecimal digits with a mark before them."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


def time_of(timestamp_ms: int | None) -> str | None:
    """A record's time, as its producer said it: milliseconds where no calendar has it."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    if timestamp_ms >= _YEAR_10000_MS:
        return f"{timestamp_ms} ms since 1970"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def described(letter: Letter) -> dict[str, Any]:
    """All of a letter, for JSON and for the screen."""
    record, provenance = letter.record, letter.provenance
    description: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "written_at": time_of(record.timestamp_ms),
    }
    if provenance is not None:
        description |= {
            "source_topic": provenance.source.topic,
            "source_partition": provenance.source.partition,
            "source_offset": provenance.offset,
            "source_written_at": time_of(provenance.timestamp_ms),
            "group": provenance.group,
            "attempts": provenance.attempts,
            "failed_at": time_of(provenance.failed_at_ms),
            "replays": provenance.replays,
            "error_type": provenance.error_type,
            "error": provenance.error,
            "stack": provenance.stack,
        }
    description |= {
        "headers": [[name, text_of(content)] for name, content in own_headers(record.headers)],
        "key": text_of(record.key),
        "value": text_of(record.value),
    }
    return description
