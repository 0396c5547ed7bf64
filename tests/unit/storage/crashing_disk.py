"""A disk in memory that keeps to the letter of the filesystem port: what was not synced may be lost, torn or garbled.

``crash_at`` makes the Nth change raise ``PowerLost`` in its middle; ``after_crash`` is the disk that the next process
finds. ``room_bytes`` bounds what can be written, ``failing`` names calls that answer with an error, and behind
``descriptors_left`` calls nothing more can be opened.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from seamark.storage import DiskFull, MissingFile, StorageFailed, TooManyOpenFiles


class PowerLost(BaseException):
    """Nothing of ours may catch this: the process is gone."""


class Node:
    def __init__(self, content: bytes = b"") -> None:
        self.visible = bytearray(content)
        self.durable = bytes(content)

    def survivor(self, rng: random.Random) -> Node:
        visible, durable = bytes(self.visible), self.durable
        if visible == durable:
            return Node(durable)
        if not visible.startswith(durable):
            # Cut and written again: either generation, or the old one with a cut.
            kept = rng.choice([visible, durable, durable[: len(visible)]])
            return Node(kept)
        size = rng.randint(len(durable), len(visible))
        content = bytearray(visible[:size])
        if rng.random() < 0.5 and size > len(durable):
            start = rng.randrange(len(durable), size)
            end = rng.randint(start, size)
            content[start:end] = rng.choice([bytes(end - start), rng.randbytes(end - start)])
        return Node(bytes(content))


class CrashingFile:
    def __init__(self, disk: CrashingDisk, path: str, node: Node) -> None:
        self._disk = disk
        self._path = path
        self._node: Node | None = node

    def _open(self) -> Node:
        if self._node is None:
            raise StorageFailed(self._path, None, "the file was closed")
        return self._node

    def append(self, content) -> None:
        node = self._open()
        content = bytes(content)
        self._disk.refuse_if_told("append", self._path)
        if self._disk.room_bytes is not None and len(content) > self._disk.room_bytes:
            node.visible += content[: self._disk.room_bytes]
            self._disk.room_bytes = 0
            raise DiskFull(self._path, None, "no space left on device")
        if self._disk.is_last_change():
            node.visible += content[: self._disk.rng.randint(0, len(content))]
            raise PowerLost
        if self._disk.room_bytes is not None:
            self._disk.room_bytes -= len(content)
        node.visible += content

    def read(self, position: int, length: int) -> bytes:
        return bytes(self._open().visible[position : position + length])

    def truncate(self, size: int) -> None:
        self._disk.refuse_if_told("truncate", self._path)
        self._disk.change()
        node = self._open()
        if self._disk.room_bytes is not None:
            self._disk.room_bytes += max(0, len(node.visible) - size)
        del node.visible[size:]

    def size(self) -> int:
        return len(self._open().visible)

    def sync(self) -> None:
        self.detached_sync()()

    def detached_sync(self) -> Callable[[], None]:
        node = self._open()

        def sync() -> None:
            self._disk.refuse_if_told("sync", self._path)
            self._disk.change()
            node.durable = bytes(node.visible)

        return sync

    def close(self) -> None:
        self._node = None


class CrashingDisk:
    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(0)
        self.crash_at: int | None = None
        self.changes = 0
        self.room_bytes: int | None = None
        self.failing: set[str] = set()
        self.descriptors_left: int | None = None
        self._names: dict[str, dict[str, Node]] = {}
        self._durable_names: dict[str, dict[str, Node]] = {}
        self._pending: dict[str, list[tuple[str, str, str | Node]]] = {}

    # -- faults

    def refuse_if_told(self, call: str, path: str) -> None:
        if call in self.failing:
            raise StorageFailed(path, None, f"{call} failed: input/output error")

    def take_descriptor(self, path: str) -> None:
        if self.descriptors_left is not None:
            if not self.descriptors_left:
                raise TooManyOpenFiles(path, None, "too many open files")
            self.descriptors_left -= 1

    def is_last_change(self) -> bool:
        self.changes += 1
        return self.crash_at is not None and self.changes >= self.crash_at

    def change(self) -> None:
        if self.is_last_change():
            raise PowerLost

    def after_crash(self) -> CrashingDisk:
        found = CrashingDisk(self.rng)
        for directory, durable in self._durable_names.items():
            names = dict(durable)
            for kind, name, argument in self._pending[directory]:
                if self.rng.random() < 0.5:
                    continue
                if kind == "link":
                    names[name] = argument
                elif kind == "unlink":
                    names.pop(name, None)
                elif name in names:
                    names[argument] = names.pop(name)
            nodes: dict[int, Node] = {}
            found._names[directory] = {
                name: nodes.setdefault(id(node), node.survivor(self.rng)) for name, node in names.items()
            }
            found._durable_names[directory] = dict(found._names[directory])
            found._pending[directory] = []
        return found

    # -- the port

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> CrashingFile:
        self.refuse_if_told("open", path)
        self.take_descriptor(path)
        directory, names, name = self._at(path)
        if name not in names:
            if not create:
                raise MissingFile(path, None, "no such file")
            self.change()
            names[name] = Node()
            self._pending[directory].append(("link", name, names[name]))
        return CrashingFile(self, path, names[name])

    def list(self, directory: str) -> list[str]:
        self.take_descriptor(directory)
        directory = directory.rstrip("/")
        if directory not in self._names:
            raise MissingFile(directory, None, "no such directory")
        prefix = f"{directory}/"
        below = {other[len(prefix) :].partition("/")[0] for other in self._names if other.startswith(prefix)}
        return sorted(below | set(self._names[directory]))

    def exists(self, path: str) -> bool:
        directory, _, name = path.rstrip("/").rpartition("/")
        return path.rstrip("/") in self._names or name in self._names.get(directory, {})

    def size(self, path: str) -> int:
        _, names, name = self._at(path)
        if name not in names:
            raise MissingFile(path, None, "no such file")
        return len(names[name].visible)

    def rename(self, source: str, target: str) -> None:
        directory, names, name = self._at(source)
        target_directory, _, target_name = self._at(target)
        assert directory == target_directory, "a log renames only inside its directory"
        if name not in names:
            raise MissingFile(source, None, "no such file")
        self.refuse_if_told("rename", source)
        self.change()
        names[target_name] = names.pop(name)
        self._pending[directory].append(("rename", name, target_name))

    def remove(self, path: str) -> None:
        directory, names, name = self._at(path)
        if name not in names:
            raise MissingFile(path, None, "no such file")
        self.refuse_if_told("remove", path)
        self.change()
        del names[name]
        self._pending[directory].append(("unlink", name, ""))

    def mkdir(self, directory: str) -> None:
        directory = directory.rstrip("/")
        while directory and directory not in self._names:
            self._names[directory] = {}
            self._durable_names[directory] = {}
            self._pending[directory] = []
            directory = directory.rpartition("/")[0]

    def remove_directory(self, directory: str) -> None:
        if self.list(directory):
            raise StorageFailed(directory, None, "the directory is not empty")
        for table in (self._names, self._durable_names, self._pending):
            del table[directory.rstrip("/")]

    def sync_directory(self, directory: str) -> None:
        directory = directory.rstrip("/")
        if directory not in self._names:
            raise MissingFile(directory, None, "no such directory")
        self.refuse_if_told("sync_directory", directory)
        self.take_descriptor(directory)
        self.change()
        self._durable_names[directory] = dict(self._names[directory])
        self._pending[directory] = []

    def _at(self, path: str) -> tuple[str, dict[str, Node], str]:
        directory, _, name = path.rstrip("/").rpartition("/")
        if directory not in self._names:
            raise MissingFile(path, None, "no such directory")
        return directory, self._names[directory], name
