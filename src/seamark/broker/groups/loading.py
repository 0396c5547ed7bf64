"""Reading offsets partitions into the coordinator, a little at a time so that clients are served meanwhile (F13 to
F15).

Loads run one after another on the event loop. A load collects the last value of each key over the whole log, replays
what is left and makes the groups live; all in steps, and a turn of the loop takes steps for a few milliseconds only. A
held partition stays in its place as one that is being loaded. Damage in the log ends the reading there: what stands
before it is served, as recovery would have it. A batch that is whole and holds no readable records is left out, and
told.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from seamark.coordinator.storing.records import Record
from seamark.coordinator.storing.stored import LastValues, SkippedRecords
from seamark.errors import DecodeError, SeamarkError
from seamark.readable_log import readable_logger
from seamark.wire.records import MAX_HEADERS_PER_RECORD, RecordSlices
from seamark.wire.records.record_batch import read_header, read_outline

if TYPE_CHECKING:
    from seamark.broker.log.partition import Partition
    from seamark.storage.log import Log
    from seamark.wire.records import Record as LogRecord

_log = readable_logger("seamark.broker.groups")

# How long a turn of the event loop may be kept by loading.
_TURN_SECONDS = 0.004
_RECORDS_PER_STEP = 200

Seconds = Callable[[], float]
# Both are told the partition; the second how many groups to make live, and it answers whether there may be more.
Replay = Callable[[int, list[Record]], None]
Revive = Callable[[int, int], bool]


def read_batches(
    log: Log, buffer_bytes: int, unreadable: Callable[[int, DecodeError], None]
) -> Iterator[Iterable[LogRecord]]:
    """The records of the log, batch by batch; ``unreadable`` is told of a batch that is whole and cannot be read.

    While a long batch is read there come empty ones.
    """
    offset = log.log_start
    while offset < log.log_end:
        slice_ = log.read(offset, buffer_bytes)
        if not slice_:
            return
        position = 0
        while position < len(slice_):
            outline = read_outline(slice_, position)
            records: list[LogRecord] = []
            try:
                if not outline.is_control:
                    # The log has checked the batch on its way here.
                    batch = RecordSlices(slice_, position, read_header(slice_, position), verify=False)
                    while batch.left:
                        records += batch.read(_RECORDS_PER_STEP, MAX_HEADERS_PER_RECORD)
                        if batch.left:
                            yield ()
            except DecodeError as error:
                records = []
                unreadable(outline.base_offset, error)
            yield records
            offset = max(offset, outline.next_offset)
            position += outline.size_bytes


def _told_before(_offset: int, _error: DecodeError) -> None:
    """A batch that cannot be read is told when the log is read for the first time."""


class Load:
    """One partition on its way into the coordinator."""

    def __init__(self, source: Partition, buffer_bytes: int, started: float = 0.0) -> None:
        self.partition = source.index
        self.is_held = False
        self._source = source
        self._buffer_bytes = buffer_bytes
        self.started = started

    def steps(self, replay: Replay, revive: Revive) -> Generator[None]:
        values = LastValues()
        try:
            # A partition that was never written to has no log, and reading must not make one.
            if self._source.is_open:
                for batch in read_batches(self._source.log, self._buffer_bytes, self._leave_out):
                    values.add(batch)
                    yield
        except SeamarkError as error:
            _log.error(
                "__consumer_offsets-%d is loaded only up to its first unreadable batch: %s", self.partition, error
            )
        records = values.take()
        while chunk := list(islice(records, _RECORDS_PER_STEP)):
            replay(self.partition, chunk)
            yield
        while revive(self.partition, _RECORDS_PER_STEP):
            yield
        if values.skipped.count:
            yield from self._tell(values.skipped)

    def _leave_out(self, offset: int, error: DecodeError) -> None:
        where = self.partition, offset
        _log.error("__consumer_offsets-%d: the batch at offset %d cannot be read and is skipped: %s", *where, error)

    def _tell(self, skipped: SkippedRecords) -> Generator[None]:
        """One line about all records that were skipped; to say where one is, the log is read again up to there."""
        offset = None
        try:
            for batch in read_batches(self._source.log, self._buffer_bytes, _told_before):
                offset = next((each.offset for each in batch if skipped.has(each.key, each.value)), None)
                if offset is not None:
                    break
                yield
        except SeamarkError:
            # That the log is damaged there was said when it was read for the first time.
            pass
        where = "" if offset is None else f"; the first is at offset {offset}"
        _log.warning("__consumer_offsets-%d: %s%s", self.partition, skipped, where)


class LoadQueue:
    """Owned by the event loop's thread. ``loaded(partition, seconds)`` is called when a load is complete."""

    def __init__(
        self,
        replay: Replay,
        revive: Revive,
        loaded: Callable[[int, float], None],
        call_soon: Callable[[Callable[[], None]], object],
        seconds: Seconds = time.monotonic,
    ) -> None:
        self._replay = replay
        self._revive = revive
        self._loaded = loaded
        self._call_soon = call_soon
        self._seconds = seconds
        self._waiting: deque[Load] = deque()
        self._held: dict[int, Load] = {}
        self._current: tuple[Load, Generator[None]] | None = None
        self._is_scheduled = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being loaded, held partitions apart."""
        return self._current is None and not self._waiting

    def add(self, load: Load) -> None:
        if load.is_held:
            self._held[load.partition] = load
        else:
            self._waiting.append(load)
            self._schedule()

    def release(self, partition: int) -> None:
        """Let a held partition be loaded."""
        load = self._held.pop(partition, None)
        if load is not None:
            load.is_held = False
            self.add(load)

    def drop(self, partition: int) -> None:
        """The partition is no longer ours."""
        self._held.pop(partition, None)
        self._waiting = deque(load for load in self._waiting if load.partition != partition)
        if self._current is not None and self._current[0].partition == partition:
            self._current[1].close()
            self._current = None

    def run_to_end(self) -> None:
        """Load everything that waits, without letting the loop run."""
        while self._turn(float("inf")):
            pass

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        if self._turn(self._seconds() + _TURN_SECONDS):
            self._schedule()

    def _turn(self, deadline: float) -> bool:
        """Take steps until the deadline; the answer is whether there is more to do."""
        while not self.is_idle:
            if self._current is None:
                load = self._waiting.popleft()
                self._current = (load, load.steps(self._replay, self._revive))
            load, steps = self._current
            for _ in steps:
                if self._seconds() >= deadline:
                    return True
            self._current = None
            self._loaded(load.partition, self._seconds() - load.started)
        return False
