"""Rows on the screen, or as JSON or CSV: the one place that knows how a command's result is laid out.

A table is as wide as its content. On a terminal that is narrower, columns in which nothing stands are left out, and
those that may shrink do: names by an ellipsis in their middle, because beginning and end tell names apart, sentences at
their end. If that is not enough, columns that may go do; then titles are stacked, broken at their hyphens, and columns
come closer. Many rows are streamed with the widths of the first ones, so that the first row does not wait for the last.
Whatever is no terminal gets every column, and cells of up to ``_MOST_NAME`` characters in full: one name of thirty
thousand must not make every line as long. JSON is one array with a row per line, CSV has a header. Texts are exact in
JSON only: tables and CSV show control characters as escapes, and a CSV cell is never a formula.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TextIO

from seamark.counts import shortened
from seamark.errors import UsageError
from seamark.readable_text import middle_cut, no_formula, readable, readable_json

Form = Literal["table", "json", "csv"]
# So many rows are looked at to find the widths; rows behind them are written as they come.
_MEASURED = 500
# Topics have at most 249 characters, so that their names are never cut; groups and clients may be called anything.
_MOST_NAME = 250
_MOST_SENTENCE = 1000
_LEAST_WIDTH = 8
_LEAST_STACKED = 6
_GAP = 2
_GAP_STACKED = 1
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """``title`` heads the table, ``name`` is the key in JSON and CSV; numbers stand to the right.

    ``may_shrink`` is for names, ``is_sentence`` for texts that are read from their beginning; both become shorter.
    ``may_go`` is for what is told elsewhere too; what is not ``in_table`` is for JSON and CSV only.
    """

    title: str
    name: str
    is_number: bool = False
    may_shrink: bool = False
    is_sentence: bool = False
    may_go: bool = False
    in_table: bool = True


def write_rows(columns: Sequence[Column], rows: Iterable[Sequence[Any]], form: Form, out: TextIO | None = None) -> None:
    """Write everything; a value of None is a dash in a table, null in JSON and empty in CSV."""
    out = out or sys.stdout
    if form == "json":
        _write_json(columns, rows, out)
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        writer.writerows([_csv_cell(value) for value in row] for row in rows)
    else:
        _write_table(columns, rows, out)
    out.flush()


def _csv_cell(value: Any) -> Any:
    return no_formula(readable(value)) if isinstance(value, str) else value


def _write_json(columns: Sequence[Column], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    names = [column.name for column in columns]
    out.write("[")
    for number, row in enumerate(rows):
        out.write("\n" if number == 0 else ",\n")
        out.write(readable_json(dict(zip(names, row, strict=True))))
    out.write("\n]\n")


def _write_table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    kept = [(index, column) for index, column in enumerate(columns) if column.in_table]
    columns = [column for _, column in kept]
    texts: Iterator[list[str]] = ([_cell(row[index], column) for index, column in kept] for row in rows)
    first = list(islice(texts, _MEASURED))
    layout = _Layout.of(columns, first)
    if out.isatty():
        layout = layout.fitting(shutil.get_terminal_size().columns, first)
    for row in chain(layout.heads, first, texts):
        out.write(layout.line(row))


def shown(value: Any) -> str:
    """A value in one line: control characters of a hostile name must not reach the terminal."""
    if value is None:
        return NOTHING
    return readable(value if isinstance(value, str) else f"{value:.1f}" if isinstance(value, float) else str(value))


def _cell(value: Any, column: Column) -> str:
    text = shown(value)
    if column.is_sentence:
        return shortened(text, _MOST_SENTENCE)
    return text if column.is_number else middle_cut(text, _MOST_NAME)


@dataclass(frozen=True, slots=True)
class _Layout:
    """``widths`` has None for a column that is left out; ``heads`` are the lines of titles."""

    columns: Sequence[Column]
    heads: Sequence[Sequence[str]]
    widths: Sequence[int | None]
    gap: int = _GAP

    @classmethod
    def of(cls, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> _Layout:
        titles = [column.title for column in columns]
        return cls(columns, [titles], [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)])

    def fitting(self, available: int, rows: Sequence[Sequence[str]]) -> _Layout:
        """The same layout if it fits, else what fits best."""
        if self._over(available) <= 0:
            return self
        # Behind rows that were not measured there may be something in any column.
        is_whole = 0 < len(rows) < _MEASURED
        kept = [
            not is_whole or index == 0 or any(row[index] not in ("", NOTHING) for row in rows)
            for index in range(len(self.columns))
        ]
        layout = self._with(kept)._shrunk(available, _LEAST_WIDTH)
        if layout._over(available) <= 0:
            return layout
        kept = [keep and not column.may_go for keep, column in zip(kept, self.columns, strict=True)]
        layout = self._with(kept)._shrunk(available, _LEAST_WIDTH)
        if layout._over(available) <= 0:
            return layout
        heads = _stacked([column for column, keep in zip(self.columns, kept, strict=True) if keep], kept)
        widths = [
            max(map(len, cells)) if keep else None
            for keep, cells in zip(kept, zip(*heads, *rows, strict=True), strict=True)
        ]
        return _Layout(self.columns, heads, widths, _GAP_STACKED)._shrunk(available, _LEAST_STACKED)

    def line(self, texts: Sequence[str]) -> str:
        cells = [
            f"{text:>{width}}" if column.is_number else f"{_shortened(text, width, column):<{width}}"
            for column, width, text in zip(self.columns, self.widths, texts, strict=True)
            if width is not None
        ]
        return (" " * self.gap).join(cells).rstrip() + "\n"

    def _with(self, kept: Sequence[bool]) -> _Layout:
        return replace(self, widths=[width if keep else None for width, keep in zip(self.widths, kept, strict=True)])

    def _over(self, available: int) -> int:
        shown_widths = [width for width in self.widths if width is not None]
        return sum(shown_widths) + self.gap * (len(shown_widths) - 1) - available

    def _shrunk(self, available: int, least: int) -> _Layout:
        """Narrower, taken from the widest column that may shrink, until the line fits or nothing more may go."""
        widths = list(self.widths)
        for _ in range(self._over(available)):
            shrinkable = {
                index: width
                for index, (column, width) in enumerate(zip(self.columns, widths, strict=True))
                if width is not None and width > least and (column.may_shrink or column.is_sentence)
            }
            if not shrinkable:
                break
            widest = max(shrinkable, key=shrinkable.__getitem__)
            widths[widest] = shrinkable[widest] - 1
        return replace(self, widths=widths)


def _stacked(columns: Sequence[Column], kept: Sequence[bool]) -> list[list[str]]:
    """The titles in as many lines as the longest has parts, standing on the rows; nothing for what is left out."""
    shown_parts = iter([re.findall(r"[^-]+-?", column.title) or [column.title] for column in columns])
    parts = [next(shown_parts) if keep else [] for keep in kept]
    height = max(map(len, parts))
    return [list(line) for line in zip(*([""] * (height - len(part)) + part for part in parts), strict=True)]


def _shortened(text: str, width: int, column: Column) -> str:
    if len(text) <= width or not (column.may_shrink or column.is_sentence):
        return text
    return shortened(text, width - 1) if column.is_sentence else middle_cut(text, width)


def write_file(path: str, text: str) -> None:
    """Write what ``--out`` asked for; UsageError if that cannot be."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written ({error.strerror})") from None


def chosen_form(as_json: bool, as_csv: bool = False) -> Form:
    return "json" if as_json else "csv" if as_csv else "table"
