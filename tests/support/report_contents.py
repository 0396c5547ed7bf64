"""Contents of reports as ``seamark.spark.lake.report.content`` makes them, with as many groups as are wanted."""

from __future__ import annotations

import random
from typing import Any

from seamark.rules.findings import SEVERITIES, severity_of
from seamark.spark.lake.report.content import FORMAT, PARTITION_COLUMNS, REBALANCE_COLUMNS, VERSION
from seamark.spark.lake.report.limits import detail_for

START = 1_763_190_000_000
STEP = 360_000
HOSTILE = (
    '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\'"&amp;\u202e\x9b\u200b\n\u2028'
)

_KINDS = ("stall", "stop", "rewind", "forward jump", "moved from outside", "slow drain", "commits too often")


def report_content(groups: int, *, partitions: int = 4, seed: int = 1) -> dict[str, Any]:
    """A report of so many groups, the second of them with a hostile name."""
    rng = random.Random(seed)
    detail = detail_for(groups, groups * partitions)
    topics = [f"topic-{number:02}" for number in range(min(40, groups))]
    findings: list[dict[str, Any]] = []
    made = []
    for place in range(groups):
        name = HOSTILE if place == 1 else f"team-{place % 17:02}.service-{place:05}"
        troubled = place < max(2, groups // 20)
        shown = [_partition(rng, rng.randrange(len(topics)), index, detail.points, troubled)
                 for index in range(min(partitions, detail.partitions))]  # fmt: skip
        found = [0] * len(SEVERITIES)
        for _ in range(1 + place % 2 if troubled else 0):
            kind = _KINDS[(place + len(findings)) % len(_KINDS)]
            found[SEVERITIES.index(severity_of(kind))] += 1
            findings.append(_finding(rng, kind, name, place, topics[shown[0][0]], detail.points))
        made.append(_group(rng, name, shown, found, partitions, detail))
    counts: dict[str, int] = {}
    for each in findings:
        counts[each["kind"]] = counts.get(each["kind"], 0) + 1
    findings.sort(key=lambda each: SEVERITIES.index(each["severity"]))
    return {
        "format": FORMAT,
        "version": VERSION,
        "cluster": "xJ9-production",
        "lake_version": 12,
        "from_ms": START,
        "until_ms": START + STEP * detail.points - 1,
        "step_ms": STEP,
        "points": detail.points,
        "look_ms": STEP,
        "totals": {
            "groups": groups,
            "partitions": groups * partitions,
            "commits": sum(each["commits"] for each in made),
            "outside": 3,
            "rebalances": sum(each["rebalances"] for each in made),
            "lag": sum(each["lag"] for each in made),
            "rejects": 2,
            "findings": dict(sorted(counts.items())),
            "severities": {
                name: sum(each["severity"] == name for each in findings) for name in SEVERITIES
            },
        },
        "groups_left_out": 0,
        "findings_left_out": 0,
        "topics": topics,
        "partition_columns": PARTITION_COLUMNS,
        "rebalance_columns": REBALANCE_COLUMNS,
        "groups": made,
        "findings": findings,
        "made_ms": START + STEP * detail.points,
    }  # fmt: skip


def _partition(rng: random.Random, topic: int, index: int, points: int, troubled: bool) -> list[Any]:
    lag = []
    behind = rng.randrange(200)
    for point in range(points):
        behind = max(
            0, behind + (rng.randrange(400, 3000) if troubled and point > points // 3 else rng.randrange(-80, 80))
        )
        lag.append(None if 5 < point < 9 and index == 0 else behind)
    commits = [rng.randrange(20, 72) for _ in range(points)]
    end = 1_000_000 + rng.randrange(10_000_000)
    read = rng.randrange(1000, 900_000)
    row = {
        "topic": topic, "partition": index, "committed": end - behind, "log_end": end, "lag": behind,
        "lost": behind // 4 if troubled else 0, "unfinished": behind // 2 if troubled else behind, "beyond": 0,
        "time_lag_ms": behind * 20, "time_lag_error_ms": None if behind else 0,
        "method": "at least" if behind else "caught up",
        "commits": sum(commits), "outside": 0, "first_offset": end - behind - read + 250, "read": read, "moved": -250,
        "last_offset": end - behind, "written": read + behind, "last_commit_ms": START + STEP * (points - 1),
        "lag_points": lag, "commit_points": commits,
    }  # fmt: skip
    return [row[name] for name in PARTITION_COLUMNS]


def _group(
    rng: random.Random, name: str, shown: list[list[Any]], found: list[int], partitions: int, detail: Any
) -> dict[str, Any]:
    column = {each: place for place, each in enumerate(PARTITION_COLUMNS)}

    def summed(what: str) -> int:
        return sum(row[column[what]] for row in shown)

    def points(what: str) -> list[int]:
        return [sum(row[column[what]][point] or 0 for row in shown) for point in range(detail.points)]

    marks = [
        [
            START + rng.randrange(STEP * detail.points),
            number,
            rng.randrange(1, 6),
            rng.randrange(2),
            rng.randrange(2),
            None,
        ]
        for number in range(rng.randrange(1, detail.rebalances))
    ]
    return {
        "name": name, "type": "classic", "state": rng.choice(["Stable", "Stable", "Stable", "Empty"]),
        "members": rng.randrange(6), "partitions": partitions, "commits": summed("commits"), "outside": 0,
        "read": summed("read"), "rebalances": len(marks), "lag": summed("lag"), "lost": summed("lost"),
        "unfinished": summed("unfinished"), "beyond": summed("beyond"),
        "time_lag_ms": max(row[column["time_lag_ms"]] for row in shown), "time_lag_error_ms": None,
        "method": "at least", "last_commit_ms": START + STEP * (detail.points - 1), "found": found,
        "lag_points": points("lag_points"), "commit_points": points("commit_points"),
        "read_points": [rng.randrange(100, 5000) for _ in range(detail.points)],
        "rebalance_marks": sorted(marks), "shown": shown,
    }  # fmt: skip


def _finding(rng: random.Random, kind: str, group: str, place: int, topic: str, points: int) -> dict[str, Any]:
    first = START + rng.randrange(STEP * points // 2)
    return {
        "kind": kind, "severity": severity_of(kind), "group": group, "topic": topic, "partition": 0,
        "first_ms": first, "last_ms": rng.choice([None, first + 20 * STEP]),
        "text": f"{topic}-0 of this group shows a {kind} at offset {rng.randrange(100_000)}", "place": place,
        "advice": "Look at the record at that offset.", "evidence": {"offset": rng.randrange(100_000), "records": None},
    }  # fmt: skip
