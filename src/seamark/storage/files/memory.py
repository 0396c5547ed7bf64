"""A filesystem in memory: what a broker without a data directory writes to.

It lives and dies with the process, so everything is at once as durable as it gets. Names and files are apart as on a
disk: an open file stays readable when its name is removed or taken over.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from seamark.storage.errors import MissingFile, StorageFailed
from seamark.storage.files.filesystem import Bytes


def _nothing() -> None:
    pass


class MemoryFile:
    """A view of one file's bytes; all that open it share them."""

    __slots__ = ("_content", "_path")

    def __init__(self, path: str, content: bytearray) -> None:
        self._path = path
        self._content: bytearray | None = content

    def _open_content(self) -> bytearray:
        if self._content is None:
            raise StorageFailed(self._path, None, "the file was closed")
        return self._content

    def append(self, content: Bytes) -> None:
        if self._content is None:
            raise StorageFailed(self._path, None, "the file was closed")
        self._content += content

    def read(self, position: int, length: int) -> bytes:
        # A slice of the view is copied once; a slice of the bytearray would be copied twice.
        return bytes(memoryview(self._open_content())[position : position + length])

    def truncate(self, size: int) -> None:
        del self._open_content()[size:]

    def size(self) -> int:
        return len(self._open_content())

    def sync(self) -> None:
        self._open_content()

    def detached_sync(self) -> Callable[[], None]:
        self._open_content()
        return _nothing

    def close(self) -> None:
        self._content = None


class MemoryFilesystem:
    """Directories are the names of their files; parents are made with them."""

    def __init__(self) -> None:
        self._directories: dict[str, dict[str, bytearray]] = {}
        # By directory, the names of those in it.
        self._below: dict[str, set[str]] = {}

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:  # noqa: ARG002
        names, name = self._names(path)
        content = names.get(name)
        if content is None:
            if not create:
                raise _missing(path)
            content = names[name] = bytearray()
        return MemoryFile(path, content)

    def list(self, directory: str) -> list[str]:
        clean = _clean(directory)
        if clean not in self._directories:
            raise _missing(directory)
        return sorted({*self._below.get(clean, ()), *self._directories[clean]})

    def exists(self, path: str) -> bool:
        clean = _clean(path)
        if clean in self._directories:
            return True
        directory, _, name = clean.rpartition("/")
        return name in self._directories.get(directory, ())

    def size(self, path: str) -> int:
        names, name = self._names(path)
        if name not in names:
            raise _missing(path)
        return len(names[name])

    def rename(self, source: str, target: str) -> None:
        names, name = self._names(source)
        if name not in names:
            raise _missing(source)
        target_names, target_name = self._names(target)
        target_names[target_name] = names.pop(name) if source != target else names[name]

    def remove(self, path: str) -> None:
        names, name = self._names(path)
        if name not in names:
            raise _missing(path)
        del names[name]

    def mkdir(self, directory: str) -> None:
        clean = _clean(directory)
        while clean and clean not in self._directories:
            self._directories[clean] = {}
            clean, _, name = clean.rpartition("/")
            self._below.setdefault(clean, set()).add(name)

    def remove_directory(self, directory: str) -> None:
        if self.list(directory):
            raise StorageFailed(directory, None, "the directory is not empty")
        clean = _clean(directory)
        del self._directories[clean]
        self._below.pop(clean, None)
        parent, _, name = clean.rpartition("/")
        self._below[parent].discard(name)

    def sync_directory(self, directory: str) -> None:
        if _clean(directory) not in self._directories:
            raise _missing(directory)

    def _names(self, path: str) -> tuple[dict[str, bytearray], str]:
        directory, _, name = _clean(path).rpartition("/")
        names = self._directories.get(directory)
        if names is None:
            raise _missing(path)
        return names, name


def _clean(path: str) -> str:
    return path.rstrip("/")


def _missing(path: str) -> MissingFile:
    return MissingFile(path, None, f"no such file or directory (errno {errno.ENOENT})")
