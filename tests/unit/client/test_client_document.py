"""The tables of docs/client.md are those of the code: configuration keys with their defaults, and what is refused."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from seamark.client.config.aliases import UNSUPPORTED
from seamark.client.config.config import ClientConfig, ConsumerConfig, ProducerConfig
from seamark.client.config.keys import rule_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "client.md"
SHARED = {field.name for field in fields(ClientConfig)}


def default_of(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def rows_of(config, without=frozenset()):
    """One row per key, as the document has them."""
    return [
        f"| `{field.name.replace('_', '.')}` | {default_of(field.default)} | {rule_of(config, field.name).doc} |"
        for field in fields(config)
        if field.name not in without
    ]


@pytest.mark.parametrize(
    ("heading", "rows"),
    [
        ("### All clients", rows_of(ClientConfig)),
        ("### Consumer", rows_of(ConsumerConfig, SHARED)),
        ("### Producer", rows_of(ProducerConfig, SHARED)),
    ],
)
def test_every_key_is_in_the_document_with_its_default(heading, rows):
    section = DOCUMENT.read_text().partition(heading + "\n")[2].partition("\n##")[0]
    assert re.findall(r"^\| `.*\|$", section, re.MULTILINE) == rows


def test_every_refused_key_is_in_the_document_with_its_sentence():
    section = DOCUMENT.read_text().partition("### Refused\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `(.*?)` \| (.*) \|$", section, re.MULTILINE)
    assert dict(rows) == UNSUPPORTED
