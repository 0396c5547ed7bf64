"""Findings about a group's past: each rule is a pure function over one history, shared by the lake and the monitor."""

from __future__ import annotations

from seamark.rules.findings.finding import Finding, Parameters
from seamark.rules.findings.group_rules import never_committed, rebalance_storm, uneven_partitions
from seamark.rules.findings.history import (
    Commit,
    Deletion,
    Generation,
    GroupHistory,
    LogSample,
    Origin,
    PartitionHistory,
)
from seamark.rules.findings.loss_rules import records_lost
from seamark.rules.findings.move_rules import beyond_end, expired, forward_jump, moved_from_outside, rewind
from seamark.rules.findings.pace_rules import commits_too_often, metadata_near_limit, slow_drain, stall, stop
from seamark.rules.findings.severity import KINDS, SEVERITIES, Severity, severity_of

__all__ = [
    "GROUP_RULES",
    "KINDS",
    "PARTITION_RULES",
    "SEVERITIES",
    "Commit",
    "Deletion",
    "Finding",
    "Generation",
    "GroupHistory",
    "LogSample",
    "Origin",
    "Parameters",
    "PartitionHistory",
    "Severity",
    "findings_of",
    "severity_of",
]

PARTITION_RULES = (
    rewind,
    forward_jump,
    moved_from_outside,
    beyond_end,
    records_lost,
    expired,
    stall,
    stop,
    slow_drain,
    commits_too_often,
    metadata_near_limit,
)
GROUP_RULES = (never_committed, rebalance_storm, uneven_partitions)


def findings_of(history: GroupHistory, parameters: Parameters | None = None) -> list[Finding]:
    """Everything the rules find in a group's history, in the order of time."""
    chosen = parameters or Parameters()
    findings = [
        finding for partition in history.partitions for rule in PARTITION_RULES for finding in rule(partition, chosen)
    ]
    findings += [finding for rule in GROUP_RULES for finding in rule(history, chosen)]
    return sorted(
        findings, key=lambda finding: (finding.from_ms, finding.topic or "", finding.partition or 0, finding.kind)
    )
