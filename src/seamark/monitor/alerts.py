"""Which groups need somebody, told once when it begins and once when it is over.

Pure: it is given what each look found and gives back what is to be told. A trouble must last for ``looks`` looks before
it is told, and be gone for as many before it counts as over, so that a group between two states does not ring twice a
minute. A group that is gone from the cluster is over; of one that cannot be read nothing is known, and nothing is told
until it can be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from seamark.readable_text import readable

FORMAT = "seamark.alert"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a group: in a word, and a sentence for each thing that was found."""

    status: str
    findings: tuple[str, ...] = ()
    lag: int | None = None
    behind: float | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to tell; ``since_ms`` is when the trouble was first seen."""

    state: Literal["firing", "resolved"]
    cluster: str
    group: str
    trouble: Trouble
    since_ms: int
    at_ms: int

    def body(self) -> dict[str, Any]:
        """What a webhook is sent; ``text`` alone says it all, which is what chat services show."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "state": self.state,
            "cluster": self.cluster,
            "group": self.group,
            "status": self.trouble.status,
            "findings": list(self.trouble.findings),
            "lag": self.trouble.lag,
            "behind_seconds": self.trouble.behind,
            "since_ms": self.since_ms,
            "at_ms": self.at_ms,
            "text": self.text,
        }

    @property
    def text(self) -> str:
        where = f"group {self.group!r} on cluster {self.cluster!r}"
        if self.state == "resolved":
            return f"{where} has recovered; it was {self.trouble.status}"
        more = f": {'; '.join(self.trouble.findings)}" if self.trouble.findings else ""
        return readable(f"{where} is {self.trouble.status}{more}")


@dataclass(slots=True)
class _Standing:
    trouble: Trouble
    since_ms: int
    seen: int = 0
    missed: int = 0
    is_told: bool = False


@dataclass(slots=True)
class AlertBook:
    """The groups in trouble of one cluster; one owner."""

    cluster: str
    looks: int = 2
    _open: dict[str, _Standing] = field(default_factory=dict)

    def update(
        self, troubles: Mapping[str, Trouble], at_ms: int, unknown: Collection[str] = frozenset()
    ) -> list[Alert]:
        """What one look found, by group, and which groups it could not read; gives what is to be told because of it."""
        told: list[Alert] = []
        for group, trouble in troubles.items():
            standing = self._open.setdefault(group, _Standing(trouble, at_ms))
            standing.trouble = trouble
            standing.seen += 1
            standing.missed = 0
            if not standing.is_told and standing.seen >= self.looks:
                standing.is_told = True
                told.append(Alert("firing", self.cluster, group, trouble, standing.since_ms, at_ms))
        for group, standing in list(self._open.items()):
            if group in troubles or group in unknown:
                continue
            standing.missed += 1
            if standing.missed >= self.looks or not standing.is_told:
                del self._open[group]
                if standing.is_told:
                    told.append(Alert("resolved", self.cluster, group, standing.trouble, standing.since_ms, at_ms))
        return told

    @property
    def firing(self) -> frozenset[str]:
        return frozenset(group for group, standing in self._open.items() if standing.is_told)
