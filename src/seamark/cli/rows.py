"""Rows on the screen, or as JSON or CSV: the one place that knows how a command's result is laid out.

A table is as wide as its content. On a terminal that is narrower, the columns that may shrink do, by an ellipsis in
their middle: the beginning and the end of a name tell names apart. Many rows are streamed with the widths of the first
ones, so that the first row does not wait for the last. JSON is one array with a row per line, CSV has a header.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal, TextIO

Form = Literal["table", "json", "csv"]
# So many rows are looked at to find the widths; rows behind them are written as they come.
_MEASURED = 500
_LEAST_WIDTH = 8
_GAP = "  "
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """``title`` heads the table, ``name`` is the key in JSON and CSV; numbers stand to the right."""

    title: str
    name: str
    is_number: bool = False
    may_shrink: bool = False


def write_rows(columns: Sequence[Column], rows: Iterable[Sequence[Any]], form: Form, out: TextIO | None = None) -> None:
    """Write everything; a value of None is a dash in a table, null in JSON and empty in CSV."""
    out = out or sys.stdout
    if form == "json":
        _write_json(columns, rows, out)
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        writer.writerows(rows)
    else:
        _write_table(columns, rows, out)
    out.flush()


def _write_json(columns: Sequence[Column], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    names = [column.name for column in columns]
    out.write("[")
    for number, row in enumerate(rows):
        out.write("\n" if number == 0 else ",\n")
        out.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
    out.write("\n]\n")


def _write_table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    texts: Iterator[list[str]] = ([shown(value) for value in row] for row in rows)
    first = list(islice(texts, _MEASURED))
    widths = [max(map(len, each)) for each in zip([column.title for column in columns], *first, strict=True)]
    if out.isatty():
        widths = _fitting(columns, widths, shutil.get_terminal_size().columns)
    out.write(_line(columns, widths, [column.title for column in columns]))
    for row in chain(first, texts):
        out.write(_line(columns, widths, row))


def shown(value: Any) -> str:
    """A value in one line: control characters of a hostile name must not reach the terminal."""
    if value is None:
        return NOTHING
    text = value if isinstance(value, str) else f"{value:.1f}" if isinstance(value, float) else str(value)
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    )


def _fitting(columns: Sequence[Column], widths: list[int], available: int) -> list[int]:
    """Narrower widths, taken from the widest column that may shrink, until the line fits or nothing more may go."""
    widths = list(widths)
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - available
    while over > 0:
        shrinkable = [
            index for index, column in enumerate(columns) if column.may_shrink and widths[index] > _LEAST_WIDTH
        ]
        if not shrinkable:
            break
        widest = max(shrinkable, key=widths.__getitem__)
        widths[widest] -= 1
        over -= 1
    return widths


def _line(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str]) -> str:
    cells = [
        f"{text:>{width}}" if column.is_number else f"{_shortened(text, width, column):<{width}}"
        for column, width, text in zip(columns, widths, texts, strict=True)
    ]
    return _GAP.join(cells).rstrip() + "\n"


def _shortened(text: str, width: int, column: Column) -> str:
    if len(text) <= width or not column.may_shrink:
        return text
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]


def chosen_form(as_json: bool, as_csv: bool = False) -> Form:
    return "json" if as_json else "csv" if as_csv else "table"
