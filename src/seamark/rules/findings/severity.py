"""How urgent a kind of finding is: work that is not done or was lost, work done badly, and habits worth changing."""

from __future__ import annotations

from typing import Literal

Severity = Literal["critical", "warning", "notice"]

# From the most to the least urgent.
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "notice")

_OF_KIND: dict[str, Severity] = {
    # Records are not read, or never will be.
    "stall": "critical",
    "stop": "critical",
    "blocked": "critical",
    "forward jump": "critical",
    "beyond the end": "critical",
    "records lost": "critical",
    "expired": "critical",
    "never committed": "critical",
    # Records are read again, late, or with trouble.
    "rewind": "warning",
    "moved from outside": "warning",
    "rebalance storm": "warning",
    "slow drain": "warning",
    # Nothing is wrong yet.
    "uneven partitions": "notice",
    "commits too often": "notice",
    "metadata near its limit": "notice",
}
KINDS = tuple(_OF_KIND)


def severity_of(kind: str) -> Severity:
    """The severity of a kind of finding.

    >>> severity_of("blocked"), severity_of("rewind"), severity_of("uneven partitions")
    ('critical', 'warning', 'notice')
    """
    return _OF_KIND[kind]
