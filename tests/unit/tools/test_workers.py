"""How ``make test`` spreads the tests over its workers: whole files, as tests/conftest.py says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
FILES = ("tests/unit/plans/test_plan.py", "tests/unit/rules/test_lag.py")


def test_a_file_stays_on_one_worker_for_the_sake_of_what_it_starts():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "--numprocesses=2", "--dist=loadgroup", *FILES],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    workers = defaultdict(set)
    for worker, file in re.findall(r"^\[(gw\d)\] .* PASSED (\S+?)::", run.stdout, re.MULTILINE):
        workers[file].add(worker)
    assert sorted(workers) == sorted(FILES)
    assert sorted(len(each) for each in workers.values()) == [1, 1]
    # With both files on one worker the other would stand idle.
    assert len(set.union(*workers.values())) == 2
