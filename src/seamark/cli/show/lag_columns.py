"""The columns that stand beside LAG, and the notes under a table of lags.

LAG is what Kafka's tool prints. What it hides has columns of its own, which a table has only when there is something in
them; JSON and CSV always have them. What takes a sentence is a note under the table, on standard error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from seamark.cli.show.rows import Column, Form, write_rows
from seamark.cli.show.terminal_text import say

LAG = Column("LAG", "lag", is_number=True)
LOST = Column("LOST", "lost", is_number=True)
UNFINISHED = Column("UNFINISHED", "unfinished", is_number=True)
# In a table the negative LAG and a note say it.
BEYOND = Column("BEYOND-END", "beyond_end", is_number=True, in_table=False)
REMARK = Column("REMARK", "remark", in_table=False)
LAG_PARTS = (LOST, UNFINISHED, BEYOND)
_MOST_NOTES = 10


class LagParts(NamedTuple):
    """The numbers of a row."""

    lag: int | None
    lost: int
    unfinished: int | None
    beyond: int


class Note(NamedTuple):
    """What is said under the table about ``subject``; the urgent ones come first."""

    subject: str
    text: str
    is_urgent: bool


def write_lags(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Any]],
    parts: Iterable[LagParts],
    notes: Iterable[Note],
    form: Form,
) -> None:
    """Write rows that have all of ``columns``; ``parts``, the numbers of all rows, say what a table can leave out."""
    if form != "table":
        write_rows(columns, rows, form)
        return
    hidden = _empty(parts)
    kept = [index for index, column in enumerate(columns) if column.name not in hidden]
    write_rows([columns[index] for index in kept], ([row[index] for index in kept] for row in rows), form)
    for line in _note_lines(notes):
        say(line)


def _empty(parts: Iterable[LagParts]) -> set[str]:
    """Names of columns that would say nothing."""
    empty = {LOST.name, UNFINISHED.name}
    for lag, lost, unfinished, _ in parts:
        if lost:
            empty.discard(LOST.name)
        if lag is not None and lag >= 0 and unfinished != lag:
            empty.discard(UNFINISHED.name)
    return empty


def _note_lines(notes: Iterable[Note]) -> Iterator[str]:
    ordered = sorted(notes, key=lambda note: not note.is_urgent)
    for note in ordered[:_MOST_NOTES]:
        yield f"{note.subject}: {note.text}"
    if len(ordered) > _MOST_NOTES:
        yield f"… and {len(ordered) - _MOST_NOTES} more notes; --json has all of them"
