"""Pages whose ``py`` examples need Spark, run from top to bottom in the tests' own session."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seamark.client import Admin, Producer, TopicPartition
from tests.support.document_runner import blocks_of, run_document

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in sorted((ROOT / "docs" / "how-to").glob("*.md"))
    if any(block.language == "py" for block in blocks_of(path.read_text(encoding="utf-8")))
]


@pytest.fixture
def names(spark, tmp_path, monkeypatch):
    """What the pages take for granted: a session, a cluster with a topic of 100 orders, and a directory."""
    from seamark import Broker
    from seamark.cli.audit import spark as audit_spark

    # Commands that would start a Spark of their own are given this one: there can be but one in a process.
    monkeypatch.setattr(audit_spark, "spark_session", lambda name: nullcontext(spark))
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        broker.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(100):
                producer.send("orders", b"order %d" % number, partition=number % 2)
        yield {"spark": spark, "bootstrap": broker.bootstrap, "directory": str(tmp_path)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_does_what_it_says(path, names):
    assert run_document(path, names, language="py") >= 2


def test_the_readmes_example_is_a_stream(names, tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = [block for block in blocks_of(text) if block.language == "py"]
    known = dict(names)
    assert "localhost:9092" in block.text
    exec(compile(block.text.replace("localhost:9092", names["bootstrap"]), "README.md", "exec"), known)
    assert known["orders"].isStreaming
    assert known["orders"].columns[:2] == ["key", "value"]


def test_the_program_over_the_lake_runs(names, tmp_path):
    text = (ROOT / "docs" / "offsets-lake.md").read_text(encoding="utf-8")
    (block,) = [block for block in blocks_of(text) if block.language == "py"]
    program = block.text.replace("kafka:9092", names["bootstrap"]).replace("/data/lake", str(tmp_path / "lake"))
    assert str(tmp_path) in program
    assert names["bootstrap"] in program
    now = datetime.now(UTC)
    with Admin(bootstrap_servers=names["bootstrap"]) as admin:
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 7}).raise_if_failed()
    known = {**names, "datetime": datetime, "yesterday": now - timedelta(days=1), "today": now + timedelta(days=1)}
    exec(compile(program, "offsets-lake.md", "exec"), known)
    assert [row["offset"] for row in known["lake"].read(names["spark"], "commits").collect()] == [7]
    assert (tmp_path / "report.html").exists()
