"""How damaged bytes leave a log: cut off its end or moved aside, never silently.

Cut bytes that still hold a sound batch, and whole segments behind a cut, are kept under names ending ``.damaged`` for
whoever wants to look; nothing reads them. Cut bytes without a sound batch are what a crash leaves of a last write,
and are dropped. Every call warns with the file, the byte and what became of it.
"""

from __future__ import annotations

from seamark.readable_log import readable_logger
from seamark.storage.errors import LogError
from seamark.storage.files.filesystem import File, Filesystem, remove_if_there
from seamark.storage.files.names import DAMAGED, INDEX, LOG
from seamark.storage.segments.index import SegmentContents
from seamark.storage.segments.scan import holds_sound_batch
from seamark.wire.records.record_batch import HEADER_BYTES

logger = readable_logger("seamark.storage")

_CHUNK_BYTES = 1 << 20


def cut_tail(filesystem: Filesystem, path: str, file: File, contents: SegmentContents, damage: LogError) -> None:
    """Cut a segment to its sound part, durably."""
    size = file.size()
    fate = "dropped"
    if holds_sound_batch(file, contents.log_bytes, contents.next_offset):
        aside = _free_path(filesystem, f"{path}.{contents.log_bytes}")
        _copy_from(filesystem, file, contents.log_bytes, aside)
        fate = f"kept in {aside}"
    logger.warning(
        "%s; the log is truncated here, before offset %d, and %d bytes are %s",
        damage,
        contents.next_offset,
        size - contents.log_bytes,
        fate,
    )
    file.truncate(contents.log_bytes)
    file.sync()


def move_aside(filesystem: Filesystem, path: str, reason: LogError | str) -> None:
    """Take a whole segment out of the log; the names are durable after the next sync of the directory."""
    size = filesystem.size(path)
    if size < HEADER_BYTES:
        logger.warning("%s is removed, its %d bytes contain no batch: %s", path, size, reason)
        filesystem.remove(path)
    else:
        aside = _free_path(filesystem, path)
        logger.warning("%s is removed from the log, all %d bytes are kept in %s: %s", path, size, aside, reason)
        filesystem.rename(path, aside)
    remove_if_there(filesystem, path.removesuffix(LOG) + INDEX)


def _copy_from(filesystem: Filesystem, file: File, position: int, path: str) -> None:
    copy = filesystem.open(path, create=True)
    try:
        while part := file.read(position, _CHUNK_BYTES):
            copy.append(part)
            position += len(part)
        copy.sync()
    finally:
        copy.close()
    filesystem.sync_directory(path.rpartition("/")[0])


def _free_path(filesystem: Filesystem, path: str) -> str:
    candidate = path + DAMAGED
    number = 2
    while filesystem.exists(candidate):
        candidate = f"{path}.{number}{DAMAGED}"
        number += 1
    return candidate
