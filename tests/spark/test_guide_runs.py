"""The examples of docs/spark.md, executed in order in the tests' own session."""

from __future__ import annotations

import re
from pathlib import Path

from seamark.client import Producer, TopicPartition

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_examples_of_the_guide_run(spark, our_broker, our_admin, tmp_path, capsys):
    our_broker.create_topic("orders", partitions=2)
    our_broker.create_topic("invoices", partitions=1)
    with Producer(bootstrap_servers=our_broker.bootstrap) as producer:
        for number in range(10):
            producer.send("orders", b"order %d" % number, key=b"k", partition=number % 2)
    names = {"spark": spark, "bootstrap": our_broker.bootstrap, "directory": str(tmp_path)}
    blocks = re.findall(r"```py\n(.*?)```", GUIDE.read_text(), re.DOTALL)

    for number, block in enumerate(blocks):
        exec(compile(block, f"spark.md, example {number}", "exec"), names)

    assert len(blocks) == 4
    assert "order 9" in capsys.readouterr().out
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 10
    assert our_admin.list_offsets({TopicPartition("invoices", 0): "latest"})[TopicPartition("invoices", 0)].offset == 10
    committed = our_admin.list_group_offsets(["billing"])["billing"]
    assert {each: offset.offset for each, offset in committed.items()} == {
        TopicPartition("orders", 0): 5,
        TopicPartition("orders", 1): 5,
    }


def test_the_guide_names_every_option():
    from seamark.spark.option_names import REFUSED, TAKEN

    text = GUIDE.read_text()
    elsewhere = {"path", "topic", "schema"}
    assert [name for name in [*TAKEN, *REFUSED] if f"`{name}" not in text and name not in elsewhere] == []
