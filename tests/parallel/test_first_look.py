"""The example that ``make run`` shows runs, and says what it should."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_look.py"


def test_the_first_look_processes_commits_and_describes():
    ran = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "20000 records were processed" in ran.stdout
    lags = [line.split()[5] for line in ran.stdout.splitlines() if line.startswith("billing") and line.endswith("-")]
    assert lags[:4] == ["0"] * 4
    assert "nothing was changed" in ran.stderr
