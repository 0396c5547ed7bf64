"""Findings in a lake, full counts: 1,050 histories whose truth is known, as tables of a lake, through Spark.

Each history is a group of its own. What Spark finds must be what was done to the group (precision and recall 1.0) and,
finding by finding, what the rules say of the same history without Spark.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from seamark.spark.lake.findings.job import find
from tests.support.group_histories import LOOK_ALIKES, TROUBLE, history_of
from tests.support.lakes import findings_in, findings_of_history, lake_of, renamed, rows_of
from tests.support.spark_session import local_session

SEEDS = 50
# Groups of one lake: what its rows take in this process's memory is bounded.
_AT_ONCE = 150


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    seeds = max(1, round(SEEDS * scale))
    cases = [(action, seed) for action in (*TROUBLE, *LOOK_ALIKES) for seed in range(seeds)]
    wrong: list[str] = []
    wanted = given = right = 0
    with local_session() as spark, tempfile.TemporaryDirectory(prefix="seamark-soak-") as name:
        for start in range(0, len(cases), _AT_ONCE):
            made = {}
            for action, seed in cases[start : start + _AT_ONCE]:
                made[f"{action.__name__}-{seed}"] = history_of(action, seed)
            groups = [replace(history, group=group) for group, (history, _) in made.items()]
            lake = lake_of(Path(name) / str(start), rows_of(groups))
            find(spark, lake)
            found = findings_in(lake, spark)
            for group, (history, truth) in made.items():
                told = found.get(group, set())
                kinds = [each.kind for each in told]
                wanted += len(truth)
                given += len(kinds)
                right += len(truth & set(kinds))
                if sorted(kinds) != sorted(truth) or told != findings_of_history(renamed(history, group)):
                    wrong.append(group)
    return {
        "ok": not wrong,
        "histories": len(cases),
        "precision": round(right / given, 6) if given else 1.0,
        "recall": round(right / wanted, 6) if wanted else 1.0,
        "wrong": wrong[:20],
        "seconds": round(time.monotonic() - begin, 1),
    }
