"""The operating system's filesystem behind the port.

One ``write`` per append, ``pread`` for reads, ``fsync`` for syncs (``F_FULLFSYNC`` on macOS, whose ``fsync`` stops at
the drive's cache). Every ``OSError`` is translated here and nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from seamark.storage.errors import StorageFailed, translate, translated
from seamark.storage.files.filesystem import Bytes

# A link in place of a file is refused: whoever may put one into the directory must not choose what is written to.
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


def _fsync(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif descriptor < 0:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    else:
        os.fsync(descriptor)


class _Handle:
    """A descriptor, closed when nobody holds it any more: neither the file nor a sync on another thread."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


class RealFile:
    """An open descriptor; -1 once closed."""

    __slots__ = ("_descriptor", "_handle", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._handle: _Handle | None = _Handle(descriptor)

    def append(self, content: Bytes) -> None:
        try:
            written = os.write(self._descriptor, content)
            if written != len(content):
                self._append_rest(memoryview(content), written)
        except OSError as error:
            raise translate(error, self._path) from error

    def _append_rest(self, content: memoryview, written: int) -> None:
        while written < len(content):
            count = os.write(self._descriptor, content[written:])
            if count == 0:
                raise StorageFailed(self._path, None, "the disk accepts no more bytes")
            written += count

    def read(self, position: int, length: int) -> bytes:
        try:
            content = os.pread(self._descriptor, length, position)
            while 0 < len(content) < length:
                more = os.pread(self._descriptor, length - len(content), position + len(content))
                if not more:
                    break
                content += more
        except OSError as error:
            raise translate(error, self._path) from error
        return content

    def truncate(self, size: int) -> None:
        with translated(self._path):
            os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        with translated(self._path):
            return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        with translated(self._path):
            _fsync(self._descriptor)

    def detached_sync(self) -> Callable[[], None]:
        # The handle is shared, not duplicated: the owner may close the file meanwhile, and a sync must not fail because
        # the process has no descriptor to spare.
        handle = self._handle
        if handle is None:
            raise StorageFailed(self._path, None, "the file was closed")

        def sync() -> None:
            with translated(self._path):
                _fsync(handle.descriptor)

        return sync

    def close(self) -> None:
        self._descriptor = -1
        self._handle = None


class RealFilesystem:
    """Paths are those of the operating system; it has no state of its own."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        access = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND
        with translated(path):
            return RealFile(path, os.open(path, access | _FLAGS | (os.O_CREAT if create else 0), 0o644))

    def list(self, directory: str) -> list[str]:
        with translated(directory):
            return sorted(entry.name for entry in Path(directory).iterdir())

    def exists(self, path: str) -> bool:
        with translated(path):
            return Path(path).exists()

    def size(self, path: str) -> int:
        with translated(path):
            return Path(path).stat().st_size

    def rename(self, source: str, target: str) -> None:
        with translated(source):
            Path(source).replace(target)

    def remove(self, path: str) -> None:
        with translated(path):
            Path(path).unlink()

    def mkdir(self, directory: str) -> None:
        with translated(directory):
            path = Path(directory)
            made = [parent for parent in (path, *path.parents) if not parent.is_dir()]
            path.mkdir(parents=True, exist_ok=True)
        for child in reversed(made):
            self.sync_directory(str(child.parent))

    def remove_directory(self, directory: str) -> None:
        with translated(directory):
            Path(directory).rmdir()

    def sync_directory(self, directory: str) -> None:
        with translated(directory):
            descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
