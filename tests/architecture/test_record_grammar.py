"""The bytes of records and batches are read and written in ``seamark.wire`` alone."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "seamark"
# Formats of others that have numbers of seven bits a byte as well.
OTHER_FORMATS = {
    "broker/security/subject.py": "certificates, in DER",
    "client/serde/avro_bounds.py": "Avro",
}
# What only a reader or writer of records needs.
GRAMMAR = {
    "seamark.wire.records.careful_reader",
    "seamark.wire.records.fast_reader",
    "seamark.wire.records.fixed_size_reader",
    "seamark.wire.records.record_cursor",
    "seamark.wire.records.varints",
}
SEVEN_BITS = re.compile(r"\b0x(7f|80)\b|\bvar(int|long)s?\b", re.IGNORECASE)
# A batch begins with its base offset and its length; no other format here does.
BATCH_HEADER = re.compile(r'Struct\("[>!]qi')


def faults_in(text: str) -> list[str]:
    found = [f"varint arithmetic: {match[0]}" for match in SEVEN_BITS.finditer(text)]
    found += [f"layout of a batch's header: {match[0]}" for match in BATCH_HEADER.finditer(text)]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        else:
            continue
        found += [f"import of {name}" for name in sorted(names & GRAMMAR)]
    return found


def test_no_file_outside_of_wire_knows_how_records_are_written():
    texts = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    outside = {name: text for name, text in texts.items() if not name.startswith("wire/") and name not in OTHER_FORMATS}
    assert {name: faults for name, text in outside.items() if (faults := faults_in(text))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "size = byte & 0x7F | high << 7",
        "if content[position] < 0x80: position += 1",
        "from seamark.wire.records.varints import encode_varint",
        "from seamark.wire.records import fast_reader",
        '_HEADER = Struct(">qiibI")',
    ],
)
def test_what_reads_or_writes_record_bytes_is_found(text):
    assert faults_in(text)
