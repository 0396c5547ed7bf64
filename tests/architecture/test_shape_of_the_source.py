"""What every source file promises: it says what it owns, stays small, and keeps imports cheap."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "seamark").rglob("*.py"))
FORBIDDEN_NAMES = {
    "manager",
    "helper",
    "helpers",
    "util",
    "utils",
    "common",
    "base",
    "abstract",
    "impl",
    "data",
    "misc",
}
# A rule that needs more lines than this is two rules.
MAX_LINES = 500
HEAVY = {"numba", "numpy", "pyarrow", "pyspark", "pandas", "asyncio", "uvloop", "typer", "rich", "cramjam"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_says_what_it_owns_and_stays_small(path):
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "a module docstring says what the file owns"
    assert len(text.splitlines()) <= MAX_LINES
    assert not FORBIDDEN_NAMES & set(path.stem.split("_"))
    assert "TODO" not in text
    assert "FIXME" not in text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_logger_of_the_package_makes_its_lines_readable(path):
    # Handlers look loggers up inside functions; a module that logs has its logger at its top.
    assert not re.search(r"^\w+ = logging\.getLogger\(", path.read_text(), re.MULTILINE)


def test_importing_seamark_and_the_wire_layer_loads_nothing_heavy():
    statement = (
        "import sys; import seamark, seamark.wire.protocol.frames, seamark.wire.records; "
        "import seamark.wire.offsets.offsets_topic; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True, text=True).stdout
    assert not HEAVY & set(loaded.split())


def test_names_listed_as_public_exist():
    statement = """
import importlib, pathlib, pkgutil, seamark
for module in pkgutil.walk_packages(seamark.__path__, "seamark."):
    loaded = importlib.import_module(module.name)
    for name in getattr(loaded, "__all__", ()):
        assert hasattr(loaded, name), (module.name, name)
"""
    subprocess.run([sys.executable, "-c", statement], check=True)
