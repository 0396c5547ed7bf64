"""What users are given, shown or asked for can be imported from the root of its package.

A package's root is ``seamark`` or a package directly below it. What its exported classes take and return is found by
their annotations, what the documents show by their imports and by the class names in backticks.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import seamark

ROOT = Path(__file__).parents[2]
# Whose exported classes are looked at.
PUBLIC = (
    "seamark",
    "seamark.client",
    "seamark.moves",
    "seamark.parallel",
    "seamark.plans",
    "seamark.spark",
    "seamark.spark.lake",
    "seamark.stores",
    "seamark.testing",
)
# What stands behind ``Broker.faults`` serves the broker as well as its users, and errors have no ``__all__``.
ALSO_ROOTS = ("seamark.assignors", "seamark.broker", "seamark.errors", "seamark.partitioners", "seamark.rules.findings")
# Errors below these, wherever they are defined, reach the users of the package.
ERRORS = {"seamark.client": "ClientError", "seamark.spark": "SparkSourceError"}
# Users get these, and never make one: what their constructors take is nobody's business.
MADE_FOR_USERS = {"Delivery", "DeliveryRun", "ProgressListener"}
# The wire layer is documented module by module: one for each API, with its requests and answers.
BY_MODULE = "seamark.wire"
# These tell how Seamark is built and tested, not how it is used.
ABOUT_THE_INSIDE = {"architecture.md", "requirements-coverage.md", "requirements.md", "simulation.md"}
GUIDES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in ABOUT_THE_INSIDE),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


@cache
def exported(package: str) -> dict[str, object]:
    module = importlib.import_module(package)
    if package == "seamark.errors":
        return {name: value for name, value in vars(module).items() if inspect.isclass(value)}
    return {name: getattr(module, name) for name in module.__all__}


@cache
def is_exported(value: object) -> bool:
    return any(value is each for package in (*PUBLIC, *ALSO_ROOTS) for each in exported(package).values())


@cache
def names_while_checking(module: types.ModuleType) -> dict[str, object]:
    """What the module imports for annotations alone."""
    found: dict[str, object] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom):
                    home = importlib.import_module(str(statement.module))
                    found |= {alias.asname or alias.name: getattr(home, alias.name) for alias in statement.names}
                elif isinstance(statement, ast.Import):
                    found |= {
                        alias.asname or alias.name: importlib.import_module(alias.name) for alias in statement.names
                    }
    return found


def classes_in(annotation: object) -> Iterator[type]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        yield annotation
    if origin := typing.get_origin(annotation):
        yield from classes_in(origin)
    for argument in typing.get_args(annotation):
        for part in argument if isinstance(argument, list) else [argument]:
            yield from classes_in(part)


def annotations_of(value: object) -> Iterator[object]:
    """Of a function, or of the fields, properties and methods of a class that are not private."""
    if not inspect.isclass(value):
        if callable(value):
            yield from dict(hints(value)).values()
        return
    yield from (hint for name, hint in hints(value) if not name.startswith("_"))
    is_made_here = issubclass(value, BaseException) or value.__name__ in MADE_FOR_USERS
    for owner in value.__mro__:
        if not owner.__module__.startswith("seamark"):
            continue
        for name, member in vars(owner).items():
            if (name.startswith("_") and not name.endswith("__")) or (name == "__init__" and is_made_here):
                continue
            function = member.fget if isinstance(member, property) else getattr(value, name)
            if inspect.isfunction(function) or inspect.ismethod(function):
                for signature in (function, *typing.get_overloads(function)):
                    yield from dict(hints(signature)).values()


def hints(value: object) -> Iterator[tuple[str, object]]:
    module = inspect.getmodule(value)
    if module is None or not module.__name__.startswith("seamark"):
        return iter(())
    return iter(typing.get_type_hints(value, localns=names_while_checking(module)).items())


@pytest.mark.parametrize("package", PUBLIC)
def test_what_an_exported_class_takes_or_returns_is_exported_too(package):
    missing = {
        f"{found.__module__}.{found.__qualname__}, of {name}"
        for name, value in exported(package).items()
        if str(getattr(value, "__module__", "")).startswith("seamark")
        for hint in annotations_of(value)
        for found in classes_in(hint)
        if found.__module__.startswith("seamark.") and not is_exported(found)
    }
    assert not sorted(missing)


@pytest.mark.parametrize(("package", "root"), ERRORS.items())
def test_every_error_that_users_of_a_package_meet_is_exported(package, root):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
    found = [exported(package)[root]]
    for error in found:
        found += error.__subclasses__()
    ours = [error for error in found if error.__module__.startswith(f"{package}.")]
    assert not [error.__qualname__ for error in ours if exported(package).get(error.__name__) is not error]


@pytest.mark.parametrize("package", PUBLIC)
def test_what_is_exported_is_what_type_checkers_see(package):
    # Lazy packages name everything twice: for the checker, and for __getattr__.
    module = importlib.import_module(package)
    seen = names_while_checking(module)
    for name in module.__all__:
        if name not in vars(module) or name in seen:
            assert seen[name] is getattr(module, name), name


@pytest.mark.parametrize("package", ["seamark", "seamark.client", "seamark.broker", "seamark.testing"])
def test_importing_a_root_loads_nothing_of_what_it_exports(package):
    program = f"import sys, {package}; print(*(name for name in sys.modules if name.startswith('seamark')))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert set(loaded.split()) == {"seamark", "seamark._version", package}


def seamark_imports(text: str) -> Iterator[tuple[str, str | None]]:
    """Each as (module, name)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "seamark":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "seamark")


def programs_in(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text()
    return "\n".join(re.findall(r"```py(?:thon)?\n(.*?)```", path.read_text(), re.DOTALL))


@pytest.mark.parametrize("path", [*GUIDES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_and_examples_import_from_package_roots(path):
    roots = {*PUBLIC, *ALSO_ROOTS}
    for module, name in seamark_imports(programs_in(path)):
        if not module.startswith(f"{BY_MODULE}."):
            assert module in roots, f"{module}: import from the root of its package"
            assert name is None or name in exported(module), f"{module} does not export {name}"


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_classes_that_a_document_names_are_exported(path):
    named = set(re.findall(r"`([A-Z]\w+)\b[^`]*`", path.read_text()))
    hidden = {name: classes()[name] for name in named & classes().keys() if not any(map(is_exported, classes()[name]))}
    assert not hidden


@cache
def classes() -> dict[str, list[type]]:
    """The classes of the packages that users import from, by name."""
    found: dict[str, list[type]] = {}
    for module in pkgutil.walk_packages(seamark.__path__, "seamark."):
        if module.name.split(".")[1] in {package.split(".")[1] for package in (*PUBLIC, *ALSO_ROOTS) if "." in package}:
            for name, value in vars(importlib.import_module(module.name)).items():
                if inspect.isclass(value) and value.__module__ == module.name and not name.startswith("_"):
                    found.setdefault(name, []).append(value)
    return found
