"""What was seen of groups over time, in one SQLite file that stays small, so that graphs survive a restart.

A row is written when something about a group changed, so a group at rest costs nothing; stretches of time in which
nobody looked are known and stay empty. Old rows are thinned to the highest and the last of a stretch, and beyond a
number of rows the oldest go. One lock serves all threads.

Invariant: at most ``max_rows`` samples and ``max_events`` events are kept, none older than ``keep_s``.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from seamark.errors import SeamarkError
from seamark.monitor.history_series import Row, filled
from seamark.topic_partition import TopicPartition

_VERSION = 1
_SCHEMA = """
CREATE TABLE groups (id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (cluster, name));
CREATE TABLE samples (
  group_id INTEGER NOT NULL, at_ms INTEGER NOT NULL, lag INTEGER, behind REAL, PRIMARY KEY (group_id, at_ms)
) WITHOUT ROWID;
CREATE INDEX samples_by_time ON samples (at_ms);
CREATE TABLE runs (cluster TEXT NOT NULL, from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL);
CREATE TABLE events (id INTEGER PRIMARY KEY, group_id INTEGER NOT NULL, at_ms INTEGER NOT NULL, kind TEXT, text TEXT);
CREATE INDEX events_by_group ON events (group_id, at_ms);
"""
# Added to files of the same version: who does not know it leaves it alone.
_REWINDS = """
CREATE TABLE IF NOT EXISTS rewinds (
  cluster TEXT NOT NULL, name TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, came_from INTEGER NOT NULL
)
"""
# Samples older than the first number of seconds are thinned to stretches of the second.
_TIERS = ((3600, 60), (6 * 3600, 300), (2 * 86_400, 3600))
# Looks further apart than this, or than so many intervals, are not one run.
_GAP_S = 90.0
_GAP_INTERVALS = 4
_TIDY_EVERY = 60
_MOST_IN_MEMORY = 200_000


class HistoryError(SeamarkError):
    """The history file cannot be used."""


class GroupSample(NamedTuple):
    """One group in one look; None is what is not known."""

    group: str
    lag: int | None
    behind: float | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a group: ``kind`` in a word, ``text`` as a sentence."""

    group: str
    at_ms: int
    kind: str
    text: str


class Point(NamedTuple):
    """A stretch of a graph: the highest of what was in effect; None where nobody looked or nothing is known."""

    at_ms: int
    lag: int | None
    behind: float | None


class History:
    """The file at ``path``, or memory if that is None; it is made if it is not there."""

    def __init__(
        self,
        path: Path | None,
        *,
        max_rows: int = 2_000_000,
        max_events: int = 100_000,
        keep_s: float = 14 * 86_400.0,
    ) -> None:
        self._max_rows = max_rows
        self._max_events = max_events
        self._keep_ms = int(keep_s * 1000)
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, str], int] = {}
        self._last: dict[int, tuple[int | None, float | None]] = {}
        self._looks = 0
        self._thinned: dict[int, int] = {}
        self._path = path
        # Why what is remembered here ends with the program, where a file was wanted.
        self.not_kept: str | None = None
        try:
            self._file = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
            self._open()
        except sqlite3.Error as error:
            raise HistoryError(f"the history file {path} cannot be used: {error}") from None

    @classmethod
    def in_memory(cls, why: str) -> History:
        """What ends with the program, because the file cannot be used, for that reason."""
        made = cls(None, max_rows=_MOST_IN_MEMORY)
        made.not_kept = why
        return made

    def _open(self) -> None:
        run = self._file.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA journal_size_limit = 4000000")
        (version,) = run("PRAGMA user_version").fetchone()
        if version == 0 and not run("SELECT 1 FROM sqlite_master").fetchone():
            self._file.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        elif version != _VERSION:
            raise HistoryError(
                f"the history file {self._path} has version {version}, but only version {_VERSION} is supported"
            )
        run(_REWINDS)

    def add(
        self,
        cluster: str,
        at_ms: int,
        samples: Iterable[GroupSample],
        events: Iterable[Event] = (),
        *,
        every: float = 15.0,
    ) -> None:
        """Remember a look at a cluster; HistoryError if the file cannot take it, which then has nothing of the look."""
        with self._lock, self._written():
            rows = []
            latest: dict[int, tuple[int | None, float | None]] = {}
            for sample in samples:
                group_id = self._id(cluster, sample.group)
                seen = (sample.lag, None if sample.behind is None else round(sample.behind, 1))
                if self._last.get(group_id, ()) != seen:
                    rows.append((group_id, at_ms, *seen))
                latest[group_id] = seen
            self._file.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?)", rows)
            self._file.executemany(
                "INSERT INTO events (group_id, at_ms, kind, text) VALUES (?, ?, ?, ?)",
                [(self._id(cluster, event.group), event.at_ms, event.kind, event.text) for event in events],
            )
            self._extend_run(cluster, at_ms, every)
            self._last.update(latest)
            self._looks += 1
            if self._looks % _TIDY_EVERY == 0:
                self._tidy(at_ms)

    def series(self, cluster: str, group: str, since_ms: int, until_ms: int, points: int = 240) -> list[Point]:
        """A group's lag between two times, in so many stretches."""
        step = max(1, (until_ms - since_ms) // points)
        with self._read():
            rows = self._rows(cluster, group, since_ms, until_ms)
            runs = self._runs(cluster, since_ms, until_ms)
        values = filled(rows, runs, since_ms, step, points)
        return [Point(since_ms + index * step, *value) for index, value in enumerate(values)]

    def sparks(
        self, cluster: str, groups: Sequence[str], since_ms: int, until_ms: int, points: int = 40
    ) -> dict[str, list[int | None]]:
        """The lag of several groups, for small graphs."""
        step = max(1, (until_ms - since_ms) // points)
        with self._read():
            runs = self._runs(cluster, since_ms, until_ms)
            rows = {group: self._rows(cluster, group, since_ms, until_ms) for group in groups}
        return {group: [lag for lag, _ in filled(kept, runs, since_ms, step, points)] for group, kept in rows.items()}

    def first_look(self, cluster: str, since_ms: int) -> int:
        """When the first look at or after a time was; that time itself if somebody looked then already."""
        with self._read():
            (first_ms,) = self._file.execute(
                "SELECT min(from_ms) FROM runs WHERE cluster = ? AND to_ms >= ?", (cluster, since_ms)
            ).fetchone()
        return since_ms if first_ms is None else max(since_ms, first_ms)

    def events(self, cluster: str, group: str, limit: int = 50) -> list[Event]:
        """What happened to a group, latest first."""
        with self._read():
            rows = self._file.execute(
                "SELECT at_ms, kind, text FROM events JOIN groups ON groups.id = group_id "
                "WHERE cluster = ? AND name = ? ORDER BY at_ms DESC, events.id DESC LIMIT ?",
                (cluster, group, limit),
            ).fetchall()
        return [Event(group, *row) for row in rows]

    def rewinds(self, cluster: str) -> dict[tuple[str, TopicPartition], int]:
        """What ``keep_rewinds`` was last given for the cluster."""
        with self._read():
            rows = self._file.execute(
                "SELECT name, topic, partition, came_from FROM rewinds WHERE cluster = ?", (cluster,)
            ).fetchall()
        return {(name, TopicPartition(topic, partition)): offset for name, topic, partition, offset in rows}

    def keep_rewinds(self, cluster: str, rewinds: Mapping[tuple[str, TopicPartition], int]) -> None:
        """Remember where groups were before their offsets went back, in place of what was remembered of that."""
        with self._lock, self._written():
            self._file.execute("DELETE FROM rewinds WHERE cluster = ?", (cluster,))
            self._file.executemany(
                "INSERT INTO rewinds VALUES (?, ?, ?, ?, ?)",
                [(cluster, name, *partition, offset) for (name, partition), offset in rewinds.items()],
            )

    def count(self) -> tuple[int, int]:
        """How many samples and events are kept."""
        with self._read():
            return self._size("samples"), self._size("events")

    def tidy(self, now_ms: int) -> None:
        """Thin what is old and drop what is too old or too much; ``add`` does so now and then."""
        with self._lock, self._written():
            self._tidy(now_ms)

    def close(self) -> None:
        with self._lock:
            self._file.close()

    @contextlib.contextmanager
    def _read(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            raise HistoryError(f"the history file cannot be read: {error}") from None

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        try:
            with self._file:
                self._file.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            self._ids.clear()
            self._last.clear()
            raise HistoryError(f"the history file cannot be written: {error}") from None

    def _id(self, cluster: str, group: str) -> int:
        known = self._ids.get((cluster, group))
        if known is None:
            self._file.execute("INSERT OR IGNORE INTO groups (cluster, name) VALUES (?, ?)", (cluster, group))
            known = self._find(cluster, group)
            assert known is not None
            self._ids[cluster, group] = known
        return known

    def _find(self, cluster: str, group: str) -> int | None:
        row = self._file.execute("SELECT id FROM groups WHERE cluster = ? AND name = ?", (cluster, group)).fetchone()
        return None if row is None else int(row[0])

    def _rows(self, cluster: str, group: str, since_ms: int, until_ms: int) -> list[Row]:
        """Changes in the time asked for, with the one in effect at its start."""
        group_id = self._find(cluster, group)
        if group_id is None:
            return []
        before = self._file.execute(
            "SELECT at_ms, lag, behind FROM samples WHERE group_id = ? AND at_ms <= ? ORDER BY at_ms DESC LIMIT 1",
            (group_id, since_ms),
        ).fetchall()
        within = self._file.execute(
            "SELECT at_ms, lag, behind FROM samples WHERE group_id = ? AND at_ms > ? AND at_ms <= ? ORDER BY at_ms",
            (group_id, since_ms, until_ms),
        ).fetchall()
        return [*before, *within]

    def _runs(self, cluster: str, since_ms: int, until_ms: int) -> list[tuple[int, int]]:
        return self._file.execute(
            "SELECT from_ms, to_ms FROM runs WHERE cluster = ? AND to_ms >= ? AND from_ms <= ? ORDER BY from_ms",
            (cluster, since_ms, until_ms),
        ).fetchall()

    def _extend_run(self, cluster: str, at_ms: int, every: float) -> None:
        gap_ms = int(max(_GAP_S, _GAP_INTERVALS * every) * 1000)
        extended = self._file.execute(
            "UPDATE runs SET to_ms = ? WHERE cluster = ? AND to_ms BETWEEN ? AND ?",
            (at_ms, cluster, at_ms - gap_ms, at_ms),
        )
        if not extended.rowcount:
            self._file.execute("INSERT INTO runs VALUES (?, ?, ?)", (cluster, at_ms, at_ms))

    def _tidy(self, now_ms: int) -> None:
        run = self._file.execute
        for age_s, stretch_s in _TIERS:
            self._thin(now_ms - age_s * 1000, stretch_s * 1000)
        oldest_ms = now_ms - self._keep_ms
        run("DELETE FROM samples WHERE at_ms < ?", (oldest_ms,))
        run("DELETE FROM events WHERE at_ms < ?", (oldest_ms,))
        run("DELETE FROM runs WHERE to_ms < ?", (oldest_ms,))
        too_many = self._size("samples") - self._max_rows
        if too_many > 0:
            # Some room at once, so that the next looks need not do this again.
            limit = too_many + self._max_rows // 10
            row = run("SELECT at_ms FROM samples ORDER BY at_ms LIMIT 1 OFFSET ?", (limit,)).fetchone()
            run("DELETE FROM samples WHERE at_ms < ?", (row[0] if row else now_ms,))
        run(
            "DELETE FROM events WHERE id <= (SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (self._max_events,),
        )
        gone = run(
            "DELETE FROM groups WHERE id NOT IN (SELECT group_id FROM samples UNION SELECT group_id FROM events)"
        )
        # What was dropped is written anew by the next look.
        self._last.clear()
        if gone.rowcount:
            self._ids.clear()

    def _thin(self, until_ms: int, stretch_ms: int) -> None:
        """Of each stretch the highest and the last stay: the last is in effect until the next change."""
        since_ms = self._thinned.get(stretch_ms, 0)
        self._file.execute(
            "DELETE FROM samples WHERE (group_id, at_ms) IN (SELECT group_id, at_ms FROM ("
            "SELECT group_id, at_ms, "
            "row_number() OVER (PARTITION BY group_id, at_ms / :stretch ORDER BY lag DESC) AS highest, "
            "row_number() OVER (PARTITION BY group_id, at_ms / :stretch ORDER BY at_ms DESC) AS latest "
            "FROM samples WHERE at_ms >= :since AND at_ms < :until) WHERE highest > 1 AND latest > 1)",
            {"stretch": stretch_ms, "since": since_ms, "until": until_ms},
        )
        self._thinned[stretch_ms] = until_ms - until_ms % stretch_ms

    def _size(self, table: str) -> int:
        (count,) = self._file.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - our own names
        return int(count)
