"""The opening of a log's directory: what is there is checked, put right where it must be, and every cut is said aloud.

Rules, in this order:

- A rewrite or checkpoint that was not finished is thrown away. A segment whose offsets another one covers is a
  leftover of a finished compaction and goes. Segments wholly below the log's start are leftovers of retention and go.
- A segment whose index fits it is trusted after a clean shutdown, and otherwise checked block by block; without such
  an index it is read batch by batch, synced, and indexed anew.
- At the first batch that is not sound the log is cut. Nothing behind a hole is served, because readers would take it
  for the next record: later segments, and cut bytes that hold sound batches, are moved aside under names ending
  ``.damaged``. Bytes without any, a torn tail, are dropped. Every cut is a warning that names file and byte.
- Files that are not a log's stay where they are.

Opening raises for a disk that does not answer and for a format of another version, never for what segments and
checkpoints hold.
"""

from __future__ import annotations

from typing import NamedTuple

from seamark.readable_log import readable_logger
from seamark.storage.compaction.compaction import Cleaning
from seamark.storage.errors import CorruptBatch, StorageFailed
from seamark.storage.files.filesystem import Filesystem, read_start, read_whole, remove_if_there
from seamark.storage.files.names import (
    CHECKPOINT_FILES,
    CLEAN_SHUTDOWN_FILE,
    CLEANING_FILE,
    DAMAGED,
    INDEX,
    LOG,
    LOG_START_FILE,
    UNFINISHED,
    parse_segment_file,
    segment_file,
)
from seamark.storage.files.open_files import OpenFiles
from seamark.storage.recovery.checkpoint import Checkpoint, check_format, read_checkpoint, write_checkpoint
from seamark.storage.recovery.clean_shutdown import fits, warn_of_loss
from seamark.storage.recovery.cuts import cut_tail, move_aside
from seamark.storage.segments.index import SUMMARY_BYTES, SegmentSummary, decode_blocks, decode_summary
from seamark.storage.segments.scan import scan_segment
from seamark.storage.segments.segment import Segment
from seamark.storage.settings import LogSettings

logger = readable_logger("seamark.storage")


class Recovered(NamedTuple):
    """A log as it was found; the last segment is open for writing and all bytes are durable."""

    segments: list[Segment]
    log_start: int
    cleaning: Cleaning


def recover(
    filesystem: Filesystem, directory: str, settings: LogSettings, now_ms: int, open_files: OpenFiles
) -> Recovered:
    """Open the directory by the rules above."""
    filesystem.mkdir(directory)
    oddity = check_format(filesystem, directory)
    if oddity is not None:
        logger.warning("%s: %s", directory, oddity)
    return _Recovery(filesystem, directory, settings, now_ms, open_files).run()


def remove_log(filesystem: Filesystem, directory: str) -> None:
    """Remove what a log has in its directory, and the directory if nothing else is in it."""
    for name in filesystem.list(directory):
        if _is_ours(name):
            filesystem.remove(f"{directory}/{name}")
    if filesystem.list(directory):
        logger.warning("%s: not removed, because it contains files that do not belong to the log", directory)
    else:
        filesystem.remove_directory(directory)


def _is_ours(name: str) -> bool:
    stem = name.removesuffix(UNFINISHED)
    return stem in CHECKPOINT_FILES or parse_segment_file(name) is not None or name.endswith(DAMAGED)


class _Recovery:
    def __init__(
        self, filesystem: Filesystem, directory: str, settings: LogSettings, now_ms: int, open_files: OpenFiles
    ) -> None:
        self._filesystem = filesystem
        self._open_files = open_files
        self._directory = directory
        self._settings = settings
        self._now_ms = now_ms
        self._kept: list[Segment] = []
        # Set where the log is cut: everything found later is moved aside.
        self._is_cut = False
        self._is_clean = False
        self._log_start = 0
        self._bases: list[int] = []
        self._may_have_gaps_below = 0
        # Segments whose index was missing or did not fit.
        self._unindexed: set[int] = set()

    def run(self) -> Recovered:
        self._bases = self._sweep()
        cleaning = self._read_cleaning()
        checkpoint = self._checkpoint(LOG_START_FILE)
        self._log_start = max(0, checkpoint.fields.get("log_start", 0)) if checkpoint else 0
        mark = self._checkpoint(CLEAN_SHUTDOWN_FILE)
        self._is_clean = fits(mark, [self._size(base_offset) for base_offset in self._bases])
        for base_offset in self._bases:
            self._take(base_offset)
        segments = self._with_active()
        log_start = max(self._log_start, segments[0].base_offset)
        log_end = segments[-1].next_offset
        if log_start > self._log_start or (checkpoint is not None and checkpoint.is_damaged):
            if log_start > 0:
                logger.warning(
                    "%s: the log starts at offset %d, no earlier segment was found", self._directory, log_start
                )
            self._write(LOG_START_FILE, {"log_start": log_start})
        warn_of_loss(mark, self._directory, log_end)
        self._filesystem.sync_directory(self._directory)
        return Recovered(segments, log_start, self._settle_cleaning(cleaning, log_end))

    # -- what lies in the directory

    def _sweep(self) -> list[int]:
        """Remove what was not finished; return the first offsets of the segments, in order."""
        bases = set()
        indexes = set()
        for name in self._filesystem.list(self._directory):
            parsed = parse_segment_file(name)
            if parsed is not None and parsed[1] == LOG:
                bases.add(parsed[0])
            elif parsed is not None and parsed[1] == INDEX:
                indexes.add(parsed[0])
            elif parsed is not None or (name.endswith(UNFINISHED) and _is_ours(name)):
                self._filesystem.remove(self._path(name))
            elif not _is_ours(name):
                logger.info("%s: %s does not belong to the log and is ignored", self._directory, name)
        for base_offset in indexes - bases:
            self._filesystem.remove(self._path(segment_file(base_offset, INDEX)))
        return sorted(bases)

    def _checkpoint(self, name: str) -> Checkpoint | None:
        checkpoint = read_checkpoint(self._filesystem, self._directory, name)
        if checkpoint is not None and checkpoint.is_damaged:
            logger.warning("%s: the checkpoint %s is damaged and is rebuilt", self._directory, name)
        return checkpoint

    def _read_cleaning(self) -> Cleaning:
        checkpoint = self._checkpoint(CLEANING_FILE)
        if checkpoint is None:
            return Cleaning()
        fields = checkpoint.fields
        cleaning = Cleaning(
            max(0, fields.get("compacted_below", 0)),
            max(0, fields.get("first_dirty", 0)),
            fields.get("earliest_horizon_ms", -1),
        )
        # Without the checkpoint any segment may have been compacted, except the one that was written to.
        last_base = self._bases[-1] if self._bases else 0
        self._may_have_gaps_below = last_base if checkpoint.is_damaged else cleaning.compacted_below
        return cleaning

    # -- one segment after the other

    def _take(self, base_offset: int) -> None:
        name = segment_file(base_offset, LOG)
        if self._is_cut:
            move_aside(self._filesystem, self._path(name), "it is after the point of truncation")
            return
        if self._kept:
            previous = self._kept[-1]
            expected = previous.next_offset
            if base_offset < expected:
                self._settle_overlap(base_offset, previous)
                return
            if expected < base_offset <= self._log_start:
                # All that is missing lies below the start; a hole that reaches above it is a cut.
                self._drop_kept()
            elif base_offset > expected:
                self._is_cut = True
                move_aside(
                    self._filesystem,
                    self._path(name),
                    f"it begins at offset {base_offset}, but the segment before it ends at {expected}",
                )
                return
        segment = self._segment(base_offset)
        if segment is not None:
            self._kept.append(segment)

    def _settle_overlap(self, base_offset: int, previous: Segment) -> None:
        name = segment_file(base_offset, LOG)
        file = self._filesystem.open(self._path(name))
        try:
            contents = scan_segment(file, self._path(name), base_offset, contiguous=False)
        finally:
            file.close()
        if previous.is_compacted and contents.damage is None and contents.next_offset <= previous.next_offset:
            logger.info("%s: %s is left over from compaction and is removed", self._directory, name)
            self._remove(base_offset)
        else:
            move_aside(
                self._filesystem,
                self._path(name),
                f"its offsets are already in the segment that ends at {previous.next_offset}",
            )

    def _segment(self, base_offset: int) -> Segment | None:
        """Return the segment as far as it is sound, or None when nothing of it is."""
        size = self._size(base_offset)
        summary = self._summary(base_offset)
        damaged_at = None
        # The index of a segment that was written to since is merely old; a compacted one was never written to.
        is_old = summary is not None and summary.log_bytes < size and not summary.is_compacted
        if (
            summary is not None
            and not is_old
            and summary.next_offset <= self._log_start
            and base_offset != self._bases[-1]
        ):
            # Retention was about to remove it, and damage in it is no reason to cut what lies behind.
            self._remove(base_offset)
            return None
        if summary is not None and (summary.log_bytes == size or summary.is_compacted):
            segment = Segment(self._filesystem, self._directory, summary, None)
            damaged_at = self._first_damaged_byte(segment)
            if damaged_at is None and summary.log_bytes == size:
                return self._dated(segment)
            if damaged_at is None:
                damaged_at = summary.log_bytes
        is_compacted = summary.is_compacted if summary else base_offset < self._may_have_gaps_below
        return self._scanned(base_offset, is_compacted, damaged_at)

    def _summary(self, base_offset: int) -> SegmentSummary | None:
        """Return what the segment's index says, if there is one and it is sound."""
        path = self._path(segment_file(base_offset, INDEX))
        if not self._filesystem.exists(path):
            return None
        # After a clean shutdown the blocks of sealed segments are looked at when they are needed.
        is_whole = not self._is_clean or base_offset == self._bases[-1]
        content = read_whole(self._filesystem, path) if is_whole else read_start(self._filesystem, path, SUMMARY_BYTES)
        summary = decode_summary(content)
        if (
            summary is None
            or summary.base_offset != base_offset
            or (is_whole and decode_blocks(content, summary) is None)
        ):
            logger.warning("%s: the index is damaged and is rebuilt", path)
            return None
        return summary

    def _first_damaged_byte(self, segment: Segment) -> int | None:
        if self._is_clean:
            return None
        try:
            segment.verify()
        except CorruptBatch as error:
            return error.position
        return None

    def _scanned(self, base_offset: int, is_compacted: bool, damaged_at: int | None) -> Segment | None:
        path = self._path(segment_file(base_offset, LOG))
        file = self._filesystem.open(path)
        try:
            # A batch's CRC leaves out its offset, and where compaction left gaps its neighbours do not tell it either:
            # of such a segment only the blocks before the damage are safe.
            end = damaged_at if is_compacted else None
            interval = self._settings.index_interval_bytes
            contents = scan_segment(
                file, path, base_offset, contiguous=not is_compacted, interval_bytes=interval, end=end
            )
            if contents.log_bytes < file.size():
                self._is_cut = True
                unlike = CorruptBatch(path, contents.log_bytes, "the bytes from here on differ from what was written")
                if contents.log_bytes == 0:
                    move_aside(self._filesystem, path, contents.damage or unlike)
                    return None
                cut_tail(self._filesystem, path, file, contents, contents.damage or unlike)
            elif damaged_at is not None:
                logger.warning(
                    "%s at byte %d: a leader epoch differs from what was written; the records are intact",
                    path,
                    damaged_at,
                )
            file.sync()
        finally:
            file.close()
        segment = Segment(
            self._filesystem, self._directory, contents.summary(is_compacted=is_compacted), contents.blocks
        )
        segment.trust()
        self._unindexed.add(base_offset)
        return self._dated(segment)

    def _dated(self, segment: Segment) -> Segment:
        """Without a timestamp in its records a segment counts as written now: too young is safer than too old."""
        first = segment.first_timestamp_ms
        segment.started_ms = first if 0 <= first <= self._now_ms else self._now_ms
        segment.last_append_ms = self._now_ms
        return segment

    def _remove(self, base_offset: int) -> None:
        remove_if_there(self._filesystem, self._path(segment_file(base_offset, INDEX)))
        self._filesystem.remove(self._path(segment_file(base_offset, LOG)))

    def _drop_kept(self) -> None:
        for segment in self._kept:
            self._remove(segment.base_offset)
        self._kept.clear()

    # -- the log as a whole

    def _with_active(self) -> list[Segment]:
        """Return the segments that are left, with one to write to at their end."""
        while (
            self._kept
            and self._kept[0].next_offset <= self._log_start
            and (len(self._kept) > 1 or self._kept[0].next_offset < self._log_start)
        ):
            self._remove(self._kept.pop(0).base_offset)
        segments = self._kept
        # A compacted segment was sealed: the one behind it was empty, and a crash took its name.
        if not segments or segments[-1].is_compacted:
            end = segments[-1].next_offset if segments else max([self._log_start, *self._bases[:1]])
            segments.append(Segment.create(self._filesystem, self._directory, end, self._now_ms, self._open_files))
        segments[-1].open_for_writing(self._open_files)
        for segment in segments:
            if segment.base_offset in self._unindexed:
                self._replace_index(segment, is_sealed=segment is not segments[-1])
        return segments

    def _replace_index(self, segment: Segment, *, is_sealed: bool) -> None:
        try:
            if is_sealed:
                segment.write_index()
            else:
                remove_if_there(self._filesystem, segment.index_path)
        except StorageFailed as error:
            logger.warning("%s: no index was written (%s)", segment.path, error)

    def _settle_cleaning(self, cleaning: Cleaning, log_end: int) -> Cleaning:
        """What was cut was not compacted when it is written again."""
        gaps_below = min(self._may_have_gaps_below, log_end)
        settled = Cleaning(gaps_below, min(cleaning.first_dirty, log_end), cleaning.earliest_horizon_ms)
        if settled != cleaning:
            self._write(CLEANING_FILE, settled._asdict())
        return settled

    def _write(self, name: str, fields: dict[str, int]) -> None:
        write_checkpoint(self._filesystem, self._directory, name, fields)

    def _size(self, base_offset: int) -> int:
        return self._filesystem.size(self._path(segment_file(base_offset, LOG)))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
