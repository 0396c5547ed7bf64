"""A document that names a source file names one that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What changed once, and what was decided once, may name what there was.
OF_THEIR_TIME = ("CHANGELOG.md", "docs/decisions", "docs/requirements-coverage.md")
DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if not str(path.relative_to(ROOT)).startswith(OF_THEIR_TIME)
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_source_files_in_documents_exist(path):
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text())
    places = (ROOT, ROOT / "src", ROOT / "src" / "seamark")
    assert [file for file in named if not any((place / file).exists() for place in places)] == []
