"""No module imports itself by way of others, imports for type checking counted.

A cycle means that its modules can only be read, tested and moved together. The way out is nearly always a protocol
beside the one who uses something: what it needs, not who has it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# How many modules of a package are known to be in cycles with each other. Numbers only ever get smaller, or go.
KNOWN_IN_CYCLES = {
    "seamark.client.config": 3,
    "seamark.client.net": 3,
    "seamark.client.producer": 2,
    "seamark.coordinator": 9,
    "seamark.simulation.parallel": 4,
    "seamark.simulation.world": 2,
    "seamark.spark.lake.fill": 3,
    "seamark.wire.schema": 5,
}


def modules_of(source: Path) -> dict[str, Path]:
    found = {}
    for path in (source / "seamark").rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that one names anywhere: at its top, for type checking alone, or inside a function."""
    found = set()
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{path}: imports are written in full"
            package = statement.module or ""
            for alias in statement.names:
                module = f"{package}.{alias.name}"
                found.add(module if module in modules else package)
    return (found & set(modules)) - {name}


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that all reach each other, those of one module left out (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        path.append(module)
        for imported in sorted(graph[module]):
            if imported not in numbers:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in path:
                lowest[module] = min(lowest[module], numbers[imported])
        if lowest[module] == numbers[module]:
            start = path.index(module)
            if len(path) - start > 1:
                found.append(set(path[start:]))
            del path[start:]

    for module in sorted(graph):
        if module not in numbers:
            visit(module)
    return found


def package_around(modules: set[str]) -> str:
    """The smallest package that holds all of them."""
    parts = [name.split(".") for name in modules]
    shared = [each[0] for each in zip(*parts, strict=False) if len(set(each)) == 1]
    return ".".join(shared)


def test_no_module_of_the_source_is_in_an_import_cycle():
    modules = modules_of(SOURCE)
    graph = {name: imports_of(name, path, modules) for name, path in modules.items()}
    found: dict[str, list[str]] = {}
    for cycle in cycles(graph):
        found.setdefault(package_around(cycle), []).extend(sorted(cycle))
    new = {package: names for package, names in found.items() if len(names) > KNOWN_IN_CYCLES.get(package, 0)}
    assert not new, "\n".join(f"import cycles in {package}: {', '.join(names)}" for package, names in new.items())


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [{"a", "b"}]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}}, [{"d", "e"}, {"a", "b", "c"}]),
    ],
)
def test_a_cycle_is_found_whole(graph, expected):
    assert cycles(graph) == expected


def test_an_import_counts_wherever_it_stands(tmp_path):
    (tmp_path / "seamark" / "part").mkdir(parents=True)
    (tmp_path / "seamark" / "__init__.py").write_text("")
    (tmp_path / "seamark" / "part" / "__init__.py").write_text("NAME = 1\n")
    (tmp_path / "seamark" / "part" / "one.py").write_text("")
    (tmp_path / "seamark" / "part" / "two.py").write_text("")
    importer = tmp_path / "seamark" / "three.py"
    importer.write_text(
        "from typing import TYPE_CHECKING\n"
        "from seamark.part import NAME, one\n"
        "if TYPE_CHECKING:\n    import seamark.part.two\n"
        "def late():\n    import seamark\n"
    )
    modules = modules_of(tmp_path)
    assert imports_of("seamark.three", importer, modules) == {
        "seamark", "seamark.part", "seamark.part.one", "seamark.part.two",
    }  # fmt: skip
