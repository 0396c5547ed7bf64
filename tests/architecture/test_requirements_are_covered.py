"""Every requirement item has a test, or a reason why it has none, and the table that says so is fresh."""

import re
from pathlib import Path

import pytest

from tools import requirements_table
from tools.requirement_items import ITEMS, UNTESTED

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


@pytest.fixture(scope="module")
def table():
    return requirements_table.coverage(TESTS)


def test_every_item_has_a_test_or_a_reason_and_none_has_both(table):
    assert requirements_table.missing(table) == []
    assert [item for item in UNTESTED if table[item]] == []
    assert len(table) == 293


def test_the_table_is_up_to_date(table):
    assert requirements_table.DOCUMENT.read_text() == requirements_table.document(table), (
        "run python -m tools.requirements_table"
    )


def test_the_text_of_every_item_is_in_the_documents():
    text = (ROOT / "docs" / "requirements.md").read_text()
    assert re.findall(r"^- \*\*([A-N]\d+)\*\*", text, re.MULTILINE) == list(ITEMS)


def test_an_id_that_the_source_names_is_that_of_an_item():
    names = re.compile(r"\(([A-N]\d{1,2}(?:(?:, | and | to )[A-N]\d{1,2})*)\)")
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    found = {item for text in sources for group in names.findall(text) for item in re.findall(r"[A-N]\d+", group)}
    assert len(found) > 100
    assert found <= set(ITEMS)


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# D20, F11", ["D20", "F11"]),
        ("# covers: D20", ["D20"]),
        ("# F4, F32: what the log stands on", ["F4", "F32"]),
        ("# D3 to D5", ["D3", "D4", "D5"]),
        ("# D3 to F5", []),
        ("# see D20", []),
        ("# Dead groups", []),
        ("# noqa: D100", []),
    ],
)
def test_items_are_read_from_comments(comment, expected):
    assert requirements_table.items_in(comment) == expected


def test_a_comment_belongs_to_the_test_it_stands_in_or_before(tmp_path):
    path = tmp_path / "test_example.py"
    path.write_text(
        "# D1\n@decorated\ndef test_one():\n    assert True  # D2\n\n\ndef test_two():\n    # D1\n    pass\n\n\n# F1\n"
    )
    assert requirements_table.covered_by(path) == {"D1": ["test_one", "test_two"], "D2": ["test_one"], "F1": [""]}
    assert "D3" in requirements_table.missing(requirements_table.coverage(tmp_path))
