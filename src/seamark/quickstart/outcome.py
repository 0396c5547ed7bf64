"""The end of the quickstart: what was measured of each group as a table, what was found, and what to try next."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from seamark.cli.show.rows import Column, write_rows
from seamark.readable_text import readable_json

_COLUMNS = (
    Column("GROUP", "group", may_shrink=True),
    Column("PROCESSED", "processed", is_number=True),
    Column("REPEATED", "repeated", is_number=True),
    Column("COMMITTED", "committed", is_number=True),
    Column("LAG", "lag", is_number=True),
    Column("UNFINISHED", "unfinished", is_number=True),
    Column("FINDINGS", "findings"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A finding of the audit."""

    kind: str
    group: str
    topic: str | None
    partition: int | None
    text: str


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """``processed`` distinct records, ``repeated`` runs beyond the first; ``lag`` and ``committed`` as the broker says.

    Of the lag ``done_ahead`` are done already, and ``unfinished`` are left; ``findings`` is None where nobody looked.
    """

    group: str
    processed: int
    repeated: int
    committed: int
    lag: int
    unfinished: int
    done_ahead: int
    findings: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """``left_out`` has the parts that are missing, with the reason."""

    cluster: str
    topic: str
    groups: tuple[GroupOutcome, ...]
    found: tuple[Found, ...]
    report: Path | None
    plan: Path
    seconds: float
    left_out: Mapping[str, str]
    # How to look at the data afterwards, where it is kept.
    kept: str = ""

    def as_json(self) -> str:
        fields = {**asdict(self), "report": str(self.report) if self.report else None, "plan": str(self.plan)}
        return readable_json(fields, indent=2)


def write_outcome(outcome: Outcome, out: TextIO, width: int) -> None:
    rows = (
        (
            group.group,
            group.processed,
            group.repeated,
            group.committed,
            group.lag,
            group.unfinished,
            _findings(group.findings),
        )
        for group in outcome.groups
    )
    out.write("\n")
    write_rows(_COLUMNS, rows, "table", out)
    notes = [*_notes(outcome)]
    if notes:
        out.write("\n")
    for note in notes:
        out.write(textwrap.fill(note, width, subsequent_indent="  ", break_long_words=False) + "\n")
    out.write("\n")
    if outcome.report is not None:
        out.write(f"Report:  {_near(outcome.report)}\n")
    out.write(f"Plan:    {_near(outcome.plan)}\n")
    if outcome.kept:
        out.write(f"Kept:    {outcome.kept}\n")
    out.write(_NEXT)


def _near(path: Path) -> Path:
    """As one would write it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _findings(kinds: tuple[str, ...] | None) -> str:
    if kinds is None:
        return "not audited"
    return ", ".join(kinds) or "none"


def _notes(outcome: Outcome) -> list[str]:
    """One sentence per group and kind: partitions that were found alike are counted."""
    alike: dict[tuple[str, str], list[Found]] = {}
    for finding in outcome.found:
        alike.setdefault((finding.group, finding.kind), []).append(finding)
    notes = []
    for (group, kind), findings in alike.items():
        more = f" (and {len(findings) - 1} more like this)" if len(findings) > 1 else ""
        notes.append(f"{group}, {kind}: {findings[0].text}{more}.")
    return notes


_NEXT = """
Next, on your own cluster (only the last command writes to it):
  export SEAMARK_BOOTSTRAP=HOST:PORT
  seamark lag                             lag in records and in time
  seamark groups describe GROUP           each partition and its consumer
  seamark groups reset GROUP --to ago:1h  what a reset would repeat or skip
  seamark audit --out lake --report r.html
                                          commit history, findings, report
  seamark dashboard                       groups and lag in the browser
  seamark quickstart --bootstrap HOST:PORT
                                          this demo, in its own topic
"""
