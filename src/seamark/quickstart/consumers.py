"""The parallel consumers of the story: one that is well, one with a record it cannot process, one that is rewound.

Each counts what its handler did. Waiting for one of them is bounded by what it gets done: as long as records are
processed there is no deadline, without any for a while the error says how far it got.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from seamark.client import Record
from seamark.counts import counted, number_text
from seamark.errors import SeamarkError
from seamark.parallel import Commit, ParallelConsumer, Park, Retry
from seamark.quickstart.orders import weight_of
from seamark.quickstart.processed import Processed

THREADS = 64
# A handler that asks somebody else waits; while it does, others run. Orders of one customer wait for each other.
_CALL_S = 0.0002
_PATIENCE_S = 45.0
_LOOK_S = 0.1
_COMMIT = Commit(interval=0.5)


def careful(config: Mapping[str, Any], group: str, topic: str, processed: Processed) -> ParallelConsumer:
    """Processes everything."""

    def handle(record: Record) -> None:
        time.sleep(_CALL_S)
        processed.add(record)

    return ParallelConsumer(_config(config, group), [topic], handle, concurrency=THREADS, commit=_COMMIT)


def poisoned(config: Mapping[str, Any], group: str, topic: str, processed: Processed) -> ParallelConsumer:
    """Meets a record that fails each time, parks it and goes on with other customers."""

    def handle(record: Record) -> None:
        time.sleep(_CALL_S)
        weight_of(record.value)
        processed.add(record)

    return ParallelConsumer(
        _config(config, group),
        [topic],
        handle,
        concurrency=THREADS,
        retry=Retry(attempts=3, delay=0.1),
        then=Park(),
        commit=_COMMIT,
    )


def _config(config: Mapping[str, Any], group: str) -> dict[str, Any]:
    return {**config, "group.id": group, "auto.offset.reset": "earliest"}


def is_blocked(consumer: ParallelConsumer) -> bool:
    """Whether it has met a record that it cannot process, and has committed up to it."""
    status = consumer.status()
    ours = status.partitions
    return any(
        record.partition in ours and ours[record.partition].committed == record.offset for record in status.parked
    )


def wait_until(
    consumer: ParallelConsumer, group: str, count: Callable[[], int], wanted: int, reached: Callable[[int], None]
) -> None:
    """Return when ``count`` is ``wanted``; SeamarkError if the consumer ends or gets nothing done for long."""
    last, since = -1, time.monotonic()
    while (now := count()) < wanted:
        reached(now)
        # Raises if the consumer has ended by itself.
        if consumer.wait(_LOOK_S) is not None:
            raise SeamarkError(f"group {group!r} ended early, after {number_text(now)} of {counted(wanted, 'record')}")
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_S:
            raise SeamarkError(
                f"group {group!r} has processed {number_text(now)} of {counted(wanted, 'record')} "
                f"and made no progress for {_PATIENCE_S:.0f} s"
            )
    reached(now)
