"""The lake's directory: made once, read by the newest whole manifest, changed only by publishing the next one.

    OUT/lake.json                              what the directory is: format, version, cluster, columns of the tables
    OUT/manifest/000000000007.json             published versions; the highest whole one is the lake
    OUT/<table>/day=YYYY-MM-DD/<name>.parquet  only files that the manifest names count

A version becomes visible by one rename, after everything it names is on disk: a reader sees all of a run or nothing of
it, and whatever a killed run left behind is removed by the next. One writer at a time; readers need no lock, because
the files of the last few versions are kept.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from seamark.errors import SeamarkError
from seamark.fsync import sync_directory
from seamark.spark.lake.tables.manifest import Covered, File, Manifest, read_manifest
from seamark.spark.lake.tables.schemas import STATE_TABLES, TABLES, VERSION, column_texts, schema
from seamark.spark.lake.task_lines import task_lines

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FORMAT = "seamark-lake"
_DESCRIPTION = "lake.json"
_MANIFESTS = "manifest"
_LOCK = "lake.lock"
# Readers that began with an older version may go on for this many publications.
_KEPT = 4


class LakeError(SeamarkError):
    """The directory is not a lake that this build can use, or somebody else is writing it."""


class Lake:
    """Made by ``create``, ``open`` or ``open_or_create``; ``published`` is what was read or written last."""

    def __init__(self, path: Path, cluster: str | None, published: Manifest) -> None:
        self.path = path
        self.cluster = cluster
        self.published = published

    @classmethod
    def create(cls, path: str | Path, cluster: str | None) -> Self:
        """Make an empty lake in a directory that is missing or empty."""
        root = _local(path)
        if root.exists() and (not root.is_dir() or any(entry.name != _LOCK for entry in root.iterdir())):
            raise LakeError(f"{root} is not an empty directory: a lake needs its own")
        tables = {table: column_texts(table) for table in TABLES}
        description = {"format": _FORMAT, "version": VERSION, "cluster": cluster, "tables": tables}
        with _writable(root):
            (root / _MANIFESTS).mkdir(parents=True)
            _write_whole(root / _DESCRIPTION, json.dumps(description, indent=1))
        return cls(root, cluster, Manifest())

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The lake in its newest whole version."""
        root = _local(path)
        cluster = _read_description(root)
        return cls(root, cluster, _newest(root))

    @classmethod
    def open_or_create(cls, path: str | Path, cluster: str | None) -> Self:
        """The lake of this cluster; a directory that was killed while it was made is finished."""
        root = _local(path)
        if not (root / _DESCRIPTION).exists():
            manifests = root / _MANIFESTS
            if manifests.is_dir() and not any(manifests.iterdir()):
                manifests.rmdir()
                for torn in root.glob(f"{_DESCRIPTION}.*"):
                    torn.unlink()
            return cls.create(root, cluster)
        lake = cls.open(root)
        if cluster is not None and lake.cluster is not None and cluster != lake.cluster:
            raise LakeError(f"the lake at {root} is of cluster {lake.cluster}, not of {cluster}: use another directory")
        return lake

    @property
    def version(self) -> int:
        return self.published.version

    def refresh(self) -> Manifest:
        """Look for a newer version."""
        self.published = _newest(self.path)
        return self.published

    def files(self, table: str) -> list[Path]:
        """The table's files, each of them there and of the size that was published."""
        paths = []
        for file in self.published.files(table):
            path = self.path / file.path
            size = path.stat().st_size if path.exists() else None
            if size != file.size:
                what = "is missing" if size is None else f"has {size} bytes instead of {file.size}"
                raise LakeError(f"the lake at {self.path} is damaged: {file.path} of version {self.version} {what}")
            paths.append(path)
        return paths

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """A table as it was published; with no rows where nothing was."""
        if table not in TABLES and table not in STATE_TABLES:
            raise LakeError(f"unknown table {table!r}; known: {', '.join(TABLES)}")
        paths = [str(path) for path in self.files(table)]
        if not paths:
            return spark.createDataFrame([], schema(table))
        # A directory's name may hold characters that Spark would take for a pattern.
        reader = spark.read.schema(schema(table)).option("__globPaths__", "false")
        return reader.option("basePath", str(self.path / table)).parquet(*paths)

    def write(self, frame: DataFrame, table: str) -> list[File]:
        """Write a frame's rows as files of the table, to be published; the frame has the table's columns."""
        ordered = frame.select([field.name for field in schema(table).fields])
        root = str(self.path)

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
            from seamark.spark.lake.tables.files import LakeFiles

            files = LakeFiles(root)
            for batch in batches:
                files.add_days(table, batch)
            for _, file in files.finish():
                yield json.dumps(asdict(file))

        return [File(**json.loads(line)) for line in task_lines(ordered, work)]

    def publish(
        self,
        added: Mapping[str, Sequence[File]],
        *,
        replaced: Collection[str] = (),
        dropped: Collection[str] = (),
        covered: Mapping[int, Covered] | None = None,
        **changed: Any,
    ) -> Manifest:
        """Make the next version visible; everything it names is on disk already. Call it inside ``writing``."""
        following = self.published.followed_by(added, replaced=replaced, dropped=dropped, covered=covered, **changed)
        with _writable(self.path):
            is_ours = _write_whole(self.path / _MANIFESTS / f"{following.version:012d}.json", following.to_text())
        if not is_ours:
            raise LakeError(f"another run has published version {following.version} of the lake at {self.path}")
        self.published = following
        for version, path in _versions(self.path)[_KEPT:]:
            if version < following.version:
                path.unlink(missing_ok=True)
        return following

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Be the one writer, on the newest version."""
        with _writable(self.path):
            opened = (self.path / _LOCK).open("a")
        with opened as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(f"another run is writing the lake at {self.path}: wait until it has finished") from None
            self.refresh()
            for version, path in _versions(self.path):
                if version > self.version:
                    # Torn: it would stand in the way of the version that takes its place.
                    path.rename(path.with_suffix(".torn"))
            yield self

    def remove_leftovers(self) -> int:
        """Delete files that no kept version names; gives how many. Call it inside ``writing``."""
        named = set(self.published.paths)
        for _, path in _versions(self.path):
            manifest = read_manifest(path.read_text())
            named |= manifest.paths if manifest else set()
        removed = 0
        for table in (*TABLES, *STATE_TABLES):
            for path in (self.path / table).rglob("*.parquet"):
                if path.relative_to(self.path).as_posix() not in named:
                    path.unlink(missing_ok=True)
                    removed += 1
        for torn in (self.path / _MANIFESTS).glob("*.torn"):
            torn.unlink(missing_ok=True)
        return removed


@contextmanager
def _writable(root: Path) -> Iterator[None]:
    """Let out what the file system refuses as a sentence about the lake."""
    try:
        yield
    except OSError as error:
        raise LakeError(f"the lake at {root} cannot be written: {error.strerror}") from None


def _local(path: str | Path) -> Path:
    text = str(path)
    if text.startswith("file:"):
        text = text.removeprefix("file://").removeprefix("file:")
    elif "://" in text:
        raise LakeError(f"{text} is not a directory: a lake is in a local or mounted file system")
    return Path(text).absolute()


def _read_description(root: Path) -> str | None:
    path = root / _DESCRIPTION
    if not path.exists():
        raise LakeError(f"{root} is not a lake: it has no {_DESCRIPTION}")
    try:
        described = json.loads(path.read_text())
        found_format, version, cluster, tables = (described[key] for key in ("format", "version", "cluster", "tables"))
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(f"the lake at {root} is damaged: {_DESCRIPTION} cannot be read ({error!r})") from None
    if found_format != _FORMAT:
        raise LakeError(f"{root} is not a lake: its {_DESCRIPTION} says format {found_format!r}")
    if version != VERSION:
        raise LakeError(f"the lake at {root} has format version {version}, this build reads version {VERSION}")
    for table in TABLES:
        if tables.get(table) != column_texts(table):
            raise LakeError(
                f"the lake at {root} has other columns in {table} than this release: "
                "use a new lake in another directory"
            )
    return cluster if cluster is None else str(cluster)


def _columns(table: str) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema(table).fields]


def _versions(root: Path) -> list[tuple[int, Path]]:
    """Published versions, the newest first."""
    versions = [(int(path.stem), path) for path in (root / _MANIFESTS).glob("*.json") if path.stem.isdecimal()]
    return sorted(versions, reverse=True)


def _newest(root: Path) -> Manifest:
    """The highest whole version; what a torn one named is not part of the lake, and its rows will be made again."""
    versions = _versions(root)
    for version, path in versions:
        with suppress(FileNotFoundError, UnicodeDecodeError):
            manifest = read_manifest(path.read_text())
            if manifest is not None and manifest.version == version:
                return manifest
    if versions:
        raise LakeError(f"the lake at {root} is damaged: none of its {len(versions)} manifests is whole")
    return Manifest()


def _write_whole(path: Path, text: str) -> bool:
    """The file with all of the text or not at all; False if there is one of that name."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.torn")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        # Unlike a rename, a link never takes the place of a file that is there.
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    sync_directory(path.parent)
    return True
