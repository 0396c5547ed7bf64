"""A partition's log: append, read by offset and by time, sync, and the moves of its start.

The log has one owner: no call may run while another does, and time is what the caller says it is. Offsets go up by
one per record and are never given twice. A batch on disk is byte for byte what a Kafka broker would have written.

A write that fails is undone before its error leaves. One that cannot be undone, or a sync that failed, stops all
writes until the log is opened again: what the disk holds is then unknown, and a later sync that succeeds would not
make it known. Reads go on in every case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

from seamark.errors import ClosedError, SeamarkError
from seamark.readable_log import readable_logger
from seamark.storage import retention
from seamark.storage.admission import admit
from seamark.storage.aside import Pauses, at_once
from seamark.storage.compaction import compaction
from seamark.storage.compaction.compaction import Cleaning
from seamark.storage.errors import CorruptBatch, OffsetOutOfRange, StorageFailed, TooManyOpenFiles, WritesStopped
from seamark.storage.files.filesystem import Filesystem
from seamark.storage.files.names import CLEANING_FILE, LOG_START_FILE
from seamark.storage.files.open_files import OpenFiles
from seamark.storage.recovery.checkpoint import write_checkpoint
from seamark.storage.recovery.clean_shutdown import mark_clean, unmark_clean
from seamark.storage.recovery.recovery import Recovered, recover, remove_log
from seamark.storage.segments.segment import Segment
from seamark.storage.segments.segments import Segments, remove_files
from seamark.storage.settings import Durability, LogSettings
from seamark.storage.sync import PendingSync
from seamark.wire.records.record_batch import INT32_MAX, Buffer

logger = readable_logger("seamark.storage")


class AppendResult(NamedTuple):
    """``log_append_time_ms`` is -1 where records keep their producers' timestamps."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int


class Log:
    """Open one with ``Log.open``; ``close`` it so that the next opening need not look at every byte.

    >>> from seamark.storage.files.memory import MemoryFilesystem
    >>> from seamark.wire.records import Record, encode_batch, decode_batch
    >>> log = Log.open(MemoryFilesystem(), "orders-0", now_ms=0)
    >>> log.append(encode_batch([Record(0, 5, value=b"a"), Record(1, 6, value=b"b")]), now_ms=7, leader_epoch=0)
    AppendResult(base_offset=0, last_offset=1, log_append_time_ms=-1)
    >>> [record.value for record in decode_batch(log.read(1, 1 << 20))]
    [b'a', b'b']
    """

    def __init__(
        self, filesystem: Filesystem, directory: str, settings: LogSettings, recovered: Recovered, open_files: OpenFiles
    ) -> None:
        self._filesystem = filesystem
        self._open_files = open_files
        self.directory = directory
        self.settings = settings
        self._segments = Segments(recovered.segments)
        self._log_start = recovered.log_start
        self._log_end = self._durable_end = self._segments.active.next_offset
        self._cleaning = recovered.cleaning
        # Sealed segments whose bytes are not synced yet, oldest first.
        self._unsynced: dict[Segment, None] = {}
        # How often the directory's names changed, and how many of the changes a sync made durable.
        self._name_changes = self._durable_name_changes = 0
        self._may_be_marked_clean = True
        self._is_damaged = False
        self._is_compacting = False
        self._is_closed = False
        self._stopped: str | None = None

    @classmethod
    def open(
        cls,
        filesystem: Filesystem,
        directory: str,
        settings: LogSettings | None = None,
        *,
        now_ms: int,
        open_files: OpenFiles | None = None,
    ) -> Log:
        """Open a log, made new where there is none; what a crash or damage left is put right first.

        All logs that share ``open_files`` keep together no more files open than it allows; None sets no limit.
        Raises ``UnknownFormat`` for a directory of another format and ``StorageFailed`` where the disk does not answer.
        """
        settings = settings or LogSettings()
        open_files = OpenFiles() if open_files is None else open_files
        recovered = recover(filesystem, directory, settings, now_ms, open_files)
        return cls(filesystem, directory, settings, recovered, open_files)

    @property
    def log_start(self) -> int:
        """The first offset that may be read."""
        return self._log_start

    @property
    def log_end(self) -> int:
        """The next offset to be written."""
        return self._log_end

    @property
    def durable_end(self) -> int:
        """Everything below survives a crash of the machine."""
        return self._durable_end

    @property
    def acknowledged_end(self) -> int:
        """Replies may leave for everything below, by the log's durability."""
        return self._durable_end if self.settings.durability is Durability.COMMIT else self._log_end

    @property
    def size(self) -> int:
        """The bytes in all segments."""
        return self._segments.size

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last one is written to."""
        return tuple(self._segments)

    @property
    def writes_stopped(self) -> str | None:
        """Why the log takes no more writes until it is opened again, or None."""
        return self._stopped

    # -- append

    def append(
        self, batches: Buffer, now_ms: int, leader_epoch: int, *, in_place: bool = False, is_crc_checked: bool = False
    ) -> AppendResult:
        """Write one or more whole batches under the next offsets; ``in_place`` gives them away to be changed.

        Raises ``DecodeError`` for bytes that are not sound batches, ``DiskFull`` and ``StorageFailed`` when the disk
        refuses, ``WritesStopped`` after a failure that left its content unknown. In each case nothing was appended.
        """
        self._check_writable()
        append_time_ms = now_ms if self.settings.log_append_time else None
        base_offset = self._log_end
        content, next_offset, largest_ms, largest_at = admit(
            batches, base_offset, leader_epoch, append_time_ms, in_place=in_place, is_crc_checked=is_crc_checked
        )
        self._write(content, next_offset, largest_ms, largest_at, now_ms)
        return AppendResult(base_offset, next_offset - 1, -1 if append_time_ms is None else append_time_ms)

    def append_prebuilt(self, batch: bytes, next_offset: int, max_timestamp_ms: int, now_ms: int) -> None:
        """Write one batch that the caller has just made, under ``log_end`` and with its leader epoch.

        It is not looked at again: the caller vouches for it, up to the ``next_offset`` behind it. Not for a log that
        has the broker's timestamps. Raises what ``append`` raises for the disk.
        """
        if self._stopped is not None or self._is_closed:
            raise self._refusal()
        self._write(batch, next_offset, max_timestamp_ms, self._log_end, now_ms)

    def _write(self, content: Buffer, next_offset: int, largest_ms: int, largest_at: int, now_ms: int) -> None:
        settings = self.settings
        active = self._segments.active
        if active.size and (
            active.size + len(content) > settings.segment_bytes
            or now_ms - active.started_ms >= settings.segment_ms
            or next_offset - 1 - active.base_offset > INT32_MAX
        ):
            active = self.roll(now_ms)
        if self._may_be_marked_clean:
            self._may_be_marked_clean = False
            unmark_clean(self._filesystem, self.directory, self._segments)
        try:
            active.append(content, next_offset, largest_ms, largest_at, settings.index_interval_bytes)
        except StorageFailed as error:
            self._undo_append(active, error)
            raise
        if active.size == len(content):
            active.started_ms = now_ms
        active.last_append_ms = now_ms
        self._log_end = next_offset

    def _undo_append(self, active: Segment, error: StorageFailed) -> None:
        if active.file is None:
            # It could not be opened again, so nothing was written.
            if not isinstance(error, TooManyOpenFiles):
                self.stop_writes(f"the segment could not be opened again ({error})")
            return
        try:
            active.file.truncate(active.size)
        except StorageFailed as second:
            self.stop_writes(f"a failed write ({error}) could not be undone ({second})")

    def roll(self, now_ms: int) -> Segment:
        """Seal the segment that is written to and begin another at the log's end; an empty one stays."""
        active = self._segments.active
        if active.size == 0:
            return active
        self._check_writable()
        created = Segment.create(self._filesystem, self.directory, self._log_end, now_ms, self._open_files)
        self._unsynced[active] = None
        self._segments.add(created)
        self._name_changes += 1
        return created

    # -- durability

    def sync(self) -> None:
        """Make everything appended so far durable; ``durable_end`` is then ``log_end``.

        Raises ``StorageFailed``, after which the log takes no more writes unless too many files were open.
        """
        pending = self.begin_sync()
        if pending is None:
            return
        try:
            pending.run()
        except StorageFailed as error:
            self.finish_sync(pending, error)
            raise
        self.finish_sync(pending)

    def begin_sync(self) -> PendingSync | None:
        """Return what a sync has to do, or None when all is durable.

        Its ``run`` may be called on another thread while the owner goes on; then the owner calls ``finish_sync``.
        """
        self._check_writable()
        has_new_names = self._name_changes != self._durable_name_changes
        if self._durable_end == self._log_end and not self._unsynced and not has_new_names:
            return None
        sealed = tuple(self._unsynced)
        calls = [segment.detached_sync() for segment in (*sealed, self._segments.active)]
        directory = self.directory if has_new_names else None
        return PendingSync(self, self._filesystem, directory, calls, sealed, self._log_end, self._name_changes)

    def finish_sync(self, pending: PendingSync, error: StorageFailed | None = None) -> None:
        """Take note that ``pending`` has run, or with what error; one that lacked a descriptor is left to the next."""
        if pending.owner is not self or isinstance(error, TooManyOpenFiles):
            return
        if error is not None:
            self.stop_writes(f"a sync failed ({error})")
        if self._stopped is not None or self._is_closed:
            return
        self._durable_end = max(self._durable_end, pending.end_offset)
        self._durable_name_changes = max(self._durable_name_changes, pending.name_changes)
        for segment in pending.sealed:
            if segment in self._unsynced:
                del self._unsynced[segment]
                self._write_index(segment)
                segment.release()

    def _write_index(self, segment: Segment, *, durable: bool = False) -> None:
        try:
            segment.write_index(durable=durable)
        except StorageFailed as error:
            logger.warning("%s: no index was written (%s); it will be rebuilt from the segment", segment.path, error)

    # -- read

    def read(self, offset: int, max_bytes: int, *, end_offset: int | None = None) -> bytes:
        """Return whole batches from the one with ``offset`` on, as stored: it may start with smaller offsets.

        At least one batch is returned, even if it is larger than ``max_bytes``, unless ``offset`` is at the end.
        Batches from ``end_offset`` on are left out. The answer may end before ``max_bytes`` where a segment does.

        Raises ``OffsetOutOfRange``, and ``CorruptBatch`` for bytes that are not those that were written.
        """
        return bytes(self.read_view(offset, max_bytes, end_offset=end_offset))

    def read_view(self, offset: int, max_bytes: int, *, end_offset: int | None = None) -> bytes | memoryview:
        """As ``read``, for those who only pass the bytes on: they are not copied once more."""
        if self._is_closed:
            raise self._refusal()
        if not self._log_start <= offset <= self._log_end:
            raise OffsetOutOfRange(self.directory, offset, self._log_start, self._log_end)
        try:
            return self._segments.read(
                offset, max_bytes, self._log_end if end_offset is None else min(end_offset, self._log_end)
            )
        except CorruptBatch as error:
            self._note_damage(error)
            raise

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record whose timestamp is ``timestamp_ms`` or later."""
        return at_once(self.timestamp_steps(timestamp_ms))

    def max_timestamp(self) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record that has the largest timestamp."""
        return at_once(self.timestamp_steps(None))

    def timestamp_steps(self, timestamp_ms: int | None) -> Pauses[tuple[int, int] | None]:
        """Do what ``offset_for_timestamp`` does, or ``max_timestamp`` for None, in steps; other calls may come in
        between.
        """
        for is_last in (False, False, True):
            changes = self._name_changes
            try:
                with self._noting_damage():
                    if timestamp_ms is None:
                        place = yield from self._segments.find_max_timestamp(self._log_start)
                    else:
                        place = yield from self._segments.find_timestamp(timestamp_ms, self._log_start)
            except StorageFailed:
                if is_last or changes == self._name_changes:
                    raise
                # Segments have gone or were replaced meanwhile: with those there are now.
                continue
            if is_last or changes == self._name_changes:
                return place
        raise AssertionError("the last round returns or raises")

    # -- the start of the log

    def delete_records_before(self, offset: int) -> int:
        """Move the log's start up to ``offset``, durably, and return it; the bytes go at the next ``retain``."""
        self._check_writable()
        if not 0 <= offset <= self._log_end:
            raise OffsetOutOfRange(self.directory, offset, self._log_start, self._log_end)
        if offset > self._log_start:
            write_checkpoint(self._filesystem, self.directory, LOG_START_FILE, {"log_start": offset})
            self._log_start = offset
        return self._log_start

    def retain(self, now_ms: int) -> int:
        """Let go of the segments that the settings no longer keep; return how many went.

        Nothing goes while a compaction is under way: it holds the segments it reads.
        """
        self._check_writable()
        if self._is_compacting:
            return 0
        count = retention.removable_count(self.segments, self.settings, now_ms, self._log_start)
        if count == len(self._segments):
            self.roll(now_ms)
        if count:
            # The start is durable before a file goes: a crash in between leaves no hole above it.
            self.delete_records_before(max(self._log_start, self._segments[count].base_offset))
            gone = self.segments[:count]
            self._replace(gone, [])
            self._name_changes += 1
            remove_files(self._filesystem, gone)
        return count

    def _replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        self._segments.replace(old, new)
        for segment in old:
            segment.retire()
            self._unsynced.pop(segment, None)

    # -- compaction

    def is_compaction_due(self, now_ms: int) -> bool:
        """Is enough of the log dirty, or is a tombstone past its grace time?"""
        return compaction.is_due(self._cleanable(now_ms), self._cleaning, self.settings, now_ms)

    def compact(self, now_ms: int) -> None:
        """Sync, and then keep only the last value per key in all sealed segments."""
        self.sync()
        for _ in self.compaction_steps(now_ms):
            pass

    def compaction_steps(self, now_ms: int) -> Pauses[None]:
        """Do what ``compact`` does, without its sync, in short steps; other calls may come in between.

        Only synced segments take part: a value must not give way to a newer one that a crash could still take. A
        generator that is closed early leaves the log as sound as one that ends. A second one beside it does nothing.
        It ends with the error of a log that was closed, or takes no more writes, as soon as that is so.
        """
        self._check_writable()
        work = compaction.plan(self._cleanable(now_ms), self._cleaning, self.settings, now_ms)
        if work is None or self._is_compacting:
            return
        self._is_compacting = True
        try:
            self._note_cleaning(self._cleaning._replace(compacted_below=max(self._cleaning.compacted_below, work.end)))
            with self._noting_damage(), closing(work.rewrites(self._filesystem, self.directory)) as rewrites:
                for step in rewrites:
                    # Once writes are stopped another log may have the files, and they are not ours to change.
                    self._check_writable()
                    if isinstance(step, compaction.Rewrite):
                        self._put_in_place(step)
                        yield None
                    else:
                        yield step
            self._check_writable()
            self._note_cleaning(Cleaning(self._cleaning.compacted_below, work.end, work.earliest_horizon_ms))
        finally:
            self._is_compacting = False

    def _cleanable(self, now_ms: int) -> list[Segment]:
        synced = [segment for segment in self._segments.sealed if segment not in self._unsynced]
        return compaction.cleanable(synced, self.settings, now_ms)

    def _note_cleaning(self, cleaning: Cleaning) -> None:
        write_checkpoint(self._filesystem, self.directory, CLEANING_FILE, cleaning._asdict())
        self._cleaning = cleaning

    def _put_in_place(self, rewrite: compaction.Rewrite) -> None:
        """Swap; from the rename on, recovery takes the old segments that are still there for leftovers."""
        try:
            segment = rewrite.put_in_place()
            # From here on the file's name means the new bytes, whatever fails next: reads must know.
            self._replace(rewrite.replaced, [segment])
            self._filesystem.sync_directory(self.directory)
        except StorageFailed as error:
            if isinstance(error, TooManyOpenFiles):
                # The old segments are all there, or the new one has its name, which the next sync makes durable.
                self._name_changes += 1
                rewrite.abandon()
            else:
                self.stop_writes(f"a compacted segment could not replace the old one ({error})")
            raise
        self._write_index(segment, durable=True)
        self._name_changes += 1
        remove_files(self._filesystem, rewrite.replaced[1:])

    # -- the end

    def close(self) -> None:
        """Sync, leave a mark that nothing is open, and let all files go; a second call does nothing.

        Raises ``StorageFailed`` when the sync fails or the mark cannot be left; the files are let go all the same.
        """
        if self._is_closed:
            return
        try:
            if self._stopped is None:
                self.sync()
                if not self._is_damaged:
                    self._segments.active.write_index()
                    mark_clean(self._filesystem, self.directory, self._segments)
        finally:
            self._is_closed = True
            for segment in self._segments:
                segment.release()

    def delete(self) -> None:
        """Remove the log and its directory; files that are not a log's stay, and their directory with them."""
        self._is_closed = True
        for segment in self._segments:
            segment.retire()
        remove_log(self._filesystem, self.directory)

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except CorruptBatch as error:
            self._note_damage(error)
            raise

    def _note_damage(self, error: CorruptBatch) -> None:
        """The next opening must look at everything and cut the log where it is damaged."""
        if not self._is_damaged:
            logger.error(
                "%s; everything before stays readable, and the log is truncated here when it is opened again", error
            )
        self._is_damaged = True
        unmark_clean(self._filesystem, self.directory, self._segments)

    def stop_writes(self, reason: str) -> None:
        """Take no more writes, because what the disk holds is not known."""
        self._stopped = reason
        logger.error("%s accepts no more writes until it is opened again: %s", self.directory, reason)

    def _check_writable(self) -> None:
        if self._stopped is not None or self._is_closed:
            raise self._refusal()

    def _refusal(self) -> SeamarkError:
        if self._is_closed:
            return ClosedError(f"{self.directory}: the log was closed")
        return WritesStopped(self.directory, None, f"no more writes until the log is opened again: {self._stopped}")
