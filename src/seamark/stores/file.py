"""Committed offsets in one file on disk: a copy to keep, or to carry to where the two clusters cannot see each other.

The file is an SQLite database with one row per offset, marked as ours and with the version of its form. A write is one
transaction: after a crash it is there as a whole or not at all. Nobody is ever active in a file.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from seamark.errors import ClosedError
from seamark.stores.contract import BadOffset, GroupOffsets, GroupWrite, Outcomes, StoredOffset, in_batches, is_offset
from seamark.stores.errors import BadStore, StoreError, StoreRefused, StoreUnavailable
from seamark.topic_partition import TopicPartition

# "Smrk": how the database says that it is one of these.
_APPLICATION = 0x536D726B
_FORMAT = 1
_TABLE = """
CREATE TABLE offsets (
    consumer_group TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition_index INTEGER NOT NULL,
    committed INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    leader_epoch INTEGER,
    PRIMARY KEY (consumer_group, topic, partition_index)
) WITHOUT ROWID
"""
_READ = "SELECT topic, partition_index, committed, metadata, leader_epoch FROM offsets WHERE consumer_group = ?"
_ORDER = " ORDER BY topic, partition_index"
_WRITTEN_AT_ONCE = 10_000
# How long to wait for another process that is writing the same file.
_BUSY_S = 10.0


class FileStore:
    """An ``OffsetStore``; ``with FileStore("offsets.db") as store``. The file is made unless ``must_exist``."""

    keeps_metadata = True

    def __init__(self, path: Path | str, *, must_exist: bool = False) -> None:
        self.path = Path(path)
        self.name = f"file {self.path}"
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        if must_exist and not self.path.exists():
            raise StoreUnavailable(self.name, "no such file")
        try:
            # Transactions are begun by ``_changing``.
            self._database = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            self._take_up(self._database)
        except sqlite3.Error as error:
            self.close()
            raise self._fault(error) from error
        except StoreError:
            self.close()
            raise

    def _take_up(self, database: sqlite3.Connection) -> None:
        # A commit is on the disk before it counts as made.
        database.execute("PRAGMA synchronous = FULL")
        application = database.execute("PRAGMA application_id").fetchone()[0]
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if application == _APPLICATION:
            if version > _FORMAT:
                raise BadStore(self.name, f"has version {version} of the format: it was written by a newer release")
            return
        if application or version or database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise BadStore(self.name, "is a database of another program")
        with self._changing() as changed:
            changed.execute(_TABLE)
            changed.execute(f"PRAGMA application_id = {_APPLICATION}")
            changed.execute(f"PRAGMA user_version = {_FORMAT}")

    # -- looking

    def groups(self) -> list[str]:
        return [row[0] for row in self._rows("SELECT DISTINCT consumer_group FROM offsets ORDER BY consumer_group")]

    def topics(self, group: str) -> list[str]:
        asked = "SELECT DISTINCT topic FROM offsets WHERE consumer_group = ? ORDER BY topic"
        return [row[0] for row in self._rows(asked, group)]

    def read(self, group: str, topics: Iterable[str] | None = None) -> GroupOffsets:
        if topics is None:
            return self._offsets(group, self._rows(_READ + _ORDER, group))
        offsets = GroupOffsets()
        for topic in sorted(set(topics)):
            offsets |= self._offsets(group, self._rows(f"{_READ} AND topic = ?{_ORDER}", group, topic))
        return offsets

    def read_many(self, groups: Iterable[str]) -> Iterator[tuple[str, GroupOffsets]]:
        for group in groups:
            yield group, self.read(group)

    def _offsets(self, group: str, rows: list[Any]) -> GroupOffsets:
        offsets = GroupOffsets()
        for topic, partition, committed, metadata, epoch in rows:
            # The columns take whatever another program writes into them.
            if isinstance(committed, int) and is_offset(committed) and isinstance(metadata, str):
                offsets[TopicPartition(topic, partition)] = StoredOffset(committed, metadata, epoch)
            else:
                where = f"{self.path}: group {group!r}, {topic}-{partition}"
                offsets[TopicPartition(topic, partition)] = BadOffset(where, str(committed))
        return offsets

    def _rows(self, asked: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                return self._opened().execute(asked, values).fetchall()
            except sqlite3.Error as error:
                raise self._fault(error) from error

    # -- changing

    def write(self, group: str, offsets: Mapping[TopicPartition, StoredOffset]) -> Outcomes:
        return next(self._write_batch([(group, offsets)]))[1]

    def write_many(self, items: Iterable[GroupWrite]) -> Iterator[tuple[str, Outcomes]]:
        for batch in in_batches(items, _WRITTEN_AT_ONCE):
            yield from self._write_batch(batch)

    def _write_batch(self, batch: list[GroupWrite]) -> Iterator[tuple[str, Outcomes]]:
        rows = []
        outcomes: list[tuple[str, Outcomes]] = []
        for group, offsets in batch:
            results: Outcomes = {}
            for partition, stored in offsets.items():
                if partition.partition < 0 or not is_offset(stored.offset):
                    reason = f"{stored.offset} for {partition} of group {group!r} is not a valid offset"
                    results[partition] = StoreRefused(self.name, reason)
                else:
                    results[partition] = None
                    rows.append((group, *partition, *stored))
            outcomes.append((group, results))
        fault = self._change("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?, ?, ?)", rows)
        if fault is not None:
            outcomes = [
                (group, {partition: outcome or fault for partition, outcome in results.items()})
                for group, results in outcomes
            ]
        yield from outcomes

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> Outcomes:
        wanted = list(partitions)
        asked = "DELETE FROM offsets WHERE consumer_group = ? AND topic = ? AND partition_index = ?"
        return dict.fromkeys(wanted, self._change(asked, [(group, *partition) for partition in wanted]))

    def _change(self, asked: str, rows: list[tuple[Any, ...]]) -> StoreError | None:
        """All rows in one transaction; why none of them was changed, otherwise None."""
        try:
            with self._changing() as database:
                database.executemany(asked, rows)
        except sqlite3.Error as error:
            return self._fault(error)
        except UnicodeEncodeError as error:
            return StoreRefused(self.name, f"{error.object!r} is not valid text")
        return None

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            database = self._opened()
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    # -- who is there

    def active_members(self, group: str) -> list[str]:  # noqa: ARG002
        return []

    def active_members_many(self, groups: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        coming = iter(groups)
        while batch := list(islice(coming, _WRITTEN_AT_ONCE)):
            yield from ((group, []) for group in batch)

    # -- life

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            raise ClosedError(f"{self.name} was closed")
        return self._database

    def _fault(self, error: sqlite3.Error) -> StoreError:
        if isinstance(error, sqlite3.OperationalError):
            return StoreUnavailable(self.name, str(error))
        return BadStore(self.name, f"is not an offset store: {error}")

    def close(self) -> None:
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FileStore {self.path}>"
