"""What Spark's events tell, and the metrics made of it."""

from __future__ import annotations

import pytest

from seamark.spark.read.offset_document import SourceOffsets, TopicOffsets, write_document
from seamark.spark.watch.progress import LagMetrics, source_progress


def test_label_values_are_escaped():
    metrics = LagMetrics()
    found = source_progress(
        write_document(SourceOffsets({"t": TopicOffsets("", {0: 1}, {0: 0})}, "q", 0, 'a"b\\c')),
        {"seamark": {"lag_records": 1, "partitions": {"t": {"0": 1}}}},
        1,
    )
    metrics.progressed("id", "x\ny", 1, [found])

    assert 'query="x\\ny",group="a\\"b\\\\c"' in metrics.text()


@pytest.mark.parametrize("text", ["None", "null", None, "{}", '{"topic":{"0":1}}', '{"seamark": 9}', "[1]", "{"])
def test_other_sources_are_passed_by(text):
    assert source_progress(text, text, 0) is None
