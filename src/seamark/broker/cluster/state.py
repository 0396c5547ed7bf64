"""What a broker with a data directory remembers beside its logs: topics, ids, epochs, changed settings, and sections
of other parts.

One file of JSON with a format version and a checksum, written beside its name, synced and renamed: after a crash it
is the old one or the new one. A lock on the directory keeps a second broker out for as long as the first one lives.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from seamark.errors import UsageError
from seamark.storage.errors import DiskFull, UnknownFormat, translate
from seamark.storage.files.filesystem import Filesystem, read_whole, remove_if_there
from seamark.wire.records.crc32c import crc32c

STATE_FILE = "broker.json"
LOCK_FILE = "broker.lock"
FORMAT_VERSION = 1
_REMEDY = "restore the directory from a backup, or start with another one"
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
# The section that grows with the cluster: its entries are kept as they are written, by whom they belong to.
_TOPICS = "topics"


class BrokerState:
    """A dictionary of sections, each plain JSON; ``save`` makes all of them durable at once."""

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self.path = f"{directory}/{STATE_FILE}"
        self._directory = directory
        self.sections: dict[str, Any] = {}

    def load(self) -> bool:
        """Read the file; False when there is none. Raises ``UnknownFormat`` for one that is not ours to read."""
        self._filesystem.mkdir(self._directory)
        remove_if_there(self._filesystem, f"{self.path}.tmp")
        if not self._filesystem.exists(self.path):
            return False
        content = read_whole(self._filesystem, self.path)
        head, _, body = content.partition(b"\n")
        words = head.split()
        if len(words) != 4 or words[0] != b"seamark-broker":
            raise UnknownFormat(self.path, 0, f"this is not a state file of a Seamark broker; {_REMEDY}")
        if words[1] != str(FORMAT_VERSION).encode():
            raise UnknownFormat(
                self.path, 0, f"format {words[1].decode('ascii', 'replace')} is not supported, only {FORMAT_VERSION} is"
            )
        if words[3] != f"{crc32c(body):08x}".encode():
            raise UnknownFormat(
                self.path, len(head) + 1, f"the content is damaged: its checksum does not match; {_REMEDY}"
            )
        self.sections = json.loads(body)
        return True

    def save(self, topics: Iterable[str]) -> None:
        """Replace the file; it is durable on return. ``topics`` are the entries of that section, each as JSON."""
        # Not indented: Python's encoder would take ten times as long over it.
        others = json.dumps({name: section for name, section in self.sections.items() if name != _TOPICS})
        body = f'{others[:-1]}, "{_TOPICS}": {{{", ".join(topics)}}}}}'.encode()
        head = f"seamark-broker {FORMAT_VERSION} crc32c {crc32c(body):08x}\n".encode()
        unfinished = f"{self.path}.tmp"
        file = self._filesystem.open(unfinished, create=True)
        try:
            file.truncate(0)
            file.append(head + body)
            file.sync()
        finally:
            file.close()
        self._filesystem.rename(unfinished, self.path)
        self._filesystem.sync_directory(self._directory)


class DirectoryLock:
    """Held from construction to ``release``; the system releases it when the process ends, however it ends."""

    def __init__(self, directory: str) -> None:
        path = Path(directory)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path / LOCK_FILE, _LOCK_FLAGS, 0o644)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"{directory} cannot be used as the data directory: it, or a part of its path, is a file"
            ) from None
        except OSError as error:
            failure = translate(error, directory)
            if isinstance(failure, DiskFull):
                raise failure from error
            raise UsageError(f"{directory} cannot be used as the data directory: {failure.reason}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise UsageError(f"{directory} is in use by another broker") from None

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
