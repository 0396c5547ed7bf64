"""A published version of the lake: which files each table has, and how far the inputs are covered by them.

A manifest is one JSON document that carries a checksum of itself, so a reader knows a whole one from a torn one without
asking the file system. It is never changed: the next version is a new document. ``covered`` and the files of a version
belong together, which is what makes a rerun neither lose nor double a row.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_FORMAT = "seamark-lake-manifest"


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of a table, its path relative to the lake; ``part`` is set for files of the state tables."""

    path: str
    rows: int
    size: int
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Covered:
    """What the lake has of one partition of the offsets topic: everything that was there from begin up to end.

    ``expected`` is the offset behind the last record seen; ``gap`` that of the first record behind the last hole in the
    offsets, -1 where there never was one.
    """

    begin: int
    end: int
    expected: int
    gap: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """``streams`` has the last batch of each streaming query; ``sampled_ms`` the time of the sampler's last look."""

    version: int = 0
    tables: Mapping[str, tuple[File, ...]] = field(default_factory=dict)
    covered: Mapping[int, Covered] = field(default_factory=dict)
    topic_id: str | None = None
    streams: Mapping[str, int] = field(default_factory=dict)
    sampled_ms: int | None = None

    def files(self, table: str) -> tuple[File, ...]:
        return self.tables.get(table, ())

    def rows(self, table: str) -> int:
        return sum(file.rows for file in self.files(table))

    @property
    def paths(self) -> set[str]:
        return {file.path for files in self.tables.values() for file in files}

    def followed_by(
        self,
        added: Mapping[str, Iterable[File]],
        *,
        replaced: Collection[str] = (),
        dropped: Collection[str] = (),
        covered: Mapping[int, Covered] | None = None,
        **changed: Any,
    ) -> Manifest:
        """The next version.

        Files of the ``replaced`` tables and the ``dropped`` paths are left out; a new state file takes the place of
        those of the same partition.
        """
        left_out = set(dropped)
        tables: dict[str, tuple[File, ...]] = {}
        for table in sorted({*self.tables, *added}):
            new = tuple(added.get(table, ()))
            parts = {file.part for file in new if file.part is not None}
            old = () if table in replaced else self.files(table)
            kept = tuple(file for file in old if file.path not in left_out and file.part not in parts)
            tables[table] = kept + tuple(file for file in new if file.rows)
        return replace(
            self, version=self.version + 1, tables=tables, covered={**self.covered, **(covered or {})}, **changed
        )

    def to_text(self) -> str:
        body = {
            "format": _FORMAT,
            "version": self.version,
            "topic_id": self.topic_id,
            "sampled_ms": self.sampled_ms,
            "streams": dict(self.streams),
            "covered": {
                str(partition): [got.begin, got.end, got.expected, got.gap]
                for partition, got in sorted(self.covered.items())
            },
            "tables": {
                table: [[file.path, file.rows, file.size, file.part] for file in files]
                for table, files in sorted(self.tables.items())
            },
        }
        return json.dumps({"check": _check(body), **body}, indent=0)


def read_manifest(text: str) -> Manifest | None:
    """The manifest in the text; None if it is not a whole one."""
    try:
        body = json.loads(text)
        if body.pop("check") != _check(body) or body["format"] != _FORMAT:
            return None
        return Manifest(
            version=body["version"],
            tables={table: tuple(File(*file) for file in files) for table, files in body["tables"].items()},
            covered={int(partition): Covered(*numbers) for partition, numbers in body["covered"].items()},
            topic_id=body["topic_id"],
            streams=body["streams"],
            sampled_ms=body["sampled_ms"],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _check(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
