"""Mypy and pyright see the types that ``client_types`` asserts, and refuse what it says is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.parametrize(
    "checker",
    [
        [
            "mypy",
            "client_types.py",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(ROOT / ".mypy_cache"),
        ],
        ["basedpyright", "--pythonpath", sys.executable, "--project", "pyrightconfig.json"],
    ],
    ids=["mypy", "pyright"],
)
def test_the_client_has_the_types_that_its_users_rely_on(checker):
    checked = subprocess.run([sys.executable, "-m", *checker], cwd=HERE, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
