"""What ``seamark migrate`` shows: the plan as rows, what came of each group, and how far it is.

Rows go to standard output as they come, everything else to standard error. Progress is one line that is written over on
a terminal, and a line every ten seconds elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from seamark.cli.show.rows import Column, Form, write_rows
from seamark.counts import counted, number_text

if TYPE_CHECKING:
    from seamark.client import Offset
    from seamark.moves import GroupOutcome, MoveFile, Verified

_ON_TERMINAL_S = 0.2
_ELSEWHERE_S = 10.0

_GROUPS = (Column("GROUP", "group", may_shrink=True), Column("TO-GROUP", "to_group", may_shrink=True))
_WHERE = (*_GROUPS, Column("TOPIC", "topic", may_shrink=True), Column("PARTITION", "partition", is_number=True))
_PLANNED = (
    *_WHERE,
    Column("FROM", "from", is_number=True),
    Column("BEFORE", "before", is_number=True),
    Column("AFTER", "after", is_number=True),
    Column("REPEATED", "repeated", is_number=True),
    Column("HOW", "how"),
    Column("NOTE", "note", may_shrink=True),
    Column("PROBLEM", "problem", is_sentence=True),
)
_OUTCOMES = (
    *_GROUPS,
    Column("OFFSETS", "offsets", is_number=True),
    Column("RESULT", "result"),
    Column("REASON", "reason", is_sentence=True),
)
_VERIFIED = (
    *_WHERE,
    Column("FROM", "from", is_number=True),
    Column("TARGET", "target", is_number=True),
    Column("DIFFERENCE", "difference", may_shrink=True),
)


def show_plan(plan: MoveFile, form: Form) -> None:
    """Every partition of the plan; a group that has none but a problem has a row of its own."""
    write_rows(_PLANNED, _planned(plan), form)


def _planned(plan: MoveFile) -> Iterator[tuple[object, ...]]:
    for group in plan:
        names = group.group, group.to_group
        for move in group.moves:
            problem = move.problem or group.problem
            offsets = _number(move.source), _number(move.before), _number(move.after)
            yield *names, *move.partition, *offsets, move.repeated, move.how or None, move.note or None, problem or None
        alone = group.strays if group.moves else (*([group.problem] if group.problem else []), *group.strays)
        for problem in alone:
            yield *names, *[None] * 8, problem


def plan_sentence(plan: MoveFile, *, partial: bool) -> str:
    totals = plan.totals
    text = f"{counted(totals.groups, 'group')} with {counted(totals.offsets, 'offset')}, {totals.changes} to change"
    if totals.groups_with_problems:
        held = "be moved in part" if partial else "be held back (--partial moves what can be moved)"
        text += f"; {totals.groups_with_problems} of them with problems would {held}"
    return text


def show_outcomes(outcomes: Iterable[GroupOutcome], form: Form) -> None:
    rows = (
        (outcome.group, outcome.to_group, outcome.offsets, outcome.result, outcome.reason or None)
        for outcome in outcomes
    )
    write_rows(_OUTCOMES, rows, form)


def show_verified(verified: Iterable[Verified], form: Form) -> None:
    rows = (
        (
            row.group,
            row.to_group,
            *row.partition,
            _number(row.source),
            _number(row.target),
            row.difference or None,
        )
        for row in verified
    )
    write_rows(_VERIFIED, rows, form)


def _number(offset: Offset | None) -> int | None:
    return None if offset is None else offset.offset


class ProgressLine:
    """Says on standard error how far it is; ``total`` is None while it is not known."""

    def __init__(self, what: str, total: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._is_terminal = sys.stderr.isatty()
        self._every = _ON_TERMINAL_S if self._is_terminal else _ELSEWHERE_S
        self._last = clock()
        self._is_shown = False

    def __call__(self, groups: int, offsets: int) -> None:
        now = self._clock()
        if now - self._last < self._every:
            return
        self._last = now
        so_far = (
            counted(groups, "group")
            if self._total is None
            else f"{number_text(groups)} of {counted(self._total, 'group')}"
        )
        text = f"{self._what}: {so_far}, {counted(offsets, 'offset')}"
        typer.echo(f"\r{text}\x1b[K" if self._is_terminal else text, err=True, nl=not self._is_terminal)
        self._is_shown = True

    def end(self) -> None:
        """Leave the terminal's line as it was found."""
        if self._is_shown and self._is_terminal:
            typer.echo("\r\x1b[K", err=True, nl=False)
        self._is_shown = False
