"""docs/offsets-lake.md says what the code does: every column, every kind of finding, every parameter."""

from dataclasses import fields
from pathlib import Path

import pytest

from seamark.rules.findings import KINDS, Parameters, severity_of

DOCUMENT = (Path(__file__).parents[3] / "docs" / "offsets-lake.md").read_text()


def test_every_column_of_every_table_is_described_in_its_words():
    schemas = pytest.importorskip("seamark.spark.lake.tables.schemas", reason="needs pyspark")
    assert f"format version is {schemas.VERSION}" in DOCUMENT
    for table in schemas.TABLES:
        section = DOCUMENT.partition(f"\n### {table}\n")[2].partition("\n### ")[0]
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        described = [(row[0].strip("| `"), row[2].strip("| ")) for row in rows]
        assert described == [(each.name, each.metadata["comment"]) for each in schemas.schema(table).fields], table


def test_every_kind_of_finding_is_listed_with_its_severity():
    for kind in KINDS:
        assert f"\n| {kind} | {severity_of(kind)} | " in DOCUMENT, kind


def test_every_parameter_is_listed_with_its_default():
    for each in fields(Parameters):
        assert f"\n| `{each.name}` | {each.default} | " in DOCUMENT, each.name
