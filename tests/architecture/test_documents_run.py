"""Examples in the documents are executed, and so are the doctests of the source."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import seamark

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [module.name for module in pkgutil.walk_packages(seamark.__path__, "seamark.")]


# Pages under how-to also have commands between their programs, and are run with them.
@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if path.parent.name != "how-to"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_python_examples_of_a_document_run_in_order(path):
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)):
        exec(compile(block, f"{path.name}, example {number}", "exec"), names)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("name", MODULES)
def test_doctests_of_a_module_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
