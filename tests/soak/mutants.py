"""All deliberate bugs and 200 operator mutants: every one of the former and 80 % of the latter are caught by the tests.

Nothing is taken over from earlier runs. The survivors' reasons are in tools/mutants/survivors.json.
"""

import sys
import tempfile
from pathlib import Path

from tools import mutation_check

BUDGET_SECONDS = 1700


def run(scale: float) -> dict[str, object]:
    mutation_check.check_sound_source(100)
    reports = {}
    with tempfile.TemporaryDirectory() as directory:
        for kind, candidates, seeds in (
            ("deliberate", mutation_check.deliberate_candidates(), mutation_check.SEEDS),
            ("operators", mutation_check.operator_candidates(mutation_check.OPERATOR_MUTANTS, 1), 100),
        ):
            chosen = candidates[: max(1, int(len(candidates) * scale))]
            results = mutation_check.run(chosen, seeds, Path(directory) / kind, BUDGET_SECONDS, _say)
            reports[kind] = mutation_check.verdict(kind, chosen, results)
    return {"ok": all(report["ok"] for report in reports.values()), **reports}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
