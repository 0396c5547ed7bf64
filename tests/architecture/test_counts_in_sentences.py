"""What people read counts in one way, that of ``seamark.counts``: "1 record", "2 records", "12,000 records"."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "dashboard", "monitor", "moves", "plans", "rules")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / "src" / "seamark" / folder).rglob("*.py"))
THINGS = "records|offsets|groups|partitions|members|changes|topics|letters|rows|findings|lifetimes|commits|generations"
# A number in braces, or one of a log line, straight before what it counts.
BARE = re.compile(rf"(?:\{{(?!counted\()[^{{}}]*\}}|%[ds]) (?:{THINGS})\b")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_counts_by_itself(path):
    lines = enumerate(path.read_text().splitlines(), 1)
    assert [f"line {number}: {line.strip()}" for number, line in lines if BARE.search(line)] == []
