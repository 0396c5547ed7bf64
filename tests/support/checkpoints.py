"""Checkpoint directories as Spark writes them, for tests that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# The offsets of one source after a batch: as Spark's Kafka source stores them, and as ours does.
SPARKS = {"a": {"0": 5, "1": 0}}
OURS = {
    "batch": 0,
    "query": "q-2",
    "seamark": 1,
    "topics": {"b": {"first": {"0": 0}, "id": "ab" * 16, "next": {"0": 9}}},
}


def checkpoint(
    directory: Path,
    batches: Mapping[int, Sequence[Any]],
    *,
    done: Sequence[int],
    query: str = "query-id",
    first_ms: int = 1_700_000_000_000,
) -> Path:
    """Write a checkpoint below ``directory``; ``batches`` has the offsets of each source after each batch.

    The first batch was planned at ``first_ms``, the others a minute after each other.
    """
    path = directory / "checkpoint"
    (path / "offsets").mkdir(parents=True)
    (path / "commits").mkdir()
    (path / "metadata").write_text(json.dumps({"id": query}))
    for place, (number, sources) in enumerate(batches.items()):
        about = {"batchWatermarkMs": 0, "batchTimestampMs": first_ms + place * 60_000, "conf": {}}
        lines = ["v1", json.dumps(about), *(json.dumps(source) for source in sources)]
        (path / "offsets" / str(number)).write_text("\n".join(lines))
    for number in done:
        (path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return path
