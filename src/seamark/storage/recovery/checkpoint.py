"""Small files of named numbers, replaced whole: format version, log start, how far it was cleaned, a clean shutdown.

A checkpoint is text with a CRC-32C at its end, so that a damaged one is told from a wrong one. It is written beside its
name, synced, and renamed: a crash leaves the old content or the new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from seamark.storage.errors import UnknownFormat
from seamark.storage.files.filesystem import Filesystem, read_whole
from seamark.storage.files.names import FORMAT_FILE, UNFINISHED
from seamark.wire.records.crc32c import crc32c

FORMAT_VERSION = 1

_LINE = re.compile(r"([a-z_]+) (-?\d{1,19})", re.ASCII)
_LARGEST_BYTES = 4096


class Checkpoint(NamedTuple):
    """``fields`` is empty when the file is there and damaged."""

    fields: dict[str, int]
    is_damaged: bool


def write_checkpoint(filesystem: Filesystem, directory: str, name: str, fields: Mapping[str, int]) -> None:
    """Replace the checkpoint; it is durable on return."""
    text = "".join(f"{field} {number}\n" for field, number in fields.items()).encode()
    path = f"{directory}/{name}"
    file = filesystem.open(path + UNFINISHED, create=True)
    try:
        file.truncate(0)
        file.append(text + f"crc32c {crc32c(text):08x}\n".encode())
        file.sync()
    finally:
        file.close()
    filesystem.rename(path + UNFINISHED, path)
    filesystem.sync_directory(directory)


def read_checkpoint(filesystem: Filesystem, directory: str, name: str) -> Checkpoint | None:
    """Return the checkpoint, or None when there is none."""
    path = f"{directory}/{name}"
    if not filesystem.exists(path):
        return None
    if filesystem.size(path) > _LARGEST_BYTES:
        return Checkpoint({}, is_damaged=True)
    text, mark, checksum = read_whole(filesystem, path).rpartition(b"crc32c ")
    if not mark or checksum != f"{crc32c(text):08x}\n".encode():
        return Checkpoint({}, is_damaged=True)
    lines = [_LINE.fullmatch(line) for line in text.decode("ascii", "replace").splitlines()]
    return Checkpoint({line[1]: int(line[2]) for line in lines if line is not None}, is_damaged=False)


def check_format(filesystem: Filesystem, directory: str) -> str | None:
    """Refuse a directory of another format; mark one that has no mark, and return what was odd about it."""
    checkpoint = read_checkpoint(filesystem, directory, FORMAT_FILE)
    if checkpoint is not None and not checkpoint.is_damaged:
        version = checkpoint.fields.get("format", -1)
        if version != FORMAT_VERSION:
            raise UnknownFormat(
                f"{directory}/{FORMAT_FILE}", None, f"format {version} is not supported, only {FORMAT_VERSION} is"
            )
        return None
    names = filesystem.list(directory)
    write_checkpoint(filesystem, directory, FORMAT_FILE, {"format": FORMAT_VERSION})
    if checkpoint is not None:
        return f"the format file was damaged and is rewritten as {FORMAT_VERSION}"
    if any(name.endswith(".log") for name in names):
        return f"there was no format file next to the segments; they are read as format {FORMAT_VERSION}"
    return None
