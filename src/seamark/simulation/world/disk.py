"""A disk in memory that forgets what was not synced: the filesystem port with everything its contract lets a crash do.

Two ends of a process are told apart. A kill leaves what the operating system had, with the write under way cut
anywhere. A power loss leaves of each file its synced bytes and, of those behind, anything; of each directory its
synced names and, of the changes behind, each one or not. All choices come from the random source handed in.

``faults`` says what the disk refuses while the process lives. With ``faults`` untouched it is a plain filesystem.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

from seamark.storage.errors import DiskFull, MissingFile, StorageFailed
from seamark.storage.files.filesystem import Bytes


class Crashed(BaseException):
    """The simulated process ends here, in the middle of a disk operation; no handler of the process may stop it."""


class DiskFaults:
    """What goes wrong, and how often it did. Chances are per operation; a crash comes when ``crash_countdown`` is 0."""

    __slots__ = ("append_errors", "crash_countdown", "free_bytes", "injected", "sync_errors", "truncate_errors")

    def __init__(self) -> None:
        self.append_errors = 0.0
        self.sync_errors = 0.0
        self.truncate_errors = 0.0
        # None: as much as is asked for.
        self.free_bytes: int | None = None
        self.crash_countdown = -1
        self.injected = 0

    @property
    def is_any(self) -> bool:
        chances = self.append_errors or self.sync_errors or self.truncate_errors
        return bool(chances) or self.free_bytes is not None or self.crash_countdown >= 0


class _Node:
    """The bytes of one file; ``synced`` is what a power loss leaves for certain."""

    __slots__ = ("content", "synced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = b""


class _Directory:
    """Names now, names that are durable, and the changes in between: (name that goes, name that comes, node)."""

    __slots__ = ("changes", "durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.changes: list[tuple[str | None, str | None, _Node]] = []


class SimulatedFile:
    """A view of one file; all that open it share its bytes."""

    __slots__ = ("_disk", "_node", "_path")

    def __init__(self, disk: SimulatedDisk, path: str, node: _Node) -> None:
        self._disk = disk
        self._path = path
        self._node: _Node | None = node

    def _open_node(self) -> _Node:
        if self._node is None:
            raise StorageFailed(self._path, None, "the file was closed")
        return self._node

    def append(self, content: Bytes) -> None:
        node = self._open_node()
        if self._disk.is_faulty:
            self._disk.before_append(self._path, node, content)
        node.content += content

    def read(self, position: int, length: int) -> bytes:
        return bytes(memoryview(self._open_node().content)[position : position + length])

    def truncate(self, size: int) -> None:
        node = self._open_node()
        if self._disk.is_faulty:
            self._disk.before_truncate(self._path)
        del node.content[size:]

    def size(self) -> int:
        return len(self._open_node().content)

    def sync(self) -> None:
        self._sync(self._open_node())

    def detached_sync(self) -> Callable[[], None]:
        node = self._open_node()
        return lambda: self._sync(node)

    def _sync(self, node: _Node) -> None:
        if self._disk.is_faulty:
            self._disk.before_sync(self._path)
        node.synced = bytes(node.content)

    def close(self) -> None:
        self._node = None


class SimulatedDisk:
    """Implements ``seamark.storage.files.filesystem.Filesystem``."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._directories: dict[str, _Directory] = {}
        self.faults = DiskFaults()
        # False lets every operation skip the questions below.
        self.is_faulty = False
        self._is_dead = False

    # -- the port

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimulatedFile:  # noqa: ARG002
        directory, name = self._place(path)
        node = directory.names.get(name)
        if node is None:
            if not create:
                raise _missing(path)
            self._before_create(path)
            node = directory.names[name] = _Node()
            directory.changes.append((None, name, node))
        return SimulatedFile(self, path, node)

    def list(self, directory: str) -> list[str]:
        clean = directory.rstrip("/")
        if clean not in self._directories:
            raise _missing(directory)
        below = {name[len(clean) + 1 :].partition("/")[0] for name in self._directories if name.startswith(f"{clean}/")}
        return sorted(below.union(self._directories[clean].names))

    def exists(self, path: str) -> bool:
        clean = path.rstrip("/")
        if clean in self._directories:
            return True
        parent, _, name = clean.rpartition("/")
        directory = self._directories.get(parent)
        return directory is not None and name in directory.names

    def size(self, path: str) -> int:
        directory, name = self._place(path)
        if name not in directory.names:
            raise _missing(path)
        return len(directory.names[name].content)

    def rename(self, source: str, target: str) -> None:
        directory, name = self._place(source)
        node = directory.names.get(name)
        if node is None:
            raise _missing(source)
        target_directory, target_name = self._place(target)
        self._before_change()
        if source == target:
            return
        del directory.names[name]
        target_directory.names[target_name] = node
        if target_directory is directory:
            directory.changes.append((name, target_name, node))
        else:
            directory.changes.append((name, None, node))
            target_directory.changes.append((None, target_name, node))

    def remove(self, path: str) -> None:
        directory, name = self._place(path)
        node = directory.names.get(name)
        if node is None:
            raise _missing(path)
        self._before_change()
        del directory.names[name]
        directory.changes.append((name, None, node))

    def mkdir(self, directory: str) -> None:
        clean = directory.rstrip("/")
        while clean and clean not in self._directories:
            self._directories[clean] = _Directory()
            clean = clean.rpartition("/")[0]

    def remove_directory(self, directory: str) -> None:
        if self.list(directory):
            raise StorageFailed(directory, None, "the directory is not empty")
        del self._directories[directory.rstrip("/")]

    def sync_directory(self, directory: str) -> None:
        found = self._directories.get(directory.rstrip("/"))
        if found is None:
            raise _missing(directory)
        if self.is_faulty:
            self.before_sync(directory)
        if found.changes:
            found.durable = dict(found.names)
            found.changes.clear()

    def _place(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        directory = self._directories.get(parent)
        if directory is None:
            raise _missing(path)
        return directory, name

    # -- what goes wrong

    def _count_down(self) -> bool:
        if self._is_dead:
            raise Crashed
        if self.faults.crash_countdown < 0:
            return False
        self.faults.crash_countdown -= 1
        return self.faults.crash_countdown < 0

    def _die(self) -> None:
        self._is_dead = True
        self.faults.injected += 1
        raise Crashed

    def _before_change(self) -> None:
        if self.is_faulty and self._count_down():
            self._die()

    def _before_create(self, path: str) -> None:
        if not self.is_faulty:
            return
        if self._count_down():
            self._die()
        if self.faults.free_bytes == 0:
            self.faults.injected += 1
            raise DiskFull(path, None, f"no space left on device (errno {errno.ENOSPC})")

    def before_append(self, path: str, node: _Node, content: Bytes) -> None:
        """Fail the append in one of the ways of ``faults``, with any part of it written."""
        faults = self.faults
        if self._count_down():
            node.content += content[: int(self._rng.random() * (len(content) + 1))]
            self._die()
        if faults.free_bytes is not None:
            if len(content) > faults.free_bytes:
                node.content += content[: faults.free_bytes]
                faults.injected += 1
                raise DiskFull(path, None, f"no space left on device (errno {errno.ENOSPC})")
            faults.free_bytes -= len(content)
        if faults.append_errors and self._rng.random() < faults.append_errors:
            node.content += content[: int(self._rng.random() * (len(content) + 1))]
            faults.injected += 1
            raise StorageFailed(path, None, f"input/output error (errno {errno.EIO})")

    def before_truncate(self, path: str) -> None:
        if self._count_down():
            self._die()
        if self.faults.truncate_errors and self._rng.random() < self.faults.truncate_errors:
            self.faults.injected += 1
            raise StorageFailed(path, None, f"input/output error (errno {errno.EIO})")

    def before_sync(self, path: str) -> None:
        if self._count_down():
            self._die()
        if self.faults.sync_errors and self._rng.random() < self.faults.sync_errors:
            self.faults.injected += 1
            raise StorageFailed(path, None, f"input/output error in a sync (errno {errno.EIO})")

    def arm(
        self,
        *,
        append_errors: float = 0.0,
        sync_errors: float = 0.0,
        truncate_errors: float = 0.0,
        free_bytes: int | None = None,
        crash_countdown: int = -1,
    ) -> None:
        """Set what goes wrong from now on; without arguments nothing does."""
        faults = self.faults
        faults.append_errors = append_errors
        faults.sync_errors = sync_errors
        faults.truncate_errors = truncate_errors
        faults.free_bytes = free_bytes
        faults.crash_countdown = crash_countdown
        self.is_faulty = faults.is_any or self._is_dead

    # -- the end of a process

    def stop(self) -> None:
        """The process is ending: what it still tries is without effect."""
        self._is_dead = self.is_faulty = True

    def kill(self) -> None:
        """The process is gone, the operating system lives: all that was written is there."""
        self._come_back()

    def lose_power(self) -> None:
        """The machine is gone: keep what was synced and, of the rest, whatever chance leaves."""
        for name in sorted(self._directories):
            directory = self._directories[name]
            names = dict(directory.durable)
            for gone, come, node in directory.changes:
                if self._rng.random() < 0.5:
                    if gone is not None:
                        names.pop(gone, None)
                    if come is not None:
                        names[come] = node
            for node in names.values():
                self._tear(node)
            directory.names = names
            directory.durable = dict(names)
            directory.changes.clear()
        self._come_back()

    def _tear(self, node: _Node) -> None:
        content, synced = node.content, node.synced
        if content != synced:
            rng = self._rng
            chance = rng.random()
            start = _common_prefix(content, synced)
            if chance < 0.35:
                content = bytearray(synced)
            elif chance < 0.7:
                del content[start + int(rng.random() * (len(content) - start + 1)) :]
            elif chance < 0.85 and len(content) > start:
                # A later page reached the disk and an earlier one did not.
                hole = start + int(rng.random() * (len(content) - start))
                width = 1 + int(rng.random() * (len(content) - hole))
                content[hole : hole + width] = rng.choice((bytes(width), rng.randbytes(width)))
            node.content = content
        node.synced = bytes(node.content)

    def _come_back(self) -> None:
        self._is_dead = False
        self.faults.crash_countdown = -1
        self.is_faulty = self.faults.is_any

    def copy(self) -> SimulatedDisk:
        """Return a disk of its own with the same files, all of them durable, on which nothing goes wrong."""
        other = SimulatedDisk(self._rng)
        for path, directory in self._directories.items():
            twin = other._directories[path] = _Directory()
            for name, node in directory.names.items():
                twin.names[name] = twin.durable[name] = copied = _Node()
                copied.content = bytearray(node.content)
                copied.synced = bytes(node.content)
        return other


def _common_prefix(first: bytearray, second: bytes) -> int:
    if first.startswith(second) or second.startswith(first):
        return min(len(first), len(second))
    return next(position for position, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)


def _missing(path: str) -> MissingFile:
    return MissingFile(path, None, f"no such file or directory (errno {errno.ENOENT})")
