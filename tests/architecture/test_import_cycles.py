"""No module imports itself by way of others. Imports for the type checker and inside functions count as well."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def imports_below(root: Path) -> dict[str, set[str]]:
    """For each module, the modules of the same tree that it imports anywhere."""
    paths = {".".join(path.relative_to(root).with_suffix("").parts): path for path in root.rglob("*.py")}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {}
    for name, path in paths.items():
        targets = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    targets.add(inner if inner in paths else node.module)
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        graph[name] = targets & set(paths) - {name}
    return graph


def cycles(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Sets of modules each of which imports all others of its set, directly or not (Tarjan's algorithm)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[set[str]]:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in numbers:
                yield from visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], numbers[target])
        if lowest[module] == numbers[module]:
            members = set(stack[stack.index(module) :])
            del stack[stack.index(module) :]
            if len(members) > 1:
                yield members

    for module in sorted(graph):
        if module not in numbers:
            yield from visit(module)


def test_no_modules_of_the_source_import_each_other_in_a_circle():
    assert [sorted(members) for members in cycles(imports_below(SOURCE))] == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from seamark.b import thing", "from seamark import a"),
        ("import seamark.b", "if TYPE_CHECKING:\n    from seamark.a import thing"),
        ("import seamark.b", "def late():\n    import seamark.a"),
    ],
)
def test_a_cycle_is_found_however_it_is_imported(tmp_path, first, second):
    package = tmp_path / "seamark"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text(first)
    (package / "b.py").write_text(second)
    (package / "c.py").write_text("import seamark.a")
    assert list(cycles(imports_below(tmp_path))) == [{"seamark.a", "seamark.b"}]
