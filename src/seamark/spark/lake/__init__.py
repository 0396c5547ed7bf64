"""The offsets lake: ``__consumer_offsets`` and the coordinators' answers as tables of what was committed and when.

``run`` fills a lake in batches (from the topic, from copied logs, or by asking coordinators), ``stream`` keeps it
fresh; ``Lake`` is the directory that they publish to. ``find`` looks for what went wrong, ``write_report`` makes a page
of it, ``as_of`` and ``diff`` read the past, ``totals`` counts without a lake. Needs ``seamark[spark]``; importing this
package loads neither Spark nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.spark.lake.errors import LakeJobFailed, TopicNotReadable
    from seamark.spark.lake.fill.job import run
    from seamark.spark.lake.fill.reports import RunSummary
    from seamark.spark.lake.fill.stream import BatchProgress, LakeStream, stream
    from seamark.spark.lake.fill.totals import totals, totals_on_spark
    from seamark.spark.lake.findings.job import find
    from seamark.spark.lake.report.report import write_report
    from seamark.spark.lake.tables.lake import Lake, LakeError
    from seamark.spark.lake.tables.manifest import Covered, File, Manifest
    from seamark.spark.lake.time_travel import as_of, diff

_HOMES = {
    "BatchProgress": "fill.stream",
    "Covered": "tables.manifest",
    "File": "tables.manifest",
    "Lake": "tables.lake",
    "LakeError": "tables.lake",
    "LakeJobFailed": "errors",
    "LakeStream": "fill.stream",
    "Manifest": "tables.manifest",
    "RunSummary": "fill.reports",
    "TopicNotReadable": "errors",
    "as_of": "time_travel",
    "diff": "time_travel",
    "find": "findings.job",
    "run": "fill.job",
    "stream": "fill.stream",
    "totals": "fill.totals",
    "totals_on_spark": "fill.totals",
    "write_report": "report.report",
}

__all__ = [
    "BatchProgress",
    "Covered",
    "File",
    "Lake",
    "LakeError",
    "LakeJobFailed",
    "LakeStream",
    "Manifest",
    "RunSummary",
    "TopicNotReadable",
    "as_of",
    "diff",
    "find",
    "run",
    "stream",
    "totals",
    "totals_on_spark",
    "write_report",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
