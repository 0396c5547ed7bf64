"""What every source file promises: it says what it owns, stays small, and keeps imports cheap."""

import ast
import functools
import re
import subprocess
import symtable
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
# These two say nothing of what a variable holds.
NAMES_OF_NOTHING = {"found", "each"}
# Folders whose local variables still have them; the list only gets shorter.
NOT_YET_RENAMED = {"broker/groups", "client/consumer", "client/net", "simulation"}
# Parameters that callers may give by name, of two errors with an attribute of the same name and of the rule in JSON.
PUBLIC_PARAMETERS = {"acls.py": ["found"], "plans/errors.py": ["found"], "spark/errors.py": ["found"]}
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


def test_a_local_variable_says_what_it_holds():
    assert {
        path: names
        for path, names in _names_of_nothing().items()
        if names != PUBLIC_PARAMETERS.get(path) and not NOT_YET_RENAMED & set(_folders_of(path))
    } == {}


def test_a_folder_is_excepted_from_that_only_as_long_as_it_has_to_be():
    still = {folder for path in _names_of_nothing() for folder in _folders_of(path)}
    assert still >= NOT_YET_RENAMED, "take the folder off the list: its variables are named"


@functools.cache
def _names_of_nothing():
    """The variables, by file, that are called so."""
    named = {}
    for path in SOURCES:
        if names := sorted(_variables_among(NAMES_OF_NOTHING, symtable.symtable(path.read_text(), path.name, "exec"))):
            named[path.relative_to(ROOT / "src" / "seamark").as_posix()] = names
    return named


def _variables_among(names, scope):
    """Which of the names are parameters or are assigned, in a scope and those inside; fields of classes are neither."""
    if scope.get_type() != "class":
        for name in names.intersection(scope.get_identifiers()):
            symbol = scope.lookup(name)
            if symbol.is_parameter() or symbol.is_assigned():
                yield name
    for inside in scope.get_children():
        yield from _variables_among(names, inside)


def _folders_of(path):
    return [folder.as_posix() for folder in Path(path).parents]


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
